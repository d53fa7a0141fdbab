//! Variables for a box: from the command line, the caller, and files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::ByteString;

use crate::env::Env;
use crate::error::Failure;

/// The most that is read of a file: what the kernel takes as arguments and environment together
/// (execve(2): 6 MiB).
const FILE_MAX: u64 = 6 << 20;

/// The variables of `--env-file`s, then those of `-e`, of which the later wins.
///
/// # Errors
/// A name that cannot be one, a variable the caller does not have, a line that is none, a file
/// that cannot be read.
pub fn collect(
    files: &[PathBuf],
    given: &[OsString],
    env: &Env,
) -> Result<BTreeMap<String, ByteString>, Failure> {
    let mut variables = BTreeMap::new();
    for file in files {
        read_file(file, &mut variables)?;
    }
    for text in given {
        let (name, value) = match split(text.as_bytes()) {
            (name, Some(value)) => (name, ByteString::from(value.to_vec())),
            (name, None) => match env.get(OsStr::from_bytes(name)) {
                Some(value) => (name, ByteString::from(value)),
                None => {
                    let name = String::from_utf8_lossy(name);
                    if name.is_empty() {
                        return Err(Failure::usage("-e: a variable needs a name"));
                    }
                    return Err(Failure::usage(format!("-e {name}: the variable is not set"))
                        .hint(format!("give a value: -e {name}=…")));
                }
            },
        };
        let name = checked(name).map_err(|why| {
            Failure::usage(format!("-e {}: {why}", String::from_utf8_lossy(text.as_bytes())))
        })?;
        variables.insert(name, value);
    }
    Ok(variables)
}

/// Name and, behind the first `=`, value.
fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'=') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn checked(name: &[u8]) -> Result<String, &'static str> {
    if name.is_empty() {
        return Err("a variable needs a name");
    }
    match std::str::from_utf8(name) {
        Ok(name) if !name.contains('\0') => Ok(name.to_owned()),
        Ok(_) => Err("a variable's name cannot hold a NUL byte"),
        Err(_) => Err("a variable's name must be UTF-8"),
    }
}

fn read_file(path: &Path, variables: &mut BTreeMap<String, ByteString>) -> Result<(), Failure> {
    let cannot = |error: &std::io::Error| {
        Failure::usage(format!("--env-file: read `{}`", path.display())).because(error)
    };
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| cannot(&error))?;
    file.take(FILE_MAX + 1).read_to_end(&mut text).map_err(|error| cannot(&error))?;
    if text.len() as u64 > FILE_MAX {
        return Err(Failure::usage(format!(
            "--env-file: `{}` is longer than 6 MiB, which no environment can hold",
            path.display()
        )));
    }
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let begin = line.iter().position(|byte| !byte.is_ascii_whitespace());
        if begin.is_none_or(|begin| line[begin] == b'#') {
            continue;
        }
        let wrong = |why: &str| Failure::usage(format!("{}:{}: {why}", path.display(), index + 1));
        let (name, value) = split(line);
        let Some(value) = value else {
            return Err(wrong("not of the form NAME=VALUE"));
        };
        let name = checked(name).map_err(wrong)?;
        if name.contains(char::is_whitespace) {
            return Err(wrong("a variable's name holds white space"));
        }
        if value.contains(&0) {
            return Err(wrong(&format!("the value of {name} holds a NUL byte")));
        }
        variables.insert(name, value.to_vec().into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(text: &[u8]) -> Result<BTreeMap<String, ByteString>, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        collect(&[file.path().to_owned()], &[], &Env::default())
    }

    #[test]
    fn files_hold_lines_comments_and_nothing_else() {
        let read = of_file(b"# c\n\n  # d\nA=1 2=3 \nB=\r\nC=\"x\"\nA=last").unwrap();
        let expected = [("A", "last"), ("B", ""), ("C", "\"x\"")];
        let expected: BTreeMap<_, _> =
            expected.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn each_wrong_line_names_file_line_and_reason() {
        for (text, why) in [
            (&b"A=1\nexport B=2"[..], ":2: a variable's name holds white space"),
            (b"A", ":1: not of the form NAME=VALUE"),
            (b"=x", ":1: a variable needs a name"),
            (b"A=\0", ":1: the value of A holds a NUL byte"),
            (b"\xff=x", ":1: a variable's name must be UTF-8"),
        ] {
            let failure = of_file(text).unwrap_err();
            assert!(failure.message.ends_with(why), "{}", failure.message);
        }
    }

    #[test]
    fn a_name_alone_takes_the_callers_value() {
        let env = Env::from([("A", "1"), ("EMPTY", "")]);
        let given = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            collect(&[], &words, &env)
        };
        let taken = given(&["A", "EMPTY", "B=x=y"]).unwrap();
        assert_eq!(taken["A"], "1".into());
        assert_eq!(taken["EMPTY"], "".into());
        assert_eq!(taken["B"], "x=y".into());
        assert!(given(&["MISSING"]).unwrap_err().message.contains("MISSING"));
        assert!(given(&[""]).is_err());
        assert!(given(&["=x"]).is_err());
    }
}
