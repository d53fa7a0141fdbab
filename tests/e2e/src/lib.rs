//! Scenarios live in `tests/`, one per file.
