//! A box whose system is a directory of the host's and not the host's own: an overlay over it, in which
//! `/etc` says who the box's users are and what it is called.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use minimal_linux::mount::{Reach, clone_tree, map_ids};
use minimal_linux::namespaces::{IdRange, map_only};
use minimal_linux::overlay::{self, Layers, Marks};
use minimal_proto::api::HostFile;
use minimal_proto::ending::StartFault;
use minimal_proto::keeper::Missing;
use minimal_store::BoxDir;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::system_layers::{UPPER, WORK, file, make, open};
use super::workspace::{look_at, mounts_around};
use super::{BirthError, on_host};
use crate::etc::{self, Accounts};
use crate::plan::{Contents, Plan};
use crate::users::{RANGE, Users};

/// Where the box keeps its layer, in `fs/` of the box directory.
const ROOTFS: &str = "rootfs";

/// What is attempted, in messages.
const WHAT: &str = "make the box's root of a directory";

/// How much of the directory's `/etc/passwd` and `/etc/group` is read, in bytes: a thousand lines.
const MOST_READ: u64 = 64 << 10;

/// A root that was made.
#[derive(Debug)]
pub(super) struct Rootfs {
    /// Detached.
    pub(super) mount: OwnedFd,
    /// Whom it knows by name.
    pub(super) accounts: Accounts,
    /// What is not as one would expect of it.
    pub(super) missing: Vec<Missing>,
}

