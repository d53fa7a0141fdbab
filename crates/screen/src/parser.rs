//! Text and sequences apart: the state machine of a VT500 (as drawn by P. Williams), with UTF-8.
//!
//! It differs in one thing that nobody can tell: a control character within a sequence takes effect when
//! the sequence ends, and not before. So what is not complete has had no effect.

/// What a sequence may have of parameters.
pub(crate) const PARAMS: usize = 32;
/// The longest text of an OSC that is kept, in bytes: a title.
const TEXT: usize = 1024;
/// How many control characters within a sequence take effect.
const HELD: usize = 16;

const ESC: u8 = 0x1b;

/// What becomes of text and sequences.
pub(crate) trait Act {
    /// Letters.
    fn print(&mut self, letter: char);
    /// Printable characters of ASCII, many at a time.
    fn print_ascii(&mut self, letters: &[u8]);
    /// A control character.
    fn control(&mut self, code: u8);
    /// `ESC`, an intermediate or 0, and a final character.
    fn escape(&mut self, intermediate: u8, last: u8);
    /// A control sequence.
    fn csi(&mut self, sequence: &Csi, last: u8);
    /// An operating system command.
    fn osc(&mut self, text: &[u8]);
}

/// What stands between `CSI` and the final character.
#[derive(Clone, Debug, Default)]
pub(crate) struct Csi {
    /// `?`, `>`, `=`, `<`, or 0.
    pub(crate) prefix: u8,
    /// A character between 0x20 and 0x2f, or 0.
    pub(crate) intermediate: u8,
    numbers: [u16; PARAMS],
    /// How many of the numbers are begun.
    count: usize,
    /// Bit by bit, whether a number hangs on the one before by a colon.
    attached: u32,
    /// There are two intermediates, or what must not be.
    bad: bool,
}

impl Csi {
    /// The parameter at a place; none or 0: the default.
    pub(crate) fn get(&self, index: usize, default: u16) -> usize {
        let given = self.numbers.get(index).copied().filter(|_| index < self.count);
        usize::from(given.filter(|number| *number != 0).unwrap_or(default))
    }

    /// How many parameters there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// All numbers.
    pub(crate) fn numbers(&self) -> &[u16] {
        &self.numbers[..self.count]
    }

    /// The parameters, each with those that hang on it.
    pub(crate) fn params(&self) -> impl Iterator<Item = &[u16]> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at;
            if start == self.count {
                return None;
            }
            at += 1;
            while at < self.count && self.attached & (1 << at) != 0 {
                at += 1;
            }
            Some(&self.numbers[start..at])
        })
    }

    fn digit(&mut self, digit: u8) {
        self.count = self.count.max(1);
        let number = &mut self.numbers[self.count - 1];
        *number = number.saturating_mul(10).saturating_add(u16::from(digit - b'0'));
    }

    fn separator(&mut self, attached: bool) {
        self.count = self.count.max(1);
        if self.count == PARAMS {
            self.bad = true;
            return;
        }
        self.attached |= u32::from(attached) << self.count;
        self.count += 1;
    }
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Ground,
    /// A character of several bytes: what it is so far, the least that needs so many, how many are to come.
    Letter {
        code: u32,
        least: u32,
        left: u8,
    },
    Escape {
        intermediate: u8,
        bad: bool,
    },
    Csi(Csi),
    Osc(Vec<u8>),
    /// DCS, SOS, PM, APC: nothing of them is kept.
    Text,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Parser {
    state: State,
    held: Vec<u8>,
    /// Bytes since the ground was left.
    unfinished: u64,
}

