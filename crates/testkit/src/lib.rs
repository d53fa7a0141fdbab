//! Support for tests: a world of its own for each, waiting, fault hooks, the leak guard.
//!
//! Start at [`TestEnv`]; `docs/testing.md` says how the pieces are meant to be used. Everything here
//! panics with what was seen: a test has nobody to return an error to.

#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "this crate is only linked into tests, whose way to fail is a panic and to skip is a print"
)]

pub mod account;
pub mod binary;
pub mod cgroups;
pub mod command;
pub mod dead_mount;
pub mod dice;
pub mod env;
pub mod exec_link;
pub mod guard;
pub mod hooks;
pub mod need;
pub mod process;
pub mod proxy;
pub mod terminal;
pub mod tmpfs;
pub mod wait;

pub use account::Account;
pub use command::{Min, Output, Running};
pub use dead_mount::DeadMount;
pub use dice::Dice;
pub use env::TestEnv;
pub use exec_link::ExecLink;
pub use hooks::{Hooks, Paused};
pub use process::Process;
pub use proxy::Proxy;
pub use terminal::{Picture, Terminal};
pub use tmpfs::Tmpfs;
pub use wait::{LIMIT, wait_until};

/// Defines scenarios, each run as root, as an ordinary user, and as one with subordinate ids:
/// `name::root`, `name::user` and `name::subids`. Users with subordinate ids are as common as those
/// without; use this form where who a box's users are could matter.
///
/// See [`for_each_user`] for the form.
#[macro_export]
macro_rules! for_each_kind_of_user {
    ($( $(#[doc = $doc:literal])* fn $name:ident($env:ident) $body:block )+) => { $(
        $(#[doc = $doc])*
        mod $name {
            #[allow(unused_imports, clippy::allow_attributes_without_reason, clippy::allow_attributes)]
            use super::*;

            fn scenario($env: &mut $crate::TestEnv) $body

            #[test]
            fn root() {
                if $crate::need::root() && $crate::need::userns(&$crate::Account::current()) {
                    scenario(&mut $crate::TestEnv::new());
                }
            }

            #[test]
            fn user() {
                if let Some(account) = $crate::need::user() {
                    if $crate::need::userns(&account) {
                        scenario(&mut $crate::TestEnv::for_account(account));
                    }
                }
            }

            #[test]
            fn subids() {
                if let Some(account) = $crate::need::subordinate_ids() {
                    if $crate::need::userns(&account) {
                        scenario(&mut $crate::TestEnv::for_account(account));
                    }
                }
            }
        }
    )+ };
}

/// Defines scenarios, each run as root and as an ordinary user: `name::root` and `name::user`.
///
/// ```ignore
/// for_each_user! {
///     /// What it shows.
///     fn an_exit_code_is_the_commands(env) {
///         env.min(["run", "--", "sh", "-c", "exit 7"]).run().assert_code(7);
///     }
/// }
/// ```
#[macro_export]
macro_rules! for_each_user {
    ($( $(#[doc = $doc:literal])* fn $name:ident($env:ident) $body:block )+) => { $(
        $(#[doc = $doc])*
        mod $name {
            #[allow(unused_imports, clippy::allow_attributes_without_reason, clippy::allow_attributes)]
            use super::*;

            fn scenario($env: &mut $crate::TestEnv) $body

            #[test]
            fn root() {
                if $crate::need::root() && $crate::need::userns(&$crate::Account::current()) {
                    scenario(&mut $crate::TestEnv::new());
                }
            }

            #[test]
            fn user() {
                if let Some(account) = $crate::need::user() {
                    if $crate::need::userns(&account) {
                        scenario(&mut $crate::TestEnv::for_account(account));
                    }
                }
            }
        }
    )+ };
}
