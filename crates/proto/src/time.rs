//! Points in time, as the wire and the disk hold them.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Microseconds since the Unix epoch, UTC. JSON: RFC 3339 with six digits, as in
/// `"2026-01-02T03:04:05.000006Z"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The wall clock's time now. For records only: limits are measured on the monotonic clock.
    #[must_use]
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        // A clock before 1970 or past the year 292000 is pinned to the ends: a record must not
        // fail to be written because a clock is wrong.
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(i64::try_from(after.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => Self(
                i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
            ),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            // Beyond the calendar: still a number a person can report.
            Err(_) => write!(f, "@{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|time| Self(time.as_microsecond()))
            .map_err(|_source| ParseTimestampError(text.to_owned()))
    }
}

/// A text that is not an RFC 3339 time.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an RFC 3339 time such as 2026-01-02T03:04:05Z")]
pub struct ParseTimestampError(String);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some(micros) = text.strip_prefix('@').and_then(|rest| rest.strip_suffix("us")) {
            return micros.parse().map(Self).map_err(de::Error::custom);
        }
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_has_six_digits() {
        let json = serde_json::to_string(&Timestamp::from_micros(1_500_000)).unwrap();
        assert_eq!(json, r#""1970-01-01T00:00:01.500000Z""#);
    }

    proptest! {
        #[test]
        fn json_round_trips_every_time(micros: i64) {
            let time = Timestamp::from_micros(micros);
            let back: Timestamp = serde_json::from_str(&serde_json::to_string(&time).unwrap()).unwrap();
            prop_assert_eq!(back, time);
        }
    }
}
