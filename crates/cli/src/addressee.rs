//! What a command is about, a box or an exec in it, as it is called in words and in hints.

use minimal_proto::api::{BoxRecord, ExecRecord};
use minimal_proto::{BoxId, BoxName, ErrorCode, ExecId};
use minimal_sdk::Subject;

use crate::error::Failure;

/// A box, or an exec in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressee {
    /// The box.
    pub box_id: BoxId,
    /// Its name, which may be another's later; a directory that cannot be read has none.
    pub name: Option<BoxName>,
    /// The exec in it; none: the box itself.
    pub exec: Option<ExecId>,
}

impl From<&BoxRecord> for Addressee {
    fn from(record: &BoxRecord) -> Self {
        Self { box_id: record.id, name: record.name.clone(), exec: None }
    }
}

impl Addressee {
    /// An exec of a box.
    #[must_use]
    pub fn exec(of: &BoxRecord, exec: &ExecRecord) -> Self {
        Self { exec: Some(exec.id), ..of.into() }
    }

    /// What to call the box: its name, or its id.
    #[must_use]
    pub fn of_box(&self) -> String {
        self.name.as_ref().map_or_else(|| self.box_id.to_string(), ToString::to_string)
    }

    /// In words: `box web`, or `exec deadbeef of box web`.
    #[must_use]
    pub fn words(&self) -> String {
        match self.exec {
            Some(exec) => format!("exec {} of box {}", exec.short(), self.of_box()),
            None => format!("box {}", self.of_box()),
        }
    }

    /// The command line that does something with it: `min stop web`.
    #[must_use]
    pub fn command(&self, verb: &str) -> String {
        match self.exec {
            Some(exec) => format!("min {verb} {} --exec {}", self.of_box(), exec.short()),
            None => format!("min {verb} {}", self.of_box()),
        }
    }

    /// As the client's calls take it.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject { box_id: self.box_id, exec: self.exec }
    }

    /// A failure that says to programs what it is about.
    #[must_use]
    pub fn in_details(&self, failure: Failure) -> Failure {
        let failure = failure.detail("box", self.box_id.to_string());
        match self.exec {
            Some(exec) => failure.detail("exec", exec.to_string()),
            None => failure,
        }
    }

    /// That nobody knows how it ended: its keeper is gone.
    #[must_use]
    pub fn lost(&self, status: u8) -> Failure {
        let message =
            format!("{} was lost: its keeper is gone, and nobody saw how it ended", self.words());
        let failure = Failure::new(ErrorCode::ExitUnknown, message)
            .exit(crate::exit::Exit::Ending(status))
            .hint(format!("what it printed until then is kept: `{}`", self.command("logs")));
        self.in_details(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exec_is_called_by_its_box_and_its_short_id() {
        let mut whose = Addressee {
            box_id: "01909a30-0000-7000-8000-0000deadbeef".parse().unwrap(),
            name: Some("web".parse().unwrap()),
            exec: None,
        };
        assert_eq!(
            (whose.words(), whose.command("stop")),
            ("box web".into(), "min stop web".into())
        );
        whose.exec = Some("01909a31-0000-7000-8000-00000badcafe".parse().unwrap());
        assert_eq!(whose.words(), "exec 0badcafe of box web");
        assert_eq!(whose.command("stop"), "min stop web --exec 0badcafe");
        whose.name = None;
        assert!(whose.words().ends_with("of box 01909a30-0000-7000-8000-0000deadbeef"));
    }
}
