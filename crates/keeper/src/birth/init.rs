//! The box's init: the first process of its pid namespace.
//!
//! It assembles a blank box, gives up every privilege but that to signal, and then waits on its
//! lifeline: for a box to be the init of, and for its orders. When the keeper is gone it ends, and
//! the kernel ends everything in the box with it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use minimal_linux::creds::{self, GroupsKept};
use minimal_linux::fork::exit_now;
use minimal_linux::{fds, record_lock, signals, socket, title, wait};
use minimal_proto::Signal;
use rustix::event::{PollFd, PollFlags, poll};

use super::report::{self, Report};
use crate::assemble::{Assembly, HeldFiles};
use crate::plan::Step;
use crate::users::Users;
use crate::walls;

/// The keeper's word that the maps are written.
pub(crate) const RELEASE: u8 = b'r';
/// The keeper's word that there is a box now; with it comes the box's `life.lock`.
pub(crate) const ADOPTED: u8 = b'a';
/// The keeper's order to send TERM to everything in the box.
pub(crate) const TERM_ALL: u8 = b't';
/// The keeper's order to send HUP as well, before TERM: of a box with a terminal.
pub(crate) const HANG_UP_ALL: u8 = b'h';
/// The keeper's order to end once nothing is left in the box. Given after the entrypoint was
/// reaped: until then its children are its own and not init's.
pub(crate) const END_WHEN_EMPTY: u8 = b'q';

/// The byte of life.lock that init holds (`minimal_store::locks`).
const INIT_BYTE: u64 = 1;

/// The body of init, from its clone to its end.
pub(super) fn run(steps: &[Step], assembly: Assembly, lifeline: &OwnedFd, users: Users) -> ! {
    match assemble(steps, assembly, lifeline.as_fd(), users) {
        Ok(child_events) => wait_for_the_end(lifeline.as_fd(), &child_events),
        Err((step, error)) => {
            let (what, errno) = (error.to_string(), error.raw_os_error());
            // Without a keeper there is nobody to tell, and the box ends either way.
            report::send(lifeline.as_fd(), &Report::Failed { step, what, errno }).ok();
        }
    }
    exit_now(0)
}

fn assemble(
    steps: &[Step],
    mut assembly: Assembly,
    lifeline: BorrowedFd<'_>,
    users: Users,
) -> Result<OwnedFd, (Option<usize>, io::Error)> {
    let preparation = |error| (None, error);
    let groups = prepare(lifeline, users).map_err(preparation)?;
    for (number, step) in steps.iter().enumerate() {
        assembly.take(step).map_err(|error| (Some(number), error))?;
    }
    let (left_out, held): (_, HeldFiles) = assembly.into_parts();
    for (path, file) in &held {
        report::send_file(lifeline, path, file.as_fd()).map_err(preparation)?;
    }
    let child_events = signals::child_events().map_err(preparation)?;
    // A forked process closes nothing by exec: what is left open here stays open in the box's
    // first process for its whole life.
    drop(held);
    fds::close_all_except(&[lifeline, child_events.as_fd()]).map_err(preparation)?;
    let groups_kept = groups == GroupsKept::Yes;
    report::send(lifeline, &Report::Ready { groups_kept, left_out }).map_err(preparation)?;
    Ok(child_events)
}

fn prepare(lifeline: BorrowedFd<'_>, users: Users) -> io::Result<GroupsKept> {
    let mut byte = [0; 1];
    // Before the maps are written nobody in this namespace is anybody.
    let (length, _) = socket::receive(lifeline, &mut byte)?;
    if length != 1 || byte != [RELEASE] {
        exit_now(0);
    }
    title::set("min-blank").ok();
    let groups = walls::give_up_groups()?;
    creds::become_user(users.init_id(), users.init_id())?;
    // The change of user made us visible again and forgot the parent-death signal, so both come
    // after it. The lifeline covers the moment between our clone and now.
    walls::hide()?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    Ok(groups)
}

/// Reaps orphans and takes the keeper's orders until there is a reason to end.
fn wait_for_the_end(lifeline: BorrowedFd<'_>, child_events: &OwnedFd) {
    let mut end_when_empty = false;
    // Held to the end, and with it the lock: to close it would be to give that up (fcntl(2)).
    let mut life_lock = None;
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(lifeline, PollFlags::IN),
            PollFd::new(child_events, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        if !fds[0].revents().is_empty() {
            let mut orders = [0; 8];
            match socket::receive(lifeline, &mut orders) {
                // The keeper is gone, or does not speak our language.
                Ok((0, _)) | Err(_) => return,
                Ok((length, passed)) => {
                    life_lock = life_lock.or(passed);
                    for order in &orders[..length] {
                        match *order {
                            ADOPTED => {
                                let report = match take_lock(life_lock.as_ref()) {
                                    Ok(()) => Report::Locked,
                                    Err(error) => Report::Failed {
                                        step: None,
                                        what: error.to_string(),
                                        errno: error.raw_os_error(),
                                    },
                                };
                                if report::send(lifeline, &report).is_err() {
                                    return;
                                }
                            }
                            TERM_ALL => signal_each(&[Signal::TERM, Signal::CONT]),
                            HANG_UP_ALL => {
                                signal_each(&[Signal::HUP, Signal::TERM, Signal::CONT]);
                            }
                            END_WHEN_EMPTY => end_when_empty = true,
                            _ => {}
                        }
                    }
                }
            }
        }
        // The number of events says nothing: several ends may be one signal.
        let mut events = [0; 512];
        rustix::io::read(child_events, &mut events).ok();
        let children_left = wait::reap_orphans().unwrap_or(true);
        if end_when_empty && !children_left {
            return;
        }
    }
}

/// Becomes the init of a box: whoever obtains the keeper's lock and this one knows that nothing of
/// the box is left.
fn take_lock(life_lock: Option<&OwnedFd>) -> io::Result<()> {
    title::set("min-init").ok();
    let none = || io::Error::other("the box's lock did not come with the word of it");
    if !record_lock::try_write_lock(life_lock.ok_or_else(none)?.as_fd(), INIT_BYTE)? {
        return Err(io::Error::other("another init of this box is alive"));
    }
    Ok(())
}

/// Sends these to everything in the box, CONT last: a stopped process takes the others only once it
/// goes on.
fn signal_each(all: &[Signal]) {
    for signal in all {
        // None left is what we want; anything else ends with the KILL that follows.
        signals::signal_all(*signal).ok();
    }
}
