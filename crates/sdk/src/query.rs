//! What is asked for in a path and its query.

use std::fmt::Write as _;

use minimal_proto::stream::Stream;
use minimal_proto::{BoxId, ByteString, ExecId, State, Timestamp};

use crate::Subject;

/// Which boxes to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListQuery {
    /// Only those in one of these states; empty: in any.
    pub states: Vec<State>,
    /// Also those that cannot be read, of which neither state nor project is known.
    pub broken: bool,
    /// Only those of this project (an absolute path).
    pub project: Option<ByteString>,
    /// At most so many, 1 to 10,000; without: the daemon's default.
    pub limit: Option<u32>,
    /// Those that follow this one: the `next` of the page before.
    pub after: Option<BoxId>,
}

/// Which execs of a box to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecQuery {
    /// At most so many, 1 to 10,000; without: the daemon's default.
    pub limit: Option<u32>,
    /// Those that follow this one: the `next` of the page before.
    pub after: Option<ExecId>,
}

/// Where to begin in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStart {
    /// With the first byte that is kept.
    #[default]
    Beginning,
    /// At this offset.
    Offset(u64),
    /// With what was written at this time or later.
    Since(Timestamp),
    /// With the last lines, so many.
    Tail(u64),
}

/// What to read of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Where to begin.
    pub start: LogStart,
    /// Only one of the outputs.
    pub stream: Option<Stream>,
    /// Go on until the log is sealed.
    pub follow: bool,
}

/// The path and query of a request.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    pub(crate) fn new(path: &str) -> Self {
        Self { text: path.to_owned(), has_query: false }
    }

    /// `/v1/boxes/{address}` and what follows.
    pub(crate) fn of_box(address: &str, rest: &str) -> Self {
        let mut text = "/v1/boxes/".to_owned();
        encode(&mut text, address.as_bytes());
        text.push_str(rest);
        Self { text, has_query: false }
    }

    /// `/v1/boxes/{address}/execs/{exec}` and what follows.
    pub(crate) fn of_exec(address: &str, exec: &str, rest: &str) -> Self {
        let mut target = Self::of_box(address, "/execs/");
        encode(&mut target.text, exec.as_bytes());
        target.text.push_str(rest);
        target
    }

    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.add(key, value.as_bytes());
        self
    }

    pub(crate) fn with_some(self, key: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(key, &value.to_string()),
            None => self,
        }
    }

    fn add(&mut self, key: &str, value: &[u8]) {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(key);
        self.text.push('=');
        encode(&mut self.text, value);
    }

    pub(crate) fn brief_list(query: &ListQuery) -> Self {
        Self::list(query).with("brief", "true")
    }

    pub(crate) fn list(query: &ListQuery) -> Self {
        let mut target = Self::new("/v1/boxes");
        if !query.states.is_empty() {
            let states: Vec<_> = query.states.iter().map(|state| state.as_str()).collect();
            target = target.with("state", &states.join(","));
        }
        if let Some(project) = &query.project {
            target.add("project", project.as_bytes());
        }
        if query.broken {
            target = target.with("broken", "true");
        }
        target.with_some("limit", query.limit).with_some("after", query.after)
    }

    pub(crate) fn log(subject: Subject, query: &LogQuery) -> Self {
        let target = subject.target("/log").with("format", "framed");
        let target = match query.start {
            LogStart::Beginning => target,
            LogStart::Offset(offset) => target.with_some("from", Some(offset)),
            LogStart::Since(time) => target.with_some("since", Some(time)),
            LogStart::Tail(lines) => target.with_some("tail", Some(lines)),
        };
        let target = match query.stream {
            Some(Stream::Stdout) => target.with("stream", "stdout"),
            Some(Stream::Stderr) => target.with("stream", "stderr"),
            Some(Stream::Pty) => target.with("stream", "pty"),
            None => target,
        };
        if query.follow { target.with("follow", "true") } else { target }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986, 2.3.
fn encode(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02X}").expect("a String takes all that is written to it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_cannot_leave_its_place_in_the_path() {
        let target = Target::of_box("../x?y#z/ä", "/wait").with("timeout_ms", "5");
        assert_eq!(target.as_str(), "/v1/boxes/..%2Fx%3Fy%23z%2F%C3%A4/wait?timeout_ms=5");
    }

    #[test]
    fn the_address_of_an_exec_stays_in_its_place_too() {
        let target = Target::of_exec("b/x", "../e?", "/wait");
        assert_eq!(target.as_str(), "/v1/boxes/b%2Fx/execs/..%2Fe%3F/wait");
    }

    #[test]
    fn a_list_names_each_filter_once() {
        let query = ListQuery {
            states: vec![State::Exited, State::Failed],
            project: Some(b"/a b\xff".to_vec().into()),
            limit: Some(20),
            after: None,
            broken: false,
        };
        assert_eq!(
            Target::list(&query).as_str(),
            "/v1/boxes?state=exited%2Cfailed&project=%2Fa%20b%FF&limit=20"
        );
    }
}
