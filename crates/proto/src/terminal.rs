//! Terminals: what a client says of its own.

use serde::{Deserialize, Serialize};

/// How large a terminal is, in characters. Zero is no size: a terminal that has none says so
/// (`ioctl_tty(2)`), and programs fare badly with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TerminalSize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

impl TerminalSize {
    /// What a terminal without a size is taken for: that of the VT100, as everywhere.
    pub const DEFAULT: Self = Self { cols: 80, rows: 24 };

    /// This size, or the default for each side that is zero.
    #[must_use]
    pub const fn or_default(self) -> Self {
        let cols = if self.cols == 0 { Self::DEFAULT.cols } else { self.cols };
        let rows = if self.rows == 0 { Self::DEFAULT.rows } else { self.rows };
        Self { cols, rows }
    }
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_side_is_zero() {
        let size = TerminalSize { cols: 0, rows: 7 }.or_default();
        assert_eq!(size, TerminalSize { cols: 80, rows: 7 });
        let one = TerminalSize { cols: 1, rows: 1 };
        assert_eq!(one.or_default(), one);
    }
}
