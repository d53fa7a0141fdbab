//! What a project's file asks for and may not have.

use std::path::Path;

use minimal_proto::ErrorCode;
use minimal_spec::Origin;
use serde_json::json;

use crate::error::Failure;
use crate::output::on_one_line;
use crate::user_policy::{UserPolicy, Verdict, without_steps_back};

/// What a project's file asks for and may not have.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Where it is said, and what it is.
    pub(super) told: Vec<String>,
    denied: bool,
    read: Vec<String>,
    write: Vec<String>,
    variables: Vec<String>,
}

impl Refused {
    pub(super) fn path(
        &mut self,
        origin: &Origin,
        what: &str,
        (is_changed, lines): (bool, Vec<String>),
        verdict: Verdict,
    ) {
        self.tell(origin, what, verdict);
        if verdict == Verdict::Unlisted {
            let list = if is_changed { &mut self.write } else { &mut self.read };
            let new: Vec<_> = lines.into_iter().filter(|line| !list.contains(line)).collect();
            list.extend(new);
        }
    }

    pub(super) fn variable(&mut self, origin: &Origin, what: &str, name: String, verdict: Verdict) {
        self.tell(origin, what, verdict);
        if verdict == Verdict::Unlisted {
            self.variables.push(name);
        }
    }

    fn tell(&mut self, origin: &Origin, what: &str, verdict: Verdict) {
        let place = place(origin);
        let denied = if verdict == Verdict::Denied { ", which you deny" } else { "" };
        self.denied |= verdict == Verdict::Denied;
        let told = format!("{place} wants to {what}{denied}");
        if !self.told.contains(&told) {
            self.told.push(told);
        }
    }

    pub(super) fn into_failure(self, policy: &UserPolicy) -> Failure {
        let message = self.told.join("; ");
        let place = policy.place();
        let failure = Failure::new(ErrorCode::Refused, message)
            .detail("policy", place.as_str())
            .detail("paths", json!({"allow": self.read, "allow_write": self.write}))
            .detail("vars", json!({"allow": self.variables}));
        if self.denied {
            return failure.hint(format!("{place} denies it: change that, or the project's file"));
        }
        let list = |key: &str, of: &[String]| match of.is_empty() {
            true => String::new(),
            false => format!("{key} = {}\n", json!(of)),
        };
        let paths = list("allow", &self.read) + &list("allow_write", &self.write);
        let variables = list("allow", &self.variables);
        let table = |name: &str, lines: String| match lines.is_empty() {
            true => lines,
            false => format!("[{name}]\n{lines}"),
        };
        let snippet = table("paths", paths) + &table("vars", variables);
        failure.hint(format!("if you want that, allow it in {place}:\n{}", snippet.trim_end()))
    }
}

/// What is to be done with a file, in words: `written` is what leads to it, `real` what that leads to.
pub(super) fn act(
    policy: &UserPolicy,
    (written, real): (&Path, &Path),
    is_changed: bool,
) -> String {
    let written = without_steps_back(written);
    let shown = policy.shown(&written);
    let leads = match real == written {
        true => String::new(),
        false => format!(" (which is {})", policy.shown(real)),
    };
    let act = if is_changed { "change" } else { "read" };
    on_one_line(&format!("{act} {shown}{leads}"))
}

/// Where it is said.
pub(super) fn place(origin: &Origin) -> String {
    match origin.position() {
        Some((file, line)) => format!("{file}:{line}"),
        None => origin.layer.to_string(),
    }
}
