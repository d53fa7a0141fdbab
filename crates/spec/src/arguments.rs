//! Arguments of a task: their types, their values, and where they go.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::problem::meant;

/// What a scalar argument can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scalar {
    /// Any text.
    String,
    /// A number, passed on as it was written.
    Number,
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    OneOf(Vec<String>),
}

/// What an argument can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentType {
    /// Of what kind it, or each of its elements, is.
    pub scalar: Scalar,
    /// Whether it may be given several times, each time adding an element.
    pub array: bool,
}

impl fmt::Display for ArgumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.array {
            f.write_str("Array ")?;
        }
        match &self.scalar {
            Scalar::String => f.write_str("string"),
            Scalar::Number => f.write_str("number"),
            Scalar::Boolean => f.write_str("boolean"),
            Scalar::OneOf(words) => f.write_str(&words.join("|")),
        }
    }
}

/// An argument of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// What it can be.
    #[serde(rename = "type")]
    pub argument_type: ArgumentType,
    /// Its elements where none are given; without a default it must be given.
    pub default: Option<Vec<String>>,
    /// What it is for.
    pub help: Option<String>,
}

/// Values of arguments by name, each a list of elements: one, but for an array.
pub type Values = BTreeMap<String, Vec<String>>;

/// Why arguments cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// A word that is no `--name`.
    #[error("`{0}` is not an argument: arguments are given as `--name value`")]
    Loose(String),
    /// There is no such argument.
    #[error("there is no argument `--{name}`{}", behind_colon(hint.as_deref()))]
    Unknown {
        /// Its name.
        name: String,
        /// What was meant.
        hint: Option<String>,
    },
    /// A name without a value.
    #[error("`--{0}` needs a value")]
    NoValue(String),
    /// A value of the wrong kind.
    #[error("`--{name}` takes {expected}, and `{value}` is not that")]
    Kind {
        /// The argument.
        name: String,
        /// What it takes.
        expected: String,
        /// What was given.
        value: String,
    },
    /// Given more than once.
    #[error("`--{0}` is given twice, and takes one value")]
    Twice(String),
    /// Not given, and it has no default.
    #[error("`--{0}` must be given")]
    Missing(String),
}

fn behind_colon(hint: Option<&str>) -> String {
    hint.map(|hint| format!(": {hint}")).unwrap_or_default()
}

impl ArgumentType {
    /// Whether a text is a value, or an element, of this type.
    pub(crate) fn takes(&self, value: &str) -> bool {
        match &self.scalar {
            Scalar::String => !value.contains('\0'),
            Scalar::Number => value.parse::<f64>().is_ok_and(f64::is_finite),
            Scalar::Boolean => matches!(value, "true" | "false"),
            Scalar::OneOf(words) => words.iter().any(|word| word == value),
        }
    }

