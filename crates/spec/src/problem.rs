//! What is wrong with a file, as it is told to the person who wrote it.

use std::fmt;
use std::sync::Arc;

use crate::source::{MAX_PROBLEMS, Source, Span};

/// What kind of fault a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// The file is longer than [`crate::MAX_TEXT`].
    TooLong,
    /// It is not TOML.
    Syntax,
    /// A key that means nothing here.
    UnknownKey,
    /// A value of another kind than the key takes.
    WrongKind,
    /// A value of the right kind that the key cannot have.
    WrongValue,
    /// A key is missing.
    MissingKey,
    /// Two keys that exclude each other.
    Conflict,
    /// A name that an entry, type, argument or variable cannot have.
    WrongName,
    /// Two things of one name.
    Taken,
    /// Something is named that there is not.
    Unknown,
    /// Types that extend each other in a circle.
    Cycle,
    /// A type allows what the one it extends does not, or nothing at all.
    Widens,
    /// A value that the entry's type does not allow.
    Constraint,
    /// A placeholder that cannot be filled in.
    Placeholder,
    /// The parts fit, the whole cannot be run.
    Spec,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What kind of fault.
    pub fault: Fault,
    /// What is wrong, in words.
    pub message: String,
    /// What was meant, or what to do.
    pub hint: Option<String>,
    /// The layer it is in, if that is not the file alone.
    pub layer: Option<String>,
    place: Option<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    source: Arc<Source>,
    span: Span,
}

impl Problem {
    pub(crate) fn new(
        source: &Arc<Source>,
        fault: Fault,
        span: Span,
        message: impl Into<String>,
    ) -> Self {
        let place = Some(Place { source: Arc::clone(source), span });
        Self { fault, message: message.into(), hint: None, layer: None, place }
    }

    /// One that stands in no file.
    pub(crate) fn nowhere(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), hint: None, layer: None, place: None }
    }

    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    pub(crate) fn in_layer(mut self, layer: &str) -> Self {
        self.layer.get_or_insert_with(|| layer.to_owned());
        self
    }

    /// File, line and column, the latter two from 1.
    #[must_use]
    pub fn position(&self) -> Option<(&str, usize, usize)> {
        let Place { source, span } = self.place.as_ref()?;
        let (line, column) = source.position(span.start);
        Some((source.name(), line, column))
    }

    fn key(&self) -> (usize, usize) {
        self.place.as_ref().map_or((0, 0), |place| (place.span.start, place.span.end))
    }
}

/// The longest part of a line that is shown, in characters.
const SHOWN: usize = 120;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, line, column)) = self.position() {
            write!(f, "{}:{line}:{column}: ", printable(name))?;
        }
        f.write_str(&printable(&self.message))?;
        if let Some(layer) = &self.layer {
            write!(f, " (in {})", printable(layer))?;
        }
        if let Some(Place { source, span }) = &self.place {
            let (line, column) = source.position(span.start);
            let text = source.line(line);
            if !text.trim().is_empty() {
                let skipped = column.saturating_sub(SHOWN / 2);
                let shown: String = text.chars().skip(skipped).take(SHOWN).collect();
                let before = (column - 1).saturating_sub(skipped).min(SHOWN);
                let marked = source.slice(span).lines().next().unwrap_or_default().chars().count();
                let marked = marked.clamp(1, shown.chars().count().saturating_sub(before).max(1));
                let number = line.to_string();
                let margin = " ".repeat(number.len());
                write!(f, "\n {margin} |\n {number} | {}", printable(&shown))?;
                write!(f, "\n {margin} | {}{}", " ".repeat(before), "^".repeat(marked))?;
            }
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {}", printable(hint))?;
        }
        Ok(())
    }
}

/// Without what a terminal would act upon, each such character being one that is seen.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            // Marks that turn the direction of text around.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => {
                '\u{fffd}'
            }
            c => c,
        })
        .collect()
}

/// Everything that is wrong, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn push(&mut self, problem: Problem) {
        // Each further one of a file full of them costs nothing.
        if !self.is_full() {
            self.0.push(problem);
        }
    }

    /// Whether no more are taken: then looking for some is a waste.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > MAX_PROBLEMS
    }

    pub(crate) fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        for problem in problems {
            self.push(problem);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `Ok` if there is none.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(Problem::key);
        Err(self)
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// The first, of which there is always one.
    #[must_use]
    pub fn first(&self) -> &Problem {
        self.0.first().expect("problems are only told where there are some")
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().take(MAX_PROBLEMS).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        if self.0.len() > MAX_PROBLEMS {
            write!(f, "\nthere are more: the first {MAX_PROBLEMS} are shown")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Of the words there are, the one that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What nobody mistypes: it would cost time and find nothing.
    if word.chars().count() > 80 {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let wanted = plain(word);
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&wanted, &plain(known)), known))
        .filter(|(distance, known)| *distance <= 1.max(known.chars().count() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The hint for it.
pub(crate) fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}
