//! The lines of a screen, and those that were scrolled away.

use std::collections::VecDeque;

use crate::cell::{Cell, Row, Width};

/// How many lines that were scrolled away are kept.
pub const SCROLLBACK_LINES: usize = 10_000;
/// How many cells they have together: 32 MiB in memory.
pub const SCROLLBACK_CELLS: usize = 2 << 20;

/// What was scrolled away, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrollback {
    rows: VecDeque<Row>,
    cells: usize,
}

impl Scrollback {
    pub(crate) fn push(&mut self, row: Row) {
        self.cells += row.cells.len();
        self.rows.push_back(row);
        while self.rows.len() > SCROLLBACK_LINES || self.cells > SCROLLBACK_CELLS {
            self.cells -= self.rows.pop_front().map_or(0, |row| row.cells.len());
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The lines of one of the two screens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    rows: VecDeque<Row>,
    pub(crate) cols: usize,
}

impl Grid {
    pub(crate) fn new((cols, rows): (usize, usize)) -> Self {
        Self { rows: std::iter::repeat_n(Row::default(), rows).collect(), cols }
    }

    /// How many lines it has; at least one.
    pub(crate) fn height(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn row(&self, row: usize) -> &Row {
        &self.rows[row]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut Row {
        &mut self.rows[row]
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Blanks lines.
    pub(crate) fn erase_rows(&mut self, from: usize, to: usize, blank: Cell) {
        let cols = self.cols;
        for row in self.rows.range_mut(from..to) {
            *row = blank_row(cols, blank);
        }
    }

    /// Moves the lines `top..bottom` up; blank ones come in below. What leaves at the top goes to
    /// `scrollback`, if it is kept.
    pub(crate) fn scroll_up(
        &mut self,
        (top, bottom): (usize, usize),
        count: usize,
        blank: Cell,
        mut scrollback: Option<&mut Scrollback>,
    ) {
        for _ in 0..count.min(bottom - top) {
            let Some(gone) = self.rows.remove(top) else { return };
            self.rows.insert(bottom - 1, blank_row(self.cols, blank));
            if let Some(scrollback) = &mut scrollback {
                scrollback.push(gone);
            }
        }
    }

    /// Moves the lines `top..bottom` down; blank ones come in above.
    pub(crate) fn scroll_down(&mut self, (top, bottom): (usize, usize), count: usize, blank: Cell) {
        for _ in 0..count.min(bottom - top) {
            self.rows.remove(bottom - 1);
            self.rows.insert(top, blank_row(self.cols, blank));
        }
    }

    /// Cuts and fills it to another size. Answers how many lines went at the top, so that the line
    /// `keep` stays.
    pub(crate) fn cut(&mut self, (cols, height): (usize, usize), keep: usize) -> usize {
        let gone = (keep + 1).saturating_sub(height);
        self.rows.drain(..gone);
        self.rows.resize(height, Row::default());
        self.cols = cols;
        for row in &mut self.rows {
            row.split(cols);
            row.truncate(cols);
            row.wrapped = false;
        }
        gone
    }

    /// Breaks its lines anew to another size, and those that were scrolled away. What has no place goes
    /// at the top, to the scrollback. Answers where the place `cursor` (line, column) is then.
    pub(crate) fn reflow(
        &mut self,
        (cols, height): (usize, usize),
        cursor: (usize, usize),
        scrollback: &mut Scrollback,
    ) -> (usize, usize) {
        let last = self.rows.iter().rposition(|row| row.used() > 0).unwrap_or(0).max(cursor.0);
        let first = (scrollback.rows.len(), 0);
        let cursor = (first.0 + cursor.0, cursor.1);
        let mut rows = std::mem::take(&mut scrollback.rows);
        scrollback.cells = 0;
        rows.extend(self.rows.drain(..=last));
        let mut broken: VecDeque<Row> = VecDeque::new();
        let (mut top, mut place) = ((0, 0), (0, 0));
        let mut line = Row::default();
        let mut length = 0;
        let mut rows = rows.iter().enumerate().peekable();
        while let Some((index, row)) = rows.next() {
            line.extend(length, row);
            for (old, new) in [(first, &mut top), (cursor, &mut place)] {
                if index == old.0 {
                    // A place to keep, also behind the last letter.
                    let at = length + old.1;
                    *new = (broken.len() + at / cols, at % cols);
                }
            }
            if row.wrapped
                && let Some((_, next)) = rows.peek()
            {
                // A wide character that had no room at the end has left a blank there.
                let left_out = next.at(0).width == Width::Wide && row.cells.len() < self.cols;
                length += self.cols - usize::from(left_out);
                continue;
            }
            break_line(&line, cols, &mut broken);
            (line, length) = (Row::default(), 0);
        }
        while broken.len() <= place.0 {
            broken.push_back(Row::default());
        }
        // What was scrolled away does not come back: the screen may have been cleared since.
        let gone = broken.len().saturating_sub(height).max(top.0).min(place.0);
        for row in broken.drain(..gone) {
            scrollback.push(row);
        }
        broken.resize(height, Row::default());
        self.rows = broken;
        self.cols = cols;
        (place.0 - gone, place.1)
    }
}

/// A line as lines of so many columns.
fn break_line(line: &Row, cols: usize, rows: &mut VecDeque<Row>) {
    let used = line.used();
    let mut from = 0;
    loop {
        let mut to = (from + cols).min(used.max(from));
        // A wide character stays whole.
        if to < used && line.at(to).width == Width::Tail && to > from + 1 {
            to -= 1;
        }
        let mut row = line.part(from, to);
        // Where only half of it has room, there is none for it.
        for (col, half) in [(0, Width::Tail), (to - from - usize::from(to > from), Width::Wide)] {
            if row.at(col).width == half {
                row.set(col, Cell::blank(row.at(col).style));
            }
        }
        row.wrapped = to < used;
        rows.push_back(row);
        if to >= used {
            return;
        }
        from = to;
    }
}

fn blank_row(cols: usize, blank: Cell) -> Row {
    let mut row = Row::default();
    row.erase(0, cols, blank);
    row
}