    fn expected(&self) -> String {
        match &self.scalar {
            Scalar::String => "a text without NUL".to_owned(),
            Scalar::Number => "a number".to_owned(),
            Scalar::Boolean => "true or false".to_owned(),
            Scalar::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// Reads the words after a task's name.
///
/// # Errors
/// The first word that is wrong.
pub fn read_words(
    arguments: &BTreeMap<String, Argument>,
    words: &[String],
) -> Result<Values, ArgumentError> {
    let mut values = Values::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) else {
            return Err(ArgumentError::Loose(word.chars().take(80).collect()));
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let Some(argument) = arguments.get(name) else {
            return Err(ArgumentError::Unknown {
                name: name.chars().take(80).collect(),
                hint: meant(name, arguments.keys().map(String::as_str)),
            });
        };
        let value = value.or_else(|| words.next().cloned());
        let value = value.ok_or_else(|| ArgumentError::NoValue(name.to_owned()))?;
        if !argument.argument_type.takes(&value) {
            let expected = argument.argument_type.expected();
            let value = value.chars().take(80).collect();
            return Err(ArgumentError::Kind { name: name.to_owned(), expected, value });
        }
        let given = values.entry(name.to_owned()).or_default();
        if !given.is_empty() && !argument.argument_type.array {
            return Err(ArgumentError::Twice(name.to_owned()));
        }
        given.push(value);
    }
    Ok(values)
}

/// Adds the defaults of what is not given.
///
/// # Errors
/// One that must be given is not.
pub(crate) fn complete(
    arguments: &BTreeMap<String, Argument>,
    given: &Values,
) -> Result<Values, ArgumentError> {
    let value = |(name, argument): (&String, &Argument)| {
        let value = given.get(name).or(argument.default.as_ref());
        match value {
            Some(value) => Ok((name.clone(), value.clone())),
            None => Err(ArgumentError::Missing(name.clone())),
        }
    };
    arguments.iter().map(value).collect()
}

/// The variable that a script finds an argument in.
#[must_use]
pub fn variable(name: &str) -> String {
    format!("ARG_{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// A word of an argv, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Argument(&'a str),
}

/// Why a word's placeholders cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceholderError {
    #[error(
        "`%{{` is not closed: a placeholder is written `%{{name}}`, and the text itself `%%{{`"
    )]
    Open,
    #[error("there is no argument `{name}` for `%{{{name}}}`")]
    Unknown { name: String, hint: Option<String> },
    #[error("`{name}` is a list of values: `%{{{name}}}` must be a word of its own")]
    ListInWord { name: String },
}

fn parts(word: &str) -> Result<Vec<Part<'_>>, PlaceholderError> {
    let mut parts = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.find("%{") {
        let (before, after) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('%') {
            // `%%{` is `%{` itself.
            parts.extend([Part::Text(before), Part::Text("%{")]);
            rest = &after[2..];
            continue;
        }
        parts.push(Part::Text(before));
        let end = after.find('}').ok_or(PlaceholderError::Open)?;
        parts.push(Part::Argument(after[2..end].trim()));
        rest = &after[end + 1..];
    }
    parts.push(Part::Text(rest));
    parts.retain(|part| *part != Part::Text(""));
    Ok(parts)
}

/// Checks a word's placeholders, before there are values.
pub(crate) fn check_word(
    word: &str,
    arguments: &BTreeMap<String, Argument>,
) -> Result<(), PlaceholderError> {
    let parts = parts(word)?;
    let alone = parts.len() == 1;
    for part in parts {
        let Part::Argument(name) = part else { continue };
        let Some(argument) = arguments.get(name) else {
            return Err(PlaceholderError::Unknown {
                name: name.chars().take(80).collect(),
                hint: meant(name, arguments.keys().map(String::as_str)),
            });
        };
        if argument.argument_type.array && !alone {
            return Err(PlaceholderError::ListInWord { name: name.to_owned() });
        }
    }
    Ok(())
}

/// Fills in a word that was checked: whole values, which are never split. A list that is a word of
/// its own becomes as many words as it has elements.
pub(crate) fn fill(word: &str, values: &Values) -> Result<Vec<String>, PlaceholderError> {
    let parts = parts(word)?;
    if let [Part::Argument(name)] = parts[..] {
        return Ok(values.get(name).cloned().unwrap_or_default());
    }
    let mut filled = String::new();
    for part in parts {
        match part {
            Part::Text(text) => filled.push_str(text),
            Part::Argument(name) => {
                filled.extend(values.get(name).into_iter().flatten().map(String::as_str));
            }
        }
    }
    Ok(vec![filled])
}

