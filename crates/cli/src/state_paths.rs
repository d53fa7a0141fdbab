//! Where the state directory and the daemon's socket are.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::ErrorCode;

use crate::env::Env;
use crate::error::Failure;

/// The state directory and the socket, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePaths {
    /// The state directory.
    pub state_dir: PathBuf,
    /// The socket, where it is not in its usual place.
    pub socket: Option<PathBuf>,
}

/// Root's place: the system's directory for state (file-hierarchy(7)).
const ROOTS: &str = "/var/lib/minimal";

impl StatePaths {
    /// As the environment and the account say.
    ///
    /// # Errors
    /// There is no home to put it in, or a path is relative to a directory that is gone.
    pub fn find(env: &Env) -> Result<Self, Failure> {
        let uid = rustix::process::geteuid().as_raw();
        Self::find_for(env, uid, Path::new("/etc/passwd"))
    }

    fn find_for(env: &Env, uid: u32, passwd: &Path) -> Result<Self, Failure> {
        let state_dir = match env.path("MINIMAL_STATE_DIR") {
            Some(path) => absolute(path, "MINIMAL_STATE_DIR")?,
            None => usual(env, uid, passwd)?,
        };
        let socket = match env.path("MINIMAL_SOCKET") {
            Some(path) => Some(absolute(path, "MINIMAL_SOCKET")?),
            None => None,
        };
        Ok(Self { state_dir, socket })
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        match &self.socket {
            Some(socket) => socket.clone(),
            None => self.state_dir.join(minimal_daemon::SOCKET),
        }
    }
}

fn usual(env: &Env, uid: u32, passwd: &Path) -> Result<PathBuf, Failure> {
    if uid == 0 {
        return Ok(PathBuf::from(ROOTS));
    }
    // A relative one is invalid and to be ignored (XDG Base Directory Specification).
    if let Some(state) = env.path("XDG_STATE_HOME").filter(|path| path.is_absolute()) {
        return Ok(state.join("minimal"));
    }
    let home = env.path("HOME").filter(|path| path.is_absolute()).or_else(|| home_of(uid, passwd));
    match home {
        Some(home) => Ok(home.join(".local/state/minimal")),
        None => Err(Failure::new(
            ErrorCode::Unreachable,
            format!("there is no place for state: HOME is not set, and user {uid} has no home"),
        )
        .hint("set MINIMAL_STATE_DIR to a directory of your own")),
    }
}

/// A relative path is relative to where we are, as for a shell.
fn absolute(path: PathBuf, variable: &str) -> Result<PathBuf, Failure> {
    if path.is_absolute() {
        return Ok(path);
    }
    match std::env::current_dir() {
        Ok(directory) => Ok(directory.join(path)),
        Err(error) => Err(Failure::new(
            ErrorCode::Unreachable,
            format!("{variable} is relative to the working directory, which is gone"),
        )
        .because(&error)
        .hint(format!("set {variable} to an absolute path"))),
    }
}

/// The most that is read of the list of users: far more than any list that is kept in a file.
const PASSWD_MAX: u64 = 4 << 20;

/// The home directory of a user in passwd(5).
#[must_use]
pub fn home_of(uid: u32, passwd: &Path) -> Option<PathBuf> {
    let mut text = Vec::new();
    std::fs::File::open(passwd).ok()?.take(PASSWD_MAX).read_to_end(&mut text).ok()?;
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let [_, _, id, _, _, home, _] = fields[..] else { return None };
        let id: u32 = std::str::from_utf8(id).ok()?.parse().ok()?;
        let home = Path::new(OsStr::from_bytes(home));
        (id == uid && home.is_absolute()).then(|| home.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<const N: usize>(variables: [(&str, &str); N], uid: u32) -> Result<StatePaths, Failure> {
        let passwd = tempfile::NamedTempFile::new().unwrap();
        let list = "root:x:0:0::/r:/bin/sh\nbroken\n+::::::\nme:x:1000:1000:Me:/home/me:/bin/sh\n";
        std::fs::write(&passwd, list).unwrap();
        StatePaths::find_for(&Env::from(variables), uid, passwd.path())
    }

    #[test]
    fn the_usual_places() {
        let state_dir = |variables, uid| find::<2>(variables, uid).unwrap().state_dir;
        let none = [("HOME", ""), ("X", "")];
        assert_eq!(state_dir(none, 0), Path::new("/var/lib/minimal"));
        assert_eq!(state_dir(none, 1000), Path::new("/home/me/.local/state/minimal"));
        let home = [("HOME", "/h"), ("XDG_STATE_HOME", "relative")];
        assert_eq!(state_dir(home, 1000), Path::new("/h/.local/state/minimal"));
        let xdg = [("HOME", "/h"), ("XDG_STATE_HOME", "/x")];
        assert_eq!(state_dir(xdg, 1000), Path::new("/x/minimal"));
        let ours = [("MINIMAL_STATE_DIR", "/s"), ("HOME", "/h")];
        assert_eq!(state_dir(ours, 0), Path::new("/s"));
    }

    #[test]
    fn without_a_home_the_variable_is_named() {
        let failure = find([], 4242).unwrap_err();
        assert!(failure.hint.unwrap().contains("MINIMAL_STATE_DIR"));
    }

    #[test]
    fn a_relative_path_is_relative_to_here() {
        let paths = find([("MINIMAL_STATE_DIR", "s"), ("MINIMAL_SOCKET", "/m.sock")], 1).unwrap();
        assert_eq!(paths.state_dir, std::env::current_dir().unwrap().join("s"));
        assert_eq!(paths.socket(), Path::new("/m.sock"));
        let paths = find([("MINIMAL_STATE_DIR", "/s")], 1).unwrap();
        assert_eq!(paths.socket(), Path::new("/s/minimald.sock"));
    }
}
