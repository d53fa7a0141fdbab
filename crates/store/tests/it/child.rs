//! Another process: this test program run again, with one thing to do.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use minimal_store::{LifeLock, StateDir, try_lock_daemon};

use crate::sample::id;

const ACT: &str = "MINIMAL_TEST_ACT";
const STATE: &str = "MINIMAL_TEST_STATE";

/// A child that says when it has done its part, and ends when it is told to.
pub(crate) struct Acting {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// A command that has another process do `act` on a state directory.
pub(crate) fn command(act: &str, state: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::act", "--ignored", "--nocapture", "--quiet"]);
    command.env(ACT, act).env(STATE, state);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

impl Acting {
    /// Starts it and waits until it has done its part.
    pub(crate) fn start(act: &str, state: &Path) -> Self {
        let mut child = command(act, state).spawn().unwrap();
        let mut acting = Self { said: BufReader::new(child.stdout.take().unwrap()), child };
        let mut line = String::new();
        while !line.starts_with("done") {
            line.clear();
            assert_ne!(acting.said.read_line(&mut line).unwrap(), 0, "the child did not get there");
        }
        acting
    }

    pub(crate) fn kill(mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }
}

/// Not a test: what a child does.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn act() {
    let Ok(act) = std::env::var(ACT) else { return };
    let state = StateDir::open(Path::new(&std::env::var_os(STATE).unwrap())).unwrap();
    match act.as_str() {
        "hold keeper" => {
            let lock = LifeLock::open(&state.box_dir(id(1)).unwrap()).unwrap();
            assert!(lock.try_keeper().unwrap());
            until_told();
        }
        "hold init" => {
            let lock = LifeLock::open(&state.box_dir(id(1)).unwrap()).unwrap();
            assert!(lock.try_init().unwrap());
            until_told();
        }
        "be the daemon" => {
            let lock = try_lock_daemon(&state).unwrap();
            assert!(lock.is_some());
            until_told();
        }
        #[cfg(feature = "testhooks")]
        other => crate::hooks::act(other, &state),
        #[cfg(not(feature = "testhooks"))]
        other => panic!("nobody knows how to {other}"),
    }
}

/// Says that the part is done, and waits until the parent closes or kills.
fn until_told() {
    println!("\ndone");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
