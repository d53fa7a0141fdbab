//! Whole-system scenarios. One module a scenario, one executable for all, since linking is dear.
//!
//! `done_when` holds the journeys the product stands for, and runs on the release build too; it uses
//! no fault hooks. `heavy` moves gigabytes and runs alone. `docs/testing.md` says how to write one.

#![forbid(unsafe_code)]

#[cfg(test)]
mod ahead;
#[cfg(test)]
mod arguments;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod client_loss;
#[cfg(test)]
mod client_signals;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod daemon_handover;
#[cfg(test)]
mod daemon_restart;
#[cfg(test)]
mod daemon_start;
#[cfg(test)]
mod deletion;
#[cfg(test)]
mod descendants;
#[cfg(test)]
mod disk_damage;
#[cfg(test)]
mod disk_full;
#[cfg(test)]
mod done_when;
#[cfg(test)]
mod ending_file;
#[cfg(test)]
mod etc;
#[cfg(test)]
mod exec;
#[cfg(test)]
mod exec_clients;
#[cfg(test)]
mod exec_endings;
#[cfg(test)]
mod exec_faults;
#[cfg(test)]
mod exec_keeper;
#[cfg(test)]
mod exec_many;
#[cfg(test)]
mod exec_restart;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod heavy;
#[cfg(test)]
mod host_directories;
#[cfg(test)]
mod init;
#[cfg(test)]
mod input;
#[cfg(test)]
mod install;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod keeper_loss;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod mounts;
#[cfg(test)]
mod names;
#[cfg(test)]
mod network;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod own_tests;
#[cfg(test)]
mod patches;
#[cfg(test)]
mod pausing;
#[cfg(test)]
mod ready;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod rootfs;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod sandboxes;
#[cfg(test)]
mod screens;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod services;
#[cfg(test)]
mod start_faults;
#[cfg(test)]
mod start_given_up;
#[cfg(test)]
mod state_dir;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod terminals;
#[cfg(test)]
mod timeouts;
#[cfg(test)]
mod user_policy;
#[cfg(test)]
mod users;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod walls;
#[cfg(test)]
mod workspace;
#[cfg(test)]
mod workspace_copy;
#[cfg(test)]
mod workspace_git;
#[cfg(test)]
mod workspace_odd;
#[cfg(test)]
mod workspace_rm;
