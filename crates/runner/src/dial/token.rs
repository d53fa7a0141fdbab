//! The secret by which a hub knows a runner. It is in a file that nobody else can read, and nowhere
//! else: not in arguments, not in the environment, not in a message.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use rustix::fs::{Mode, OFlags};

/// The longest token, in bytes: far more than any hub gives, and less than a header may be.
const TOKEN_MAX: u64 = 8 << 10;

/// A token. Not shown by anything.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The value of the `Authorization` header.
    pub(super) fn bearer(&self) -> HeaderValue {
        let value = HeaderValue::from_str(&format!("Bearer {}", self.0));
        let mut value = value.expect("a token is visible ASCII");
        value.set_sensitive(true);
        value
    }
}

/// Where a token is. Read at each dial, so that a new one is taken without a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// The file at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the token. White space around it is left aside.
    ///
    /// # Errors
    /// It cannot be read, others can read it, or it holds no token.
    pub fn read(&self) -> Result<Token, TokenError> {
        let path = || self.0.clone();
        let io = |source: io::Error| TokenError::Read { path: path(), source };
        // Of what is open: a name can be given to another file between a look and a read. And
        // without waiting: nobody may ever write to a pipe of that name.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.0, flags, Mode::empty());
        let file = File::from(file.map_err(|errno| io(errno.into()))?);
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(TokenError::NotAFile { path: path() });
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(TokenError::Open { path: path(), mode: metadata.mode() & 0o7777 });
        }
        let us = rustix::process::geteuid().as_raw();
        if ![us, 0].contains(&metadata.uid()) {
            return Err(TokenError::Foreign { path: path(), uid: metadata.uid() });
        }
        let mut text = Vec::new();
        file.take(TOKEN_MAX + 1).read_to_end(&mut text).map_err(io)?;
        if text.len() as u64 > TOKEN_MAX {
            return Err(TokenError::Form { path: path(), why: "it is longer than 8 KiB" });
        }
        let text = text.trim_ascii();
        let why = match std::str::from_utf8(text) {
            Ok("") => "it is empty",
            Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                return Ok(Token(text.to_owned()));
            }
            Ok(_) | Err(_) => "it holds something else than one word of visible ASCII characters",
        };
        Err(TokenError::Form { path: path(), why })
    }
}

/// Why there is no token. Never holds any of it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("read the token file `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is no regular file.
    #[error("the token file `{}` is not a regular file", path.display())]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// Others can read or write it.
    #[error("the token file `{}` is open to others (its mode is {mode:o})", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is somebody else's, who can open it to others or put another token into it.
    #[error("the token file `{}` belongs to another user (uid {uid})", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// Whose.
        uid: u32,
    },
    /// What is in it is no token.
    #[error("the token file `{}` holds no token: {why}", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
}

impl TokenError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open { path, .. } => Some(format!("chmod 600 `{}`", path.display())),
            Self::Read { .. }
            | Self::NotAFile { .. }
            | Self::Foreign { .. }
            | Self::Form { .. } => None,
        }
    }
}
