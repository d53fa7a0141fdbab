//! The terminal that sequences act on.

use std::collections::BTreeSet;

use crate::cell::{Cell, Width};
use crate::grid::{Grid, Scrollback};
use crate::parser::Csi;
use crate::sgr::Style;
use crate::tracking::Tracking;

/// Where the next letter goes, and how it will look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) row: usize,
    pub(crate) col: usize,
    /// The last column was written: the next letter begins another line.
    pub(crate) wraps: bool,
    pub(crate) style: Style,
    pub(crate) sets: Sets,
    /// Lines are counted from the scroll region's first (DECOM).
    pub(crate) origin: bool,
}

/// The character sets G0 to G3 and the one in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sets {
    /// Whether each is the one of lines and corners.
    pub(crate) lines: [bool; 4],
    pub(crate) in_use: usize,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "modes of a terminal, each on or off")]
pub(crate) struct Terminal {
    /// The main screen and the other one.
    pub(crate) grids: [Grid; 2],
    pub(crate) scrollback: Scrollback,
    /// Which is shown.
    pub(crate) shown: usize,
    /// By which mode the other one was entered.
    pub(crate) entered_by: u16,
    pub(crate) cursor: Cursor,
    /// What DECSC has kept, for each screen.
    pub(crate) saved: [Option<Cursor>; 2],
    /// The lines that scroll: first, and the one behind the last.
    pub(crate) region: (usize, usize),
    pub(crate) tabs: BTreeSet<usize>,
    pub(crate) insert: bool,
    pub(crate) wrap: bool,
    pub(crate) newline: bool,
    pub(crate) hidden: bool,
    pub(crate) reversed: bool,
    pub(crate) tracking: Tracking,
    /// The letter that came right before.
    pub(crate) last: Option<char>,
}

impl Terminal {
    pub(crate) fn new(size: (usize, usize)) -> Self {
        Self {
            grids: [Grid::new(size), Grid::new(size)],
            scrollback: Scrollback::default(),
            shown: 0,
            entered_by: 1049,
            cursor: Cursor::default(),
            saved: [None, None],
            region: (0, size.1),
            tabs: tabs(0, size.0),
            insert: false,
            wrap: true,
            newline: false,
            hidden: false,
            reversed: false,
            tracking: Tracking::default(),
            last: None,
        }
    }

    pub(crate) fn cols(&self) -> usize {
        self.grids[0].cols
    }

    pub(crate) fn height(&self) -> usize {
        self.grids[0].height()
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.grids[self.shown]
    }

    pub(crate) fn grid_mut(&mut self) -> &mut Grid {
        &mut self.grids[self.shown]
    }

    pub(crate) fn text(&self) -> Vec<String> {
        self.grid().rows().map(crate::cell::Row::text).collect()
    }

    pub(crate) fn resize(&mut self, size: (usize, usize)) {
        let before = (self.cols(), self.height());
        if size == before {
            return;
        }
        self.tabs.retain(|tab| *tab < size.0);
        self.tabs.extend(tabs(before.0, size.0));
        self.region = (0, size.1);
        let on_main = match (self.shown, self.saved[0]) {
            (0, _) => self.cursor,
            (_, saved) => saved.unwrap_or_default(),
        };
        let place = (on_main.row.min(before.1 - 1), on_main.col);
        let (row, col) = self.grids[0].reflow(size, place, &mut self.scrollback);
        let other = self.cursor.row;
        let gone = self.grids[1].cut(size, if self.shown == 1 { other } else { 0 });
        let moved = |cursor: &mut Cursor, row: usize, col: usize| {
            cursor.row = row.min(size.1 - 1);
            cursor.col = col.min(size.0 - 1);
            cursor.wraps = false;
        };
        if let Some(saved) = &mut self.saved[0] {
            let (row, col) = if self.shown == 1 { (row, col) } else { (saved.row, saved.col) };
            moved(saved, row, col);
        }
        if let Some(saved) = &mut self.saved[1] {
            let (row, col) = (saved.row, saved.col);
            moved(saved, row, col);
        }
        match self.shown {
            0 => moved(&mut self.cursor, row, col),
            _ => {
                let col = self.cursor.col;
                moved(&mut self.cursor, other - gone, col);
            }
        }
    }

    pub(crate) fn blank(&self) -> Cell {
        Cell::blank(self.cursor.style)
    }

    pub(crate) fn goto_col(&mut self, col: usize) {
        self.cursor.col = col.min(self.cols() - 1);
        self.cursor.wraps = false;
    }

    /// Goes to a line as a program counts it.
    pub(crate) fn goto_row(&mut self, row: usize) {
        let (top, bottom) = match self.cursor.origin {
            true => self.region,
            false => (0, self.height()),
        };
        self.cursor.row = (top + row).min(bottom - 1);
        self.cursor.wraps = false;
    }

