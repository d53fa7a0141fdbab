//! The user's own settings of the client: `minimal/config.toml` in the directory of settings.

use minimal_proto::ErrorCode;
use serde::Deserialize;

use crate::context::Context;
use crate::error::Failure;
use crate::project_file;

/// The file, in the directory of settings.
const FILE: &str = "minimal/config.toml";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Settings {
    /// The keys that are the client's own while it shows a terminal.
    pub session_keys: SessionKeys,
}

/// Table `session-keys`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct SessionKeys {
    /// What comes before them.
    pub leader: LeaderKey,
}

/// A key that is held with Ctrl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LeaderKey(u8);

/// `ctrl-]`: no line discipline and hardly a program uses it.
impl Default for LeaderKey {
    fn default() -> Self {
        Self(b']')
    }
}

/// Keys that a terminal's line discipline takes for itself, or programs for their ends of lines and
/// sequences (termios(3), by their defaults).
const TAKEN: [(u8, &str); 16] = [
    (b'c', "it interrupts the program"),
    (b'\\', "it quits the program"),
    (b'z', "it stops the program"),
    (b'y', "it stops the program when it reads"),
    (b'd', "it ends the input"),
    (b's', "it holds the output"),
    (b'q', "it lets the output go on"),
    (b'h', "it erases a character"),
    (b'u', "it erases the line"),
    (b'w', "it erases a word"),
    (b'r', "it shows the line again"),
    (b'v', "it takes the next key as it is"),
    (b'o', "it discards output"),
    (b'm', "it is Return"),
    (b'j', "it is the end of a line"),
    (b'i', "it is Tab"),
];

impl LeaderKey {
    /// The byte that a terminal sends for it.
    #[must_use]
    pub fn byte(self) -> u8 {
        self.0.to_ascii_uppercase() & 0x1f
    }

    /// What it is called where it is told.
    #[must_use]
    pub fn words(self) -> String {
        format!("Ctrl-{}", char::from(self.0))
    }
}

impl TryFrom<String> for LeaderKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let key = match lower.strip_prefix("ctrl-").map(str::as_bytes) {
            Some([key @ (b'a'..=b'z' | b'[' | b'\\' | b']' | b'^' | b'_' | b'@')]) => *key,
            _ => {
                let shown: String = text.escape_debug().take(40).collect();
                return Err(format!(
                    "`{shown}` cannot be the leader: it is ctrl- and a letter or one of ] ^ _ @"
                ));
            }
        };
        if key == b'[' {
            return Err(
                "`ctrl-[` cannot be the leader: it begins what arrows and other keys send".into()
            );
        }
        match TAKEN.iter().find(|(taken, _)| *taken == key) {
            Some((_, why)) => Err(format!("`{lower}` cannot be the leader: {why}")),
            None => Ok(Self(key)),
        }
    }
}

impl Settings {
    /// Reads them; without a file they are the defaults.
    ///
    /// # Errors
    /// `invalid_config`: the file cannot be read, or is wrong.
    pub fn load(context: &Context) -> Result<Self, Failure> {
        let Some(file) = context.settings_dir().map(|dir| dir.join(FILE)) else {
            return Ok(Self::default());
        };
        if file.symlink_metadata().is_err() {
            return Ok(Self::default());
        }
        let wrong = |why: &str| {
            Failure::new(ErrorCode::InvalidConfig, format!("read `{}`: {why}", file.display()))
        };
        let text = project_file::read(&file).map_err(|why| wrong(&why))?;
        toml::from_str(&text).map_err(|error| {
            wrong(error.to_string().trim_end())
                .hint("it has [session-keys] with leader, such as leader = \"ctrl-]\"")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(text: &str) -> Result<u8, String> {
        LeaderKey::try_from(text.to_owned()).map(LeaderKey::byte)
    }

    #[test]
    fn leaders() {
        assert_eq!(LeaderKey::default().byte(), 0x1d);
        assert_eq!(leader("ctrl-]"), Ok(0x1d));
        assert_eq!(leader("Ctrl-A"), Ok(1));
        assert_eq!(leader("ctrl-^"), Ok(0x1e));
        for (text, why) in [
            ("ctrl-c", "interrupts"),
            ("ctrl-\\", "quits"),
            ("ctrl-[", "arrows"),
            ("ctrl-m", "Return"),
            ("ctrl-", "cannot be the leader"),
            ("ctrl-ab", "cannot be the leader"),
            ("x", "cannot be the leader"),
            ("ctrl-\u{e9}", "cannot be the leader"),
            ("\u{1b}\u{7}", "\\u{1b}\\u{7}"),
        ] {
            let error = leader(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_file() {
        let file: Settings = toml::from_str("[session-keys]\nleader = \"ctrl-b\"").unwrap();
        assert_eq!(file.session_keys.leader.byte(), 2);
        assert_eq!(toml::from_str::<Settings>("").unwrap(), Settings::default());
        toml::from_str::<Settings>("[session-keys]\nleder = \"ctrl-b\"").unwrap_err();
    }
}