/// An argument as a layer holds it.
pub(crate) fn from_json(value: &Json) -> Argument {
    serde_json::from_value(value.clone()).expect("it was written from an argument")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn argument(scalar: Scalar, array: bool, default: Option<&[&str]>) -> Argument {
        let default = default.map(|it| it.iter().map(|it| (*it).to_owned()).collect());
        Argument { argument_type: ArgumentType { scalar, array }, default, help: None }
    }

    fn some() -> BTreeMap<String, Argument> {
        let words = vec!["fast".to_owned(), "slow".to_owned()];
        BTreeMap::from([
            ("filter".to_owned(), argument(Scalar::String, false, Some(&[""]))),
            ("jobs".to_owned(), argument(Scalar::Number, false, None)),
            ("mode".to_owned(), argument(Scalar::OneOf(words), false, Some(&["fast"]))),
            ("files".to_owned(), argument(Scalar::String, true, Some(&[]))),
            ("dry".to_owned(), argument(Scalar::Boolean, false, Some(&["false"]))),
        ])
    }

    fn read(words: &[&str]) -> Result<Values, ArgumentError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        read_words(&some(), &words)
    }

    #[test]
    fn words_are_read_by_type() {
        let values =
            read(&["--jobs=4", "--files", "a b", "--files", "--c", "--mode", "slow"]).unwrap();
        assert_eq!(values["files"], ["a b", "--c"]);
        let all = complete(&some(), &values).unwrap();
        assert_eq!(
            (&all["filter"], &all["dry"]),
            (&vec![String::new()], &vec!["false".to_owned()])
        );
        assert_eq!(complete(&some(), &Values::new()), Err(ArgumentError::Missing("jobs".into())));
    }

    #[test]
    fn each_wrong_word_says_why() {
        let message = |words: &[&str]| read(words).unwrap_err().to_string();
        assert_eq!(
            message(&["x"]),
            "`x` is not an argument: arguments are given as `--name value`"
        );
        assert_eq!(message(&["--job", "1"]), "there is no argument `--job`: did you mean `jobs`?");
        assert_eq!(message(&["--jobs"]), "`--jobs` needs a value");
        assert_eq!(message(&["--jobs", "x"]), "`--jobs` takes a number, and `x` is not that");
        assert_eq!(message(&["--dry", "1"]), "`--dry` takes true or false, and `1` is not that");
        assert_eq!(
            message(&["--mode", "x"]),
            "`--mode` takes one of fast, slow, and `x` is not that"
        );
        assert_eq!(
            message(&["--jobs", "1", "--jobs=2"]),
            "`--jobs` is given twice, and takes one value"
        );
    }

    #[test]
    fn placeholders_are_whole_values() {
        let values = Values::from([
            ("filter".to_owned(), vec!["a 'b $c".to_owned()]),
            ("files".to_owned(), vec!["x y".to_owned(), String::new()]),
        ]);
        let fill = |word| super::fill(word, &values).unwrap();
        assert_eq!(fill("%{filter}"), ["a 'b $c"]);
        assert_eq!(fill("--f=%{ filter }!"), ["--f=a 'b $c!"]);
        assert_eq!(fill("%{files}"), ["x y", ""]);
        assert_eq!(fill("%%{filter}"), ["%{filter}"]);
        assert_eq!(fill("100%"), ["100%"]);
        let check = |word| check_word(word, &some());
        assert_eq!(check("%{"), Err(PlaceholderError::Open));
        let list = PlaceholderError::ListInWord { name: "files".into() };
        assert_eq!(check("-%{files}"), Err(list));
        assert!(matches!(check("%{filtre}"), Err(PlaceholderError::Unknown { hint: Some(_), .. })));
        assert_eq!(variable("dry-run"), "ARG_DRY_RUN");
    }

    proptest! {
        #[test]
        fn a_value_is_one_word_whatever_it_holds(value: String) {
            let values = Values::from([("filter".to_owned(), vec![value.clone()])]);
            prop_assert_eq!(super::fill("%{filter}", &values), Ok(vec![value]));
        }

        #[test]
        fn no_word_panics(word: String) {
            drop(check_word(&word, &some()));
            drop(super::fill(&word, &Values::new()));
        }
    }
}
