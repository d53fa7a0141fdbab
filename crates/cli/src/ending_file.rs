//! `--ending-file` and `--ending-fd`: how a script tells our exit statuses from a command's.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use minimal_proto::{Ending, ErrorCode};
use rustix::fs::OFlags;
use serde_json::{Value, json};

use crate::addressee::Addressee;
use crate::args::EndingArgs;
use crate::error::Failure;

/// Where the ending is written when it is known. Opened before anything runs.
#[derive(Debug)]
pub struct EndingFile {
    target: Target,
    content: Option<Value>,
}

#[derive(Debug)]
enum Target {
    Nowhere,
    /// Written as it is: a descriptor, a pipe, a device.
    Open(File),
    /// Written beside and renamed, so that a reader never sees half of it.
    Beside {
        staged: staged::Staged,
        path: PathBuf,
    },
}

impl EndingFile {
    /// Opens what the options name. Must come before anything else opens a descriptor: one that was
    /// handed over by number is taken.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(args: &EndingArgs) -> Result<Self, Failure> {
        let target = match (&args.ending_file, args.ending_fd) {
            (None, None) => Target::Nowhere,
            (_, Some(number)) => {
                Target::Open(descriptor(&format!("--ending-fd {number}"), number)?)
            }
            (Some(path), None) => match own_descriptor(path) {
                Some(number) => {
                    let option = format!("--ending-file {}", path.display());
                    Target::Open(descriptor(&option, number)?)
                }
                None => file(path)?,
            },
        };
        Ok(Self { target, content: None })
    }

    /// One that is written nowhere.
    #[must_use]
    pub fn none() -> Self {
        Self { target: Target::Nowhere, content: None }
    }

    /// The options as they stand in a command line that could not be understood.
    #[must_use]
    pub fn scan(words: &[OsString]) -> EndingArgs {
        let mut args = EndingArgs { ending_file: None, ending_fd: None };
        let mut words = words.iter().take_while(|word| *word != "--");
        while let Some(word) = words.next() {
            let Some(text) = word.to_str() else { continue };
            let (option, value) = match text.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned().into())),
                None => (text, None),
            };
            match option {
                "--ending-file" => {
                    args.ending_file = value.or_else(|| words.next().cloned()).map(PathBuf::from);
                }
                "--ending-fd" => {
                    let value = value.or_else(|| words.next().cloned());
                    args.ending_fd = value.and_then(|value| value.to_str()?.parse().ok());
                }
                _ => {}
            }
        }
        args
    }

    /// The ending is known.
    pub fn ended(&mut self, whose: &Addressee, ending: &Ending) {
        self.content = Some(ending_json(whose, ending));
    }

    /// There is none: says why, unless an ending is known.
    pub fn failed(&mut self, failure: &Failure) {
        self.content.get_or_insert_with(|| failure.to_json());
    }

    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written after all.
    pub fn finish(self) -> Result<(), Failure> {
        let Some(content) = self.content else { return Ok(()) };
        let text = format!("{content}\n");
        match self.target {
            Target::Nowhere => Ok(()),
            Target::Open(mut file) => file.write_all(text.as_bytes()).map_err(|error| {
                Failure::new(ErrorCode::OutputFailed, "write the ending").because(&error)
            }),
            Target::Beside { mut staged, path } => {
                staged.write(text.as_bytes()).and_then(|()| staged.rename(&path)).map_err(|error| {
                    let message = format!("write the ending to `{}`", path.display());
                    Failure::new(ErrorCode::OutputFailed, message).because(&error)
                })
            }
        }
    }
}

/// Schema `min/v1/ending`: an ending's fields, and whose it is.
#[must_use]
pub fn ending_json(whose: &Addressee, ending: &Ending) -> Value {
    let mut value = serde_json::to_value(ending).expect("an ending has text keys");
    value["schema"] = json!("min/v1/ending");
    value["box"] = json!(whose.box_id);
    value["name"] = json!(whose.name);
    if let Some(exec) = whose.exec {
        value["exec"] = json!(exec);
    }
    value
}

/// The longest chain of links that the kernel follows (path_resolution(7)).
const LINKS: usize = 40;

/// The descriptor of ours that a path names: `/dev/stdout`, `/dev/fd/3`, `/proc/self/fd/3`, or a link
/// to one. What is open there may be a file that others write as well: it is neither replaced nor opened
/// anew, which would begin at its start.
fn own_descriptor(path: &Path) -> Option<i32> {
    let descriptors = Path::new("/proc").join(std::process::id().to_string()).join("fd");
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let directory = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => return None,
        };
        let directory = directory.canonicalize().ok()?;
        if directory == descriptors {
            return path.file_name()?.to_str()?.parse().ok();
        }
        // Not a link, or not there: a path like any other.
        path = directory.join(std::fs::read_link(&path).ok()?);
    }
    None
}

fn descriptor(option: &str, number: i32) -> Result<File, Failure> {
    let wrong = |why: &str| Failure::usage(format!("{option}: {why}"));
    let fd = match number {
        // The standard streams are nobody's to take.
        0 => std::io::stdin().as_fd().try_clone_to_owned(),
        1 => std::io::stdout().as_fd().try_clone_to_owned(),
        2 => std::io::stderr().as_fd().try_clone_to_owned(),
        _ => Ok(minimal_linux::fds::take(number).ok_or_else(|| wrong("it is not open"))?),
    };
    let fd = fd.map_err(|error| wrong("it cannot be used").because(&error))?;
    let flags =
        rustix::fs::fcntl_getfl(&fd).map_err(|error| wrong("it cannot be used").because(&error))?;
    if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
        return Err(wrong("it is not open for writing"));
    }
    // Nothing that we start is to hold it open.
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| wrong("it cannot be used").because(&error))?;
    Ok(fd.into())
}

