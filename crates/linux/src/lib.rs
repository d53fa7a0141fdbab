//! Every system call and all unsafe code of Minimal, as safe functions over owned descriptors.
//!
//! One concern per module. What rustix offers safely is used from there; the unsafe that is left
//! is in the modules marked below, each with the reason. Start reading at [`fork`] and [`wait`]:
//! how processes are made, and the only place where an exit status comes from.

#[expect(unsafe_code, reason = "execve with arrays of pointers")]
pub mod exec;
#[expect(unsafe_code, reason = "close_range and descriptors handed over by number")]
pub mod fds;
#[expect(unsafe_code, reason = "clone3 and _exit: rustix has no process creation")]
pub mod fork;
#[expect(unsafe_code, reason = "landlock: rustix lacks it")]
pub mod landlock;
#[expect(unsafe_code, reason = "mount_setattr: rustix lacks it")]
pub mod mount;
#[expect(unsafe_code, reason = "unshare may change the descriptor table; not with these flags")]
pub mod namespaces;
#[expect(unsafe_code, reason = "an ioctl with a struct ifreq")]
pub mod network;
#[expect(unsafe_code, reason = "execveat with arrays of pointers")]
pub mod own_file;
#[expect(unsafe_code, reason = "fcntl with a struct flock: rustix locks whole files only")]
pub mod record_lock;
#[expect(unsafe_code, reason = "seccomp with a program by pointer")]
pub mod seccomp;
#[expect(unsafe_code, reason = "dispositions, masks and signalfd: rustix leaves them to libc")]
pub mod signals;
#[expect(unsafe_code, reason = "process groups that may be 0, which rustix excludes")]
pub mod terminal;
#[expect(unsafe_code, reason = "the command line that ps shows is memory of ours")]
pub mod title;
#[expect(unsafe_code, reason = "waitid with __WALL: rustix lacks the flag")]
pub mod wait;

pub mod cgroup;
#[expect(unsafe_code, reason = "setfsuid and setfsgid: rustix lacks them")]
pub mod creds;
pub mod daemonize;
pub mod limits;
pub mod overlay;
pub mod probe;
pub mod socket;

pub use wait::Child;
