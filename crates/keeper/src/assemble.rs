//! The interpreter of steps: in the nursery for the shared root, in a box's init for a blank box, in
//! whoever enters it first for the rest.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use minimal_linux::mount::{self, Reach, Restrictions};
use minimal_linux::{creds, network};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::thread::CapabilitySet;

use crate::etc;
use crate::plan::{Given, HOME, HOST_DIRECTORIES, Step, WORKBENCH};
use crate::room;
use crate::shown::Shown;
use crate::system_lowers::ROOT;
use crate::users::BOX_USER;
use crate::walls::Wall;

/// Detached mounts, each for one [`Step::Give`].
pub(crate) type GivenMounts = Vec<(Given, OwnedFd)>;

/// Where git looks for a worktree's repository.
const GIT_FILE: &str = "workbench/.git";

/// What was left out, and why.
pub(crate) type LeftOut = Vec<(String, String)>;

/// Files in place that are still to be written.
pub(crate) type HeldFiles = Vec<(&'static str, OwnedFd)>;

/// A root while it is being assembled.
pub(crate) struct Assembly {
    /// Where the root is attached: a directory of the host, in our namespace only.
    place: PathBuf,
    /// Who owns what we make; none for ourselves.
    owner: Option<u32>,
    root: Option<OwnedFd>,
    shared: Option<OwnedFd>,
    given: GivenMounts,
    left_out: LeftOut,
    held: HeldFiles,
    generated: usize,
    /// Where memory of ours is mounted.
    memory: Vec<&'static str>,
    /// Whom the root knows by name.
    accounts: Option<etc::Accounts>,
}

impl Assembly {
    /// The shared root, to be attached at `place`.
    pub(crate) fn shared(place: &Path, owner: Option<u32>) -> Self {
        Self {
            place: place.to_owned(),
            owner,
            root: None,
            shared: None,
            given: Vec::new(),
            left_out: Vec::new(),
            held: Vec::new(),
            generated: 0,
            memory: Vec::new(),
            accounts: None,
        }
    }

    /// A box's root, from a copy of the shared one and what is given to the box.
    pub(crate) fn of_box(shared: OwnedFd, given: GivenMounts) -> Self {
        // Any directory of the host will do to hang it on.
        let place = ["/tmp", "/mnt", "/usr"].into_iter().find(|path| Path::new(path).is_dir());
        Self { shared: Some(shared), given, ..Self::shared(Path::new(place.unwrap_or("/")), None) }
    }

    /// A box that we have entered, and what is given to it.
    pub(crate) fn entered(given: GivenMounts) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/", flags, Mode::empty())?;
        Ok(Self { root: Some(root), given, ..Self::shared(Path::new("/"), None) })
    }

    /// What was left out, and why; and what is to be written.
    pub(crate) fn into_parts(self) -> (LeftOut, HeldFiles) {
        (self.left_out, self.held)
    }

    /// Whom the root knows by name, once it has such files.
    pub(crate) fn take_accounts(&mut self) -> Option<etc::Accounts> {
        self.accounts.take()
    }

    /// Takes one step.
    pub(crate) fn take(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::EmptyRoot => {
                let options = [("mode", "755"), ("size", "1m")];
                let root = mount::new_file_system("tmpfs", &options, Restrictions::OWN)?;
                self.set_root(root)?;
                self.own("")
            }
            Step::Directory(path) => self.directory(path),
            Step::HostDirectory(name) => self.host_directory(name),
            Step::FileHeld(path) => {
                let file = self.cover_file(path)?;
                self.held.push((*path, file));
                Ok(())
            }
            Step::Memory(path, options) => {
                let options: Vec<_> =
                    options.split(',').filter_map(|option| option.split_once('=')).collect();
                self.attach(&mount::new_file_system("tmpfs", &options, Restrictions::OWN)?, path)?;
                self.memory.push(path);
                self.own(path)
            }
            Step::PublicCopy(path, omitted) => self.public_copy(path, omitted),
            Step::Accounts(path) => self.accounts(path),
            Step::File(path, mode, contents) => self.file(path, *mode, contents),
            Step::FileIfMissing(path, contents) => {
                match rustix::fs::statat(self.root()?, *path, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Ok(()),
                    Err(_) => self.file(path, 0o644, contents),
                }
            }
            Step::Device(name) => self.device(name),
            Step::Link(target, path) => {
                rustix::fs::symlinkat(*target, self.root()?, *path)?;
                self.own(path)
            }
            Step::SealRoot => self.seal_root(),
            Step::CutOffMounts => mount::cut_off(),
            Step::SharedRoot => {
                let none = || io::Error::other("the keeper did not prepare a root");
                let shared = self.shared.take().ok_or_else(none)?;
                self.set_root(shared)
            }
            Step::Terminals(path) => self.terminals(path),
            Step::Processes(path) => {
                self.attach(&mount::new_file_system("proc", &[], Restrictions::OWN)?, path)
            }
            Step::NetworkInSys(path) => self.network_in_sys(path),
            Step::Give(given, path) => self.give(*given, path),
            Step::OwnRoot(_) => self.given_root(),
            Step::MakeRoom(path) => self.make_room(path, room::End::Directory),
            Step::LinkWorkspace(path) => self.make_room(path, room::End::Link(WORKBENCH)),
            Step::LinkHome(path) => self.make_room(Path::new(path), room::End::Link(HOME)),
            Step::GiveAt(given, path) => self.give_at(*given, path),
            Step::GitFile(path) => self.git_file(path),
            Step::MakeRoomFor(mount) => self.make_room_for(mount),
            Step::Mount(mount) => self.mount(mount),
            Step::Find(path) => room::find(self.root()?, below_root(path)),
            Step::SystemLayers => self.system_layers(),
            Step::EnterRoot => {
                mount::enter_root(self.root()?)?;
                // Held any longer it would be a way back for whoever gets at our descriptors.
                self.root = None;
                Ok(())
            }
            Step::HostName(name) => Ok(rustix::system::sethostname(name.as_bytes())?),
            Step::Loopback => network::loopback_up(),
            // Init goes on to pass signals to everything in the box, and to nothing else.
            Step::DropPrivileges => {
                // Without it a box's only user is as good as init.
                let kept = if Wall::Hidden.stands() {
                    CapabilitySet::KILL
                } else {
                    CapabilitySet::empty()
                };
                creds::drop_privileges(kept, CapabilitySet::empty())
            }
        }
    }

    fn root(&self) -> io::Result<BorrowedFd<'_>> {
        let none = || io::Error::other("the plan uses the root before it makes one");
        self.root.as_ref().map(OwnedFd::as_fd).ok_or_else(none)
    }

    fn terminals(&mut self, path: &'static str) -> io::Result<()> {
        let options = [("ptmxmode", "0666"), ("mode", "0620")];
        // Devices are what a devpts is for.
        let restrictions = Restrictions { no_devices: false, ..Restrictions::OWN };
        let mount = mount::new_file_system("devpts", &options, restrictions)?;
        self.attach(&mount, path)?;
        // For the keeper: what it opens terminals in, whatever the box mounts over it.
        self.held.push((path, mount));
        Ok(())
    }

    fn attach(&self, mount: &OwnedFd, path: &str) -> io::Result<()> {
        mount::attach(mount.as_fd(), self.root()?, Path::new(path))
    }

    fn set_root(&mut self, root: OwnedFd) -> io::Result<()> {
        mount::attach(root.as_fd(), CWD, &self.place)?;
        self.root = Some(root);
        Ok(())
    }

    /// Hands what was just made to its owner.
    fn own(&self, path: &str) -> io::Result<()> {
        let Some(owner) = self.owner else { return Ok(()) };
        let (uid, gid) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(self.root()?, path, uid, gid, flags)?)
    }

    fn seal_root(&self) -> io::Result<()> {
        let sealed = Restrictions { read_only: true, ..Restrictions::OWN };
        mount::restrict(self.root()?, sealed, Reach::One)?;
        for path in &self.memory {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let memory = rustix::fs::openat(self.root()?, *path, flags, Mode::empty())?;
            // /dev must still let devices be opened below, which are mounts of their own.
            mount::restrict(memory.as_fd(), sealed, Reach::One)?;
        }
        Ok(())
    }

    fn directory(&self, path: &str) -> io::Result<()> {
        rustix::fs::mkdirat(self.root()?, path, Mode::from_raw_mode(0o755))?;
        self.own(path)
    }

    fn host_directory(&mut self, name: &str) -> io::Result<()> {
        let host = PathBuf::from("/").join(name);
        let metadata = match host.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut shown = host.clone();
        if metadata.is_symlink() {
            let target = std::fs::read_link(&host)?;
            if leads_to_what_is_shown(&target) {
                rustix::fs::symlinkat(target, self.root()?, name)?;
                return self.own(name);
            }
            // In the box the link would lead nowhere.
            shown = match host.canonicalize() {
                Ok(shown) => shown,
                Err(error) => return self.leave_out(name, error.to_string()),
            };
        }
        if !shown.is_dir() {
            return self.leave_out(name, "the host's is not a directory".to_owned());
        }
        self.directory(name)?;
        let tree = mount::clone_tree(CWD, &shown, Reach::Recursive)?;
        let restrictions =
            if Wall::ReadOnly.stands() { Restrictions::HOST } else { Restrictions::OWN };
        mount::restrict(tree.as_fd(), restrictions, Reach::Recursive)?;
        self.attach(&tree, name)
    }

    /// Goes on without something, and says so.
    fn leave_out(&mut self, path: &str, why: String) -> io::Result<()> {
        self.left_out.push((format!("/{path}"), why));
        Ok(())
    }

    fn public_copy(&mut self, path: &str, omitted: &[&str]) -> io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let host = PathBuf::from("/").join(path);
        let host = match rustix::fs::open(host, flags, Mode::empty()) {
            Ok(host) => host,
            Err(error) => return self.leave_out(path, error.to_string()),
        };
        let copy = rustix::fs::openat(self.root()?, path, flags, Mode::empty())?;
        if let Some(left_out) = etc::public_copy(&host, copy.as_fd(), omitted, self.owner)? {
            self.leave_out(path, left_out)?;
        }
        Ok(())
    }

    fn accounts(&mut self, path: &str) -> io::Result<()> {
        // Without them there are no system accounts, and a box has its own all the same.
        let read = |name| std::fs::read(Path::new("/etc").join(name)).unwrap_or_default();
        let text = |name| String::from_utf8_lossy(&read(name)).into_owned();
        let accounts = etc::Accounts::new(&text("passwd"), &text("group"));
        for (name, mode, contents) in [
            ("passwd", 0o644, accounts.passwd()),
            ("group", 0o644, accounts.group()),
            ("shadow", 0o640, accounts.shadow()),
            ("gshadow", 0o640, accounts.gshadow()),
        ] {
            self.file(&format!("{path}/{name}"), mode, &contents)?;
        }
        self.accounts = Some(accounts);
        Ok(())
    }

    fn file(&self, path: &str, mode: u32, contents: &str) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.root()?, path, flags, Mode::from_raw_mode(mode))?;
        std::fs::File::from(file).write_all(contents.as_bytes())?;
        self.own(path)
    }

    fn system_layers(&mut self) -> io::Result<()> {
        // In the order in which they were made: some are in others.
        for (given, mount) in std::mem::take(&mut self.given) {
            match given {
                Given::System(ROOT) => self.own_root(mount, room::carry_all)?,
                Given::System(path) => self.attach(&mount, path)?,
                _ => self.given.push((given, mount)),
            }
        }
        Ok(())
    }

    fn give(&mut self, given: Given, path: &str) -> io::Result<()> {
        let mount = self.take_given(given)?;
        self.attach(&mount, path)
    }

    fn take_given(&mut self, given: Given) -> io::Result<OwnedFd> {
        let at = self.given.iter().position(|(which, _)| *which == given);
        let at = at.ok_or_else(|| io::Error::other("the keeper did not prepare this directory"))?;
        Ok(self.given.swap_remove(at).1)
    }

    fn give_at(&mut self, given: Given, path: &Path) -> io::Result<()> {
        let mount = self.take_given(given)?;
        // Where the box may write itself, no room was made.
        let at = room::make_below(self.root()?, below_root(path))?;
        mount::attach_over(mount.as_fd(), at.as_fd())
    }

    fn make_room_for(&mut self, mount: &Shown) -> io::Result<()> {
        let is_directory = self.is_directory(mount)?;
        let end = if is_directory { room::End::Directory } else { room::End::File };
        self.make_room(&mount.dest, end)
    }

    fn mount(&mut self, mount: &Shown) -> io::Result<()> {
        let is_directory = self.is_directory(mount)?;
        let shown = self.take_given(Given::Mount(mount.index))?;
        // Where the box may write itself, no room was made.
        let at = match is_directory {
            true => room::make_owned_below(self.root()?, below_root(&mount.dest))?,
            false => room::make_file_below(self.root()?, below_root(&mount.dest))?,
        };
        mount::attach_over(shown.as_fd(), at.as_fd())
    }

    fn is_directory(&self, mount: &Shown) -> io::Result<bool> {
        let given = self.given.iter().find(|(which, _)| *which == Given::Mount(mount.index));
        let (_, shown) =
            given.ok_or_else(|| io::Error::other("the keeper did not prepare this mount"))?;
        Ok(FileType::from_raw_mode(rustix::fs::fstat(shown)?.st_mode) == FileType::Directory)
    }

    fn given_root(&mut self) -> io::Result<()> {
        let root = self.take_given(Given::Root)?;
        self.own_root(root, room::carry_own)
    }

    /// Enters another root with what `carry` takes over from the one there is.
    fn own_root(
        &mut self,
        root: OwnedFd,
        carry: fn(BorrowedFd<'_>) -> io::Result<room::Carried>,
    ) -> io::Result<()> {
        // Before the new root is attached, so that it is in none of it.
        let carried = carry(self.root()?)?;
        // Over any directory of the old one, which is left at once.
        let place = room::make_below(self.root()?, below_root(Path::new(WORKBENCH)))?;
        mount::attach_over(root.as_fd(), place.as_fd())?;
        carried.put_into(root.as_fd())?;
        // For the home of the box's root.
        room::make_below(root.as_fd(), Path::new("root"))?;
        mount::enter_root(root.as_fd())?;
        self.root = Some(root);
        Ok(())
    }

    fn make_room(&mut self, path: &Path, end: room::End) -> io::Result<()> {
        if let Some(root) = room::make(self.root()?, below_root(path), end)? {
            mount::enter_root(root.as_fd())?;
            self.root = Some(root);
        }
        Ok(())
    }

    /// Over the one that is there: it may name the repository by a path from where the project is on
    /// the host.
    fn git_file(&mut self, git_dir: &Path) -> io::Result<()> {
        let file = self.cover_file(GIT_FILE)?;
        // Git works only with files of the user it runs as.
        let (uid, gid) = (Some(Uid::from_raw(BOX_USER)), Some(Gid::from_raw(BOX_USER)));
        rustix::fs::fchown(&file, uid, gid)?;
        let line = [b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat();
        std::fs::File::from(file).write_all(&line)
    }

    /// Puts an empty file over the one that is there, and returns it to be written: what is read-only
    /// is the mount in its place, not the file.
    fn cover_file(&mut self, path: &str) -> io::Result<OwnedFd> {
        // In /run, which in a box is its own and writable when this is done.
        let name = format!("run/.generated-{}", self.generated);
        self.generated += 1;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.root()?, &name, flags, Mode::from_raw_mode(0o644))?;
        let tree = mount::clone_tree(self.root()?, Path::new(&name), Reach::One)?;
        mount::restrict(tree.as_fd(), Restrictions::HOST, Reach::One)?;
        self.attach(&tree, path)?;
        // The mount keeps it; the name was only the way there.
        rustix::fs::unlinkat(self.root()?, &name, AtFlags::empty())?;
        Ok(file)
    }

    fn device(&self, name: &str) -> io::Result<()> {
        let inside = Path::new("dev").join(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::openat(self.root()?, &inside, flags, Mode::from_raw_mode(0o666))?);
        let device = mount::clone_tree(CWD, &Path::new("/dev").join(name), Reach::One)?;
        mount::attach(device.as_fd(), self.root()?, &inside)
    }

    fn network_in_sys(&mut self, path: &str) -> io::Result<()> {
        // The kernel refuses a new sysfs where part of the host's is covered; then there is none.
        let whole = match mount::new_file_system("sysfs", &[], Restrictions::HOST) {
            Ok(whole) => whole,
            Err(error) => return self.leave_out(path, error.to_string()),
        };
        // It shows the host's devices and modules as well. Older kernels copy parts only of what is
        // attached, so it is for a moment.
        let place = "run/.sys";
        rustix::fs::mkdirat(self.root()?, place, Mode::RWXU)?;
        self.attach(&whole, place)?;
        for part in ["class/net", "devices/virtual/net"] {
            let tree = mount::clone_tree(self.root()?, &Path::new(place).join(part), Reach::One)?;
            self.attach(&tree, &format!("{path}/{part}"))?;
        }
        mount::detach(&self.place.join(place))?;
        Ok(rustix::fs::unlinkat(self.root()?, place, AtFlags::REMOVEDIR)?)
    }
}

/// As steps name places: without the leading slash.
fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Whether a link in `/` leads below a directory that a box sees under its own name.
fn leads_to_what_is_shown(target: &Path) -> bool {
    let mut parts = target.components().filter(|part| *part != Component::RootDir);
    let first = parts.next();
    let is_shown = HOST_DIRECTORIES
        .iter()
        .any(|shown| first == Some(Component::Normal(std::ffi::OsStr::new(shown))));
    is_shown && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_kept_where_they_lead_somewhere_in_a_box() {
        for (target, kept) in [
            ("usr/bin", true),
            ("/usr/lib64", true),
            ("usr", true),
            ("/srv/opt", false),
            ("../usr/bin", false),
            ("usr/../home", false),
            ("", false),
            ("/", false),
        ] {
            assert_eq!(leads_to_what_is_shown(Path::new(target)), kept, "{target}");
        }
    }
}
