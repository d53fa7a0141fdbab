//! The system call policies, read once by the nursery: `policy/seccomp.policy` for every box, and
//! `policy/bind.policy` beside it for one that has the real project.

use minimal_linux::seccomp::{Condition, Filter, Rule, Test, UnknownName, call_number, value};

/// The policies as they are checked in.
const TEXT: &str = include_str!("../../../policy/seccomp.policy");
const BIND: &str = include_str!("../../../policy/bind.policy");

/// A line that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the system call policy: {why}")]
pub(crate) struct PolicyError {
    line: usize,
    why: String,
}

/// Compiled policies.
#[derive(Debug)]
pub(crate) struct Filters {
    /// Of every box.
    pub(crate) every: Filter,
    /// Of a box that has the real project, in force beside the other.
    pub(crate) bind: Filter,
}

impl Filters {
    /// Reads and compiles them.
    pub(crate) fn new() -> Result<Self, PolicyError> {
        let compile = |text| Ok(Filter::compile(&parse(text)?));
        Ok(Self { every: compile(TEXT)?, bind: compile(BIND)? })
    }
}

fn parse(text: &str) -> Result<Vec<Rule>, PolicyError> {
    let mut rules = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let rule = rule(line).map_err(|why| PolicyError { line: index + 1, why })?;
        rules.extend(rule);
    }
    Ok(rules)
}

/// One line; none if this architecture does not have the call.
fn rule(line: &str) -> Result<Option<Rule>, String> {
    let unknown = |error: UnknownName| error.to_string();
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let (errno, call, condition) = match words.as_slice() {
        [errno, call] => (errno, call, None),
        [errno, call, argument, test, operand] => {
            let argument = argument
                .strip_prefix("arg")
                .and_then(|digit| digit.parse().ok())
                .filter(|argument| *argument < 6)
                .ok_or_else(|| format!("`{argument}` is not arg0 to arg5"))?;
            let operand = operand
                .split('|')
                .try_fold(0, |all, name| value(name).map(|value| all | value))
                .map_err(unknown)?;
            let test = match *test {
                "=" => Test::Equals(operand),
                "has" => Test::HasAny(operand),
                other => return Err(format!("`{other}` is neither `=` nor `has`")),
            };
            (errno, call, Some(Condition { argument, test }))
        }
        _ => return Err("it is not `<answer> <call> [<argument> =|has <value>]`".to_owned()),
    };
    let errno = value(errno).map_err(unknown)?;
    let errno = u16::try_from(errno).map_err(|_large| format!("{errno} is no errno"))?;
    let Some(call) = call_number(call).map_err(unknown)? else { return Ok(None) };
    Ok(Some(Rule { call, condition, errno }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_that_is_checked_in_is_whole() {
        let rules = parse(TEXT).unwrap();
        assert!(rules.len() > 45, "{} rules", rules.len());
        assert!(parse(BIND).unwrap().len() > 6);
        Filters::new().unwrap();
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, why) in [
            ("# ok\nEPERM nosuchcall", "nosuchcall"),
            ("EWHAT mount", "EWHAT"),
            ("EPERM clone arg9 has CLONE_NEWUSER", "arg9"),
            ("EPERM clone arg0 ~ CLONE_NEWUSER", "~"),
            ("EPERM", "<answer>"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
