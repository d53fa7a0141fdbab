//! Sizes as people write them: `512KiB`, `64MiB`, `1.5GiB`.

/// Why a text is not a usable size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseSizeError {
    /// Not of the form.
    #[error("`{0}` is not a size: write a number and a unit, as in 512KiB, 64MiB, 1.5GiB")]
    Form(String),
    /// A number alone.
    #[error("`{0}` has no unit: write {0}MiB, or {0}KiB, {0}GiB, {0}TiB")]
    NoUnit(String),
    /// A unit that some read as 1000s and others as 1024s.
    #[error("`{text}` could mean 1000s or 1024s: write {meant}")]
    Ambiguous {
        /// What was written.
        text: String,
        /// The spelling meant, most likely.
        meant: String,
    },
    /// Zero.
    #[error("`{0}` is zero: a size must be more than nothing")]
    Zero(String),
    /// Negative.
    #[error("`{0}` is negative: a size must be more than nothing")]
    Negative(String),
    /// Beyond 64 bits.
    #[error("`{0}` is beyond what can be counted: the largest size is 16777215TiB")]
    TooLarge(String),
}

/// Reads a size in bytes: a number (with an optional fraction) and one of `KiB`, `MiB`, `GiB`,
/// `TiB`, without spaces.
///
/// # Errors
/// Zero, negative, without a unit, with another unit, malformed, or beyond 64 bits.
pub fn parse(text: &str) -> Result<u64, ParseSizeError> {
    let shown = || text.chars().take(40).collect::<String>();
    let form = || ParseSizeError::Form(shown());
    if text.starts_with('-') {
        return Err(ParseSizeError::Negative(shown()));
    }
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(form());
    }
    if number.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return Err(ParseSizeError::Zero(shown()));
    }
    let unit: u128 = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "" => return Err(ParseSizeError::NoUnit(shown())),
        other => {
            let meant = match other.to_ascii_lowercase().as_str() {
                "k" | "kb" | "ki" | "kib" => "KiB",
                "m" | "mb" | "mi" | "mib" => "MiB",
                "g" | "gb" | "gi" | "gib" => "GiB",
                "t" | "tb" | "ti" | "tib" => "TiB",
                _ => return Err(form()),
            };
            let number: String = number.chars().take(40).collect();
            return Err(ParseSizeError::Ambiguous {
                text: shown(),
                meant: format!("{number}{meant}"),
            });
        }
    };
    let too_large = || ParseSizeError::TooLarge(shown());
    let whole: u128 = whole.parse().map_err(|_source| too_large())?;
    // Digits past the twelfth are below a byte of a TiB.
    let fraction = &fraction[..fraction.len().min(12)];
    let scale = 10u128.pow(u32::try_from(fraction.len()).map_err(|_source| form())?);
    let fraction: u128 = fraction.parse().map_err(|_source| form())?;
    let bytes = whole
        .checked_mul(unit)
        .and_then(|bytes| bytes.checked_add(fraction * unit / scale))
        .and_then(|bytes| u64::try_from(bytes).ok())
        .ok_or_else(too_large)?;
    if bytes == 0 { Err(ParseSizeError::Zero(shown())) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_write_these() {
        assert_eq!(parse("512KiB"), Ok(512 << 10));
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse("2TiB"), Ok(2 << 40));
        assert_eq!(parse("16777215TiB"), Ok(16_777_215 << 40));
    }

    #[test]
    fn each_wrong_one_says_what_is_wrong() {
        for (wrong, meant) in
            [("64M", "64MiB"), ("8G", "8GiB"), ("1.5gb", "1.5GiB"), ("3kib", "3KiB")]
        {
            let error = parse(wrong).unwrap_err();
            assert!(error.to_string().ends_with(meant), "{error}");
        }
        assert!(matches!(parse("64"), Err(ParseSizeError::NoUnit(_))));
        assert!(matches!(parse("0MiB"), Err(ParseSizeError::Zero(_))));
        assert!(matches!(parse("0"), Err(ParseSizeError::Zero(_))));
        assert!(matches!(parse("0.0001KiB"), Err(ParseSizeError::Zero(_))));
        assert!(matches!(parse("-1MiB"), Err(ParseSizeError::Negative(_))));
        assert!(matches!(parse("16777216TiB"), Err(ParseSizeError::TooLarge(_))));
        for wrong in ["", "MiB", "1 MiB", "1..5MiB", ".MiB", "5.MiB", "1MiB2", "1parsec"] {
            assert!(matches!(parse(wrong), Err(ParseSizeError::Form(_))), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            drop(parse(&text));
        }

        #[test]
        fn whole_numbers_are_exact(mib in 1u64..1 << 40) {
            prop_assert_eq!(parse(&format!("{mib}MiB")), Ok(mib << 20));
        }
    }
}
