//! Which modes a program has set in the caller's terminal, and so what is to be taken back when the
//! client leaves. Pure. Only what was set is taken back: leaving a screen that was not entered moves the
//! cursor of some terminals.

use std::collections::BTreeSet;

/// The longest control sequence that is looked at, in bytes: those that set modes are far shorter.
const LONGEST: usize = 64;

/// How many modes are remembered: there are not so many, whatever a program makes up.
const MOST: usize = 64;

/// Modes of DECSET that are on when a terminal is fresh, of those that programs turn off: the cursor is
/// shown, lines wrap.
const ON: [u16; 2] = [25, 7];

/// The modes that another screen comes with: the last to be left.
const SCREENS: [u16; 3] = [47, 1047, 1049];

/// What a program has set.
#[derive(Debug, Default)]
pub(super) struct Modes {
    state: State,
    /// Modes of DECSET that are not as in a fresh terminal.
    changed: BTreeSet<u16>,
    /// The keypad sends sequences.
    keypad: bool,
    /// Letters may have a colour, or be those of another set.
    dressed: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    Escape,
    Control(Vec<u8>),
}

impl Modes {
    /// Takes note of output.
    pub(super) fn see(&mut self, output: &[u8]) {
        for byte in output {
            self.state = match (std::mem::take(&mut self.state), *byte) {
                (_, 0x1b) => State::Escape,
                (State::Escape, b'[') => State::Control(Vec::new()),
                (State::Escape, b'=') => {
                    self.keypad = true;
                    State::Text
                }
                (State::Escape, b'>') => {
                    self.keypad = false;
                    State::Text
                }
                (State::Escape, b'c') => {
                    *self = Self::default();
                    State::Text
                }
                (State::Escape, b'(' | b')') | (State::Text, 0x0e) => {
                    self.dressed = true;
                    State::Text
                }
                (State::Control(sequence), last @ 0x40..=0x7e) => {
                    self.control(&sequence, last);
                    State::Text
                }
                (State::Control(mut sequence), part) if sequence.len() < LONGEST => {
                    sequence.push(part);
                    State::Control(sequence)
                }
                _ => State::Text,
            };
        }
    }

    fn control(&mut self, sequence: &[u8], last: u8) {
        self.dressed |= last == b'm';
        let Some(numbers) = sequence.strip_prefix(b"?") else { return };
        if last != b'h' && last != b'l' {
            return;
        }
        for number in numbers.split(|byte| *byte == b';') {
            let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
            let Some(number) = number else { continue };
            if (last == b'h') == ON.contains(&number) {
                self.changed.remove(&number);
            } else if self.changed.len() < MOST {
                self.changed.insert(number);
            }
        }
    }

    /// What takes all of it back.
    pub(super) fn take_back(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !matches!(self.state, State::Text) {
            // A sequence that was begun is given up (CAN).
            bytes.push(0x18);
        }
        if self.dressed {
            bytes.extend(b"\x1b[m\x1b(B\x0f");
        }
        if self.keypad {
            bytes.extend(b"\x1b>");
        }
        let (screens, others): (Vec<u16>, Vec<u16>) =
            self.changed.iter().copied().partition(|mode| SCREENS.contains(mode));
        for mode in others.into_iter().chain(screens) {
            let fresh = if ON.contains(&mode) { 'h' } else { 'l' };
            bytes.extend(format!("\x1b[?{mode}{fresh}").bytes());
        }
        *self = Self::default();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(output: &[u8]) -> Vec<u8> {
        let mut modes = Modes::default();
        modes.see(output);
        modes.take_back()
    }

    #[test]
    fn what_was_set_is_taken_back_and_nothing_else() {
        assert_eq!(after(b"plain\r\n"), b"");
        let vim = b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l\x1b[1;31mred";
        let back = b"\x1b[m\x1b(B\x0f\x1b>\x1b[?1l\x1b[?25h\x1b[?2004l\x1b[?1049l";
        assert_eq!(after(vim).escape_ascii().to_string(), back.escape_ascii().to_string());
        assert_eq!(after(b"\x1b[?1000;1006h\x1b[?1006;1000l\x1b[?25l\x1b[?25h"), b"");
        assert_eq!(after(b"\x1b[?1049"), b"\x18", "a sequence is open");
    }

    proptest! {
        #[test]
        fn nothing_panics_and_splits_change_nothing(output: Vec<u8>, at in 0usize..100) {
            let at = at.min(output.len());
            let mut modes = Modes::default();
            modes.see(&output[..at]);
            modes.see(&output[at..]);
            prop_assert_eq!(modes.take_back(), after(&output));
            prop_assert_eq!(modes.take_back(), b"");
        }

        #[test]
        fn a_hostile_program_costs_little(modes_set in proptest::collection::vec(any::<u16>(), 0..300)) {
            let output: String = modes_set.iter().map(|mode| format!("\x1b[?{mode}h")).collect();
            prop_assert!(after(output.as_bytes()).len() < MOST * 16);
        }
    }
}