/// Makes the root that a plan asks for, if it does. `meant` is what whoever made the box has found.
pub(super) fn prepare(
    plan: &Plan,
    meant: Option<&HostFile>,
    box_dir: &BoxDir,
    users: Users,
) -> Result<Option<Rootfs>, BirthError> {
    let Some(written) = &plan.rootfs else { return Ok(None) };
    let failed = |why: String, errno| BirthError {
        fault: StartFault::Other,
        step: WHAT.to_owned(),
        message: format!("cannot {WHAT}: {}: {why}", written.display()),
        errno,
    };
    let refused = |error: io::Error| failed(error.to_string(), error.raw_os_error());
    let path = match meant {
        Some(meant) => PathBuf::from(meant.path.as_os_str()),
        None => on_host::at_home(written).map_err(refused)?,
    };
    let around = mounts_around(&path).map_err(refused)?;
    if !around.local {
        look_at(&path).map_err(refused)?;
    }
    let real = path.canonicalize().map_err(refused)?;
    if meant.is_some_and(|meant| meant.file.is_none()) && real != path {
        // Found without any in the first life: one was put there since.
        return Err(failed("a symbolic link is on the way to it".to_owned(), None));
    }
    let path = real;
    on_host::check_no_state(&path, box_dir).map_err(refused)?;
    let directory = open_path(&path).map_err(refused)?;
    if let Some(file) = meant.and_then(|meant| meant.file) {
        on_host::check_same(directory.as_fd(), file).map_err(refused)?;
    }
    let below = mounts_around(&path).map_err(refused)?.below;
    let mut missing: Vec<Missing> = Vec::new();
    let lower = clone_tree(directory.as_fd(), Path::new(""), Reach::One).map_err(|error| {
        match below.first() {
            Some(mount) => failed(
                format!(
                    "`{}` is mounted below it, and without root that cannot be left out",
                    mount.display()
                ),
                error.raw_os_error(),
            ),
            None => refused(error),
        }
    })?;
    if let Some(mount) = below.first() {
        let why = format!("what is mounted at `{}` is not part of the root", mount.display());
        missing.push(Missing { what: "rootfs_mounts".to_owned(), why });
    }
    missing.extend(show_owners(lower.as_fd(), users).err().map(|error| Missing {
        what: "rootfs_owners".to_owned(),
        why: format!(
            "its files cannot be shown with other owners, so nobody in the box owns them: {error}"
        ),
    }));
    let accounts = accounts(directory.as_fd());
    let mount = lay_over(lower.as_fd(), &accounts, plan, box_dir, users).map_err(refused)?;
    Ok(Some(Rootfs { mount, accounts, missing }))
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// What is the host's root's on disk is the box's root's. An ordinary user owns the same files inside
/// as outside.
fn show_owners(lower: BorrowedFd<'_>, users: Users) -> io::Result<()> {
    let Users::Range { base } = users else { return Ok(()) };
    let ranges = [IdRange { inside: 0, outside: base, count: RANGE }];
    map_ids(lower, map_only(&ranges, &ranges)?.as_fd(), Reach::One)
}

/// The system accounts that the directory knows.
fn accounts(directory: BorrowedFd<'_>) -> Accounts {
    let read = |path: &str| -> io::Result<Vec<u8>> {
        // Links in it lead to where they would lead inside; nobody waits for a FIFO.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat2(directory, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        let file = File::from(file);
        let mut text = Vec::new();
        if file.metadata()?.is_file() {
            file.take(MOST_READ).read_to_end(&mut text)?;
        }
        Ok(text)
    };
    // Without them there are no system accounts, and a box has its own all the same.
    let text = |path| String::from_utf8_lossy(&read(path).unwrap_or_default()).into_owned();
    Accounts::new(&text("etc/passwd"), &text("etc/group"))
}

fn lay_over(
    lower: BorrowedFd<'_>,
    accounts: &Accounts,
    plan: &Plan,
    box_dir: &BoxDir,
    users: Users,
) -> io::Result<OwnedFd> {
    let files = open(box_dir.dir_fd(), "fs")?;
    let owner = users.root().unwrap_or(users.owner());
    // In a further life nothing is made in what the box has written to: a link that it left there must
    // not lead us anywhere.
    let own = match rustix::fs::mkdirat(&files, ROOTFS, Mode::RWXU) {
        Ok(()) => {
            let own = open(files.as_fd(), ROOTFS)?;
            let upper = make(own.as_fd(), UPPER, owner)?;
            make(own.as_fd(), WORK, owner)?;
            write_etc(&make(upper.as_fd(), "etc", owner)?, lower, accounts, plan, owner)?;
            own
        }
        Err(rustix::io::Errno::EXIST) => open(files.as_fd(), ROOTFS)?,
        Err(error) => return Err(error.into()),
    };
    // Beneath a mount of its own, so that the options of the overlay do not tell the box where on the
    // host its directory is. Held until the overlay is made: else it is taken apart before.
    let beneath = clone_tree(own.as_fd(), Path::new(""), Reach::One)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let layer = |name| rustix::fs::openat(&beneath, name, flags, Mode::empty());
    let (upper, work) = (layer(UPPER)?, layer(WORK)?);
    let marks = match users {
        Users::Range { .. } => Marks::Trusted,
        Users::Subordinate | Users::Single => Marks::User,
    };
    let layers = Layers { lowers: &[lower], upper: upper.as_fd(), work: work.as_fd() };
    overlay::new(layers, marks)
        .map_err(|error| io::Error::other(format!("no layer can be laid over it: {error}")))
}

/// The files of `/etc` that are a box's own.
fn write_etc(
    etc: &OwnedFd,
    lower: BorrowedFd<'_>,
    accounts: &Accounts,
    plan: &Plan,
    owner: u32,
) -> io::Result<()> {
    let text = |name: &str, mode, text: String| {
        file(etc.as_fd(), Path::new(name), &Contents::Text(text), (owner, mode))
    };
    text("passwd", 0o644, accounts.passwd())?;
    text("group", 0o644, accounts.group())?;
    text("shadow", 0o640, accounts.shadow())?;
    text("gshadow", 0o640, accounts.gshadow())?;
    text("machine-id", 0o444, String::new())?;
    if rustix::fs::statat(lower, "etc/nsswitch.conf", rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_err()
    {
        text("nsswitch.conf", 0o644, etc::NAME_SERVICES.to_owned())?;
    }
    rustix::fs::symlinkat("../proc/self/mounts", etc, "mtab")?;
    for (path, contents) in &plan.files {
        if let Ok(name) = Path::new(path).strip_prefix("etc") {
            file(etc.as_fd(), name, contents, (owner, 0o644))?;
        }
    }
    Ok(())
}
