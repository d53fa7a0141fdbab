//! What the process that copies tells its keeper.

use minimal_proto::keeper::Missing;
use serde::{Deserialize, Serialize};

/// Said once, at the end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    Copied(Summary),
    Failed { what: String, errno: Option<i32>, so_far: Summary },
}

impl Report {
    pub(super) fn failed(what: &str, error: &std::io::Error, so_far: Summary) -> Self {
        // A deep path may be longer than the pipe, which is read only once the copy is over.
        let what: String = what.chars().take(LONGEST).collect();
        Self::Failed { what: format!("{what}: {error}"), errno: error.raw_os_error(), so_far }
    }
}

/// The longest path in a report, in characters: that of any system call (PATH_MAX).
const LONGEST: usize = 4096;

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Summary {
    /// Files, links and directories.
    pub(super) entries: u64,
    /// Bytes of files, however they were copied.
    pub(super) bytes: u64,
    /// Sockets, named pipes and devices.
    pub(super) special: LeftOut,
    /// What may not be read.
    pub(super) unreadable: LeftOut,
    /// What vanished or became something else while it was copied.
    pub(super) changed: LeftOut,
    /// Directories below more others than there can be open ones.
    pub(super) deep: LeftOut,
}

/// Some of the project's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeftOut {
    count: u64,
    first: String,
}

impl LeftOut {
    pub(super) fn add(&mut self, name: &str) {
        if self.count == 0 {
            // Names in this report are examples, and a report is read whole.
            self.first = name.chars().take(200).collect();
        }
        self.count += 1;
    }

    fn said(&self, of: &str, why: &str) -> Option<Missing> {
        let others = match self.count {
            0 => return None,
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let why = format!("`{}`{others} {why}", self.first);
        Some(Missing { what: of.to_owned(), why })
    }
}

impl Summary {
    /// Takes in another one.
    pub(super) fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        for (one, other) in [
            (&mut self.special, other.special),
            (&mut self.unreadable, other.unreadable),
            (&mut self.changed, other.changed),
            (&mut self.deep, other.deep),
        ] {
            if one.count == 0 {
                one.first = other.first;
            }
            one.count += other.count;
        }
    }

    /// What the copy lacks: `of` is the word of the record for it.
    pub(super) fn missing(&self, of: &str) -> Vec<Missing> {
        [
            (
                &self.special,
                "not copied: sockets, named pipes and devices are not files to work on",
            ),
            (&self.unreadable, "not copied: reading is not permitted"),
            (&self.changed, "not copied: changed while it was copied"),
            (&self.deep, "not copied: it is below more directories than can be open at a time"),
        ]
        .into_iter()
        .filter_map(|(left_out, why)| left_out.said(of, why))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fits_a_pipe_whatever_the_path() {
        let error = std::io::Error::from_raw_os_error(28);
        let report = Report::failed(&"\u{1}".repeat(1 << 20), &error, Summary::default());
        // pipe(7): 65,536 bytes; six for each character that JSON escapes.
        assert!(serde_json::to_vec(&report).unwrap().len() < 65_536);
    }

    #[test]
    fn what_is_left_out_is_counted_and_named_once() {
        let mut summary = Summary::default();
        assert_eq!(summary.missing("x"), []);
        summary.special.add("a/fifo");
        summary.special.add("b");
        let missing = summary.missing("x");
        assert_eq!(missing.len(), 1);
        assert!(missing[0].why.starts_with("`a/fifo` and 1 more not copied"), "{missing:?}");
    }
}
