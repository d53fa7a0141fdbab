//! Ids of boxes and execs: UUIDv7, so that they sort by the time they were minted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps an id that was just minted. Only the daemon mints ids.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The id as a UUID.
            #[must_use]
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }

            /// The last eight hex digits: what listings show, since the first ones are a clock.
            #[must_use]
            pub fn short(&self) -> String {
                let mut digits = [0; uuid::fmt::Simple::LENGTH];
                let digits = self.0.simple().encode_lower(&mut digits);
                digits[digits.len() - 8..].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Accepts the hyphenated lower-case form only, which is also the directory's name.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let error = || ParseIdError { what: $what, text: text.to_owned() };
                let uuid = Uuid::try_parse(text).map_err(|_source| error())?;
                if uuid.hyphenated().to_string() == text { Ok(Self(uuid)) } else { Err(error()) }
            }
        }
    };
}

id!(
    /// Identifies one box on every host, for ever. Minted by the daemon, never by a client.
    BoxId,
    "box"
);
id!(
    /// Identifies one exec in a box.
    ExecId,
    "exec"
);

/// A text that is not an id in its hyphenated lower-case form.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a {what} id")]
pub struct ParseIdError {
    what: &'static str,
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_is_the_random_end_and_text_round_trips() {
        let text = "01909a30-0000-7000-8000-0000deadbeef";
        let id: BoxId = text.parse().unwrap();
        assert_eq!(id.short(), "deadbeef");
        assert_eq!(id.to_string(), text);
        assert!("01909A30-0000-7000-8000-0000DEADBEEF".parse::<BoxId>().is_err());
        assert!("../etc".parse::<BoxId>().is_err());
    }
}
