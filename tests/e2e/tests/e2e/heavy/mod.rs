//! Scenarios that take the whole machine: gigabytes, hundreds of boxes, a minute of everything.

mod many_boxes;
mod many_execs_of_a_keeper;
mod many_files;
mod own_pace;
mod runner_cuts;
mod soak;
mod terminals;
mod throughput;
