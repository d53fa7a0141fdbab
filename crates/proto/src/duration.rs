//! Durations as people write them: `500ms`, `20m`, `1h30m`.

use std::time::Duration;

/// The longest duration accepted: about 292 years, what a nanosecond clock of 63 bits can hold.
pub const MAX: Duration = Duration::from_secs(i64::MAX as u64 / 1_000_000_000);

/// Why a text is not a usable duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Not of the form.
    #[error("`{0}` is not a duration: write a number and a unit, as in 500ms, 20s, 1h30m")]
    Form(String),
    /// A number alone.
    #[error("`{0}` has no unit: write {0}s for seconds, {0}ms for milliseconds, {0}m for minutes")]
    NoUnit(String),
    /// Zero.
    #[error("`{0}` is zero: a duration must be longer than nothing")]
    Zero(String),
    /// Negative.
    #[error("`{0}` is negative: a duration must be longer than nothing")]
    Negative(String),
    /// Beyond the clock.
    #[error("`{0}` is beyond the clock: the longest duration is 106751d")]
    TooLong(String),
}

/// Reads a duration: numbers (with an optional fraction) each with one of `ms`, `s`, `m`, `h`,
/// `d`, largest first or not, without spaces.
///
/// # Errors
/// Zero, negative, without a unit, malformed, or longer than [`MAX`].
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let shown = || text.chars().take(40).collect::<String>();
    if text.starts_with('-') {
        return Err(ParseDurationError::Negative(shown()));
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.bytes().all(|byte| byte == b'0') {
            return Err(ParseDurationError::Zero(shown()));
        }
        return Err(ParseDurationError::NoUnit(shown()));
    }
    let form = || ParseDurationError::Form(shown());
    let too_long = || ParseDurationError::TooLong(shown());
    let mut rest = text;
    let mut total_nanos: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(form)?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit_nanos: u128 = match unit {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(form()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(form());
        }
        let whole: u128 = whole.parse().map_err(|_source| too_long())?;
        // Digits past the ninth are below a nanosecond of a second.
        let fraction = &fraction[..fraction.len().min(9)];
        let scale = 10u128.pow(u32::try_from(fraction.len()).map_err(|_source| form())?);
        let fraction: u128 = fraction.parse().map_err(|_source| form())?;
        let nanos = whole
            .checked_mul(unit_nanos)
            .and_then(|nanos| nanos.checked_add(fraction * unit_nanos / scale))
            .ok_or_else(too_long)?;
        total_nanos = total_nanos.checked_add(nanos).ok_or_else(too_long)?;
        rest = after;
    }
    if text.is_empty() {
        return Err(form());
    }
    if total_nanos == 0 {
        return Err(ParseDurationError::Zero(shown()));
    }
    let nanos = u64::try_from(total_nanos).map_err(|_source| too_long())?;
    let duration = Duration::from_nanos(nanos);
    if duration > MAX { Err(too_long()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_write_these() {
        assert_eq!(parse("300ms").unwrap(), Duration::from_millis(300));
        assert_eq!(parse("1h30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(parse("1.5s").unwrap(), Duration::from_millis(1500));
    }

    #[test]
    fn each_wrong_one_says_what_is_wrong() {
        assert!(matches!(parse("0"), Err(ParseDurationError::Zero(_))));
        assert!(matches!(parse("0ms"), Err(ParseDurationError::Zero(_))));
        assert!(matches!(parse("-1s"), Err(ParseDurationError::Negative(_))));
        assert!(matches!(parse("10"), Err(ParseDurationError::NoUnit(_))));
        assert!(matches!(parse("999999999999h"), Err(ParseDurationError::TooLong(_))));
        for wrong in ["", "s", "1x", "1..5s", ".s", "5.", "1s2", "1 s"] {
            assert!(matches!(parse(wrong), Err(ParseDurationError::Form(_))), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            drop(parse(&text));
        }

        #[test]
        fn milliseconds_are_exact(ms in 1u64..10_000_000_000) {
            prop_assert_eq!(parse(&format!("{ms}ms")).unwrap(), Duration::from_millis(ms));
        }
    }
}
