//! What the types of a spec cannot say.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Egress, EnvSource, ExecutionSection, Lifetime, Limit, Max, NetworkMode, Patch, Probe,
    Repository, RestartPolicy, Rootfs, Spec, Workspace,
};
use crate::{ByteString, pattern};

/// The least [`MachineSection::ram`](super::MachineSection::ram): what is ours in a box takes up to
/// 2 MiB of it, and what a shell needs is below the rest.
pub const MIN_RAM: u64 = 8 << 20;

/// The largest number in a spec: the largest integer that every reader of JSON takes for the same
/// number (RFC 7493, 2.2).
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

impl Spec {
    /// Checks what the types cannot say. `values` are the names given at start.
    ///
    /// # Errors
    /// What is wrong, naming the key, for `invalid_spec`.
    pub fn check<'a>(
        &self,
        values: impl Iterator<Item = (&'a String, &'a ByteString)>,
    ) -> Result<(), SpecError> {
        self.check_without_values()?;
        let env = &self.execution.env;
        let mut given = BTreeSet::new();
        for (name, value) in values {
            if has_nul(value) {
                return Err(SpecError::Nul { key: format!("the value of {name}") });
            }
            if !matches!(env.get(name), Some(EnvSource::Given)) {
                return Err(SpecError::UnusedValue { name: name.clone() });
            }
            given.insert(name.as_str());
        }
        let missing = |(name, source): &(&String, &EnvSource)| {
            **source == EnvSource::Given && !given.contains(name.as_str())
        };
        match env.iter().find(missing) {
            Some((name, _)) => Err(SpecError::MissingValue { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// The same before the values are known.
    ///
    /// # Errors
    /// What is wrong, naming the key, for `invalid_spec`.
    pub fn check_without_values(&self) -> Result<(), SpecError> {
        self.check_entrypoint()?;
        check_execution(&self.execution)?;
        check_restart(&self.execution, self.identity.lifetime)?;
        self.check_workspace()?;
        self.check_files()?;
        self.check_network()?;
        self.check_numbers()
    }

    fn check_entrypoint(&self) -> Result<(), SpecError> {
        match (self.execution.exec.first(), self.identity.lifetime) {
            (None, Lifetime::UntilComplete) => Err(SpecError::NoProgram),
            (None, Lifetime::UntilStopped) => Ok(()),
            (Some(program), _) if program.as_bytes().is_empty() => Err(SpecError::EmptyProgram),
            (Some(_), _) => Ok(()),
        }
    }

    fn check_workspace(&self) -> Result<(), SpecError> {
        let needs_project = match self.files.workspace {
            Workspace::None => false,
            Workspace::Overlay | Workspace::Copy | Workspace::Bind => true,
        };
        if needs_project && self.files.project_root.is_none() {
            return Err(SpecError::NoProject);
        }
        if !self.files.project_root.as_ref().is_none_or(is_path) {
            return Err(SpecError::ProjectRoot);
        }
        let is_repository = |it: &Repository| is_path(&it.directory) && is_path(&it.git_dir);
        if !self.files.repository.as_ref().is_none_or(is_repository) {
            return Err(SpecError::Repository);
        }
        if self.files.repository.is_some() && !needs_project {
            return Err(SpecError::LoneRepository);
        }
        Ok(())
    }

    fn check_files(&self) -> Result<(), SpecError> {
        let files = &self.files;
        if let Rootfs::Path(path) = &files.rootfs {
            check_source("files.rootfs", path)?;
        }
        let mut dests = BTreeMap::new();
        for (index, mount) in files.mounts.iter().enumerate() {
            check_source(&format!("files.mounts[{index}].source"), &mount.source)?;
            check_dest(&format!("files.mounts[{index}].dest"), &mount.dest)?;
            check_not_reserved(&format!("files.mounts[{index}].dest"), &mount.dest)?;
            if let Some(first) = dests.insert(&mount.dest, index) {
                let dest = mount.dest.to_lossy();
                return Err(SpecError::SameDest { first, second: index, dest });
            }
        }
        self.check_patches()?;
        let wrong = |name: &String| name.trim_matches('/').is_empty() || name.contains('\0');
        if let Some(index) = files.workspace_exclude.iter().position(wrong) {
            return Err(SpecError::Path { key: format!("files.workspace_exclude[{index}]") });
        }
        match files.workspace {
            Workspace::None | Workspace::Overlay | Workspace::Bind
                if !files.workspace_exclude.is_empty() =>
            {
                Err(SpecError::ExcludesOfNoCopy { workspace: files.workspace })
            }
            Workspace::None | Workspace::Overlay | Workspace::Bind | Workspace::Copy => Ok(()),
        }
    }

    fn check_patches(&self) -> Result<(), SpecError> {
        let is_roots = self.execution.user == "root" || self.execution.user.parse() == Ok(0);
        for (index, Patch { source, dest }) in self.files.patches.iter().enumerate() {
            let key = |of: &str| format!("files.patches[{index}].{of}");
            check_source(&key("source"), source)?;
            check_dest(&key("dest"), dest)?;
            let parts: Vec<_> = dest.as_bytes().split(|it| *it == b'/').collect();
            let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let is_own = match parts.as_slice() {
                [b"home", b"box", ..] | [b"tmp", ..] => true,
                [b"root", ..] => is_roots,
                [b"workbench", ..] => self.files.workspace != Workspace::Bind,
                _ => false,
            };
            if !is_own {
                return Err(SpecError::PatchDest { key: key("dest"), dest: dest.to_lossy() });
            }
            let source = source.as_bytes();
            let last = source.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            if pattern::is_one(&source[..last]) {
                return Err(SpecError::PatchPattern { key: key("source") });
            }
        }
        Ok(())
    }

    fn check_network(&self) -> Result<(), SpecError> {
        let network = &self.network;
        if network.mode == NetworkMode::OwnIp {
            return Ok(());
        }
        // Without a network, whatever is denied is.
        let denied = network.egress.deny_subnets.clone();
        let nothing = match network.mode {
            NetworkMode::None => Egress { deny_subnets: denied, ..Egress::default() },
            NetworkMode::HostIp | NetworkMode::OwnIp => Egress::default(),
        };
        let key = if network.egress != nothing {
            "network.egress"
        } else if !network.ingress.is_empty() {
            "network.ingress"
        } else if network.dynamic_ingress != super::DynamicIngress::Deny {
            "network.dynamic_ingress"
        } else {
            return Ok(());
        };
        Err(SpecError::NeedsOwnIp { key, mode: network.mode })
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        let machine = &self.machine;
        match machine.ram.max {
            Max::At(bytes) if bytes < MIN_RAM => return Err(SpecError::LittleRam { bytes }),
            Max::At(_) | Max::Auto => {}
        }
        let limits: [(&str, Limit); 4] = [
            ("machine.ram", machine.ram),
            ("machine.pids", machine.pids),
            ("machine.cpus", machine.cpus),
            ("machine.disk", machine.disk),
        ];
        for (key, limit) in limits {
            match limit.max {
                Max::At(0) => return Err(SpecError::ZeroLimit { key }),
                Max::At(number) => check_number(key, number)?,
                Max::Auto => {}
            }
        }
        check_number("io.log_max", self.io.log_max)?;
        check_number("execution.timeout_ms", self.execution.timeout_ms.unwrap_or(0))?;
        check_number("execution.stop_grace_ms", self.execution.stop_grace_ms)
    }
}

fn check_number(key: &'static str, number: u64) -> Result<(), SpecError> {
    if number > MAX_NUMBER { Err(SpecError::LargeNumber { key }) } else { Ok(()) }
}

fn check_execution(execution: &ExecutionSection) -> Result<(), SpecError> {
    if let Some(index) = execution.exec.iter().position(has_nul) {
        return Err(SpecError::Nul { key: format!("execution.exec[{index}]") });
    }
    if execution.cwd.as_ref().is_some_and(has_nul) {
        return Err(SpecError::Nul { key: "execution.cwd".to_owned() });
    }
    if !is_user(&execution.user) {
        return Err(SpecError::User { user: execution.user.clone() });
    }
    for (name, source) in &execution.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(SpecError::EnvName { name: name.clone() });
        }
        match source {
            EnvSource::Value(value) if has_nul(value) => {
                return Err(SpecError::Nul { key: format!("execution.env.{name}") });
            }
            EnvSource::Given | EnvSource::Value(_) => {}
        }
    }
    if execution.timeout_ms == Some(0) {
        return Err(SpecError::ZeroTimeout);
    }
    Ok(())
}

fn check_restart(execution: &ExecutionSection, lifetime: Lifetime) -> Result<(), SpecError> {
    let restart = &execution.restart;
    match restart.policy {
        RestartPolicy::Never => {}
        RestartPolicy::OnFailure | RestartPolicy::Always => {
            if lifetime == Lifetime::UntilComplete {
                return Err(SpecError::RestartOfComplete);
            }
            if execution.exec.is_empty() {
                return Err(SpecError::RestartOfNothing);
            }
        }
    }
    let backoff = restart.backoff_ms..=restart.backoff_max_ms;
    if restart.max == 0 || restart.backoff_ms == 0 || backoff.is_empty() {
        return Err(SpecError::Backoff);
    }
    check_number("execution.restart.backoff_max_ms", restart.backoff_max_ms)?;
    let Some(ready) = &execution.ready else { return Ok(()) };
    if ready.timeout_ms == 0 || ready.interval_ms == 0 {
        return Err(SpecError::Ready { why: "its times must be longer than nothing" });
    }
    check_number("execution.ready.timeout_ms", ready.timeout_ms)?;
    check_number("execution.ready.interval_ms", ready.interval_ms)?;
    match &ready.probe {
        Probe::Port(0) => Err(SpecError::Ready { why: "there is no port 0" }),
        Probe::Port(_) => Ok(()),
        Probe::Exec(argv) => match argv.first() {
            None => Err(SpecError::Ready { why: "its command is empty" }),
            Some(program) if program.as_bytes().is_empty() => {
                Err(SpecError::Ready { why: "its program is an empty text" })
            }
            Some(_) if argv.iter().any(has_nul) => {
                Err(SpecError::Nul { key: "execution.ready.probe".to_owned() })
            }
            Some(_) => Ok(()),
        },
    }
}

fn has_nul(text: &ByteString) -> bool {
    text.as_bytes().contains(&0)
}

fn is_path(path: &ByteString) -> bool {
    !has_nul(path) && path.as_bytes().first() == Some(&b'/')
}

/// A path of the host: it may be relative, but leads to something.
fn check_source(key: &str, path: &ByteString) -> Result<(), SpecError> {
    if has_nul(path) || path.as_bytes().is_empty() {
        return Err(SpecError::Path { key: key.to_owned() });
    }
    Ok(())
}

/// A path in the box: absolute, to something below the root, and without steps back.
fn check_dest(key: &str, path: &ByteString) -> Result<(), SpecError> {
    let mut parts = path.as_bytes().split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let leads_below = parts.clone().next().is_some();
    if !is_path(path) || !leads_below || parts.any(|part| part == b"." || part == b"..") {
        return Err(SpecError::Dest { key: key.to_owned() });
    }
    Ok(())
}

/// Not where the kernel shows the box to itself: what a program finds there it believes.
fn check_not_reserved(key: &str, dest: &ByteString) -> Result<(), SpecError> {
    let first = dest.as_bytes().split(|byte| *byte == b'/').find(|part| !part.is_empty());
    match first {
        Some(b"dev" | b"proc" | b"sys") => {
            Err(SpecError::Reserved { key: key.to_owned(), dest: dest.to_lossy() })
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether it can be a user's name (useradd(8) takes up to 32 bytes) or number.
fn is_user(user: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, ':' | '/' | ',');
    (1..=32).contains(&user.len()) && user.chars().all(fits) && !user.starts_with(['-', '+'])
}

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No argv.
    #[error("execution.exec is empty: name a program to run")]
    NoProgram,
    /// `""` as program.
    #[error("execution.exec[0] is an empty text: name a program to run")]
    EmptyProgram,
    /// A NUL byte, which no argument, path or variable can hold (execve(2)).
    #[error("{key} holds a NUL byte, which the kernel cannot pass on")]
    Nul {
        /// Where.
        key: String,
    },
    /// Neither a name nor a number.
    #[error("`{user}` is neither a user's name nor a uid (execution.user)")]
    User {
        /// What was given.
        user: String,
    },
    /// A variable's name is empty or has `=` in it.
    #[error("`{name}` cannot be a variable's name")]
    EnvName {
        /// The name.
        name: String,
    },
    /// A variable whose value must be given was not.
    #[error("no value was given for the variable {name}")]
    MissingValue {
        /// The name.
        name: String,
    },
    /// A value was given that no variable asks for.
    #[error("a value was given for {name}, which the spec does not ask for")]
    UnusedValue {
        /// The name.
        name: String,
    },
    /// A timeout of nothing.
    #[error("execution.timeout_ms is zero: leave it out for no timeout")]
    ZeroTimeout,
    /// A workspace that shows a project, without one.
    #[error("files.workspace shows the project, but there is no files.project_root")]
    NoProject,
    /// Not an absolute path.
    #[error("files.project_root is not an absolute path")]
    ProjectRoot,
    /// Not an absolute path.
    #[error("files.repository holds a path that is not absolute")]
    Repository,
    /// A repository without the project it belongs to.
    #[error("files.repository comes with the project, but files.workspace is none")]
    LoneRepository,
    /// Less memory than [`MIN_RAM`].
    #[error("machine.ram is {bytes} bytes: a box needs at least 8MiB to start")]
    LittleRam {
        /// How much.
        bytes: u64,
    },
    /// A limit of nothing, with which no box could start.
    #[error("{key} is zero: leave it out for what keeps the host alive")]
    ZeroLimit {
        /// Which.
        key: &'static str,
    },
    /// More than [`MAX_NUMBER`].
    #[error("{key} is beyond 2^53 - 1, the largest number that every reader of JSON keeps")]
    LargeNumber {
        /// Which.
        key: &'static str,
    },
    /// A box that ends with its entrypoint, and starts it again.
    #[error("execution.restart starts the entrypoint again, but box.lifetime is until_complete")]
    RestartOfComplete,
    /// No entrypoint to start again.
    #[error("execution.restart starts the entrypoint again, but execution.exec is empty")]
    RestartOfNothing,
    /// Figures that cannot be.
    #[error(
        "execution.restart: max and backoff_ms must be at least 1, and backoff_max_ms at least backoff_ms"
    )]
    Backoff,
    /// A probe that cannot be.
    #[error("execution.ready: {why}")]
    Ready {
        /// Why not.
        why: &'static str,
    },
    /// Not a path.
    #[error("{key} is empty or holds a NUL byte: it names a file of the host")]
    Path {
        /// Which.
        key: String,
    },
    /// Not a place for something.
    #[error("{key} is not an absolute path below the box's root without `.` and `..`")]
    Dest {
        /// Which.
        key: String,
    },
    /// A place that is the kernel's.
    #[error("{key} is {dest}: /dev, /proc and /sys are the box's own")]
    Reserved {
        /// Which.
        key: String,
        /// Where.
        dest: String,
    },
    /// Two mounts, one place.
    #[error("files.mounts[{first}] and files.mounts[{second}] are both for {dest}")]
    SameDest {
        /// The first's index.
        first: usize,
        /// The second's.
        second: usize,
        /// Where.
        dest: String,
    },
    /// What only a copy can leave out.
    #[error(
        "files.workspace_exclude is what a copied workspace leaves out, but files.workspace is {}",
        workspace.as_str()
    )]
    ExcludesOfNoCopy {
        /// What it is.
        workspace: Workspace,
    },
    /// A patch of what is not the box's own.
    #[error(
        "{key} is {dest}: a patch goes below /home/box or /tmp, below /root if root runs the box, or below \
         /workbench if that is not the real project"
    )]
    PatchDest {
        /// Which.
        key: String,
        /// Where.
        dest: String,
    },
    /// A pattern of directories.
    #[error("{key} has `*` or `?` before its last part: only that can be a pattern")]
    PatchPattern {
        /// Which.
        key: String,
    },
    /// Rules for a network that the box does not have.
    #[error("{key} is for network.mode own_ip, but it is {}", mode.as_str())]
    NeedsOwnIp {
        /// Which.
        key: &'static str,
        /// What it is.
        mode: NetworkMode,
    },
}
