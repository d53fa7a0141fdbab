//! What a program has set that changes nothing of what is shown: kept, to be set again.

use std::collections::{BTreeMap, BTreeSet};

/// How many modes are kept: there are not so many, whatever a program makes up.
const MODES: usize = 64;
/// How many times keyboard flags can be pushed: as kitty has it, about.
const PUSHES: usize = 16;
/// The longest title, in bytes.
const TITLE: usize = 512;

/// Output is to be shown at once again: set for a moment at a time.
const SYNCHRONIZED: u16 = 2026;

/// Modes that are on in a fresh terminal, of those that programs turn off: 8 (keys repeat), 12 is
/// a matter of taste and not here.
const ON: [u16; 1] = [8];

/// Such settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracking {
    /// Modes of DECSET that are not as in a fresh terminal.
    pub(crate) modes: BTreeMap<u16, bool>,
    /// The keypad sends sequences.
    pub(crate) keypad: bool,
    /// The cursor's form (DECSCUSR).
    pub(crate) cursor: Option<u16>,
    pub(crate) title: Option<String>,
    /// How keys with modifiers are sent (XTMODKEYS 4).
    pub(crate) modified_keys: Option<u16>,
    /// Kitty's keyboard flags, of both screens.
    pub(crate) keyboard: [Vec<u16>; 2],
}

impl Tracking {
    /// A mode of DECSET was set or reset.
    pub(crate) fn mode(&mut self, mode: u16, on: bool) {
        if mode == SYNCHRONIZED {
            return;
        }
        if ON.contains(&mode) == on {
            self.modes.remove(&mode);
        } else if self.modes.len() < MODES {
            self.modes.insert(mode, on);
        }
        // These exclude each other.
        let mice: BTreeSet<u16> = [9, 1000, 1001, 1002, 1003].into();
        if on && mice.contains(&mode) {
            self.modes.retain(|other, _| *other == mode || !mice.contains(other));
        }
    }

    pub(crate) fn title(&mut self, title: &[u8]) {
        let mut title: String =
            String::from_utf8_lossy(title).chars().filter(|c| !c.is_control()).collect();
        let end = (0..=TITLE.min(title.len())).rev().find(|end| title.is_char_boundary(*end));
        title.truncate(end.unwrap_or(0));
        self.title = Some(title);
    }

    pub(crate) fn push_keyboard(&mut self, screen: usize, flags: u16) {
        let stack = &mut self.keyboard[screen];
        if stack.len() == PUSHES {
            stack.remove(0);
        }
        stack.push(flags);
    }

    pub(crate) fn pop_keyboard(&mut self, screen: usize, count: usize) {
        let stack = &mut self.keyboard[screen];
        stack.truncate(stack.len().saturating_sub(count));
    }

    /// `how`: 1 these flags, 2 these too, 3 without these.
    pub(crate) fn set_keyboard(&mut self, screen: usize, flags: u16, how: usize) {
        let stack = &mut self.keyboard[screen];
        let before = stack.pop().unwrap_or(0);
        stack.push(match how {
            2 => before | flags,
            3 => before & !flags,
            _ => flags,
        });
    }
}
