//! A terminal as its log tells it: what it shows, what it has scrolled away, which modes a program has
//! set; and the bytes by which another terminal comes to show the same. Pure.
//!
//! ```text
//!  log ─▶ parser ─▶ terminal (grids, cursor, modes) ─▶ repaint ─▶ a client's terminal
//! ```
//!
//! The sequences are those of xterm, which every other terminal follows (`ctlseqs`). What no program
//! that one sits before depends on is not kept: images, palettes, hyperlinks, left and right margins.
//! A mode that is not known here is kept and set again all the same.
//!
//! Memory is bounded whatever is fed: by the cells of a screen ([`MAX_CELLS`]) and of what was scrolled
//! away ([`SCROLLBACK_LINES`], [`SCROLLBACK_CELLS`]).
//!
//! Why it is our own: of the crates there are, none tells whether it is within a sequence, and so where
//! in the log a reader has to go on; and none gives back the scroll region, tab stops and character sets
//! that it was told. `vt100` stands beside it in tests.

#![forbid(unsafe_code)]

mod cell;
mod grid;
mod parser;
mod repaint;
mod sequences;
mod sgr;
mod terminal;
mod tracking;

use minimal_proto::TerminalSize;

pub use grid::{SCROLLBACK_CELLS, SCROLLBACK_LINES};
use parser::Parser;
use terminal::Terminal;

/// The most cells a screen has here: a thousand lines of a thousand characters. Of a larger one the
/// lower lines are left out.
pub const MAX_CELLS: usize = 1_000_000;

/// A terminal.
#[derive(Clone, Debug)]
pub struct Screen {
    parser: Parser,
    terminal: Terminal,
}

impl Screen {
    /// A fresh terminal. A side without a size has the default one.
    #[must_use]
    pub fn new(size: TerminalSize) -> Self {
        Self { parser: Parser::default(), terminal: Terminal::new(bounded(size)) }
    }

    /// Takes what a program has written. However it is split, the result is the same.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.parser.feed(bytes, &mut self.terminal);
    }

    /// Output is missing here: a sequence that was begun does not go on.
    pub fn skip(&mut self) {
        self.parser = Parser::default();
    }

    /// Another program begins in another terminal, below what the one before has left.
    pub fn begin_anew(&mut self) {
        self.skip();
        self.terminal.begin_anew();
    }

    /// How many of the bytes that were fed last belong to a sequence or a character that is not
    /// complete. They have had no effect: whoever goes on where [`Screen::repaint`] ends needs them again.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.parser.unfinished()
    }

    /// Gives it another size. Lines that were too long for the old one are broken anew.
    pub fn resize(&mut self, size: TerminalSize) {
        self.terminal.resize(bounded(size));
    }

    /// What a terminal of the same size is to be sent so that it shows the same, with what was scrolled
    /// away above it, and is in the same modes. Its cursor has to be in the first column.
    #[must_use]
    pub fn repaint(&self) -> Vec<u8> {
        repaint::repaint(&self.terminal)
    }

    /// The text of the lines that are shown, without blanks at their ends.
    #[must_use]
    pub fn text(&self) -> Vec<String> {
        self.terminal.text()
    }
}

fn bounded(size: TerminalSize) -> (usize, usize) {
    let TerminalSize { cols, rows } = size.or_default();
    let (cols, rows) = (usize::from(cols), usize::from(rows));
    (cols, rows.min(MAX_CELLS / cols).max(1))
}

#[cfg(test)]
mod tests;
