//! The interpreter of a plan, inside the box's namespaces.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use minimal_linux::mount::{self, Reach, Restrictions};
use minimal_linux::{creds, network};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::thread::CapabilitySet;

use super::given::GivenMounts;
use crate::plan::{Given, Step};

/// A box while it is being assembled.
pub(super) struct Assembly {
    root: Option<OwnedFd>,
    given: GivenMounts,
    kept: CapabilitySet,
    missing: Vec<(String, String)>,
    generated: usize,
}

impl Assembly {
    /// Nothing is there yet. `kept` is what [`Step::DropPrivileges`] leaves to init.
    pub(super) fn new(given: GivenMounts, kept: CapabilitySet) -> Self {
        Self { root: None, given, kept, missing: Vec::new(), generated: 0 }
    }

    /// What was left out, and why.
    pub(super) fn missing(&self) -> Vec<(String, String)> {
        self.missing.clone()
    }

    /// Takes one step.
    pub(super) fn take(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::CutOffMounts => mount::cut_off(),
            Step::EmptyRoot => self.make_root(),
            Step::Directory(path) => self.directory(path),
            Step::HostDirectory(name) => self.host_directory(name),
            Step::Give(given, path) => self.give(*given, path),
            Step::HostFileReplaced(path, contents) => self.replace_file(path, contents),
            Step::Memory(path, options) => {
                let options: Vec<_> =
                    options.split(',').filter_map(|option| option.split_once('=')).collect();
                self.attach(&mount::new_file_system("tmpfs", &options, Restrictions::OWN)?, path)
            }
            Step::Device(name) => self.device(name),
            Step::Link(target, path) => Ok(rustix::fs::symlinkat(*target, self.root()?, *path)?),
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
            Step::EnterRoot => self.enter_root(),
            Step::HostName(name) => Ok(rustix::system::sethostname(name.as_bytes())?),
            Step::Loopback => network::loopback_up(),
            Step::DropPrivileges => creds::drop_privileges(self.kept),
        }
    }

    fn root(&self) -> io::Result<BorrowedFd<'_>> {
        let none = || io::Error::other("the plan uses the root before it makes one");
        self.root.as_ref().map(OwnedFd::as_fd).ok_or_else(none)
    }

    fn attach(&self, mount: &OwnedFd, path: &str) -> io::Result<()> {
        mount::attach(mount.as_fd(), self.root()?, Path::new(path))
    }

    fn make_root(&mut self) -> io::Result<()> {
        let options = [("mode", "755"), ("size", "1m")];
        let root = mount::new_file_system("tmpfs", &options, Restrictions::OWN)?;
        // Any directory of the host will do to hang it on; in our namespace only.
        let place = ["/tmp", "/mnt", "/usr"].into_iter().find(|path| Path::new(path).is_dir());
        let place = place.ok_or_else(|| io::Error::other("the host has no /tmp, /mnt or /usr"))?;
        mount::attach(root.as_fd(), CWD, Path::new(place))?;
        self.root = Some(root);
        Ok(())
    }

    fn directory(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(self.root()?, path, Mode::from_raw_mode(0o755))?)
    }

    fn host_directory(&self, name: &str) -> io::Result<()> {
        let host = PathBuf::from("/").join(name);
        let metadata = match host.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if metadata.is_symlink() {
            return Ok(rustix::fs::symlinkat(std::fs::read_link(&host)?, self.root()?, name)?);
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

    fn replace_file(&mut self, path: &str, contents: &str) -> io::Result<()> {
        // A mount needs something to be mounted on; the host's directory cannot be written.
        match rustix::fs::statat(self.root()?, path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {}
            Ok(_) => {
                let why = "the host's is not a regular file".to_owned();
                self.missing.push((path.to_owned(), why));
                return Ok(());
            }
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let name = format!(".generated-{}", self.generated);
        self.generated += 1;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.root()?, &name, flags, Mode::from_raw_mode(0o644))?;
        std::fs::File::from(file).write_all(contents.as_bytes())?;
        let tree = mount::clone_tree(self.root()?, Path::new(&name), Reach::One)?;
        mount::restrict(tree.as_fd(), Restrictions::HOST, Reach::One)?;
        self.attach(&tree, path)?;
        // The mount keeps it; the name was only the way there.
        Ok(rustix::fs::unlinkat(self.root()?, &name, rustix::fs::AtFlags::empty())?)
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
                self.missing.push((format!("/{path}"), error.to_string()));
                Ok(())
            }
        }
    }

    fn enter_root(&mut self) -> io::Result<()> {
        let read_only = Restrictions { read_only: true, ..Restrictions::OWN };
        mount::restrict(self.root()?, read_only, Reach::One)?;
        mount::enter_root(self.root()?)?;
        // Held any longer it would be a way back for whoever gets at our descriptors.
        self.root = None;
        Ok(())
    }
}

impl Step {
    /// Whether the step touches files that may be on a dead network mount.
    pub(super) fn may_hang(&self) -> bool {
        matches!(self, Self::HostDirectory(_))
    }
}