fn file(path: &Path) -> Result<Target, Failure> {
    let cannot = |error: &std::io::Error| {
        Failure::usage(format!("--ending-file: write to `{}`", path.display())).because(error)
    };
    match std::fs::metadata(path) {
        // A pipe or a device is written to, never replaced; a link's file is, and the link stays.
        Ok(meta) if !meta.is_file() => {
            let file = File::options().write(true).open(path).map_err(|error| cannot(&error))?;
            Ok(Target::Open(file))
        }
        Ok(_) => {
            let path = path.canonicalize().map_err(|error| cannot(&error))?;
            let staged = staged::Staged::beside(&path).map_err(|error| cannot(&error))?;
            // What an earlier command left there must not look like the ending of this one, should
            // we leave before that is known or be killed.
            std::fs::remove_file(&path).map_err(|error| cannot(&error))?;
            Ok(Target::Beside { staged, path })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let staged = staged::Staged::beside(path).map_err(|error| cannot(&error))?;
            // The working directory stays what it is, so a relative path stays good.
            Ok(Target::Beside { staged, path: path.to_owned() })
        }
        Err(error) => Err(cannot(&error)),
    }
}

/// A file that is not yet in its place, and is removed unless it gets there.
mod staged {
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::path::{Path, PathBuf};

    #[derive(Debug)]
    pub(super) struct Staged {
        file: File,
        path: Option<PathBuf>,
    }

    impl Staged {
        pub(super) fn beside(target: &Path) -> io::Result<Self> {
            let Some(name) = target.file_name() else {
                return Err(io::ErrorKind::IsADirectory.into());
            };
            let mut staged = std::ffi::OsString::from(".");
            staged.push(name);
            staged.push(format!(".min-{}", std::process::id()));
            let path = target.with_file_name(staged);
            let file = File::options().write(true).create(true).truncate(true).open(&path)?;
            Ok(Self { file, path: Some(path) })
        }

        pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.file.write_all(bytes)
        }

        pub(super) fn rename(&mut self, target: &Path) -> io::Result<()> {
            let Some(path) = self.path.take() else { return Ok(()) };
            std::fs::rename(&path, target).inspect_err(|_| drop(std::fs::remove_file(&path)))
        }
    }

    impl Drop for Staged {
        fn drop(&mut self) {
            if let Some(path) = &self.path {
                drop(std::fs::remove_file(path));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt as _;

    use super::*;

    fn to(path: &Path) -> EndingArgs {
        EndingArgs { ending_file: Some(path.to_owned()), ending_fd: None }
    }

    #[test]
    fn it_appears_whole_or_not_at_all() {
        let root = ::tempfile::tempdir().unwrap();
        let path = root.path().join("ending");
        drop(EndingFile::open(&to(&path)).unwrap());
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let mut file = EndingFile::open(&to(&path)).unwrap();
        file.failed(&Failure::usage("first"));
        file.failed(&Failure::usage("second"));
        assert!(!path.exists());
        file.finish().unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(written["message"], "first");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_earlier_ending_is_gone_before_anything_runs() {
        let root = ::tempfile::tempdir().unwrap();
        let path = root.path().join("ending");
        std::fs::write(&path, "of another run").unwrap();
        let file = EndingFile::open(&to(&path)).unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_stays_a_link_and_a_pipe_a_pipe() {
        let root = ::tempfile::tempdir().unwrap();
        let (target, link) = (root.path().join("target"), root.path().join("link"));
        std::fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut file = EndingFile::open(&to(&link)).unwrap();
        file.failed(&Failure::usage("x"));
        file.finish().unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(std::fs::read_to_string(&target).unwrap().starts_with('{'));
        let mut file = EndingFile::open(&to(Path::new("/dev/null"))).unwrap();
        file.failed(&Failure::usage("x"));
        file.finish().unwrap();
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_path_to_a_descriptor_of_ours_is_told_from_a_file() {
        let root = ::tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink("/dev/stdout", &link).unwrap();
        assert_eq!(own_descriptor(&link), Some(1));
        assert_eq!(own_descriptor(Path::new("/dev/stderr")), Some(2));
        assert_eq!(own_descriptor(Path::new("/dev/fd/9")), Some(9));
        std::os::unix::fs::symlink("circle", root.path().join("circle")).unwrap();
        for other in ["circle", "file", "no/such"] {
            assert_eq!(own_descriptor(&root.path().join(other)), None, "{other}");
        }
        for other in ["/dev/null", "/proc/1/fd/0", "/", "plain"] {
            assert_eq!(own_descriptor(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_named_at_once() {
        let failure = EndingFile::open(&to(Path::new("/nosuch/ending"))).unwrap_err();
        assert!(failure.message.contains("/nosuch/ending"));
        let args = EndingArgs { ending_file: None, ending_fd: Some(9_999) };
        assert!(EndingFile::open(&args).unwrap_err().message.contains("9999"));
    }

    #[test]
    fn the_options_are_found_in_any_command_line() {
        let scan = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let args = EndingFile::scan(&words);
            (args.ending_file, args.ending_fd)
        };
        assert_eq!(scan(&["run", "--nosuch", "--ending-file", "x"]), (Some("x".into()), None));
        assert_eq!(scan(&["--ending-fd=3", "--", "--ending-file=y"]), (None, Some(3)));
        assert_eq!(scan(&["--ending-fd"]), (None, None));
    }
}
