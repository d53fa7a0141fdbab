//! What the policy does not list is asked about on a terminal.

use std::path::Path;

use minimal_spec::Origin;

use super::refused::place;
use super::{Failure, Search};
use crate::user_policy::{Answer, Thing};

impl Search<'_> {
    /// Asks whether something may be taken; no where nobody can be asked. An answer for good is written
    /// down, and said to be.
    pub(super) fn ask(
        &mut self,
        origin: &Origin,
        what: &str,
        (thing, lines): (Thing, &[String]),
    ) -> Result<bool, Failure> {
        if let Some(allowed) = self.answered.get(what) {
            return Ok(*allowed);
        }
        let allowed = self.ask_once(origin, what, (thing, lines))?;
        self.answered.insert(what.to_owned(), allowed);
        Ok(allowed)
    }

    fn ask_once(
        &mut self,
        origin: &Origin,
        what: &str,
        (thing, lines): (Thing, &[String]),
    ) -> Result<bool, Failure> {
        let question = format!(
            "{} wants to {what}.\nAllow it? [y]es, this once; [n]o; [a]lways; ne[v]er: ",
            place(origin)
        );
        loop {
            let Some(answer) = self.context.printer.ask(&question) else { return Ok(false) };
            let remembered = match answer.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" | "" => return Ok(false),
                "a" | "always" => Answer::Always,
                "v" | "never" => Answer::Never,
                _ => continue,
            };
            let kept = self.policy()?.remember(remembered, thing, lines)?;
            self.policy = None;
            let file = self.policy()?.place();
            let kept = kept.map(|kept| format!("; as it was it is in {}", kept.display()));
            let kept = kept.unwrap_or_default();
            self.context.printer.note(&format!("Written to {file}{kept}."));
            return Ok(remembered == Answer::Always);
        }
    }

    /// The lines by which the policy would be about a path: those of what leads to it and what it leads
    /// to that no line is about yet.
    pub(super) fn lines_for(
        &mut self,
        paths: [&Path; 2],
        is_changed: bool,
    ) -> Result<Vec<String>, Failure> {
        Ok(self.policy()?.unlisted(paths, is_changed))
    }
}
