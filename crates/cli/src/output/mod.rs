//! Everything that is printed, in one place: stdout is data, stderr is talk.

mod printer;
mod table;
mod words;

pub use printer::Printer;
pub use table::Table;
pub use words::{age, ending_in_words, event_in_words, on_one_line, size};
