//! The bytes by which a fresh terminal comes to show what another does.
//!
//! The order matters. Lines come first, from the oldest on, so that they are scrolled away as they were;
//! then the main screen, which fills the terminal; then the other one over it, if that is shown. What
//! moves the cursor (tab stops, scroll region) comes before the cursor, and it before what changes how
//! its place is counted or what a letter does.

use std::io::Write as _;

use crate::cell::{Cell, Row, Width};
use crate::grid::Grid;
use crate::sgr::Style;
use crate::terminal::{Cursor, Sets, Terminal};

pub(crate) fn repaint(terminal: &Terminal) -> Vec<u8> {
    // As it is in a fresh terminal; what is below the cursor is not ours.
    let mut out = b"\x1b[m\x1b(B\x0f\x1b[J".to_vec();
    main_screen(&mut out, terminal);
    flags(&mut out, &terminal.tracking.keyboard[0]);
    if terminal.shown == 1 {
        cursor(&mut out, terminal, terminal.saved[0].unwrap_or_default(), &terminal.grids[0]);
        if terminal.entered_by != 1049 && terminal.saved[0].is_some() {
            out.extend(b"\x1b7");
        }
        write!(out, "\x1b[?{}h\x1b[m", terminal.entered_by).expect(WRITE);
        plain(&mut out);
        count_from_top(&mut out, terminal.saved[0]);
        out.extend(b"\x1b[2J");
        other_screen(&mut out, &terminal.grids[1]);
        flags(&mut out, &terminal.tracking.keyboard[1]);
    }
    modes(&mut out, terminal);
    if terminal.region != (0, terminal.height()) {
        write!(out, "\x1b[{};{}r", terminal.region.0 + 1, terminal.region.1).expect(WRITE);
    }
    if let Some(saved) = terminal.saved[terminal.shown] {
        cursor(&mut out, terminal, saved, terminal.grid());
        out.extend(b"\x1b7");
        plain(&mut out);
        count_from_top(&mut out, Some(saved));
    }
    cursor(&mut out, terminal, terminal.cursor, terminal.grid());
    if terminal.insert {
        out.extend(b"\x1b[4h");
    }
    if terminal.newline {
        out.extend(b"\x1b[20h");
    }
    if !terminal.wrap {
        out.extend(b"\x1b[?7l");
    }
    if terminal.hidden {
        out.extend(b"\x1b[?25l");
    }
    out
}

const WRITE: &str = "memory takes every write";

fn main_screen(out: &mut Vec<u8>, terminal: &Terminal) {
    let grid = &terminal.grids[0];
    let mut rows = terminal.scrollback.rows().chain(grid.rows()).peekable();
    while let Some(row) = rows.next() {
        // A line that was begun for lack of room is begun so again: it is one when it is copied. Not with
        // a background, which would fill the line that scrolls in.
        let goes_on = rows.peek().is_some_and(|next| {
            row.wrapped
                && next.used() > 0
                && next.at(0).style == next.at(0).style.without_background()
        });
        let until = if goes_on { grid.cols } else { row.used() };
        line(out, row, until);
        if !goes_on && rows.peek().is_some() {
            out.extend(b"\r\n");
        }
    }
}

fn other_screen(out: &mut Vec<u8>, grid: &Grid) {
    for (index, row) in grid.rows().enumerate() {
        if row.used() > 0 {
            write!(out, "\x1b[{}H", index + 1).expect(WRITE);
            line(out, row, row.used());
        }
    }
}

/// A line's letters. The style is plain before and after.
fn line(out: &mut Vec<u8>, row: &Row, until: usize) {
    let mut style = Style::PLAIN;
    for col in 0..until {
        let at = row.at(col);
        if at.width == Width::Tail {
            continue;
        }
        if at.style != style {
            style = at.style;
            style.write(out);
        }
        letter(out, row, col, at);
    }
    if style != Style::PLAIN {
        out.extend(b"\x1b[m");
    }
}

fn letter(out: &mut Vec<u8>, row: &Row, col: usize, cell: Cell) {
    let mut utf8 = [0; 4];
    for part in std::iter::once(cell.letter).chain(row.marks(col)) {
        out.extend(part.encode_utf8(&mut utf8).as_bytes());
    }
}

fn modes(out: &mut Vec<u8>, terminal: &Terminal) {
    let tracking = &terminal.tracking;
    let cols = terminal.cols();
    if !terminal.tabs.iter().copied().eq((8..cols).step_by(8)) {
        out.extend(b"\x1b[3g");
        for tab in &terminal.tabs {
            write!(out, "\x1b[{}G\x1bH", tab + 1).expect(WRITE);
        }
    }
    if terminal.reversed {
        out.extend(b"\x1b[?5h");
    }
    for (mode, on) in &tracking.modes {
        write!(out, "\x1b[?{mode}{}", if *on { 'h' } else { 'l' }).expect(WRITE);
    }
    if tracking.keypad {
        out.extend(b"\x1b=");
    }
    if let Some(form) = tracking.cursor {
        write!(out, "\x1b[{form} q").expect(WRITE);
    }
    if let Some(keys) = tracking.modified_keys {
        write!(out, "\x1b[>4;{keys}m").expect(WRITE);
    }
    if let Some(title) = &tracking.title {
        write!(out, "\x1b]2;{title}\x1b\\").expect(WRITE);
    }
}

fn flags(out: &mut Vec<u8>, keyboard: &[u16]) {
    for flags in keyboard {
        write!(out, "\x1b[>{flags}u").expect(WRITE);
    }
}

/// Brings the cursor to a place, with all that DECSC keeps. The style is plain before.
fn cursor(out: &mut Vec<u8>, terminal: &Terminal, cursor: Cursor, grid: &Grid) {
    let Cursor { row, col, wraps, style, sets, origin } = cursor;
    let row = row.min(grid.height() - 1);
    let mut shown = row;
    if origin {
        out.extend(b"\x1b[?6h");
        shown = row.saturating_sub(terminal.region.0);
    }
    write!(out, "\x1b[{};{}H", shown + 1, col + 1).expect(WRITE);
    if wraps {
        // Only what is written in the last column leaves the cursor behind it.
        let line = grid.row(row);
        let mut last = line.at(col);
        let mut at = col;
        if last.width == Width::Tail && col > 0 {
            at = col - 1;
            last = line.at(at);
            write!(out, "\x1b[{};{}H", shown + 1, at + 1).expect(WRITE);
        }
        last.style.write(out);
        letter(out, line, at, last);
        out.extend(b"\x1b[m");
    }
    character_sets(out, sets);
    if style != Style::PLAIN {
        style.write(out);
    }
}

/// Lines are counted from the first again, if this has changed that.
fn count_from_top(out: &mut Vec<u8>, cursor: Option<Cursor>) {
    if cursor.is_some_and(|cursor| cursor.origin) {
        out.extend(b"\x1b[?6l");
    }
}

fn character_sets(out: &mut Vec<u8>, sets: Sets) {
    for (name, lines) in b"()*+".iter().zip(sets.lines) {
        if lines {
            out.extend([0x1b, *name, b'0']);
        }
    }
    match sets.in_use {
        1 => out.push(0x0e),
        2 => out.extend(b"\x1bn"),
        3 => out.extend(b"\x1bo"),
        _ => {}
    }
}

/// The style and the character sets of a fresh terminal.
fn plain(out: &mut Vec<u8>) {
    out.extend(b"\x1b[m\x1b(B\x1b)B\x1b*B\x1b+B\x0f");
}
