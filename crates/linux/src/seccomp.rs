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

// Instructions (linux/bpf_common.h): load a word, jump, jump if equal, if at least, if bits are set;
// return.
const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

fn load(place: u32) -> sock_filter {
    sock_filter { code: LOAD, jt: 0, jf: 0, k: place }
}

fn answer(action: u32) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k: action }
}

/// What is done if a test is met; if not, what comes after it.
fn when(code: u16, value: u32, then: Vec<sock_filter>) -> Vec<sock_filter> {
    let mut all = match u8::try_from(then.len()) {
        Ok(length) => vec![sock_filter { code, jt: 0, jf: length, k: value }],
        // A test jumps by a byte's worth of instructions, a jump as far as need be.
        Err(_) => {
            let length = u32::try_from(then.len()).expect("the kernel takes 4096 instructions");
            vec![
                sock_filter { code, jt: 1, jf: 0, k: value },
                sock_filter { code: JUMP, jt: 0, jf: 0, k: length },
            ]
        }
    };
    all.extend(then);
    all
}

/// The rules for one call, tried in order.
fn judge_call(rules: &[Rule]) -> Vec<sock_filter> {
    let mut code = Vec::new();
    for rule in rules {
        let forbid = answer(libc::SECCOMP_RET_ERRNO | u32::from(rule.errno));
        match rule.condition {
            None => code.push(forbid),
            Some(Condition { argument, test }) => {
                code.push(load(ARGUMENTS + 8 * u32::from(argument)));
                code.extend(match test {
                    Test::Equals(value) => when(JUMP_EQUAL, value, vec![forbid]),
                    Test::HasAny(bits) => when(JUMP_SET, bits, vec![forbid]),
                });
            }
        }
    }
    code.push(answer(libc::SECCOMP_RET_ALLOW));
    code
}

/// So many calls are compared one after the other: halving further makes a filter longer, and what it
/// saves in running it costs in translating it.
const LIST: usize = 8;

/// Finds the call among these, which are sorted, by halving. Its number is loaded.
fn find_call(calls: &[&[Rule]]) -> Vec<sock_filter> {
    if calls.len() <= LIST {
        let each = |rules: &&[Rule]| when(JUMP_EQUAL, rules[0].call, judge_call(rules));
        let mut code: Vec<_> = calls.iter().flat_map(each).collect();
        code.push(answer(libc::SECCOMP_RET_ALLOW));
        return code;
    }
    let (lower, upper) = calls.split_at(calls.len() / 2);
    let mut code = when(JUMP_AT_LEAST, upper[0][0].call, find_call(upper));
    code.extend(find_call(lower));
    code
}

impl Filter {
    /// Compiles rules, of which those for one call are tried in order; what none forbids is allowed.
    /// A call through a foreign ABI ends the process.
    ///
    /// A call is found by halving, for the sake of whoever installs the filter: the kernel then runs
    /// it once for each call there is, to know those that are always allowed
    /// (kernel/seccomp.c, `seccomp_cache_prepare`), which with a list takes twice as long as all the rest.
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
        code.extend(when(JUMP_AT_LEAST, X32_BIT, vec![answer(kill)]));
        let mut sorted = rules.to_vec();
        // Stable: the order of rules for one call means something.
        sorted.sort_by_key(|rule| rule.call);
        let calls: Vec<&[Rule]> = sorted.chunk_by(|one, next| one.call == next.call).collect();
        code.extend(find_call(&calls));
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
    use proptest::prelude::*;

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
                JUMP => {
                    at += instruction.k as usize;
                    continue;
                }
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

    /// What rules say, one after the other.
    fn in_order(rules: &[Rule], number: u32, arguments: [u64; 6]) -> u32 {
        let applies = |rule: &&Rule| {
            rule.call == number
                && rule.condition.is_none_or(|Condition { argument, test }| {
                    let value = u32::try_from(arguments[usize::from(argument)]).unwrap();
                    match test {
                        Test::Equals(other) => value == other,
                        Test::HasAny(bits) => value & bits != 0,
                    }
                })
        };
        rules
            .iter()
            .find(applies)
            .map_or(libc::SECCOMP_RET_ALLOW, |rule| libc::SECCOMP_RET_ERRNO | u32::from(rule.errno))
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let test = prop_oneof![(0..4u32).prop_map(Test::Equals), (0..4u32).prop_map(Test::HasAny),];
        let condition = proptest::option::of((0..6u8, test))
            .prop_map(|condition| condition.map(|(argument, test)| Condition { argument, test }));
        (0..120u32, condition, 1..20u16).prop_map(|(call, condition, errno)| Rule {
            call,
            condition,
            errno,
        })
    }

    proptest! {
        #[test]
        fn halving_finds_what_the_rules_say_in_order(
            rules in proptest::collection::vec(rule(), 0..200),
            arguments: [u8; 6],
        ) {
            let filter = Filter::compile(&rules);
            let arguments = arguments.map(|argument| u64::from(argument & 3));
            for number in 0..121 {
                prop_assert_eq!(
                    judge(&filter, ARCHITECTURE, number, arguments),
                    in_order(&rules, number, arguments),
                    "call {}", number
                );
            }
        }
    }
}
