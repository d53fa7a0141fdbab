//! A blank box: assembled, locked down, and nobody's yet.
//!
//! Everything about a box that its spec has no say in is made here, which is most of what a start
//! costs. A keeper makes it before it is asked for a box (`nursery::spare`); one that was not, or
//! whose blank box has come to harm, makes it when it is. There is no other way to make a box.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use minimal_linux::fork::{Forked, Network, fork_into_new_namespaces};
use minimal_linux::namespaces::{Setgroups, write_id_maps};
use minimal_linux::{Child, socket};
use minimal_store::{BoxDir, LifeLock, hook};

use super::own_files::OwnFiles;
use super::pty::Terminals;
use super::report::{self, Assembled};
use super::{BirthError, at, init};
use crate::assemble::Assembly;
use crate::plan::{self, Contents, Plan};
use crate::shared_root::SharedRoot;

/// How long assembling a box may take: it only makes mounts, so this bounds a dead network mount.
const ASSEMBLY_LIMIT: Duration = Duration::from_secs(30);
/// How much of a file of the host's is copied, in bytes: resolv.conf(5) reads three name servers.
const MOST_COPIED: u64 = 64 << 10;
/// How long init may take to lock a byte of a file.
const ADOPTION_LIMIT: Duration = Duration::from_secs(10);

/// Writes a file of the box's.
pub(super) fn write(contents: &Contents, mut file: File) -> io::Result<()> {
    match contents {
        Contents::Text(text) => file.write_all(text.as_bytes()),
        Contents::OfHost(host) => match File::open(host) {
            Ok(theirs) => io::copy(&mut theirs.take(MOST_COPIED), &mut file).map(drop),
            // Without it, it is empty: a host that resolves no names has none.
            Err(_) => Ok(()),
        },
    }
}

/// An init without a box. Dropped, it is killed and reaped, and with it whatever had been put into
/// its namespaces.
#[derive(Debug)]
struct Unborn {
    init: Option<Child>,
}

impl Unborn {
    fn init(&self) -> &Child {
        self.init.as_ref().expect("it is taken only when the birth is over")
    }
}

impl Drop for Unborn {
    fn drop(&mut self) {
        if let Some(mut init) = self.init.take() {
            // It is our child and not reaped, so the signal reaches it or finds it dead already.
            init.signal(minimal_proto::Signal::KILL).ok();
            init.reap().ok();
        }
    }
}

/// A box that waits for a spec.
#[derive(Debug)]
pub(crate) struct Blank {
    unborn: Unborn,
    lifeline: OwnedFd,
    files: OwnFiles,
    assembled: Assembled,
}

impl Blank {
    /// Makes one whose directories are nobody's, with the network that most boxes have.
    pub(crate) fn ahead(state_dir: &Path, nursery: &SharedRoot) -> Result<Self, BirthError> {
        let files = OwnFiles::of_nobody(state_dir);
        Self::make(files.map_err(at("make directories for a box"))?, Network::Own, nursery)
    }

    /// Makes one for a box that is asked for now.
    pub(super) fn now(
        box_dir: &BoxDir,
        network: Network,
        nursery: &SharedRoot,
    ) -> Result<Self, BirthError> {
        let files = OwnFiles::of_box(box_dir);
        Self::make(files.map_err(at("open the box's own directories"))?, network, nursery)
    }

    fn make(files: OwnFiles, network: Network, nursery: &SharedRoot) -> Result<Self, BirthError> {
        let steps = plan::blank(network);
        let given = files.prepare(nursery.users).map_err(at("make the box's own directories"))?;
        let shared = nursery.copy().map_err(at("copy the root that all boxes share"))?;
        let assembly = Assembly::of_box(shared, given);
        let (lifeline, init_end) = socket::message_pair().map_err(at("make init's lifeline"))?;
        hook::point("keeper.blank.before_clone").map_err(at("make namespaces"))?;
        let init = match fork_into_new_namespaces(network).map_err(at("make namespaces"))? {
            Forked::Child => {
                // Our copy of the keeper's end: with it init would wait for ever for a keeper that
                // died.
                drop(lifeline);
                init::run(&steps, assembly, &init_end, nursery.users)
            }
            Forked::Parent(init) => init,
        };
        let unborn = Unborn { init: Some(init) };
        drop((init_end, assembly));
        hook::point("keeper.blank.after_clone").map_err(at("map the box's users"))?;
        let pid = unborn.init().pid().to_string();
        let map = nursery.users.map();
        write_id_maps(&pid, &map, &map, Setgroups::Inherit).map_err(at("map the box's users"))?;
        socket::send(lifeline.as_fd(), &[init::RELEASE], None)
            .map_err(at("release the box's init"))?;
        let assembled = report::await_assembly(unborn.init(), &lifeline, &steps, ASSEMBLY_LIMIT)?;
        Ok(Self { unborn, lifeline, files, assembled })
    }

    /// Gives it to a box: its directories, and the order to init to take its lock.
    pub(super) fn give_to(&mut self, box_dir: &BoxDir, life_lock: &LifeLock) -> io::Result<()> {
        self.files.move_into(box_dir)?;
        socket::send(self.lifeline.as_fd(), &[init::ADOPTED], Some(life_lock.fd()))
    }

    /// Waits until init has the lock. Before, nothing may run in the box: whoever obtains the
    /// keeper's lock and init's knows that nothing of it is left.
    pub(super) fn await_lock(&self) -> Result<(), BirthError> {
        report::await_lock(self.unborn.init(), &self.lifeline, ADOPTION_LIMIT)
    }

    /// Writes what the box is called, and who resolves names for it, where programs look for it.
    pub(super) fn write_files(&mut self, plan: &Plan) -> io::Result<()> {
        for (path, file) in self.assembled.held.extract_if(.., |(path, _)| *path != plan::TERMINALS)
        {
            if let Some((_, contents)) = plan.files.iter().find(|(wanted, _)| *wanted == path) {
                write(contents, File::from(file))?;
            }
        }
        Ok(())
    }

    /// Where the box's terminals are.
    pub(super) fn take_terminals(&mut self) -> Result<Terminals, BirthError> {
        let at_terminals = |(path, _): &mut (&'static str, OwnedFd)| *path == plan::TERMINALS;
        let mount = self.assembled.held.extract_if(.., at_terminals).next();
        let none = || io::Error::other("the box's init did not hand them over");
        let (_, mount) = mount.ok_or_else(|| at("find the box's terminals")(none()))?;
        Ok(Terminals::new(mount))
    }

    pub(super) fn init(&self) -> &Child {
        self.unborn.init()
    }

    /// Lets go of its parts: it is a box now.
    pub(super) fn into_parts(mut self) -> (Child, OwnedFd, Assembled) {
        let init = self.unborn.init.take().expect("nobody has taken it");
        (init, self.lifeline, self.assembled)
    }
}
