//! Who a runner is to its hub.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The longest name of a runner, in bytes.
const NAME_MAX: usize = 63;

/// The most characters of the other fields that a hub takes.
const HOSTNAME_MAX: usize = 255;
const WORD_MAX: usize = 40;
const VERSION_MAX: usize = 80;
const ROOT_MAX: usize = 1024;

/// What may stand in a query as it is (RFC 3986: the unreserved characters).
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The name of a runner: `[a-z0-9][a-z0-9._-]{0,62}`, unique for its owner at the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunnerName(String);

impl RunnerName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunnerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RunnerName {
    type Err = RunnerNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let why = match text.as_bytes() {
            [] => "it is empty",
            bytes if bytes.len() > NAME_MAX => "it is longer than 63 characters",
            [first, ..] if !plain(*first) => "it does not begin with a small letter or a digit",
            bytes if !bytes.iter().all(|byte| plain(*byte) || b"._-".contains(byte)) => {
                "it holds something else than small letters, digits, dots, dashes and underscores"
            }
            _ => return Ok(Self(text.to_owned())),
        };
        Err(RunnerNameError { why })
    }
}

/// Why a text cannot name a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad runner name: {why}")]
pub struct RunnerNameError {
    why: &'static str,
}

/// What a runner tells of itself when it dials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: RunnerName,
    /// What its machine is called.
    pub hostname: String,
    /// Its version.
    pub version: String,
    /// Where it keeps its sandboxes.
    pub root: String,
}

impl Identity {
    /// The query of the address, cut to what hubs take. The words for system and processor are those
    /// of the peers, which are Go's.
    pub(super) fn query(&self) -> String {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let fields = [
            ("name", self.name.as_str(), NAME_MAX),
            ("hostname", &self.hostname, HOSTNAME_MAX),
            ("os", std::env::consts::OS, WORD_MAX),
            ("arch", arch, WORD_MAX),
            ("version", &self.version, VERSION_MAX),
            ("root", &self.root, ROOT_MAX),
        ];
        let field = |(key, value, most): (&str, &str, usize)| {
            let value: String = value.chars().take(most).collect();
            format!("{key}={}", utf8_percent_encode(&value, IN_QUERY))
        };
        fields.map(field).join("&")
    }
}
