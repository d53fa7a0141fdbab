//! Ways to more rights than a box has.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use minimal_testkit::{TestEnv, for_each_kind_of_user, for_each_user, need};

use super::{HostFile, attack, strongest, take_down};

for_each_kind_of_user! {
    /// A socket that takes CAP_NET_RAW.
    fn raw_socket(env) {
        if strongest(env) != "root" {
            return;
        }
        let script = "socket(S, AF_INET, SOCK_RAW, 1) or exit 3; print \"in\\n\"";
        let raw = |env: &TestEnv| env.min(["run", "-u", "root", "--", "perl", "-MSocket", "-e", script]).run();
        let (up, down) = attack(env, &["capabilities"], raw);
        up.assert_code(3).assert_stdout("");
        down.assert_code(0).assert_stdout("in\n");
    }

    /// What was handed in read-only is made writable. A layer of the box's own may lie over it.
    fn remount(env) {
        if !need::root() || strongest(env) != "root" {
            return;
        }
        let file = HostFile::new(env, "/opt", 0o666);
        let script = format!(
            "grep -q ' /opt overlay ' /proc/mounts && umount /opt; \
             mount -o remount,bind,rw /opt && echo in > {}",
            file.path()
        );
        let write = |env: &TestEnv| {
            env.min(["run", "-u", "root", "--", "sh", "-c", &script]).run();
            fs::read_to_string(&file.0).unwrap()
        };
        assert_eq!(write(env), "secret\n");
        for one in ["capabilities", "system_calls"] {
            take_down(env, &[one]);
            assert_eq!(write(env), "secret\n", "{one} is not all that stops it");
            env.hooks().disarm(&format!("{one}.down"));
        }
        take_down(env, &["capabilities", "system_calls"]);
        assert_eq!(write(env), "in\n");
    }

    /// The kernel's settings are for the host's root, by its id and by no capability.
    fn kernel_settings(env) {
        let user = strongest(env);
        let script = "test -w /proc/sys/kernel/core_pattern && echo in || exit 3";
        let look = |env: &TestEnv| env.min(["run", "-u", user, "--", "sh", "-c", script]).run();
        // Those of the box's own network are its root's.
        let find = "find /proc -maxdepth 1 -name '[0-9]*' -prune -o -path /proc/sys/net -prune -o -type f -writable -print";
        let all = |env: &TestEnv| env.min(["run", "-u", user, "--", "sh", "-c", find]).run();
        let writable = all(env);
        let for_everybody = |path: &String| {
            let mode = fs::metadata(path).map(|it| std::os::unix::fs::PermissionsExt::mode(&it.permissions()));
            mode.is_ok_and(|mode| mode & 0o002 != 0)
        };
        let odd: Vec<_> = writable.text().lines().map(str::to_owned).filter(|path| !for_everybody(path)).collect();
        assert_eq!(odd, [] as [String; 0], "{writable}");
        let (up, down) = attack(env, &["host_root"], look);
        up.assert_code(3).assert_stdout("");
        if env.account().is_root() {
            down.assert_code(0).assert_stdout("in\n");
        } else {
            // There is nobody who could map it.
            down.assert_code(3).assert_stdout("");
        }
    }
}

for_each_user! {
    /// A user namespace of its own.
    fn user_namespace(env) {
        let make = |env: &TestEnv| env.run(["unshare", "--user", "echo", "in"]).run();
        let (up, down) = attack(env, &["system_calls"], make);
        up.assert_code(1).assert_stdout("");
        down.assert_code(0).assert_stdout("in\n");
    }

    /// An abstract socket of the host's.
    fn abstract_socket(env) {
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
        let (up, down) = attack(env, &["abstract_sockets"], connect);
        if env.newest()["enforcement"]["missing"].to_string().contains("abstract_sockets") {
            return;
        }
        up.assert_code(3).assert_stdout("");
        down.assert_code(0).assert_stdout("in\n");
    }
}
