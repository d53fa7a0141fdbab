//! A command as one text: split into words as a shell would, and nothing more.

/// Why a text is not a list of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SplitError {
    #[error("a quote is not closed")]
    OpenQuote,
    #[error("a backslash stands at the end")]
    LoneBackslash,
}

/// Splits by the quoting rules of POSIX (Shell Command Language, 2.2): no variable, pattern or
/// operator means anything.
pub(crate) fn split(text: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(SplitError::OpenQuote)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(SplitError::OpenQuote)? {
                        '"' => break,
                        '\\' => match chars.next().ok_or(SplitError::OpenQuote)? {
                            '\n' => {}
                            c @ ('$' | '`' | '"' | '\\') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => match chars.next().ok_or(SplitError::LoneBackslash)? {
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_make_words_and_nothing_else_does() {
        let words = |text| split(text).unwrap();
        assert_eq!(words("a  b\tc\n"), ["a", "b", "c"]);
        assert_eq!(words(r#"a 'b c' "d e"'f' ''"#), ["a", "b c", "d ef", ""]);
        assert_eq!(words(r#""a\"b\$c\x" \  \n"#), ["a\"b$c\\x", " ", "n"]);
        assert_eq!(words("$HOME * | ; # x"), ["$HOME", "*", "|", ";", "#", "x"]);
        assert_eq!(split("a 'b"), Err(SplitError::OpenQuote));
        assert_eq!(split("a \"b\\"), Err(SplitError::OpenQuote));
        assert_eq!(split("a \\"), Err(SplitError::LoneBackslash));
        assert!(words(" ").is_empty());
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_itself(word: String) {
            let quoted = format!("'{}'", word.replace('\'', r"'\''"));
            prop_assert_eq!(split(&quoted), Ok(vec![word]));
        }

        #[test]
        fn no_text_panics(text: String) {
            drop(split(&text));
        }
    }
}
