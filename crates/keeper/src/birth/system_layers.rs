//! The layers that a box's root writes to over the host's system directories, kept with the box.
//!
//! They are made for boxes that run as root only: each costs a fifth of a millisecond, and nobody
//! else in a box may write there anyway.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use minimal_linux::mount::{Reach, Restrictions, clone_tree, restrict};
use minimal_linux::overlay::{self, Layers, Marks};
use minimal_store::BoxDir;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use super::identity::Identity;
use super::workspace::Meanwhile;
use super::{BirthError, blank, view};
use crate::assemble::{GivenMounts, LeftOut};
use crate::plan::{Contents, Given, Plan};
use crate::shared_root::SharedRoot;
use crate::system_lowers::{Lower, ROOT};
use crate::users::Users;

/// Where they are in `fs/` of the box directory, and what each has.
const SYSTEM: &str = "system";
pub(super) const UPPER: &str = "upper";
pub(super) const WORK: &str = "work";

/// What of `/var` programs that install take for granted. The databases are mounted into it.
const VAR: [&str; 18] = [
    "lib",
    "lib/apt",
    "lib/apt/lists",
    "lib/apt/lists/partial",
    "lib/misc",
    "cache",
    "cache/apt",
    "cache/apt/archives",
    "cache/apt/archives/partial",
    "cache/debconf",
    "cache/ldconfig",
    "cache/man",
    "log",
    "log/apt",
    "mail",
    "opt",
    "spool",
    "www",
];

/// Links that every box has in `/var`.
const VAR_LINKS: [(&str, &str); 3] = [("/run", "run"), ("/run/lock", "lock"), ("/tmp", "tmp")];

/// How deep the box's root can make new names in the administrator's directories, and in how many
/// of those: `/usr/local/lib/python3/dist-packages` is the deepest that programs expect.
const SKELETON_LEVELS: usize = 3;
const SKELETON_NAMES: usize = 1000;

/// What is attempted, in messages.
const MAKE_VIEW: &str = "make the host's directories once more for the box's root";

/// The mounts, and what a box's root can install with them.
#[derive(Debug)]
pub(super) struct SystemLayers {
    pub(super) mounts: GivenMounts,
    /// `full`, `new` or `none`.
    pub(super) install: &'static str,
    /// Why root cannot install.
    pub(super) left_out: LeftOut,
}

impl SystemLayers {
    /// Makes them for a box that runs as root, where they can be made.
    pub(super) fn prepare(
        identity: &Identity,
        plan: &Plan,
        box_dir: &BoxDir,
        nursery: &SharedRoot,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<Self, BirthError> {
        let mut layers = Self { mounts: Vec::new(), install: "none", left_out: Vec::new() };
        if !identity.is_root() {
            return Ok(layers);
        }
        if plan.rootfs.is_some() {
            // All of it is in a layer of the box's own.
            layers.install = "full";
            return Ok(layers);
        }
        if let Some(why) = &nursery.lowers.lack {
            layers.left_out.push(("install".to_owned(), why.clone()));
            return Ok(layers);
        }
        let Some(owner) = nursery.users.root() else {
            layers.left_out.push(("install".to_owned(), "its boxes have no root".to_owned()));
            return Ok(layers);
        };
        let lowers = &nursery.lowers.all;
        let view = match nursery.users {
            Users::Range { .. } => None,
            Users::Subordinate | Users::Single => {
                match view::of(lowers, nursery.state_dir(), owner, meanwhile) {
                    Ok(view) => Some(view),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                        let why = io::Error::other(
                            "the box was stopped before that was done; nothing was run",
                        );
                        return Err(BirthError::new(MAKE_VIEW, &why));
                    }
                    Err(error) => {
                        let why = format!(
                            "the host's directories cannot be made the box's root's: {error}"
                        );
                        layers.left_out.push(("install".to_owned(), why));
                        return Ok(layers);
                    }
                }
            }
        };
        layers.install = if view.is_some() { "new" } else { "full" };
        layers.mounts = mounts(lowers, view.as_ref(), plan, box_dir, owner).map_err(|error| {
            BirthError::new("lay the box's own layers over the host's directories", &error)
        })?;
        Ok(layers)
    }
}

