//! How letters look: SGR.

use std::io::Write as _;

/// A colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Color {
    #[default]
    Default,
    Indexed(u8),
    Rgb(u8, u8, u8),
}

/// How a letter looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    foreground: Color,
    background: Color,
    /// Bits of `SIMPLE`, and in `UNDERLINE` the kind of line.
    bits: u16,
}

/// What is on or off: bit, and the numbers that turn it on and off.
const SIMPLE: [(u16, u16, u16); 8] = [
    (1, 1, 22),
    (2, 2, 22),
    (4, 3, 23),
    (8, 5, 25),
    (16, 7, 27),
    (32, 8, 28),
    (64, 9, 29),
    (128, 53, 55),
];

/// Where the kind of underline is: none, single, double, curly, dotted, dashed.
const UNDERLINE: u16 = 8;

impl Style {
    pub(crate) const PLAIN: Self =
        Self { foreground: Color::Default, background: Color::Default, bits: 0 };

    /// The style of what is erased.
    pub(crate) const fn background(self) -> Self {
        Self { background: self.background, ..Self::PLAIN }
    }

    /// The same letters on no background.
    pub(crate) const fn without_background(self) -> Self {
        Self { background: Color::Default, ..self }
    }

    /// Takes the parameters of an SGR: each with the ones that hang on it by colons.
    pub(crate) fn set<'a>(&mut self, params: impl Iterator<Item = &'a [u16]>) {
        let mut params = params.peekable();
        if params.peek().is_none() {
            *self = Self::PLAIN;
        }
        while let Some(param) = params.next() {
            let first = param.first().copied().unwrap_or(0);
            match first {
                0 => *self = Self::PLAIN,
                4 => self.underline(param.get(1).copied().unwrap_or(1)),
                21 => self.underline(2),
                24 => self.underline(0),
                38 | 48 | 58 => {
                    let color = match param.get(1..) {
                        Some(attached @ [_, ..]) => Color::attached(attached),
                        _ => Color::following(&mut params),
                    };
                    match (first, color) {
                        (38, Some(color)) => self.foreground = color,
                        (48, Some(color)) => self.background = color,
                        // The colour of underlines is not kept.
                        _ => {}
                    }
                }
                39 => self.foreground = Color::Default,
                49 => self.background = Color::Default,
                30..=37 => self.foreground = Color::Indexed(small(first - 30)),
                40..=47 => self.background = Color::Indexed(small(first - 40)),
                90..=97 => self.foreground = Color::Indexed(small(first - 82)),
                100..=107 => self.background = Color::Indexed(small(first - 92)),
                6 => self.bits |= 8,
                _ => {
                    for (bit, on, off) in SIMPLE {
                        self.bits |= if first == on { bit } else { 0 };
                        self.bits &= if first == off { !bit } else { !0 };
                    }
                }
            }
        }
    }

    fn underline(&mut self, kind: u16) {
        self.bits = self.bits & ((1 << UNDERLINE) - 1) | kind.min(5) << UNDERLINE;
    }

    /// The sequence that sets it, whatever was set before.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend(b"\x1b[0");
        for (bit, on, _) in SIMPLE {
            if self.bits & bit != 0 {
                number(out, b';', on);
            }
        }
        match self.bits >> UNDERLINE {
            0 => {}
            1 => out.extend(b";4"),
            // Understood where the kinds with colons are not.
            2 => out.extend(b";21"),
            kind => {
                out.extend(b";4");
                number(out, b':', kind);
            }
        }
        self.foreground.write(out, 30);
        self.background.write(out, 40);
        out.push(b'm');
    }
}

impl Color {
    /// After a colon: `5:n`, `2:r:g:b`, `2:space:r:g:b`.
    fn attached(params: &[u16]) -> Option<Self> {
        match *params {
            [5, n, ..] => Some(Self::Indexed(u8::try_from(n).ok()?)),
            [2, _, r, g, b, ..] | [2, r, g, b] => Self::rgb(r, g, b),
            _ => None,
        }
    }

    /// As parameters of their own: `5;n`, `2;r;g;b`.
    fn following<'a>(params: &mut impl Iterator<Item = &'a [u16]>) -> Option<Self> {
        let mut next = || params.next().map(|param| param.first().copied().unwrap_or(0));
        match next()? {
            5 => Some(Self::Indexed(u8::try_from(next()?).ok()?)),
            2 => Self::rgb(next()?, next()?, next()?),
            _ => None,
        }
    }

    fn rgb(r: u16, g: u16, b: u16) -> Option<Self> {
        let part = |part| u8::try_from(part).ok();
        Some(Self::Rgb(part(r)?, part(g)?, part(b)?))
    }

    fn write(self, out: &mut Vec<u8>, base: u16) {
        match self {
            Self::Default => {}
            Self::Indexed(n @ 0..=7) => number(out, b';', base + u16::from(n)),
            Self::Indexed(n @ 8..=15) => number(out, b';', base + 52 + u16::from(n)),
            Self::Indexed(n) => {
                number(out, b';', base + 8);
                out.extend(b";5");
                number(out, b';', u16::from(n));
            }
            Self::Rgb(r, g, b) => {
                number(out, b';', base + 8);
                out.extend(b";2");
                for part in [r, g, b] {
                    number(out, b';', u16::from(part));
                }
            }
        }
    }
}

fn number(out: &mut Vec<u8>, before: u8, number: u16) {
    out.push(before);
    write!(out, "{number}").expect("memory takes every write");
}

fn small(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(params: &[&[u16]]) -> Style {
        let mut style = Style::PLAIN;
        style.set(params.iter().copied());
        style
    }

    fn written(style: Style) -> String {
        let mut out = Vec::new();
        style.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_set_is_written() {
        assert_eq!(written(Style::PLAIN), "\x1b[0m");
        let all = style(&[&[1], &[4, 3], &[38], &[5], &[196], &[48, 2, 0, 1, 2, 3]]);
        assert_eq!(written(all), "\x1b[0;1;4:3;38;5;196;48;2;1;2;3m");
        assert_eq!(written(style(&[&[91], &[107], &[7], &[27]])), "\x1b[0;91;107m");
        assert_eq!(style(&[&[1], &[31], &[]]), Style::PLAIN);
        assert_eq!(style(&[&[38], &[2], &[300], &[0], &[0], &[31]]), style(&[&[31]]));
    }
}
