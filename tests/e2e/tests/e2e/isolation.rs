//! What a box sees and reaches, and what happens where the host cannot isolate one.

use std::collections::BTreeMap;
use std::fs;

use minimal_testkit::{TestEnv, for_each_user};
use serde_json::Value;

const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "uts", "ipc", "cgroup", "net"];

fn namespaces_of_this_test() -> BTreeMap<&'static str, String> {
    NAMESPACES
        .into_iter()
        .map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            (name, link.display().to_string())
        })
        .collect()
}

for_each_user! {
    /// Where a setting of the kernel's refuses namespaces, the error names it, and what to do.
    fn namespaces_are_off(env) {
        let script = "exec unshare -Ur bash -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec min run -- true'";
        let output = env.bash(script).run();
        output.assert_code(8).assert_stderr_has("nothing was run");
        output.assert_stderr_has("user.max_user_namespaces is 0").assert_stderr_has("sysctl -w user.max_user_namespaces");
    }

    /// Namespaces of its own, each of them, and another box has others.
    fn namespaces(env) {
        let script = "for n in user mnt pid uts ipc cgroup net; do readlink /proc/self/ns/$n; done; echo all; cat >/dev/null";
        let outside = namespaces_of_this_test();
        // Both at the same time: the number of one that is gone may be given out again.
        let running: Vec<_> = (0..2).map(|_| env.run_sh(script).stdin_piped().spawn()).collect();
        for running in &running {
            running.wait_for_stdout("all\n");
        }
        let mut seen = Vec::new();
        for running in running {
            let output = running.wait();
            output.assert_code(0);
            let inside: Vec<String> =
                output.text().lines().take(NAMESPACES.len()).map(str::to_owned).collect();
            for (name, inside) in NAMESPACES.iter().zip(&inside) {
                assert_ne!(outside[name], *inside, "{name}");
            }
            seen.push(inside);
        }
        for (name, (one, other)) in NAMESPACES.iter().zip(seen[0].iter().zip(&seen[1])) {
            assert_ne!(one, other, "{name}");
        }
        let record = env.newest();
        let said: Vec<&str> =
            record["enforcement"]["namespaces"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for name in NAMESPACES {
            let alias = if name == "mnt" { "mount" } else { name };
            assert!(said.contains(&name) || said.contains(&alias) || (name == "net" && said.contains(&"network")), "{name}: {said:?}");
        }
    }

    /// System directories are there and cannot be written; `/tmp` is the box's own.
    fn files(env) {
        let marker = std::env::temp_dir().join(format!("minimal-test-marker-{}", std::process::id()));
        fs::write(&marker, "").unwrap();
        let script = format!(
            "for d in /usr /usr/bin /etc /bin /lib; do touch $d/x 2>/dev/null && echo wrote $d; done; \
             test -e {} && echo sees the host tmp; \
             test -e {} && echo sees the home; \
             test -e {} && echo sees the state; \
             echo mine > /tmp/x && cat /tmp/x; ls /workbench | wc -l; \
             echo there > /workbench/y && cat /workbench/y; ls -d /proc/1 /dev/null /dev/zero",
            marker.display(), env.home().display(), env.root().display(),
        );
        let output = env.run_sh(&script).run();
        fs::remove_file(marker).unwrap();
        output.assert_code(0).assert_stdout("mine\n0\nthere\n/dev/null\n/dev/zero\n/proc/1\n");
        let output = env.run_sh("cat /tmp/x /workbench/y").run();
        output.assert_code(1);
    }

    /// The project is there read-write when asked for, and only then.
    fn workspace(env) {
        env.file("source", "content\n");
        env.min(["run", "--workspace", "bind", "--", "sh", "-c", "cat source; echo new > made; pwd"])
            .run()
            .assert_code(0)
            .assert_stdout("content\n/workbench\n");
        assert_eq!(fs::read(env.work().join("made")).unwrap(), b"new\n");
        env.min(["run", "--workspace", "none", "--", "ls"]).run().assert_code(0).assert_stdout("");
        // What must not be bound: a directory that holds our state, or a home.
        for directory in [env.root().to_owned(), env.home(), "/".into()] {
            let output = env.min(["run", "--workspace", "bind", "--", "true"]).cwd(directory).run();
            assert_ne!(output.code(), Some(0), "{output}");
        }
    }

    /// No way to gain privileges, no capability, nothing of ours in reach.
    fn privileges(env) {
        let script = "grep -E '^(NoNewPrivs|CapEff|CapBnd|CapPrm|CapAmb)' /proc/self/status; \
                      ls -l /proc/self/fd | grep -c -E 'socket|anon_inode|journal|life.lock'; \
                      cat /proc/1/environ 2>&1 | tr '\\0' '\\n' | grep MINIMAL; \
                      ls /proc/1/fd 2>&1 | head -3; readlink /proc/1/exe; true";
        let output = env.run_sh(script).run();
        output.assert_code(0);
        let text = output.text();
        assert!(text.contains("NoNewPrivs:\t1"), "{output}");
        assert!(text.contains("CapEff:\t0000000000000000"), "{output}");
        assert!(!text.contains("MINIMAL"), "{output}");
        let record = env.newest();
        assert_eq!(record["enforcement"]["no_new_privs"], true);
    }

    /// Its processes see only each other, and pid 1 cannot be killed or followed from inside.
    fn processes(env) {
        let script = "ps -eo pid= 2>/dev/null | wc -l; kill -9 1; \
                      test -d /proc/1 && echo init lives; exit 0";
        let output = env.run_sh(script).run();
        assert!(output.text().contains("init lives"), "{output}");
        env.run_sh("exit 5").run().assert_code(5);
    }

    /// Of the host's kernel, devices and modules there is nothing to see; of its processors what there is
    /// in /proc.
    fn sys(env) {
        for network in ["none", "host_ip"] {
            let script = "cd /sys && find . -maxdepth 3 ! -path './*/*/*/*' -type d | sort | tr '\\n' ' '; echo; \
                          find . -type f -writable; cat devices/system/cpu/online; cat class/net/lo/mtu; \
                          touch /sys/new 2>/dev/null && echo writable; exit 0";
            let output = env.min(["run", "--network", network, "--", "sh", "-c", script]).run();
            output.assert_code(0);
            let lines: Vec<&str> = output.text().lines().collect();
            let seen: Vec<&str> = lines[0].split_whitespace().collect();
            let system = ["./devices/system", "./devices/system/cpu", "./devices/system/node"];
            let net = ["./class/net", "./devices/virtual", "./devices/virtual/net"];
            let tops = [".", "./class", "./devices", "./fs"];
            let known: Vec<&str> = [&system[..], &net, &tops].concat();
            assert!(seen.iter().all(|path| known.contains(path)), "{output}");
            let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
            let mut expected = vec![online.trim()];
            if network == "none" {
                // A sysfs may be refused, and is then said to be missing.
                let missing = env.newest()["enforcement"]["missing"].to_string();
                if !missing.contains("\"/sys\"") {
                    expected.push("65536");
                }
            }
            assert_eq!(lines[1..], expected, "{output}");
        }
    }

    /// Loopback and nothing else; it works.
    fn network(env) {
        let output = env.run_sh("ls /sys/class/net 2>/dev/null || true; cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '").run();
        output.assert_code(0);
        for line in output.text().lines() {
            assert_eq!(line, "lo", "{output}");
        }
        let bash = "exec 3<>/dev/tcp/127.0.0.1/1; true";
        let output = env.run(["bash", "-c", bash]).run();
        // Refused by the box's own loopback, which is up: not unreachable.
        output.assert_stderr_has("refused");
    }

    /// `--explain` prints what would be set up, and runs nothing.
    fn explained(env) {
        let output = env.min(["run", "--explain", "--", "true"]).run();
        output.assert_code(0);
        for word in ["/usr", "/proc", "/tmp", "/workbench", "limit its memory to", "processes and threads to"] {
            assert!(output.text().contains(word), "{word}: {output}");
        }
        let as_json = env.min(["run", "--explain", "-o", "json", "--", "true"]).run();
        assert!(as_json.json().is_object(), "{as_json}");
        assert_eq!(env.boxes().len(), 0);
    }

    /// User namespaces switched off: nothing runs, the code says so, and `doctor` what to do.
    fn switched_off(env) {
        // A user namespace that may have no further ones stands for a host that switched them off.
        let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
        let without = |args: &[&str]| {
            let mut command = vec!["--user", "--map-root-user", "sh", "-c", script, "sh", "min"];
            command.extend(args);
            env.command("/usr/bin/unshare".as_ref(), command).run()
        };
        let output = without(&["run", "-o", "json", "--", "echo", "no"]);
        output.assert_code(8).assert_stdout("");
        let error = output.error();
        assert_eq!(error["code"], "isolation_unavailable", "{output}");
        assert!(error["message"].as_str().unwrap_or_default().contains("user.max_user_namespaces is 0"), "{output}");
        assert!(error["hint"].as_str().unwrap_or_default().contains("sysctl -w"), "{output}");
        let output = without(&["doctor"]);
        assert_ne!(output.code(), Some(0), "{output}");
        assert!(output.text().contains("user.max_user_namespaces"), "{output}");
        without(&["host", "stop"]).assert_code(0);
    }

    /// A host that can: `doctor` says so.
    fn doctor(env) {
        let output = env.min(["doctor"]).run();
        output.assert_code(0);
        let as_json = env.min(["doctor", "-o", "json"]).run();
        assert!(as_json.json().is_object(), "{as_json}");
    }
}

/// Another user's daemon and state are refused, by name, and left alone.
#[test]
fn another_users_socket_and_state() {
    let (true, Some(account)) = (minimal_testkit::need::root(), minimal_testkit::need::user())
    else {
        return;
    };
    if !minimal_testkit::need::userns(&account) {
        return;
    }
    let user = TestEnv::for_account(account);
    user.run_sh("exit 1").run().assert_code(1);
    let root = TestEnv::new();
    let foreign =
        |variable: &str, path: &std::path::Path| root.run(["true"]).env(variable, path).run();
    let output = foreign("MINIMAL_STATE_DIR", user.state_dir());
    assert!(matches!(output.code(), Some(1 | 5 | 7)), "{output}");
    output.assert_stderr_has("belongs to user");
    let output = foreign("MINIMAL_SOCKET", &user.state_dir().join("minimald.sock"));
    assert!(matches!(output.code(), Some(5 | 7)), "{output}");
    assert_eq!(user.boxes().len(), 1);
    // And the other way: root's is out of the user's reach.
    root.run(["true"]).run().assert_code(0);
    let output = user.run(["true"]).env("MINIMAL_STATE_DIR", root.state_dir()).run();
    assert_ne!(output.code(), Some(0), "{output}");
    assert_eq!(root.boxes().len(), 1);
    // Both worlds are below this test: the guard of one would see the other's.
    user.min(["host", "stop", "--boxes"]).run().assert_code(0);
    root.stop_all();
}
