//! Signals by number and name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A Linux signal number, 1 to 64. JSON and display: its name (`"SIGKILL"`, `"SIGRTMIN+3"`).
///
/// Numbers are those of x86-64 and arm64 Linux (signal(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(u8);

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
/// glibc's SIGRTMIN: the C library keeps 32 and 33 for itself (signal(7)).
const RTMIN: u8 = 34;
const LAST: u8 = 64;

impl Signal {
    /// Terminal closed.
    pub const HUP: Self = Self(1);
    /// Interrupt from the keyboard.
    pub const INT: Self = Self(2);
    /// Quit from the keyboard.
    pub const QUIT: Self = Self(3);
    /// Cannot be caught.
    pub const KILL: Self = Self(9);
    /// User-defined.
    pub const USR1: Self = Self(10);
    /// User-defined.
    pub const USR2: Self = Self(12);
    /// A pipe or socket that nobody reads.
    pub const PIPE: Self = Self(13);
    /// A request to end.
    pub const TERM: Self = Self(15);
    /// A child ended, stopped or went on.
    pub const CHLD: Self = Self(17);
    /// A file has grown past the limit (`RLIMIT_FSIZE`).
    pub const XFSZ: Self = Self(25);
    /// Continue if stopped.
    pub const CONT: Self = Self(18);

    /// The signal of this number; `None` outside 1 to 64.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        u8::try_from(number).ok().filter(|n| (1..=LAST).contains(n)).map(Self)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0 - 1)) {
            Some(name) => write!(f, "SIG{name}"),
            None if self.0 == RTMIN => f.write_str("SIGRTMIN"),
            None if self.0 > RTMIN => write!(f, "SIGRTMIN+{}", self.0 - RTMIN),
            None => write!(f, "SIG{}", self.0),
        }
    }
}

impl FromStr for Signal {
    type Err = ParseSignalError;

    /// Accepts `TERM`, `SIGTERM`, `term`, `15`, `RTMIN+3`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseSignalError(text.to_owned());
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        if let Ok(number) = name.parse::<i32>() {
            return Self::from_number(number).ok_or_else(error);
        }
        if let Some(rest) = name.strip_prefix("RTMIN") {
            let plus = match rest.strip_prefix('+') {
                Some(digits) => digits.parse::<i32>().map_err(|_source| error())?,
                None if rest.is_empty() => 0,
                None => return Err(error()),
            };
            if !(0..=i32::from(LAST - RTMIN)).contains(&plus) {
                return Err(error());
            }
            return Self::from_number(i32::from(RTMIN) + plus).ok_or_else(error);
        }
        let alias = match name {
            "IOT" => "ABRT",
            "CLD" => "CHLD",
            "POLL" => "IO",
            other => other,
        };
        let index = NAMES.iter().position(|known| *known == alias).ok_or_else(error)?;
        u8::try_from(index + 1).map(Self).map_err(|_source| error())
    }
}

/// A text that names no signal.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a signal: give a name such as TERM, or a number from 1 to 64")]
pub struct ParseSignalError(String);

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_prints_a_name_that_parses_back() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).unwrap();
            assert_eq!(signal.to_string().parse::<Signal>().unwrap(), signal, "{number}");
        }
        assert_eq!("kill".parse::<Signal>().unwrap(), Signal::KILL);
        for wrong in ["", "0", "65", "SIG", "TERMINATE", "RTMIN+31", "RTMIN+-1", "-9"] {
            assert!(wrong.parse::<Signal>().is_err(), "{wrong}");
        }
    }
}
