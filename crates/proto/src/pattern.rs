//! Patterns of names: `*` stands for any bytes, `?` for one.

/// Whether a text is a pattern and not a plain name.
#[must_use]
pub fn is_one(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?'))
}

/// Whether a pattern stands for a text. Takes time in proportion to the product of their lengths at
/// most.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                // One more for the last star.
                Some((star_at, star_from)) => {
                    star = Some((star_at, star_from + 1));
                    at = star_at + 1;
                    from = star_from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Whether a pattern stands for a name in a listing: one that begins with a dot is hidden, and only a
/// pattern that does so too stands for it, as in a shell.
#[must_use]
pub fn lists(pattern: &[u8], name: &[u8]) -> bool {
    (name.first() != Some(&b'.') || pattern.first() == Some(&b'.')) && matches(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_end_in_bounded_time() {
        assert!(matches(b"a*b*c", b"aXbYc"));
        assert!(!matches(b"a*b", b"aXc"));
        assert!(matches(b"*", b""));
        let (pattern, text) = (b"*a".repeat(200), b"a".repeat(2_000));
        assert!(matches(&pattern, &text));
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
    }

    #[test]
    fn what_is_hidden_is_listed_by_its_dot_only() {
        let listed = |pattern: &str, name: &str| lists(pattern.as_bytes(), name.as_bytes());
        assert!(listed("*", "a") && listed(".*", ".a") && listed("?b*", "ab"));
        assert!(!listed("*", ".a") && !listed("?a", ".a") && !listed("a?", "a"));
    }
}
