//! What is at a path of the host, found in bounded time.

use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use minimal_proto::api::{FileId, HostFile};
use minimal_proto::spec::MountMode;
use minimal_proto::{ByteString, ErrorCode, pattern};
use minimal_spec::Origin;

use super::refused::place;
use crate::context::Context;
use crate::error::Failure;
use crate::project::Project;

/// How long a source may take to say what it is.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// A source that cannot be given.
pub(super) fn cannot(source: &ByteString, origin: &Origin, error: &io::Error) -> Failure {
    let code = match origin.position() {
        Some(_) => ErrorCode::InvalidConfig,
        None => ErrorCode::BadRequest,
    };
    let message = format!("{}: give `{}` to the box: {error}", place(origin), source.to_lossy());
    Failure::new(code, message)
        .hint("a source is a file or directory of this host that you may read")
}

/// Where a source is, as it is written.
pub(super) fn written(
    source: &ByteString,
    project: Option<&Project>,
    home: Option<&Path>,
) -> io::Result<PathBuf> {
    let source = Path::new(source.as_os_str());
    if let Ok(below) = source.strip_prefix("~") {
        let none = || io::Error::other("you have no home: HOME is not set");
        return Ok(home.ok_or_else(none)?.join(below));
    }
    if source.is_absolute() {
        return Ok(source.to_owned());
    }
    let none = || io::Error::other("it is relative to the project, and there is none");
    Ok(project.ok_or_else(none)?.root.join(source))
}

/// What a pattern stands for: paths in its directory, by name.
pub(super) fn within(pattern: &Path, most: usize) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(names)) = (pattern.parent(), pattern.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let (directory, names) = (directory.to_owned(), names.to_owned());
    bounded(move || {
        let mut found = Vec::new();
        for entry in directory.read_dir()? {
            let name = entry?.file_name();
            if pattern::lists(names.as_bytes(), name.as_bytes()) {
                if found.len() == most {
                    let why = format!("it stands for more than {most} names");
                    return Err(io::Error::other(why));
                }
                found.push(directory.join(name));
            }
        }
        found.sort();
        Ok(found)
    })
}

/// Where a path leads, and what is there. One on a mount that does not answer is left behind.
pub(super) fn look(path: &Path) -> io::Result<(PathBuf, Metadata)> {
    let asked = path.to_owned();
    bounded(move || asked.canonicalize().and_then(|real| Ok((real.clone(), real.metadata()?))))
}

/// Waits for an answer of the host's files as long as one can.
fn bounded<T: Send + 'static>(
    look: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        // Who gave up does not hear it.
        tell.send(look()).ok();
    });
    let silent = |_| io::Error::other("it does not answer; is it on a dead network mount?");
    told.recv_timeout(LOOK_LIMIT).map_err(silent)?
}

pub(super) fn check_kind(metadata: &Metadata, mode: MountMode) -> io::Result<()> {
    let kind = metadata.file_type();
    let why = if kind.is_socket() {
        "it is a socket, and a box is shown files and directories only"
    } else if kind.is_fifo() {
        "it is a named pipe, and a box is shown files and directories only"
    } else if kind.is_block_device() || kind.is_char_device() {
        "it is a device, and a box is shown files and directories only"
    } else if kind.is_file() && mode == MountMode::Overlay {
        "it is a file, and only a directory can have a layer over it: use `ro`"
    } else {
        return Ok(());
    };
    Err(io::Error::other(why))
}

/// Whoever has the state of boxes has every box.
pub(super) fn check_no_state(context: &Context, real: &Path) -> Result<(), &'static str> {
    let Ok(paths) = context.paths() else { return Ok(()) };
    // One that is not there yet is where its parent is.
    let mut state = paths.state_dir.clone();
    if let Some(there) =
        paths.state_dir.ancestors().find_map(|at| at.canonicalize().ok().map(|it| (at, it)))
        && let Ok(rest) = paths.state_dir.strip_prefix(there.0)
    {
        state = if rest.as_os_str().is_empty() { there.1 } else { there.1.join(rest) };
    }
    if state.starts_with(real) {
        Err("the state of every box is in it")
    } else if real.starts_with(&state) {
        Err("it is in the state directory")
    } else {
        Ok(())
    }
}

/// A file for whoever makes the box.
pub(super) fn host_file(real: PathBuf, metadata: &Metadata) -> HostFile {
    let file = FileId { device: metadata.dev(), inode: metadata.ino() };
    HostFile { path: real.into_os_string().into(), file: Some(file) }
}
