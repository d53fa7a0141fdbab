//! Names of boxes: DNS labels, since a name is also the box's host name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A DNS label (RFC 1123: lower-case letters, digits and inner hyphens, 1 to 63) other than `self`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BoxName(String);

/// The longest DNS label (RFC 1035, 2.3.4).
const MAX: usize = 63;

impl BoxName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name for a box that runs `program`: its file name made DNS-safe, then `-n`.
    #[must_use]
    pub fn ad_hoc(program: &[u8], n: u64) -> Self {
        let base = program.rsplit(|byte| *byte == b'/').next().unwrap_or(program);
        let mut label = String::new();
        for byte in base {
            let safe = char::from(byte.to_ascii_lowercase());
            if safe.is_ascii_lowercase() || safe.is_ascii_digit() {
                label.push(safe);
            } else if !label.is_empty() && !label.ends_with('-') {
                label.push('-');
            }
        }
        let suffix = format!("-{n}");
        label.truncate(MAX - suffix.len());
        let label = label.trim_end_matches('-');
        let label = if label.is_empty() { "box" } else { label };
        Self(format!("{label}{suffix}"))
    }
}

impl fmt::Display for BoxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for BoxName {
    type Err = BoxNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |why| Err(BoxNameError { text: text.chars().take(80).collect(), why });
        if text.is_empty() {
            return error("it is empty");
        }
        if text == "self" {
            return error("`self` is reserved for the box one is in");
        }
        if text.len() > MAX {
            return error("it is longer than 63 characters");
        }
        if text.starts_with('-') || text.ends_with('-') {
            return error("it begins or ends with a hyphen");
        }
        if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            return error("only lower-case letters, digits and hyphens are allowed");
        }
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for BoxName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Why a text cannot name a box.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` cannot name a box: {why}")]
pub struct BoxNameError {
    text: String,
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_program_gives_a_valid_name(program: Vec<u8>, n: u64) {
            let name = BoxName::ad_hoc(&program, n);
            prop_assert_eq!(name.as_str().parse::<BoxName>().unwrap(), name);
        }

        #[test]
        fn a_valid_name_is_its_own_text(text in "[a-z0-9-]{0,70}") {
            if let Ok(name) = text.parse::<BoxName>() {
                prop_assert_eq!(name.as_str(), text);
            }
        }
    }

    #[test]
    fn wrong_names_say_why() {
        for wrong in ["", "self", "-a", "a-", "A", "a.b", "a_b", "ä", &"x".repeat(64)] {
            assert!(wrong.parse::<BoxName>().is_err(), "{wrong}");
        }
        assert_eq!(BoxName::ad_hoc(b"/usr/bin/Python3.11", 2).as_str(), "python3-11-2");
        assert_eq!(BoxName::ad_hoc(b"\xff", 1).as_str(), "box-1");
    }
}