fn mounts(
    lowers: &[Lower],
    view: Option<&OwnedFd>,
    plan: &Plan,
    box_dir: &BoxDir,
    owner: u32,
) -> io::Result<GivenMounts> {
    let files = open(box_dir.dir_fd(), "fs")?;
    let made = match rustix::fs::mkdirat(&files, SYSTEM, Mode::RWXU) {
        Ok(()) => true,
        Err(rustix::io::Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let system = open(files.as_fd(), SYSTEM)?;
    // In a further life nothing is made in what the box has written to: a link that it left there
    // must not lead us anywhere.
    if made {
        populate(lowers, plan, &system, owner)?;
    }
    let var = clone_tree(system.as_fd(), Path::new("var"), Reach::One)?;
    restrict(var.as_fd(), Restrictions::OWN, Reach::One)?;
    let mut mounts = vec![(Given::System("var"), var)];
    // Beneath a mount of its own, so that the options of an overlay do not tell the box where on
    // the host its directory is. Kept until the last is made: a detached mount that nobody holds is
    // taken apart, and its directories are then no layers any more.
    let beneath = clone_tree(system.as_fd(), Path::new(""), Reach::One)?;
    let view = view.map(|view| clone_tree(view.as_fd(), Path::new(""), Reach::One)).transpose()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for lower in lowers {
        let layer = |part| {
            let path = format!("{}/{part}", directory_of(lower));
            rustix::fs::openat(&beneath, path, flags, Mode::empty())
        };
        let (upper, work) = (layer(UPPER)?, layer(WORK)?);
        let directories = view
            .as_ref()
            .filter(|_| lower.needs_view())
            .map(|view| rustix::fs::openat(view, directory_of(lower), flags, Mode::empty()));
        let directories = directories.transpose()?;
        let lowers: Vec<_> = directories.iter().chain([&lower.mount]).map(OwnedFd::as_fd).collect();
        let layers = Layers { lowers: &lowers, upper: upper.as_fd(), work: work.as_fd() };
        let marks = if view.is_some() { Marks::User } else { Marks::Trusted };
        let mount = overlay::new(layers, marks)
            .map_err(|error| io::Error::other(format!("/{}: {error}", lower.path)))?;
        mounts.push((Given::System(lower.path), mount));
    }
    Ok(mounts)
}

/// Makes the directories of a box in its first life.
fn populate(lowers: &[Lower], plan: &Plan, system: &OwnedFd, owner: u32) -> io::Result<()> {
    let var = make(system.as_fd(), "var", owner)?;
    for path in VAR {
        make(var.as_fd(), path, owner)?;
    }
    for (target, name) in VAR_LINKS {
        rustix::fs::symlinkat(target, &var, name)?;
    }
    for lower in lowers {
        let directory = make(system.as_fd(), &directory_of(lower), 0)?;
        let upper = make(directory.as_fd(), UPPER, owner)?;
        make(directory.as_fd(), WORK, owner)?;
        if let Ok(below_var) = Path::new(lower.path).strip_prefix("var") {
            make(var.as_fd(), &below_var.to_string_lossy(), owner)?;
        }
        if !lower.is_owned {
            let mut left = SKELETON_NAMES;
            skeleton(&open(lower.mount.as_fd(), ".")?, &upper, owner, SKELETON_LEVELS, &mut left)?;
        }
        for (path, contents) in plan.files.iter().filter(|_| lower.path != ROOT) {
            if let Ok(name) = Path::new(path).strip_prefix(lower.path) {
                file(upper.as_fd(), name, contents, (owner, 0o644))?;
            }
        }
    }
    Ok(())
}

/// The directory of a lower's layer.
pub(super) fn directory_of(lower: &Lower) -> String {
    if lower.path == ROOT { "root".to_owned() } else { lower.path.replace('/', "-") }
}

/// Makes a directory that its owner alone can write to, and opens it.
pub(super) fn make(at: BorrowedFd<'_>, path: &str, owner: u32) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(at, path, Mode::RWXU)?;
    let directory = open(at, path)?;
    rustix::fs::fchown(&directory, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o755))?;
    Ok(directory)
}

pub(super) fn open(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

/// Makes the directories of a lower that everybody may enter again in the upper, owned by the box's
/// root: who owns the topmost may make names in it.
fn skeleton(
    lower: &OwnedFd,
    upper: &OwnedFd,
    owner: u32,
    levels: usize,
    left: &mut usize,
) -> io::Result<()> {
    if levels == 0 {
        return Ok(());
    }
    for entry in Dir::read_from(lower)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if matches!(name, "." | "..") || *left == 0 {
            continue;
        }
        // It may be gone or another by now; then there is nothing to make.
        let Ok(stat) = rustix::fs::statat(lower, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        let is_open = Mode::from_raw_mode(stat.st_mode).contains(Mode::ROTH | Mode::XOTH);
        if !is_directory || !is_open {
            continue;
        }
        *left -= 1;
        let made = make(upper.as_fd(), name, owner)?;
        if let Ok(inner) = open(lower.as_fd(), name) {
            skeleton(&inner, &made, owner, levels - 1, left)?;
        }
    }
    Ok(())
}

/// Writes a file of the box's, for its root to change later.
pub(super) fn file(
    at: BorrowedFd<'_>,
    name: &Path,
    contents: &Contents,
    (owner, mode): (u32, u32),
) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(at, name, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::fchown(&file, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    blank::write(contents, file.into())
}
