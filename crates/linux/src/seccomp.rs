//! System call filters: rules as data, compiled to the kernel's BPF (seccomp(2)).

use std::io;

use libc::sock_filter;

/// One rule: a call, perhaps with a condition on one argument, and the error it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The call's number on this architecture.
    pub call: u32,
    /// When it applies; none: always.
    pub condition: Option<Condition>,
    /// The errno it is answered with.
    pub errno: u16,
}

/// A condition on an argument. Arguments are compared by their lower half: all that are compared
/// here are ints to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which argument, 0 to 5.
    pub argument: u8,
    /// How it is compared.
    pub test: Test,
}

/// How an argument is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// It is this value.
    Equals(u32),
    /// It has any of these bits.
    HasAny(u32),
}

/// A compiled filter.
#[derive(Clone)]
pub struct Filter(Vec<sock_filter>);

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({} instructions)", self.0.len())
    }
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E; // AUDIT_ARCH_X86_64, linux/audit.h
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7; // AUDIT_ARCH_AARCH64, linux/audit.h

/// On x86-64 the x32 ABI has the same architecture and this bit in its numbers (syscall(2)).
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

// Places in `struct seccomp_data` (seccomp(2)).
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

// Instructions (linux/bpf_common.h): load a word, jump if equal, if at least, if bits are set;
// return.
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
#[cfg(target_arch = "x86_64")]
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

fn load(place: u32) -> sock_filter {
    sock_filter { code: LOAD, jt: 0, jf: 0, k: place }
}

/// Goes on if true, else skips `skip` instructions.
fn unless_skip(code: u16, value: u32, skip: u8) -> sock_filter {
    sock_filter { code, jt: 0, jf: skip, k: value }
}

fn answer(action: u32) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k: action }
}

impl Filter {
    /// Compiles rules, tried in order; what none forbids is allowed. A call through a foreign ABI
    /// ends the process.
    #[must_use]
    pub fn compile(rules: &[Rule]) -> Self {
        let kill = libc::SECCOMP_RET_KILL_PROCESS;
        let mut code = vec![
            load(ARCH),
            sock_filter { code: JUMP_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE },
            answer(kill),
            load(NUMBER),
        ];
        #[cfg(target_arch = "x86_64")]
        code.extend([unless_skip(JUMP_AT_LEAST, X32_BIT, 1), answer(kill)]);
        for rule in rules {
            let forbid = answer(libc::SECCOMP_RET_ERRNO | u32::from(rule.errno));
            match rule.condition {
                None => code.extend([unless_skip(JUMP_EQUAL, rule.call, 1), forbid]),
                Some(Condition { argument, test }) => {
                    let place = ARGUMENTS + 8 * u32::from(argument);
                    let compare = match test {
                        Test::Equals(value) => unless_skip(JUMP_EQUAL, value, 1),
                        Test::HasAny(bits) => unless_skip(JUMP_SET, bits, 1),
                    };
                    code.extend([
                        unless_skip(JUMP_EQUAL, rule.call, 4),
                        load(place),
                        compare,
                        forbid,
                        // The next rule compares the number again.
                        load(NUMBER),
                    ]);
                }
            }
        }
        code.push(answer(libc::SECCOMP_RET_ALLOW));
        Self(code)
    }

