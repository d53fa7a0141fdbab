//! Files of the host that are copied into a box before its first life: which they are, and into which
//! of its own directories they go.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::api::{FileId, PatchFile};
use minimal_proto::keeper::Missing;
use minimal_proto::pattern;
use minimal_store::BoxDir;
use rustix::fs::AtFlags;

use super::workspace::{self, Meanwhile, Target};
use super::{BirthError, at, mounts, own_files};
use crate::assemble::GivenMounts;
use crate::plan::{Given, HOME, WORKBENCH};
use crate::shown::Patched;
use crate::users::Users;

/// What is attempted, in messages.
const WHAT: &str = "copy a file of the host into the box";

/// Is there once they were copied.
const COPIED: &str = "fs/patched";

/// The most names that a pattern can stand for.
const MOST: usize = 10_000;

/// The box's own directories, by where they are in it.
const PLACES: [(&str, Given); 4] = [
    (HOME, Given::Home),
    ("/tmp", Given::Tmp),
    ("/root", Given::RootHome),
    (WORKBENCH, Given::Workbench),
];

/// Copies them, unless an earlier life has: from then on they are the box's. `found` is what whoever
/// made the box has found, and `given` what the box has besides its own directories: its workspace may
/// be among that.
pub(super) fn copy_once(
    (patches, found): (&[Patched], &[Vec<PatchFile>]),
    given: &GivenMounts,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Vec<Missing>, BirthError> {
    let is_copied = rustix::fs::statat(box_dir.dir_fd(), COPIED, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if patches.is_empty() || is_copied {
        return Ok(Vec::new());
    }
    let left_out = copy((patches, found), given, box_dir, users, meanwhile)?;
    // After they are whole, and before anything runs that could change them.
    own_files::make_directory(box_dir.dir_fd(), COPIED, 0o700, users)
        .map_err(at("note that files were copied into the box"))?;
    Ok(left_out)
}

fn copy(
    (patches, found): (&[Patched], &[Vec<PatchFile>]),
    given: &GivenMounts,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Vec<Missing>, BirthError> {
    let mut targets = Vec::new();
    for (index, patch) in patches.iter().enumerate() {
        let files = match found.get(index) {
            Some(files) => files.iter().map(of_caller).collect(),
            None => find(patch)?,
        };
        for (name, path, file) in files {
            let mut dest = patch.dest.clone();
            if patch.is_pattern() {
                dest.push(name);
            }
            let source = mounts::open(&path, file, box_dir, WHAT)?;
            let (root, below, owner) =
                place(&dest, given, box_dir, users).map_err(workspace::about(WHAT, &dest))?;
            targets.push(Target { source, root, path: below, dest, owner });
        }
    }
    workspace::copy_all(&targets, meanwhile)
}

/// A file by its name, where it is, and which one it is.
type Found = (OsString, PathBuf, Option<FileId>);

fn of_caller(PatchFile { name, file }: &PatchFile) -> Found {
    // A name, whatever was sent.
    let name = Path::new(name.as_os_str()).file_name().unwrap_or_default();
    (name.to_owned(), PathBuf::from(file.path.as_os_str()), file.file)
}

/// What a patch stands for, if nobody has looked yet.
fn find(patch: &Patched) -> Result<Vec<Found>, BirthError> {
    if !patch.is_pattern() {
        return Ok(vec![(OsString::new(), mounts::find(&patch.source, WHAT)?, None)]);
    }
    let failed = workspace::about(WHAT, &patch.source);
    let (Some(directory), Some(names)) = (patch.source.parent(), patch.source.file_name()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let directory = mounts::find(directory, WHAT)?;
    let mut found = Vec::new();
    for entry in directory.read_dir().map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        if pattern::lists(names.as_bytes(), name.as_bytes()) {
            if found.len() == MOST {
                let why = format!("it stands for more than {MOST} names");
                return Err(failed(io::Error::other(why)));
            }
            let path = mounts::find(&directory.join(&name), WHAT)?;
            found.push((name, path, None));
        }
    }
    found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    Ok(found)
}

/// The box's own directory that a place is in, what is left of the path, and whose it is.
fn place(
    dest: &Path,
    given: &GivenMounts,
    box_dir: &BoxDir,
    users: Users,
) -> io::Result<(OwnedFd, PathBuf, Option<u32>)> {
    let not_own = || io::Error::other("it is not in a directory of the box's own");
    let in_which = PLACES.iter().find_map(|(at, own)| Some((*own, dest.strip_prefix(at).ok()?)));
    let (own, below) = in_which.ok_or_else(not_own)?;
    let project = |which: &Given| own == Given::Workbench && matches!(which, Given::Project(_));
    // What is handed to the box in place of its own directory is what it sees there.
    let handed = given.iter().find(|(which, _)| *which == own || project(which));
    let root = match handed {
        // The mount is a handle only; to look and to write takes an open directory.
        Some((_, mount)) => own_files::open(mount.as_fd(), Path::new("."))?,
        None => own_files::directory(box_dir, own, users)?,
    };
    let owner = match own {
        Given::RootHome => users.root(),
        _ => matches!(users, Users::Range { .. }).then(|| users.owner()),
    };
    Ok((root, below.to_owned(), owner))
}
