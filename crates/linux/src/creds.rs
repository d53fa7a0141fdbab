//! Who a process is and what it may do.

use std::io;

use rustix::process::{DumpableBehavior, Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Gives up our supplementary groups where the user namespace allows it; the answer says whether.
/// Before [`become_user`]: after it the privilege is gone.
///
/// # Errors
/// What setgroups(2) says.
pub fn give_up_groups() -> io::Result<GroupsKept> {
    match rustix::thread::set_thread_groups(&[]) {
        Ok(()) => Ok(GroupsKept::No),
        // A namespace whose setgroups file says "deny" always answers this (user_namespaces(7)).
        Err(rustix::io::Errno::PERM) => Ok(GroupsKept::Yes),
        Err(error) => Err(error.into()),
    }
}

/// Becomes user `uid` and group `gid` of our user namespace, for this process's only thread.
///
/// # Errors
/// What setresgid(2) or setresuid(2) says; `EINVAL` for an id that is not mapped.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // The group first: without privilege over the group map the call is refused.
    let gid = Gid::from_raw(gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    let uid = Uid::from_raw(uid);
    Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
}

/// Has what this process makes in file systems belong to this user and group of our user namespace,
/// and changes nothing else (setfsuid(2)). Whoever entered a namespace from outside has ids that it
/// does not know, and can make nothing in a file system of its.
///
/// # Errors
/// `EPERM` if the kernel has not taken the ids: they are not mapped.
pub fn make_files_as(uid: u32, gid: u32) -> io::Result<()> {
    // Both calls return the id of before and no error. An id that is none changes nothing, so a
    // second call tells which one is in force.
    let set = |call: unsafe extern "C" fn(u32) -> libc::c_int, id: u32| {
        // SAFETY: the call takes a number and touches no memory of ours.
        unsafe { call(id) };
        // SAFETY: as above.
        unsafe { call(u32::MAX) }.cast_unsigned() == id
    };
    // The group first: the user may cost the privilege to change it.
    if set(libc::setfsgid, gid) && set(libc::setfsuid, uid) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

/// Whether supplementary groups of the caller are still in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupsKept {
    /// Given up.
    No,
    /// The user namespace forbids giving them up.
    Yes,
}

/// Gives up every capability but `kept` (inheritable and ambient ones included), and for good the
/// right to gain any that is not in `bounding`: that is the bounding set, and no_new_privs. What an
/// exec leaves is the rule of capabilities(7): uid 0 goes on with `bounding`, others with none.
///
/// # Errors
/// What prctl(2) or capset(2) says.
pub fn drop_privileges(kept: CapabilitySet, bounding: CapabilitySet) -> io::Result<()> {
    // The bounding set first: dropping from it needs CAP_SETPCAP, which the next step gives up.
    for number in 0..=last_capability()? {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if !bounding.contains(one) {
            rustix::thread::remove_capability_from_bounding_set(one)?;
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// The kernel's last capability: the bounding set is asked from the top of the 64-bit word, since
/// a box may have no /proc to read it from.
fn last_capability() -> io::Result<u32> {
    (0..64)
        .rev()
        .find(|number| {
            let one = CapabilitySet::from_bits_retain(1 << number);
            rustix::thread::capability_is_in_bounding_set(one).is_ok()
        })
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Hides this process's memory, descriptors and executable from every process that has no
/// privilege over it (prctl(2), PR_SET_DUMPABLE). A change of user or an exec undoes it.
///
/// # Errors
/// What prctl(2) says.
pub fn hide_from_others() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Undoes [`hide_from_others`], and what a change of user does of itself: for tests that show what
/// hiding is good for.
///
/// # Errors
/// What prctl(2) says.
pub fn show_to_others() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}
