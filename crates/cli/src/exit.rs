//! Exit statuses: the one table.

use minimal_proto::{ErrorCode, Signal};

/// How `min` exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// What was asked for is done.
    Done,
    /// The fault of this code: its row in the table of errors.
    Fault(ErrorCode),
    /// The command's own status, or what stands for its ending: what a shell would report.
    Ending(u8),
    /// This signal arrived before there was anything to pass it on to.
    Interrupted(Signal),
    /// The command died of this signal, which we were sent too: we die of it, so that whoever
    /// started us sees the same.
    DieOf(Signal),
    /// Standard output was closed; the box runs on.
    StdoutClosed,
    /// The runtime failed, or the ending is not known.
    Unknown,
}

impl Exit {
    /// The status as a number.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Fault(code) => code.exit_status(),
            Self::Ending(status) => status,
            Self::Interrupted(signal) | Self::DieOf(signal) => {
                128 + u8::try_from(signal.number()).expect("a signal number is at most 64")
            }
            Self::StdoutClosed => 141,
            Self::Unknown => 125,
        }
    }

    /// Of several outcomes the one that is returned: the highest status.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        if other.status() > self.status() { other } else { self }
    }
}

/// Statuses and what they mean, for the reference.
pub const TABLE: &[(&str, &str)] = &[
    ("0", "done"),
    ("1", "the operation failed; `wait --timeout` ran out (`wait_timeout`)"),
    ("2", "usage, ambiguous name, name or input held, wrong state, needs `--force`"),
    ("3", "invalid configuration"),
    ("4", "not found"),
    ("5", "refused by a rule"),
    ("7", "the daemon cannot be reached or started"),
    ("8", "the host cannot isolate, or has not enough resources"),
    ("124", "a timeout ended the box or the exec"),
    ("125", "`run`, `exec`, `wait`, `attach`: the runtime failed, or the ending is not known"),
    ("126", "`run`, `exec`, `wait`, `attach`: the program was found but cannot be executed"),
    ("127", "`run`, `exec`, `wait`, `attach`: the program was not found in the box"),
    ("128 + n", "`run`, `exec`, `wait`, `attach`: ended by signal n"),
    ("130", "interrupted before there was anything to interrupt"),
    ("141", "standard output was closed; under `run` and `attach` the box runs on"),
    ("other", "`run`, `exec`, `wait`, `attach`: the command's own status"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_the_table() {
        let statuses = [
            (Exit::Done, 0),
            (Exit::Fault(ErrorCode::NotFound), 4),
            (Exit::Ending(42), 42),
            (Exit::Interrupted(Signal::INT), 130),
            (Exit::DieOf(Signal::INT), 130),
            (Exit::StdoutClosed, 141),
            (Exit::Unknown, 125),
        ];
        for (exit, status) in statuses {
            assert_eq!(exit.status(), status, "{exit:?}");
        }
        for code in ErrorCode::ALL {
            let status = code.exit_status().to_string();
            assert!(TABLE.iter().any(|(known, _)| *known == status), "{code}: {status}");
        }
        assert_eq!(Exit::Done.or_worse(Exit::Ending(3)), Exit::Ending(3));
        assert_eq!(Exit::Unknown.or_worse(Exit::Ending(3)), Exit::Unknown);
    }
}
