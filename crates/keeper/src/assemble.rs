//! The interpreter of steps: in the nursery for the shared root, in a box's init for a blank box, in
//! whoever enters it first for the rest.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use minimal_linux::mount::{self, Reach, Restrictions};
use minimal_linux::{creds, network};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::thread::CapabilitySet;

use crate::plan::{Given, Step};

/// Detached mounts, each for one [`Step::Give`].
pub(crate) type GivenMounts = Vec<(Given, OwnedFd)>;

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
            Step::HostFileReplaced(path, contents) => {
                let Some(file) = self.replace_file(path)? else { return Ok(()) };
                std::fs::File::from(file).write_all(contents.as_bytes())
            }
            Step::HostFileHeld(path) => {
                let file = self.replace_file(path)?;
                self.held.extend(file.map(|file| (*path, file)));
                Ok(())
            }
            Step::Memory(path, options) => {
                let options: Vec<_> =
                    options.split(',').filter_map(|option| option.split_once('=')).collect();
                self.attach(&mount::new_file_system("tmpfs", &options, Restrictions::OWN)?, path)?;
                self.own(path)
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
            Step::Terminals(path) => {
                let options = [("ptmxmode", "0666"), ("mode", "0620")];
                // Devices are what a devpts is for.
                let restrictions = Restrictions { no_devices: false, ..Restrictions::OWN };
                self.attach(&mount::new_file_system("devpts", &options, restrictions)?, path)
            }
            Step::Processes(path) => {
                self.attach(&mount::new_file_system("proc", &[], Restrictions::OWN)?, path)
            }
            Step::Kernel(path) => self.kernel(path),
            Step::Give(given, path) => self.give(*given, path),
            Step::EnterRoot => {
                mount::enter_root(self.root()?)?;
                // Held any longer it would be a way back for whoever gets at our descriptors.
                self.root = None;
                Ok(())
            }
            Step::HostName(name) => Ok(rustix::system::sethostname(name.as_bytes())?),
            Step::Loopback => network::loopback_up(),
            // Init goes on to pass signals to everything in the box, and to nothing else.
            Step::DropPrivileges => creds::drop_privileges(CapabilitySet::KILL),
        }
    }

    fn root(&self) -> io::Result<BorrowedFd<'_>> {
        let none = || io::Error::other("the plan uses the root before it makes one");
        self.root.as_ref().map(OwnedFd::as_fd).ok_or_else(none)
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
        // And /dev, the one other file system of ours in it.
        let dev = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dev = rustix::fs::openat(self.root()?, "dev", dev, Mode::empty())?;
        // It must still let devices be opened below, which are mounts of their own.
        mount::restrict(dev.as_fd(), sealed, Reach::One)
    }

    fn directory(&self, path: &str) -> io::Result<()> {
        rustix::fs::mkdirat(self.root()?, path, Mode::from_raw_mode(0o755))?;
        self.own(path)
    }

    fn host_directory(&self, name: &str) -> io::Result<()> {
        let host = PathBuf::from("/").join(name);
        let metadata = match host.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if metadata.is_symlink() {
            rustix::fs::symlinkat(std::fs::read_link(&host)?, self.root()?, name)?;
            return self.own(name);
        }
        self.directory(name)?;
        let tree = mount::clone_tree(CWD, &host, Reach::Recursive)?;
        mount::restrict(tree.as_fd(), Restrictions::HOST, Reach::Recursive)?;
        self.attach(&tree, name)
    }

    fn give(&mut self, given: Given, path: &str) -> io::Result<()> {
        let at = self.given.iter().position(|(which, _)| *which == given);
        let at = at.ok_or_else(|| io::Error::other("the keeper did not prepare this directory"))?;
        let (_, mount) = self.given.swap_remove(at);
        self.attach(&mount, path)
    }

    /// Puts an empty file over the host's, and returns it to be written: what is read-only is the
    /// mount in the host's place, not the file.
    fn replace_file(&mut self, path: &str) -> io::Result<Option<OwnedFd>> {
        // A mount needs something to be mounted on; the host's directory cannot be written.
        match rustix::fs::statat(self.root()?, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {}
            Ok(_) => {
                let why = "the host's is not a regular file".to_owned();
                self.left_out.push((path.to_owned(), why));
                return Ok(None);
            }
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
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
        Ok(Some(file))
    }

    fn device(&self, name: &str) -> io::Result<()> {
        let inside = Path::new("dev").join(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::openat(self.root()?, &inside, flags, Mode::from_raw_mode(0o666))?);
        let device = mount::clone_tree(CWD, &Path::new("/dev").join(name), Reach::One)?;
        mount::attach(device.as_fd(), self.root()?, &inside)
    }

    fn kernel(&mut self, path: &str) -> io::Result<()> {
        // The kernel refuses a new sysfs where part of the host's is covered; then there is none.
        match mount::new_file_system("sysfs", &[], Restrictions::HOST) {
            Ok(mount) => self.attach(&mount, path),
            Err(error) => {
                self.left_out.push((format!("/{path}"), error.to_string()));
                Ok(())
            }
        }
    }
}
