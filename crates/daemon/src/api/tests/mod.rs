//! The API against keepers that the test plays.

mod boxes;
mod requests;
mod restart;
mod streams;
