//! What each sequence does.

use unicode_width::UnicodeWidthChar as _;

use crate::parser::{Act, Csi};
use crate::terminal::{Cursor, Terminal};

impl Act for Terminal {
    fn print(&mut self, letter: char) {
        match letter.width() {
            Some(0) => self.mark(letter),
            Some(width) => self.put(letter, width),
            None => {}
        }
    }

    fn print_ascii(&mut self, letters: &[u8]) {
        let lines = self.cursor.sets.lines[self.cursor.sets.in_use];
        for letter in letters {
            let letter = match lines {
                true => line_drawing(*letter),
                false => char::from(*letter),
            };
            self.put(letter, 1);
        }
    }

    fn control(&mut self, code: u8) {
        self.last = None;
        match code {
            0x08 => self.goto_col(self.cursor.col.saturating_sub(1)),
            b'\t' => self.tab(1),
            b'\n' | 0x0b | 0x0c => {
                let wraps = self.cursor.wraps;
                self.line_feed();
                self.cursor.wraps = wraps && !self.newline;
                if self.newline {
                    self.cursor.col = 0;
                }
            }
            b'\r' => self.goto_col(0),
            0x0e => self.cursor.sets.in_use = 1,
            0x0f => self.cursor.sets.in_use = 0,
            _ => {}
        }
    }

    fn escape(&mut self, intermediate: u8, last: u8) {
        self.last = None;
        match (intermediate, last) {
            (0, b'7') => self.save(),
            (0, b'8') => self.restore(),
            (0, b'D') => self.line_feed(),
            (0, b'E') => {
                self.line_feed();
                self.cursor.col = 0;
            }
            (0, b'H') => {
                self.tabs.insert(self.cursor.col);
            }
            (0, b'M') => self.reverse_line_feed(),
            (0, b'c') => self.reset(),
            (0, b'=') => self.tracking.keypad = true,
            (0, b'>') => self.tracking.keypad = false,
            (0, b'n') => self.cursor.sets.in_use = 2,
            (0, b'o') => self.cursor.sets.in_use = 3,
            (b'#', b'8') => self.align(),
            (b'('..=b'+', set) => {
                self.cursor.sets.lines[usize::from(intermediate - b'(')] = set == b'0';
            }
            _ => {}
        }
    }

    fn csi(&mut self, csi: &Csi, last: u8) {
        if last != b'b' {
            self.last = None;
        }
        if csi.prefix != 0 {
            if csi.intermediate == 0 {
                self.private(csi, last);
            }
            return;
        }
        match (csi.intermediate, last) {
            (b' ', b'q') => {
                self.tracking.cursor = Some(csi.numbers().first().copied().unwrap_or(0));
            }
            (b'!', b'p') => self.soft_reset(),
            (0, _) => self.plain(csi, last),
            _ => {}
        }
    }

    fn osc(&mut self, text: &[u8]) {
        if let Some(title) = text.strip_prefix(b"0;").or_else(|| text.strip_prefix(b"2;")) {
            self.tracking.title(title);
        }
    }
}

impl Terminal {
    fn private(&mut self, csi: &Csi, last: u8) {
        match (csi.prefix, last) {
            (b'?', b'h' | b'l') => {
                for mode in csi.numbers() {
                    self.private_mode(*mode, last == b'h');
                }
            }
            // Nothing is protected: a selective erase is an erase.
            (b'?', b'J') => self.erase_display(csi.get(0, 0)),
            (b'?', b'K') => self.erase_line(csi.get(0, 0)),
            (b'>', b'm') if csi.get(0, 0) == 4 => {
                self.tracking.modified_keys = csi.numbers().get(1).copied().filter(|it| *it > 0);
            }
            (b'>', b'm') if csi.len() == 0 => self.tracking.modified_keys = None,
            (b'>', b'u') => {
                let flags = csi.numbers().first().copied().unwrap_or(0);
                self.tracking.push_keyboard(self.shown, flags);
            }
            (b'<', b'u') => self.tracking.pop_keyboard(self.shown, csi.get(0, 1)),
            (b'=', b'u') => {
                let flags = csi.numbers().first().copied().unwrap_or(0);
                self.tracking.set_keyboard(self.shown, flags, csi.get(1, 1));
            }
            _ => {}
        }
    }

    fn edit(&mut self, csi: &Csi, last: u8) {
        let Cursor { row, col, .. } = self.cursor;
        let (cols, blank, count) = (self.cols(), self.blank(), csi.get(0, 1));
        match last {
            b'@' => self.grid_mut().row_mut(row).insert(col, count, blank, cols),
            b'P' => self.grid_mut().row_mut(row).delete(col, count, blank, cols),
            b'X' => self.grid_mut().row_mut(row).erase(col, (col + count).min(cols), blank),
            b'J' => self.erase_display(csi.get(0, 0)),
            b'K' => self.erase_line(csi.get(0, 0)),
            b'L' => self.insert_lines(count, false),
            b'M' => self.insert_lines(count, true),
            b'S' => self.scroll_up(self.region, count),
            b'T' if csi.len() <= 1 => {
                let region = self.region;
                self.grid_mut().scroll_down(region, count, blank);
            }
            b'b' => {
                let Some(letter) = self.last else { return };
                // More than a screen full shows nothing more.
                for _ in 0..count.min(cols * self.height()) {
                    self.put(letter, letter.width().unwrap_or(1));
                }
            }
            _ => {}
        }
        if matches!(last, b'@' | b'P' | b'X' | b'J' | b'K') {
            self.cursor.wraps = false;
        }
    }

    fn plain(&mut self, csi: &Csi, last: u8) {
        let count = csi.get(0, 1);
        match last {
            b'A' => self.up(count),
            b'B' | b'e' => self.down(count),
            b'C' | b'a' => self.goto_col(self.cursor.col + count),
            b'D' => self.goto_col(self.cursor.col.saturating_sub(count)),
            b'E' => {
                self.down(count);
                self.goto_col(0);
            }
            b'F' => {
                self.up(count);
                self.goto_col(0);
            }
            b'G' | b'`' => self.goto_col(count - 1),
            b'H' | b'f' => {
                self.goto_row(count - 1);
                self.goto_col(csi.get(1, 1) - 1);
            }
            b'd' => self.goto_row(count - 1),
            b'I' => self.tab(count),
            b'Z' => self.back_tab(count),
            b'g' if csi.get(0, 0) == 0 => {
                self.tabs.remove(&self.cursor.col);
            }
            b'g' if csi.get(0, 0) == 3 => self.tabs.clear(),
            b'h' | b'l' => {
                for mode in csi.numbers() {
                    match mode {
                        4 => self.insert = last == b'h',
                        20 => self.newline = last == b'h',
                        _ => {}
                    }
                }
            }
            b'm' => self.cursor.style.set(csi.params()),
            b'r' => self.scroll_region(csi),
            b's' if csi.len() == 0 => self.save(),
            b'u' => self.restore(),
            _ => self.edit(csi, last),
        }
    }
}

/// The letters of the set of lines and corners (DEC Special Graphics).
fn line_drawing(letter: u8) -> char {
    const GRAPHICS: [char; 32] = [
        ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻',
        '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
    ];
    match letter {
        0x5f..=0x7e => GRAPHICS[usize::from(letter - 0x5f)],
        _ => char::from(letter),
    }
}
