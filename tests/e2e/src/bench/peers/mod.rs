//! Floors, and programs that do the same.

mod podman;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options with which bubblewrap makes what a box of ours has: the same namespaces, the system
/// read-only, private `/tmp`, `/proc`, `/dev` and working directory.
const BWRAP: &[&str] = &[
    "--unshare-user",
    "--unshare-pid",
    "--unshare-uts",
    "--unshare-ipc",
    "--unshare-cgroup",
    "--unshare-net",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--hostname",
    "box",
    "--ro-bind",
    "/usr",
    "/usr",
    "--ro-bind",
    "/etc",
    "/etc",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/sbin",
    "/sbin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/workbench",
    "--chdir",
    "/workbench",
];

pub(crate) use podman::Container;

/// A command that runs `argv` in one of the ways things are compared with.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// How it is called in the table.
    pub(crate) name: &'static str,
    program: PathBuf,
    args: Vec<String>,
}

impl Peer {
    /// Nothing around it: what starting a process costs.
    pub(crate) fn plain() -> Self {
        Self { name: "fork+exec", program: "/usr/bin/env".into(), args: Vec::new() }.direct()
    }

    fn direct(mut self) -> Self {
        self.program = PathBuf::new();
        self
    }

    /// bubblewrap, if it works here.
    pub(crate) fn bwrap() -> Option<Self> {
        let args = BWRAP.iter().map(|arg| (*arg).to_owned()).collect();
        Self { name: "bwrap, same isolation", program: "/usr/bin/bwrap".into(), args }.if_it_works()
    }

    /// util-linux's unshare: namespaces alone.
    pub(crate) fn unshare() -> Option<Self> {
        let options = [
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--uts",
            "--ipc",
            "--cgroup",
            "--net",
            "--mount-proc",
        ];
        let args = options.iter().map(|arg| (*arg).to_owned()).collect();
        Self { name: "unshare, namespaces only", program: "/usr/bin/unshare".into(), args }
            .if_it_works()
    }

    /// podman with runc, if it works here. `scratch` takes its state.
    pub(crate) fn podman(scratch: &Path) -> Option<Self> {
        let mut args = podman::globals(scratch);
        args.extend(["run".into(), "--rm".into()]);
        args.extend(podman::container(scratch).ok()?);
        Self { name: "podman run, runc", program: podman::PROGRAM.into(), args }.if_it_works()
    }

    fn if_it_works(self) -> Option<Self> {
        let output = self.command(&["/usr/bin/true"]).output();
        match output {
            Ok(output) if output.status.success() => Some(self),
            Ok(output) => {
                eprintln!(
                    "SKIPPED: {}: {}",
                    self.name,
                    String::from_utf8_lossy(&output.stderr).trim()
                );
                None
            }
            Err(error) => {
                eprintln!("SKIPPED: {}: {error}", self.name);
                None
            }
        }
    }

    /// The command that runs `argv`.
    pub(crate) fn command(&self, argv: &[&str]) -> Command {
        let mut command = if self.program.as_os_str().is_empty() {
            let mut command = Command::new(argv[0]);
            command.args(&argv[1..]);
            command
        } else {
            let mut command = Command::new(&self.program);
            command.args(&self.args).args(argv);
            command
        };
        command.stdin(Stdio::null());
        command
    }

    /// Runs `argv` to its end.
    pub(crate) fn run(&self, argv: &[&str]) -> anyhow::Result<()> {
        let status = self.command(argv).stdout(Stdio::null()).status()?;
        anyhow::ensure!(status.success(), "{}: {status}", self.name);
        Ok(())
    }

    /// Runs `argv` until its first byte of output; the rest is not part of what `until` measures.
    pub(crate) fn first_byte(&self, argv: &[&str], until: impl FnOnce()) -> anyhow::Result<()> {
        let mut child = self.command(argv).stdout(Stdio::piped()).spawn()?;
        let mut byte = [0];
        let mut stdout = child.stdout.take().expect("it is piped");
        stdout.read_exact(&mut byte)?;
        until();
        std::io::copy(&mut stdout, &mut std::io::sink())?;
        child.wait()?;
        Ok(())
    }
}