    /// Puts the filter in force for this process's only thread and all it will make, for good.
    /// no_new_privs must be set.
    ///
    /// # Errors
    /// What seccomp(2) says.
    pub fn install(&self) -> io::Result<()> {
        let length = u16::try_from(self.0.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog { len: length, filter: self.0.as_ptr().cast_mut() };
        let flags: libc::c_ulong = 0;
        // SAFETY: `program` describes the instructions in `self`, which the kernel copies.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                std::ptr::from_ref(&program),
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The number of a system call by its name, for those a policy may name. `None` for a call this
/// architecture does not have.
///
/// # Errors
/// No such name is known here.
pub fn call_number(name: &str) -> Result<Option<u32>, UnknownName> {
    let number = match name {
        "acct" => libc::SYS_acct,
        "add_key" => libc::SYS_add_key,
        "adjtimex" => libc::SYS_adjtimex,
        "bpf" => libc::SYS_bpf,
        "chroot" => libc::SYS_chroot,
        "fchmod" => libc::SYS_fchmod,
        "fchmodat" => libc::SYS_fchmodat,
        "fchmodat2" => libc::SYS_fchmodat2,
        "mkdirat" => libc::SYS_mkdirat,
        "mknodat" => libc::SYS_mknodat,
        "openat" => libc::SYS_openat,
        "openat2" => libc::SYS_openat2,
        "clock_adjtime" => libc::SYS_clock_adjtime,
        "clock_settime" => libc::SYS_clock_settime,
        "clone" => libc::SYS_clone,
        "clone3" => libc::SYS_clone3,
        "delete_module" => libc::SYS_delete_module,
        "fanotify_init" => libc::SYS_fanotify_init,
        "finit_module" => libc::SYS_finit_module,
        "fsconfig" => libc::SYS_fsconfig,
        "fsmount" => libc::SYS_fsmount,
        "fsopen" => libc::SYS_fsopen,
        "fspick" => libc::SYS_fspick,
        "init_module" => libc::SYS_init_module,
        "io_uring_enter" => libc::SYS_io_uring_enter,
        "io_uring_register" => libc::SYS_io_uring_register,
        "io_uring_setup" => libc::SYS_io_uring_setup,
        "ioctl" => libc::SYS_ioctl,
        "kexec_file_load" => libc::SYS_kexec_file_load,
        "kexec_load" => libc::SYS_kexec_load,
        "keyctl" => libc::SYS_keyctl,
        "mount" => libc::SYS_mount,
        "mount_setattr" => libc::SYS_mount_setattr,
        "move_mount" => libc::SYS_move_mount,
        "nfsservctl" => libc::SYS_nfsservctl,
        "open_by_handle_at" => libc::SYS_open_by_handle_at,
        "open_tree" => libc::SYS_open_tree,
        "perf_event_open" => libc::SYS_perf_event_open,
        "pivot_root" => libc::SYS_pivot_root,
        "quotactl" => libc::SYS_quotactl,
        "quotactl_fd" => libc::SYS_quotactl_fd,
        "reboot" => libc::SYS_reboot,
        "request_key" => libc::SYS_request_key,
        "setns" => libc::SYS_setns,
        "settimeofday" => libc::SYS_settimeofday,
        "socket" => libc::SYS_socket,
        "swapoff" => libc::SYS_swapoff,
        "swapon" => libc::SYS_swapon,
        "syslog" => libc::SYS_syslog,
        "umount2" => libc::SYS_umount2,
        "unshare" => libc::SYS_unshare,
        "userfaultfd" => libc::SYS_userfaultfd,
        "vhangup" => libc::SYS_vhangup,
        #[cfg(target_arch = "x86_64")]
        "chmod" => libc::SYS_chmod,
        #[cfg(target_arch = "x86_64")]
        "creat" => libc::SYS_creat,
        #[cfg(target_arch = "x86_64")]
        "mkdir" => libc::SYS_mkdir,
        #[cfg(target_arch = "x86_64")]
        "mknod" => libc::SYS_mknod,
        #[cfg(target_arch = "x86_64")]
        "open" => libc::SYS_open,
        #[cfg(target_arch = "x86_64")]
        "ioperm" => libc::SYS_ioperm,
        #[cfg(target_arch = "x86_64")]
        "iopl" => libc::SYS_iopl,
        "lookup_dcookie" => libc::SYS_lookup_dcookie,
        #[cfg(not(target_arch = "x86_64"))]
        "chmod" | "creat" | "ioperm" | "iopl" | "mkdir" | "mknod" | "open" => return Ok(None),
        _ => return Err(UnknownName(name.to_owned())),
    };
    Ok(u32::try_from(number).ok())
}

/// The number of an errno or argument value by its name, for those a policy may name.
///
/// # Errors
/// No such name is known here.
pub fn value(name: &str) -> Result<u32, UnknownName> {
    let value = match name {
        "EAFNOSUPPORT" => i64::from(libc::EAFNOSUPPORT),
        "ENOSYS" => i64::from(libc::ENOSYS),
        "EPERM" => i64::from(libc::EPERM),
        "AF_PACKET" => i64::from(libc::AF_PACKET),
        "AF_VSOCK" => i64::from(libc::AF_VSOCK),
        "CLONE_NEWUSER" => i64::from(libc::CLONE_NEWUSER),
        "S_ISGID" => i64::from(libc::S_ISGID),
        "S_ISUID" => i64::from(libc::S_ISUID),
        "TIOCLINUX" => libc::TIOCLINUX.cast_signed(),
        "TIOCSTI" => libc::TIOCSTI.cast_signed(),
        _ => return Err(UnknownName(name.to_owned())),
    };
    u32::try_from(value).map_err(|_out_of_range| UnknownName(name.to_owned()))
}

/// A name a policy used that is not known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no system call, error or value that a policy can name")]
pub struct UnknownName(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's interpreter, as far as these programs need it.
    fn judge(filter: &Filter, arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let word = |place: u32| match place {
            NUMBER => number,
            ARCH => arch,
            place => {
                let argument = arguments[((place - ARGUMENTS) / 8) as usize];
                u32::try_from(argument & 0xffff_ffff).unwrap()
            }
        };
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let instruction = filter.0[at];
            at += 1;
            let met = match instruction.code {
                LOAD => {
                    accumulator = word(instruction.k);
                    continue;
                }
                RETURN => return instruction.k,
                JUMP_EQUAL => accumulator == instruction.k,
                JUMP_SET => accumulator & instruction.k != 0,
                _ => accumulator >= instruction.k,
            };
            at += usize::from(if met { instruction.jt } else { instruction.jf });
        }
    }

    const EPERM: u32 = libc::SECCOMP_RET_ERRNO | 1;

    fn filter() -> Filter {
        let condition = |argument, test| Some(Condition { argument, test });
        Filter::compile(&[
            Rule { call: 10, condition: None, errno: 1 },
            Rule { call: 20, condition: condition(0, Test::Equals(7)), errno: 1 },
            Rule { call: 20, condition: condition(1, Test::HasAny(6)), errno: 1 },
            Rule { call: 30, condition: None, errno: 1 },
        ])
    }

    #[test]
    fn what_no_rule_forbids_is_allowed() {
        let judge = |number, arguments| judge(&filter(), ARCHITECTURE, number, arguments);
        assert_eq!(judge(10, [0; 6]), EPERM);
        assert_eq!(judge(11, [0; 6]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(judge(20, [7, 0, 0, 0, 0, 0]), EPERM);
        assert_eq!(judge(20, [8, 0, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(judge(20, [8, 2, 0, 0, 0, 0]), EPERM);
        assert_eq!(judge(20, [8, 1, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(judge(30, [0; 6]), EPERM, "a rule after a conditional one still applies");
        assert_eq!(
            judge(20, [7 | 1 << 40, 0, 0, 0, 0, 0]),
            EPERM,
            "the kernel ignores the upper half"
        );
    }

    #[test]
    fn a_foreign_abi_ends_the_process() {
        let kill = libc::SECCOMP_RET_KILL_PROCESS;
        assert_eq!(judge(&filter(), 0x4000_0003, 11, [0; 6]), kill, "32-bit x86");
        #[cfg(target_arch = "x86_64")]
        assert_eq!(judge(&filter(), ARCHITECTURE, X32_BIT | 11, [0; 6]), kill, "x32");
    }
}