    pub(crate) fn up(&mut self, count: usize) {
        let top = if self.cursor.row >= self.region.0 { self.region.0 } else { 0 };
        self.cursor.row = self.cursor.row.saturating_sub(count).max(top);
        self.cursor.wraps = false;
    }

    pub(crate) fn down(&mut self, count: usize) {
        let inside = self.cursor.row < self.region.1;
        let bottom = if inside { self.region.1 } else { self.height() };
        self.cursor.row = (self.cursor.row + count).min(bottom - 1);
        self.cursor.wraps = false;
    }

    pub(crate) fn scroll_up(&mut self, region: (usize, usize), count: usize) {
        let blank = self.blank();
        let kept = (self.shown == 0 && region.0 == 0).then_some(&mut self.scrollback);
        self.grids[self.shown].scroll_up(region, count, blank, kept);
    }

    pub(crate) fn line_feed(&mut self) {
        if self.cursor.row + 1 == self.region.1 {
            self.scroll_up(self.region, 1);
        } else if self.cursor.row + 1 < self.height() {
            self.cursor.row += 1;
        }
        self.cursor.wraps = false;
    }

    pub(crate) fn reverse_line_feed(&mut self) {
        if self.cursor.row == self.region.0 {
            let (region, blank) = (self.region, self.blank());
            self.grid_mut().scroll_down(region, 1, blank);
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
        self.cursor.wraps = false;
    }

    pub(crate) fn wrap_now(&mut self) {
        let row = self.cursor.row;
        self.grid_mut().row_mut(row).wrapped = true;
        self.line_feed();
        self.cursor.col = 0;
    }

    pub(crate) fn put(&mut self, letter: char, width: usize) {
        let cols = self.cols();
        if width > cols {
            return;
        }
        if self.cursor.wraps && self.wrap {
            self.wrap_now();
        }
        if self.cursor.col + width > cols {
            match self.wrap {
                true => self.wrap_now(),
                false => self.cursor.col = cols - width,
            }
        }
        let Cursor { row, col, style, .. } = self.cursor;
        let (insert, blank) = (self.insert, self.blank());
        let line = self.grid_mut().row_mut(row);
        if insert {
            line.insert(col, width, blank, cols);
        }
        if width == 2 {
            line.split(col);
            line.split(col + 2);
            line.set(col, Cell { letter, style, width: Width::Wide });
            line.set(col + 1, Cell { letter: ' ', style, width: Width::Tail });
        } else {
            line.put(col, Cell { letter, style, width: Width::Narrow });
        }
        if col + width == cols {
            line.wrapped = false;
            self.cursor.col = cols - 1;
            self.cursor.wraps = true;
        } else {
            self.cursor.col = col + width;
        }
        self.last = Some(letter);
    }

    pub(crate) fn mark(&mut self, mark: char) {
        let Cursor { row, col, wraps, .. } = self.cursor;
        let at = if wraps { Some(col) } else { col.checked_sub(1) };
        let Some(mut at) = at else { return };
        let line = self.grid_mut().row_mut(row);
        if line.at(at).width == Width::Tail {
            at -= 1;
        }
        // Over nothing there is nothing to stand.
        if line.at(at) != Cell::BLANK {
            line.mark(at, mark);
        }
    }

    pub(crate) fn tab(&mut self, count: usize) {
        for _ in 0..count.min(self.cols()) {
            let next = self.tabs.range(self.cursor.col + 1..).next().copied();
            self.cursor.col = next.unwrap_or(self.cols() - 1);
        }
    }

    pub(crate) fn back_tab(&mut self, count: usize) {
        for _ in 0..count.min(self.cols()) {
            let before = self.tabs.range(..self.cursor.col).next_back().copied();
            self.cursor.col = before.unwrap_or(0);
        }
        self.cursor.wraps = false;
    }

    pub(crate) fn erase_display(&mut self, how: usize) {
        let (row, blank, height) = (self.cursor.row, self.blank(), self.height());
        match how {
            0 => {
                self.erase_line(0);
                self.grid_mut().erase_rows(row + 1, height, blank);
            }
            1 => {
                self.erase_line(1);
                self.grid_mut().erase_rows(0, row, blank);
            }
            2 => self.grid_mut().erase_rows(0, height, blank),
            3 => self.scrollback.clear(),
            _ => {}
        }
    }

    pub(crate) fn erase_line(&mut self, how: usize) {
        let Cursor { row, col, wraps, .. } = self.cursor;
        let (cols, blank) = (self.cols(), self.blank());
        let (from, to) = match how {
            // Behind the last column there is nothing: programs end full lines so (top), and most terminals
            // keep the last letter.
            0 => (col + usize::from(wraps), cols),
            1 => (0, col + 1),
            2 => (0, cols),
            _ => return,
        };
        let line = self.grid_mut().row_mut(row);
        line.erase(from, to, blank);
        line.wrapped &= to < cols;
    }

    pub(crate) fn insert_lines(&mut self, count: usize, delete: bool) {
        let (row, blank) = (self.cursor.row, self.blank());
        let (top, bottom) = self.region;
        if !(top..bottom).contains(&row) {
            return;
        }
        match delete {
            // What is deleted was not scrolled away.
            true => self.grid_mut().scroll_up((row, bottom), count, blank, None),
            false => self.grid_mut().scroll_down((row, bottom), count, blank),
        }
        self.goto_col(0);
    }

    pub(crate) fn save(&mut self) {
        self.saved[self.shown] = Some(self.cursor);
    }

    pub(crate) fn restore(&mut self) {
        self.cursor = self.saved[self.shown].unwrap_or_default();
    }

    /// By mode 1049 the cursor is kept before and given back after, even where the screen stays. What the
    /// other screen has shown is gone once it is left, whichever way: who comes back to it draws anew.
    pub(crate) fn show(&mut self, other: bool, by: u16) {
        let changes = (self.shown == 1) != other;
        if other && by == 1049 {
            self.save();
        }
        if !other && changes {
            self.clear_other();
        }
        if changes {
            self.shown = usize::from(other);
        }
        if other && changes {
            self.entered_by = by;
        }
        if other && by == 1049 {
            self.clear_other();
        }
        if !other && by == 1049 {
            self.restore();
        }
    }

    pub(crate) fn clear_other(&mut self) {
        let (height, blank) = (self.height(), self.blank());
        self.grids[1].erase_rows(0, height, blank);
    }

    pub(crate) fn private_mode(&mut self, mode: u16, on: bool) {
        match mode {
            5 => self.reversed = on,
            6 => {
                self.cursor.origin = on;
                self.goto_row(0);
                self.goto_col(0);
            }
            7 => self.wrap = on,
            25 => self.hidden = !on,
            47 | 1047 | 1049 => self.show(on, mode),
            1048 if on => self.save(),
            1048 => self.restore(),
            // The number of columns is the terminal's own affair.
            3 | 40 => {}
            _ => self.tracking.mode(mode, on),
        }
    }

    /// DECSTR.
    pub(crate) fn soft_reset(&mut self) {
        let Cursor { row, col, .. } = self.cursor;
        self.cursor = Cursor { row, col, ..Cursor::default() };
        self.saved = [None, None];
        self.region = (0, self.height());
        (self.insert, self.wrap, self.hidden) = (false, true, false);
        self.tracking.keypad = false;
        self.tracking.mode(1, false);
    }

    /// RIS. What was scrolled away stays.
    pub(crate) fn reset(&mut self) {
        let scrollback = std::mem::take(&mut self.scrollback);
        let title = self.tracking.title.take();
        *self = Self::new((self.cols(), self.height()));
        self.scrollback = scrollback;
        self.tracking.title = title;
    }

    /// What was shown is scrolled away, and all modes are those of a fresh terminal.
    pub(crate) fn begin_anew(&mut self) {
        let height = self.height();
        let used = self.grids[0].rows().enumerate().filter(|(_, row)| row.used() > 0);
        let used = used.map(|(index, _)| index + 1).last().unwrap_or(0);
        self.shown = 0;
        self.cursor.style = Style::PLAIN;
        self.scroll_up((0, height), used);
        self.tracking.title = None;
        self.reset();
    }

    /// DECALN: a screen full of E.
    pub(crate) fn align(&mut self) {
        let (cols, height) = (self.cols(), self.height());
        self.region = (0, height);
        for row in 0..height {
            for col in 0..cols {
                self.grid_mut().row_mut(row).set(col, Cell { letter: 'E', ..Cell::BLANK });
            }
        }
        self.goto_row(0);
        self.goto_col(0);
    }

    pub(crate) fn scroll_region(&mut self, csi: &Csi) {
        let height = self.height();
        let bottom = csi.get(1, u16::MAX).min(height);
        let top = csi.get(0, 1) - 1;
        if top + 1 < bottom {
            self.region = (top, bottom);
            self.goto_row(0);
            self.goto_col(0);
        }
    }
}

/// Tab stops: every eight columns.
fn tabs(from: usize, to: usize) -> BTreeSet<usize> {
    (from.next_multiple_of(8)..to).step_by(8).filter(|col| *col > 0).collect()
}
