//! min
fn main() {}
