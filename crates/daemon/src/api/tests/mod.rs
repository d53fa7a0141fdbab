//! The API against keepers that the test plays.

mod boxes;
mod execs;
mod requests;
mod restart;
mod streams;
