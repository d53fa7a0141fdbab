//! Each wall of `docs/reference/walls.md`, attacked as it is and with that one taken down. The twin
//! shows that the attack is one.

use std::fs::{self, Permissions};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use minimal_testkit::{Output, TestEnv, for_each_kind_of_user, for_each_user, need};

/// A file of the host's that goes with the scenario.
struct HostFile(PathBuf);

impl HostFile {
    /// With this mode, and owned by whoever runs the boxes.
    fn new(env: &TestEnv, directory: &str, mode: u32) -> Self {
        let path = Path::new(directory).join(format!("minimal-test-{}", std::process::id()));
        fs::write(&path, "secret\n").unwrap();
        env.account().own(&path);
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Self(path)
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// Makes the attack, then once more with the wall taken down. What fails it, and what it says when it
/// works.
fn attack(env: &TestEnv, wall: &str, attack: impl Fn(&TestEnv) -> Output) -> (Output, Output) {
    let outcome = attack(env);
    env.stop_all();
    env.hooks().take_down(wall);
    (outcome, attack(env))
}

/// Whether boxes have a root: else the only user does what root would.
fn has_root(env: &TestEnv) -> bool {
    env.run(["true"]).run().assert_code(0);
    env.newest()["enforcement"]["users"] != "single"
}

for_each_kind_of_user! {
    /// A socket that takes CAP_NET_RAW.
    fn capabilities(env) {
        if !has_root(env) {
            return;
        }
        let script = "socket(S, AF_INET, SOCK_RAW, 1) or exit 3; print \"in\\n\"";
        let raw = |env: &TestEnv| env.min(["run", "-u", "root", "--", "perl", "-MSocket", "-e", script]).run();
        let (up, down) = attack(env, "capabilities", raw);
        up.assert_code(3).assert_stdout("");
        down.assert_code(0).assert_stdout("in\n");
    }

    /// A file of /etc that is root's, or the caller's, alone.
    fn public_etc(env) {
        if !need::root() {
            return;
        }
        let secret = HostFile::new(env, "/etc", 0o600);
        let user = if has_root(env) { "root" } else { "box" };
        let path = secret.0.to_str().unwrap();
        let read = |env: &TestEnv| env.min(["run", "-u", user, "--", "cat", path]).run();
        let (up, down) = attack(env, "public_etc", read);
        up.assert_code(1).assert_stdout("");
        down.assert_code(0).assert_stdout("secret\n");
    }
}

for_each_user! {
    /// A user namespace of its own.
    fn system_calls(env) {
        let (up, down) = attack(env, "system_calls", |env| env.run(["unshare", "--user", "echo", "in"]).run());
        up.assert_code(1).assert_stdout("");
        down.assert_code(0).assert_stdout("in\n");
    }

    /// A program in the real project that is set-uid for the host.
    fn set_uid_bits(env) {
        let script = "cp /bin/true mine && chmod 4755 mine";
        let make = |env: &TestEnv| env.min(["run", "--workspace", "bind", "--", "sh", "-c", script]).run();
        let mode = || fs::metadata(env.work().join("mine")).unwrap().permissions().mode() & 0o7777;
        let up = make(env);
        assert_ne!(up.code(), Some(0), "{up}");
        assert_eq!(mode() & 0o6000, 0);
        for (call, mode) in [("open", "sysopen(F, 'f', 0101, 04777) or exit 3"), ("mkdir", "mkdir('d', 02777) or exit 3")] {
            let output = env.min(["run", "--workspace", "bind", "--", "perl", "-e", mode]).run();
            assert_eq!(output.code(), Some(3), "{call}: {output}");
        }
        let (_, down) = attack(env, "system_calls", make);
        down.assert_code(0);
        assert_eq!(mode() & 0o6000, 0o4000);
    }

    /// A file of the host's that everybody may write to.
    fn read_only(env) {
        if !need::root() {
            return;
        }
        let file = HostFile::new(env, "/opt", 0o666);
        let script = format!("echo in > {}", file.0.display());
        let write = |env: &TestEnv| env.run_sh(&script).run();
        let up = write(env);
        assert_ne!(up.code(), Some(0), "{up}");
        assert_eq!(fs::read_to_string(&file.0).unwrap(), "secret\n");
        let (_, down) = attack(env, "read_only", write);
        down.assert_code(0);
        assert_eq!(fs::read_to_string(&file.0).unwrap(), "in\n");
    }

    /// An abstract socket of the host's.
    fn abstract_sockets(env) {
        let name = format!("minimal-walls-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let script = format!(
            "socket(S, AF_UNIX, SOCK_STREAM, 0) or die; \
             connect(S, pack_sockaddr_un(\"\\0{name}\")) or exit 3; print \"in\\n\""
        );
        let connect = |env: &TestEnv| {
            env.min(["run", "--network", "host_ip", "--", "perl", "-MSocket", "-e", &script]).run()
        };
        let (up, down) = attack(env, "abstract_sockets", connect);
        if env.newest()["enforcement"]["missing"].to_string().contains("abstract_sockets") {
            return;
        }
        up.assert_code(3).assert_stdout("");
        down.assert_code(0).assert_stdout("in\n");
    }
}
