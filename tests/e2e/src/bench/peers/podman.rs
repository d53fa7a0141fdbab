//! podman with runc, on a root directory made of the host's.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Peer;

pub(super) const PROGRAM: &str = "/usr/bin/podman";

/// Where it has its state, and what it does things with.
pub(super) fn globals(scratch: &Path) -> Vec<String> {
    vec![
        format!("--root={}", scratch.join("storage").display()),
        format!("--runroot={}", scratch.join("runroot").display()),
        "--cgroup-manager=cgroupfs".into(),
        "--storage-driver=vfs".into(),
        "--runtime=runc".into(),
    ]
}

/// Options of a container whose root directory this makes.
pub(super) fn container(scratch: &Path) -> io::Result<Vec<String>> {
    let root = scratch.join("root");
    for directory in ["usr", "proc", "dev", "sys", "tmp", "etc", "run"] {
        std::fs::create_dir_all(root.join(directory))?;
    }
    for link in ["bin", "sbin", "lib", "lib64"] {
        if !root.join(link).exists() {
            symlink(format!("usr/{link}"), root.join(link))?;
        }
    }
    Ok(vec![
        "--network=none".into(),
        "--log-driver=none".into(),
        // What a container of podman's wants by default is more than some machines allow.
        "--ulimit=nofile=1024:1024".into(),
        "--ulimit=nproc=1024:1024".into(),
        "--volume=/usr:/usr:ro".into(),
        "--rootfs".into(),
        root.display().to_string(),
    ])
}

/// A container that runs, for commands to be run in. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Container {
    scratch: PathBuf,
    id: String,
}

impl Container {
    /// Starts one, if that works here. `scratch` takes its state.
    pub(crate) fn start(scratch: &Path) -> Option<Self> {
        let mut command = Command::new(PROGRAM);
        command.args(globals(scratch)).args(["run", "--detach"]);
        command.args(container(scratch).ok()?).args(["/usr/bin/sleep", "1000000"]);
        let said = match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => {
                let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                return Some(Self { scratch: scratch.to_owned(), id });
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("SKIPPED: a container of podman's: {said}");
        None
    }

    /// Commands in it.
    pub(crate) fn exec(&self) -> Option<Peer> {
        let mut args = globals(&self.scratch);
        args.extend(["exec".into(), self.id.clone()]);
        Peer { name: "podman exec, runc", program: PROGRAM.into(), args }.if_it_works()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.args(globals(&self.scratch)).args(["rm", "--force", "--time=0", &self.id]);
        match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            outcome => eprintln!("container {} is left: {outcome:?}", self.id),
        }
    }
}