impl Parser {
    pub(crate) fn unfinished(&self) -> u64 {
        self.unfinished
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8], act: &mut impl Act) {
        while let Some(byte) = bytes.first() {
            if let State::Ground = self.state {
                let plain = bytes.iter().take_while(|byte| (0x20..0x7f).contains(*byte)).count();
                if plain > 0 {
                    act.print_ascii(&bytes[..plain]);
                    bytes = &bytes[plain..];
                    continue;
                }
            }
            self.unfinished += 1;
            self.take(*byte, act);
            bytes = &bytes[1..];
        }
    }

    fn ground(&mut self, act: &mut impl Act) {
        self.state = State::Ground;
        self.unfinished = 0;
        for code in std::mem::take(&mut self.held) {
            act.control(code);
        }
    }

    fn begin_escape(&mut self, act: &mut impl Act) {
        self.ground(act);
        self.unfinished = 1;
        self.state = State::Escape { intermediate: 0, bad: false };
    }

    fn hold(&mut self, code: u8) {
        if self.held.len() < HELD {
            self.held.push(code);
        }
    }

    fn take(&mut self, byte: u8, act: &mut impl Act) {
        if let State::Letter { .. } = self.state {
            self.in_letter(byte, act);
            return;
        }
        // Everywhere: an escape begins anew, CAN and SUB give up.
        match byte {
            ESC => {
                // It ends a text too: ESC and a backslash, of which the latter says nothing more.
                if let State::Osc(text) = std::mem::take(&mut self.state) {
                    act.osc(&text);
                }
                return self.begin_escape(act);
            }
            0x18 | 0x1a => return self.ground(act),
            _ => {}
        }
        match &mut self.state {
            State::Ground => self.in_ground(byte, act),
            State::Letter { .. } => {}
            State::Escape { intermediate, bad } => match byte {
                0..0x20 => self.hold(byte),
                0x20..0x30 => {
                    *bad |= *intermediate != 0;
                    *intermediate = byte;
                }
                0x30..0x7f => {
                    let (intermediate, bad) = (*intermediate, *bad);
                    self.end_escape(intermediate, byte, bad, act);
                }
                0x7f.. => {}
            },
            State::Csi(_) => self.in_csi(byte, act),
            State::Osc(text) => match byte {
                0x07 => {
                    let text = std::mem::take(text);
                    act.osc(&text);
                    self.ground(act);
                }
                0..0x20 => {}
                _ if text.len() < TEXT => text.push(byte),
                _ => {}
            },
            State::Text => {}
        }
    }

    fn in_ground(&mut self, byte: u8, act: &mut impl Act) {
        let (code, least, left) = match byte {
            0..0x20 => {
                act.control(byte);
                return self.ground(act);
            }
            0x7f => return self.ground(act),
            0xc2..0xe0 => (byte & 0x1f, 0x80, 1),
            0xe0..0xf0 => (byte & 0x0f, 0x800, 2),
            0xf0..0xf5 => (byte & 0x07, 0x1_0000, 3),
            _ => {
                act.print(char::REPLACEMENT_CHARACTER);
                return self.ground(act);
            }
        };
        self.state = State::Letter { code: u32::from(code), least, left };
    }

    fn in_letter(&mut self, byte: u8, act: &mut impl Act) {
        let State::Letter { code, least, left } = &mut self.state else { return };
        if byte & 0xc0 != 0x80 {
            // It was none, and this byte begins something else.
            act.print(char::REPLACEMENT_CHARACTER);
            self.ground(act);
            self.unfinished = 1;
            if (0x20..0x7f).contains(&byte) {
                act.print_ascii(&[byte]);
                return self.ground(act);
            }
            return self.take(byte, act);
        }
        *code = *code << 6 | u32::from(byte & 0x3f);
        *left -= 1;
        if *left == 0 {
            let letter = char::from_u32(*code).filter(|_| *code >= *least);
            match letter {
                // C1: terminals in UTF-8 differ over them, and nobody prints them.
                Some('\u{80}'..='\u{9f}') => {}
                letter => act.print(letter.unwrap_or(char::REPLACEMENT_CHARACTER)),
            }
            self.ground(act);
        }
    }

    fn end_escape(&mut self, intermediate: u8, last: u8, bad: bool, act: &mut impl Act) {
        match (intermediate, last) {
            (0, b'[') => self.state = State::Csi(Csi::default()),
            (0, b']') => self.state = State::Osc(Vec::new()),
            (0, b'P' | b'X' | b'^' | b'_' | b'k') => self.state = State::Text,
            _ => {
                self.ground(act);
                if !bad {
                    act.escape(intermediate, last);
                }
            }
        }
    }

    fn in_csi(&mut self, byte: u8, act: &mut impl Act) {
        let State::Csi(csi) = &mut self.state else { return };
        match byte {
            0..0x20 => self.hold(byte),
            0x20..0x30 => {
                csi.bad |= csi.intermediate != 0;
                csi.intermediate = byte;
            }
            _ if csi.intermediate != 0 && byte < 0x40 => csi.bad = true,
            b'0'..=b'9' => csi.digit(byte),
            b';' | b':' => csi.separator(byte == b':'),
            b'<'..=b'?' => {
                csi.bad |= csi.prefix != 0 || csi.count != 0;
                csi.prefix = byte;
            }
            0x40..0x7f => {
                let csi = std::mem::take(csi);
                self.ground(act);
                if !csi.bad {
                    act.csi(&csi, byte);
                }
            }
            0x7f.. => {}
        }
    }
}
