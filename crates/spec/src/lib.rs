//! From `minimal.toml` to the spec of a box.
//!
//! ```text
//!  text ─▶ source ─▶ read ─▶ layers ─▶ merge ─▶ substitute ─▶ spec ─▶ canonical bytes ─▶ digest
//!            │         │        └ each assignment with its origin ─▶ who has set each value
//!            └─────────┴─ problem: file, line, column, layer, nearest key
//! ```
//!
//! Pure and total: the same inputs give the same bytes on every machine, any input gives a spec or
//! says what is wrong with it, and nothing here reads a file, a clock or a variable. Start reading
//! at [`Project`], then `layer`, which holds the rules of merging.

#![forbid(unsafe_code)]

mod arguments;
mod canonical;
mod expand;
mod keys;
mod layer;
mod problem;
mod project;
mod read;
mod render;
mod schema;
mod shell_words;
mod source;
mod types;

pub use arguments::{Argument, ArgumentError, ArgumentType, Scalar, Values, read_words, variable};
pub use canonical::{canonical_bytes, digest};
pub use expand::{ExpandError, Expanded, Explained, Overrides};
pub use keys::{KEYS, KeyInfo};
pub use layer::{Layer, LayerName, Origin};
pub use problem::{Fault, Problem, Problems};
pub use project::{Entry, Project};
pub use render::{to_toml, to_yaml};
pub use schema::{reference, schema};
pub use source::{MAX_TEXT, Source};
pub use types::{Constraint, TypeInfo, Violation, builtin, check_root};
