//! Exit codes that somebody else has measured.

use std::fmt;

/// The code of a command, as whoever waited for it has told: 128 + n for signal n.
///
/// Made by reading an `exit` frame or an `exec` result, and by [`ExitCode::as_told`]. There is no
/// default, so no code comes from a frame that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode {
    code: i32,
    signal: Option<i32>,
}

impl ExitCode {
    /// The word of whoever waited for the command, and nobody else's.
    #[must_use]
    pub const fn as_told(code: i32) -> Self {
        Self { code, signal: None }
    }

    /// The same of a command that signal `signal` ended, which its code tells as well, by custom.
    #[must_use]
    pub const fn by_signal(self, signal: i32) -> Self {
        Self { signal: Some(signal), ..self }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.code
    }

    /// The signal that ended the command, if whoever waited has told it. A command may also return
    /// 143 by itself.
    #[must_use]
    pub const fn signal(self) -> Option<i32> {
        self.signal
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.code, f)
    }
}
