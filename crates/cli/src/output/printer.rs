//! The only place that writes to standard output and standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use minimal_proto::ErrorCode;
use minimal_proto::stream::Stream;
use serde::Serialize;

use crate::args::{Color, Format, Global};
use crate::env::Env;
use crate::error::Failure;
use crate::exit::Exit;

/// The longest answer that is read, in bytes: a line of a terminal (termios(3), "canonical mode").
const ANSWER_MAX: usize = 4096;

/// Writes data and talk.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    format: Format,
    talk: Talk,
    color: bool,
    asks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Talk {
    Quiet,
    Normal,
    Verbose,
}

impl Printer {
    /// A printer as the options say.
    #[must_use]
    pub fn new(global: &Global, env: &Env) -> Self {
        let color = match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => !env.has("NO_COLOR") && io::stderr().is_terminal(),
        };
        let talk = match (global.quiet, global.verbose) {
            (true, _) => Talk::Quiet,
            (_, true) => Talk::Verbose,
            // A program reads errors there, and nothing else.
            _ if global.output.format() != Format::Table => Talk::Quiet,
            _ => Talk::Normal,
        };
        let is_seen = io::stdin().is_terminal() && io::stderr().is_terminal();
        let asks = !global.no_input && is_seen && global.output.format() == Format::Table;
        Self { format: global.output.format(), talk, color, asks }
    }

    /// How data is printed.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it does not talk.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.talk == Talk::Quiet
    }

    /// Prints data: bytes, as they are.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn data(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| stdout_failed(&error))
    }

    /// Prints output of a box where it belongs. Standard error that cannot be written costs only
    /// what was written to it.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn output(&self, stream: Stream, bytes: &[u8]) -> Result<(), Failure> {
        match stream {
            Stream::Stdout | Stream::Pty => self.data(bytes),
            Stream::Stderr => {
                drop(io::stderr().lock().write_all(bytes));
                Ok(())
            }
        }
    }

    /// Prints a line of data.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        self.data(format!("{text}\n").as_bytes())
    }

    /// Prints one JSON value: over several lines, or with `jsonl` on one.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn json<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let text = match self.format {
            Format::Jsonl => serde_json::to_string(value),
            Format::Json | Format::Table => serde_json::to_string_pretty(value),
        };
        self.line(&text.expect("what is printed has text keys"))
    }

    /// Prints one JSON value on one line.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn json_line<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        self.line(&serde_json::to_string(value).expect("what is printed has text keys"))
    }

    /// Talks, unless asked to be quiet.
    pub fn note(&self, text: &str) {
        if self.talk != Talk::Quiet {
            self.talk(text);
        }
    }

    /// Helps: what there is to choose from, where nothing was chosen.
    pub fn help(&self, text: &str) {
        self.talk(text.trim_end());
    }

    /// Asks a question where somebody is there to answer it; none if nobody is.
    #[must_use]
    pub fn ask(&self, question: &str) -> Option<String> {
        if !self.asks {
            return None;
        }
        let mut stderr = io::stderr().lock();
        stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()).ok()?;
        let mut line = Vec::new();
        // Byte by byte: what comes after the line is for the box.
        let mut byte = [0];
        while line.len() < ANSWER_MAX {
            match rustix::io::read(io::stdin(), &mut byte) {
                Ok(0) if line.is_empty() => return None,
                Ok(0) => break,
                Ok(_) if byte[0] == b'\n' => break,
                Ok(_) => line.push(byte[0]),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Talks if asked to say more.
    pub fn detail(&self, text: &str) {
        if self.talk == Talk::Verbose {
            self.talk(text);
        }
    }

    /// Warns: about something that may be wrong, whatever was asked for.
    pub fn warn(&self, text: &str) {
        self.talk(&format!("{} {text}", self.paint("warning:", "33")));
    }

    /// Tells a failure: as text, or in machine modes as one object.
    pub fn failure(&self, failure: &Failure) {
        if failure.silent {
            return;
        }
        if self.format != Format::Table {
            return self.talk(&failure.to_json().to_string());
        }
        self.talk(&self.render(failure));
    }

    fn render(&self, failure: &Failure) -> String {
        let mut text = format!("{} {}", self.paint("error:", "1;31"), failure.message);
        for cause in &failure.causes {
            write!(text, "\n  caused by: {cause}").expect("a String takes all");
        }
        if let Some(hint) = &failure.hint {
            write!(text, "\n{} {hint}", self.paint("hint:", "1;36")).expect("a String takes all");
        }
        text
    }

    fn talk(&self, text: &str) {
        // Nobody can be told that standard error cannot be written; the exit status is unharmed.
        drop(io::stderr().lock().write_all(format!("{}\n", self.harmless(text)).as_bytes()));
    }

    /// Names and messages may hold bytes that a terminal would act on; ours are colours only.
    fn harmless(&self, text: &str) -> String {
        text.chars()
            .map(|c| match c {
                '\n' | '\t' => c,
                '\u{1b}' if self.color => c,
                c if c.is_control() => '\u{fffd}',
                c => c,
            })
            .collect()
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn stdout_failed(error: &io::Error) -> Failure {
    let failure = Failure::new(ErrorCode::OutputFailed, "write to standard output").because(error);
    match error.kind() {
        // As a program without a handler would, that dies of SIGPIPE.
        io::ErrorKind::BrokenPipe => Failure { silent: true, ..failure.exit(Exit::StdoutClosed) },
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer(color: bool) -> Printer {
        Printer { format: Format::Table, talk: Talk::Normal, color, asks: false }
    }

    fn failure() -> Failure {
        let error = io::Error::from_raw_os_error(13);
        Failure::new(ErrorCode::Internal, "cannot start box `web`")
            .because(&error)
            .hint("`min doctor` checks the host")
    }

    #[test]
    fn an_error_has_a_line_for_each_cause() {
        insta::assert_snapshot!(printer(false).render(&failure()), @r"
        error: cannot start box `web`
          caused by: Permission denied (os error 13)
        hint: `min doctor` checks the host
        ");
        insta::assert_snapshot!(failure().to_json(), @r#"{"code":"internal","details":{},"hint":"`min doctor` checks the host","message":"cannot start box `web`: Permission denied (os error 13)","schema":"min/v1/error"}"#);
    }

    #[test]
    fn bytes_that_a_terminal_would_act_on_are_taken_out() {
        let text = "a\u{1b}[2Jb\rc\td\n\u{7}";
        assert_eq!(printer(false).harmless(text), "a\u{fffd}[2Jb\u{fffd}c\td\n\u{fffd}");
        assert!(printer(true).render(&failure()).contains("\u{1b}[1;31merror:\u{1b}[0m"));
    }
}
