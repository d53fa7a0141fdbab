//! `--mount SOURCE[:DEST][:MODE]`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::ByteString;
use minimal_proto::spec::{Mount, MountMode};

use crate::error::Failure;
use crate::user_policy::without_steps_back;

/// Every mode.
const MODES: [MountMode; 3] = [MountMode::Ro, MountMode::Rw, MountMode::Overlay];

/// Reads one. The source becomes absolute; a place that is not given is the same below the box's home
/// as the source is below the caller's, else the source's own path.
///
/// # Errors
/// A mistake of usage.
pub(super) fn read(text: &OsStr, home: Option<&Path>) -> Result<Mount, Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!("--mount {}: {why}", text.display())).hint(
            "as in --mount ~/.cargo, --mount ./data:/data:rw; a colon of a name is written `\\:`",
        )
    };
    let mut parts = split(text.as_bytes());
    let mode = MODES.into_iter().find(|mode| {
        parts.len() > 1 && parts.last().is_some_and(|last| last == mode.as_str().as_bytes())
    });
    if mode.is_some() {
        parts.pop();
    }
    let (source, dest) = match parts.as_slice() {
        [source] => (source, None),
        [source, dest] => (source, Some(dest)),
        _ => return Err(wrong("it has more parts than source, place in the box and mode")),
    };
    if source.is_empty() {
        return Err(wrong("the source is empty"));
    }
    let source = absolute(OsStr::from_bytes(source), home)
        .ok_or_else(|| wrong("it is relative to a directory that is not known"))?;
    // Only for the place in the box: on the host `..` may lead out of a link.
    let plain = without_steps_back(&source);
    let dest = match dest {
        Some(dest) if dest.starts_with(b"/") || dest.starts_with(b"~/") => dest.clone(),
        Some(_) => {
            return Err(wrong(
                "the second part is neither an absolute path in the box, nor ro, rw or overlay",
            ));
        }
        None => match home.and_then(|home| plain.strip_prefix(home).ok()) {
            Some(below) if below.as_os_str().is_empty() => {
                return Err(wrong("the whole home needs a place in the box: --mount ~:/…"));
            }
            Some(below) => Path::new("~").join(below).into_os_string().into_encoded_bytes(),
            None => plain.as_os_str().as_bytes().to_vec(),
        },
    };
    // Below the box's home; which that is, is known later, and only of texts.
    if dest.starts_with(b"~/") && std::str::from_utf8(&dest).is_err() {
        return Err(wrong("its name is not UTF-8: give it an absolute path in the box"));
    }
    let mode = mode.unwrap_or(MountMode::Ro);
    Ok(Mount { source: source.into_os_string().into(), dest: ByteString::from(dest), mode })
}

/// At each colon without a backslash before it; that takes from a colon or a backslash its meaning.
fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let last = parts.last_mut().expect("there is one");
        match byte {
            b'\\' if matches!(bytes.peek(), Some(b':' | b'\\')) => last.extend(bytes.next()),
            b':' => parts.push(Vec::new()),
            byte => last.push(byte),
        }
    }
    parts
}

/// As for a shell: relative to where the caller is, `~` being the home.
fn absolute(path: &OsStr, home: Option<&Path>) -> Option<PathBuf> {
    let path = Path::new(path);
    match path.strip_prefix("~") {
        Ok(below) => home.map(|home| home.join(below)),
        Err(_) if path.is_absolute() => Some(path.to_owned()),
        Err(_) => std::env::current_dir().ok().map(|here| here.join(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_place_and_mode_are_told_apart() {
        let home = Path::new("/home/me");
        let of = |text: &str| {
            let mount = read(OsStr::new(text), Some(home)).unwrap();
            (mount.source.to_lossy(), mount.dest.to_lossy(), mount.mode.as_str())
        };
        let expect = |source: &str, dest: &str, mode| (source.to_owned(), dest.to_owned(), mode);
        assert_eq!(of("/a"), expect("/a", "/a", "ro"));
        assert_eq!(of("/a/./b/../c").1, "/a/c");
        assert_eq!(of("/a:rw"), expect("/a", "/a", "rw"));
        assert_eq!(of("/a b:/c\nd:overlay"), expect("/a b", "/c\nd", "overlay"));
        assert_eq!(of("~/.x"), expect("/home/me/.x", "~/.x", "ro"));
        assert_eq!(of("/home/me/.x:~/y"), expect("/home/me/.x", "~/y", "ro"));
        assert_eq!(of("/a\\:b"), expect("/a:b", "/a:b", "ro"));
        assert_eq!(of("/a\\\\:/b"), expect("/a\\", "/b", "ro"));
        assert_eq!(of("/a\\:/b"), expect("/a:/b", "/a:/b", "ro"));
        let here = std::env::current_dir().unwrap().join("ro").display().to_string();
        assert_eq!(of("ro").0, here, "a mode alone is a name");
        for wrong in ["", ":/a", "/a:b", "/a:/b:/c", "/a:/b:r", "~", "/a:/b:rw:rw"] {
            assert!(read(OsStr::new(wrong), Some(home)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_bytes() {
        let mount = read(OsStr::from_bytes(b"/\xff:rw"), None).unwrap();
        assert_eq!(mount.dest.as_bytes(), b"/\xff");
        let home = Path::new("/h");
        assert!(read(OsStr::from_bytes(b"/h/\xff"), Some(home)).is_err());
        assert!(read(OsStr::from_bytes(b"/h/\xff:/x"), Some(home)).is_ok());
    }
}
