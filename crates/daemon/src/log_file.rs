//! The daemon's own log: JSON lines in `daemon.log`, rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;

/// A file is closed when it has reached this: long enough for weeks, short enough to be read.
const ROTATE_AT: u64 = 8 << 20;
/// How many closed files are kept beside the open one.
const KEPT: u32 = 3;

/// Sends what is traced to `daemon.log` in the state directory, from now on.
///
/// Without it the daemon goes on, since a full disk must not stop it from serving.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn start(state_dir: &Path) -> io::Result<()> {
    let file = LogFile::open(state_dir.join("daemon.log"), ROTATE_AT)?;
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(LevelFilter::INFO)
        .with_current_span(true)
        .with_span_list(false)
        .with_writer(Mutex::new(file))
        .finish();
    // Fails if there is one, as in a test that starts several daemons: theirs is the first one's.
    drop(tracing::subscriber::set_global_default(subscriber));
    // Nobody reads our standard error, and a panic ends the process.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(panic = %panic, "the daemon panicked");
        usual(panic);
    }));
    Ok(())
}

/// An append-only file that is renamed away when it is long.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    length: u64,
    rotate_at: u64,
}

impl LogFile {
    fn open(path: PathBuf, rotate_at: u64) -> io::Result<Self> {
        let file = open_append(&path)?;
        let length = file.metadata()?.len();
        Ok(Self { path, file, length, rotate_at })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..KEPT).rev() {
            match std::fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, numbered(1))?;
        self.file = open_append(&self.path)?;
        self.length = 0;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.length >= self.rotate_at && self.rotate().is_err() {
            // Go on with the long file and try again after as much again.
            self.length = 0;
        }
        let written = self.file.write(line)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_are_kept_three_deep_and_no_line_is_lost_between_them() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("daemon.log");
        let mut log = LogFile::open(path, 10).unwrap();
        for line in 0..6 {
            log.write_all(format!("line {line:05}\n").as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(root.path().join(name)).unwrap();
        assert_eq!(read("daemon.log"), "line 00005\n");
        assert_eq!(read("daemon.log.1"), "line 00004\n");
        assert_eq!(read("daemon.log.3"), "line 00002\n");
        assert!(!root.path().join("daemon.log.4").exists());
    }
}
