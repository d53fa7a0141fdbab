//! Columns that line up.

/// Rows of cells. All of their text is in one place: a listing may have ten thousand rows.
#[derive(Debug, Default)]
pub struct Table {
    text: String,
    cells: Vec<Cell>,
    /// Of each row, where it ends among the cells.
    rows: Vec<usize>,
}

#[derive(Debug)]
struct Cell {
    /// Where it ends in the text.
    end: usize,
    /// In characters.
    width: usize,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        let mut table = Self::plain();
        table.row(headings);
        table
    }

    /// A table without headings.
    #[must_use]
    pub fn plain() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        for cell in cells {
            let cell = cell.as_ref();
            self.text.push_str(cell);
            self.cells.push(Cell { end: self.text.len(), width: cell.chars().count() });
        }
        self.rows.push(self.cells.len());
    }

    /// The table as text, each row a line.
    #[must_use]
    pub fn render(&self) -> String {
        let mut widths = Vec::new();
        for row in self.cells_by_row() {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width.max(*width);
            }
        }
        let line: usize = widths.iter().map(|width| width + 2).sum();
        let mut text = String::with_capacity(self.rows.len() * line);
        let mut start = 0;
        for row in self.cells_by_row() {
            for (cell, width) in row.iter().zip(&widths) {
                text.push_str(&self.text[start..cell.end]);
                text.extend(std::iter::repeat_n(' ', width - cell.width + 2));
                start = cell.end;
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }

    fn cells_by_row(&self) -> impl Iterator<Item = &[Cell]> {
        let starts = std::iter::once(0).chain(self.rows.iter().copied());
        starts.zip(&self.rows).map(|(start, end)| &self.cells[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_end_of_spaces() {
        let mut table = Table::new(&["NAME", "STATE"]);
        table.row(["a".to_owned(), "running".to_owned()]);
        table.row(["longer-name".to_owned(), String::new()]);
        table.row(["über", "ended", "more than there are headings"]);
        assert_eq!(
            table.render(),
            "NAME         STATE\na            running\nlonger-name\n\
             über         ended    more than there are headings\n"
        );
    }

    #[test]
    fn a_table_without_rows_is_nothing_and_a_row_without_cells_is_a_line() {
        assert_eq!(Table::plain().render(), "");
        let mut table = Table::plain();
        table.row::<&str>([]);
        assert_eq!(table.render(), "\n");
    }
}
