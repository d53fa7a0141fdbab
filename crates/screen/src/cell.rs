//! One place of a screen, and a line of them.

use crate::sgr::Style;

/// What stands in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) letter: char,
    pub(crate) style: Style,
    pub(crate) width: Width,
}

/// Which part of a character stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// All of it.
    Narrow,
    /// The left half of a wide one.
    Wide,
    /// Its right half.
    Tail,
}

impl Cell {
    pub(crate) const BLANK: Self = Self::blank(Style::PLAIN);

    /// Nothing, on the background of this style.
    pub(crate) const fn blank(style: Style) -> Self {
        Self { letter: ' ', style: style.background(), width: Width::Narrow }
    }
}

/// How many marks are kept over one letter: more than any script needs.
const MARKS: usize = 4;

/// A line. Places behind the last of its cells are blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// Marks that stand over letters (U+0301 and the like), by column, in the order they came.
    marks: Vec<(usize, char)>,
    /// Whether it goes on in the next line, which was begun for lack of room only.
    pub(crate) wrapped: bool,
}

impl Row {
    /// What stands at a column.
    pub(crate) fn at(&self, col: usize) -> Cell {
        self.cells.get(col).copied().unwrap_or(Cell::BLANK)
    }

    /// The marks over the letter at a column.
    pub(crate) fn marks(&self, col: usize) -> impl Iterator<Item = char> {
        self.marks.iter().filter(move |(at, _)| *at == col).map(|(_, mark)| *mark)
    }

    /// Puts a cell. Half of a wide character that is overwritten goes as a whole.
    pub(crate) fn put(&mut self, col: usize, cell: Cell) {
        self.split(col);
        self.split(col + 1);
        self.set(col, cell);
    }

    /// Puts a cell where no half of a wide character stays behind.
    pub(crate) fn set(&mut self, col: usize, cell: Cell) {
        if col >= self.cells.len() {
            if cell == Cell::BLANK {
                return;
            }
            self.cells.resize(col, Cell::BLANK);
            self.cells.push(cell);
        } else {
            self.cells[col] = cell;
            if !self.marks.is_empty() {
                self.marks.retain(|(at, _)| *at != col);
            }
        }
    }

    /// Puts a mark over the letter at a column.
    pub(crate) fn mark(&mut self, col: usize, mark: char) {
        if self.marks(col).count() < MARKS {
            self.marks.push((col, mark));
        }
    }

    /// Blanks a wide character that lies across the left edge of a column.
    pub(crate) fn split(&mut self, col: usize) {
        if self.at(col).width == Width::Tail {
            let style = self.at(col).style;
            for half in [col.saturating_sub(1), col] {
                self.set(half, Cell::blank(style));
            }
        }
    }

    /// Blanks a range of columns.
    pub(crate) fn erase(&mut self, from: usize, to: usize, blank: Cell) {
        if from >= to {
            return;
        }
        self.split(from);
        self.split(to);
        if blank == Cell::BLANK && to >= self.cells.len() {
            self.truncate(from);
            return;
        }
        for col in from..to {
            self.set(col, blank);
        }
    }

    /// Inserts blanks; what is moved past the end is lost.
    pub(crate) fn insert(&mut self, col: usize, count: usize, blank: Cell, cols: usize) {
        self.split(col);
        if col < self.cells.len() || blank != Cell::BLANK {
            self.cells.resize(self.cells.len().max(col), Cell::BLANK);
            let count = count.min(cols - col);
            self.cells.splice(col..col, std::iter::repeat_n(blank, count));
            for (at, _) in &mut self.marks {
                *at += if *at >= col { count } else { 0 };
            }
            // A wide one may have lost its right half.
            if self.cells.len() > cols && self.at(cols).width == Width::Tail {
                self.split(cols);
            }
            self.truncate(cols);
        }
    }

    /// Takes out columns; blanks come in at the end.
    pub(crate) fn delete(&mut self, col: usize, count: usize, blank: Cell, cols: usize) {
        self.split(col);
        self.split(col + count);
        let until = (col + count).min(self.cells.len());
        if col < until {
            self.cells.drain(col..until);
            self.marks.retain(|(at, _)| !(col..until).contains(at));
            for (at, _) in &mut self.marks {
                *at -= if *at >= until { until - col } else { 0 };
            }
        }
        for at in (cols - count.min(cols))..cols {
            if at >= col {
                self.set(at, blank);
            }
        }
    }

    /// Leaves out everything from a column on.
    pub(crate) fn truncate(&mut self, cols: usize) {
        self.cells.truncate(cols);
        self.marks.retain(|(at, _)| *at < cols);
    }

    /// How many of its cells are not blank ones at its end.
    pub(crate) fn used(&self) -> usize {
        self.cells.iter().rposition(|cell| *cell != Cell::BLANK).map_or(0, |last| last + 1)
    }

    /// Appends another line's cells, from column `at` on.
    pub(crate) fn extend(&mut self, at: usize, other: &Self) {
        self.cells.resize(at, Cell::BLANK);
        self.cells.extend(&other.cells);
        self.marks.extend(other.marks.iter().map(|(col, mark)| (col + at, *mark)));
    }

    /// A part of it as a line.
    pub(crate) fn part(&self, from: usize, to: usize) -> Self {
        let to = to.min(self.cells.len());
        let within = |(col, mark): &(usize, char)| {
            (from..to).contains(col).then(|| (col.saturating_sub(from), *mark))
        };
        Self {
            cells: self.cells.get(from..to).unwrap_or_default().to_vec(),
            marks: self.marks.iter().filter_map(within).collect(),
            wrapped: false,
        }
    }

    /// Its text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (col, cell) in self.cells.iter().enumerate() {
            if cell.width != Width::Tail {
                text.push(cell.letter);
                text.extend(self.marks(col));
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text
    }
}
