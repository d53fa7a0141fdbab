//! Root of a box changes the system it sees, and nothing of the host.

use std::fs;
use std::path::Path;

use minimal_testkit::{TestEnv, for_each_kind_of_user, need};

use crate::host_directories::on_a_host_with;

/// A package that brings a program, directories of `/etc` and `/opt`, and a script that changes an owner.
const PACKAGE: &str = "set -e; mkdir -p p/DEBIAN p/usr/bin p/etc/boxed p/opt/boxed; \
    printf 'Package: minimal-boxed\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a <a@b.c>\\nDescription: d\\n' > p/DEBIAN/control; \
    printf '#!/bin/sh\\nset -e\\nchown daemon:daemon /usr/bin/minimal-boxed\\n' > p/DEBIAN/postinst; \
    printf '#!/bin/sh\\necho runs\\n' > p/usr/bin/minimal-boxed; echo conf > p/etc/boxed/conf; echo there > p/opt/boxed/file; \
    chmod 755 p/DEBIAN/postinst p/usr/bin/minimal-boxed; dpkg-deb --root-owner-group -b p boxed.deb >/dev/null; rm -r p";

/// What a box's users are, by its record.
fn users(env: &TestEnv) -> String {
    env.run(["true"]).run().assert_code(0);
    env.newest()["enforcement"]["users"].as_str().unwrap().to_owned()
}

for_each_kind_of_user! {
    /// `apt-get install` of a file, its program, its removal; the host has no trace of it.
    fn a_package(env) {
        let has_apt = Path::new("/usr/bin/apt-get").exists();
        if !need::met("apt", has_apt, "there is no apt-get") || users(env) == "single" {
            return;
        }
        env.bash(PACKAGE).run().assert_code(0);
        let before = fs::read("/var/lib/dpkg/status").unwrap();
        // From the box's own files, so that its root can read it and apt's own user need not.
        let script = "cp boxed.deb ~/ && cd && apt-get install -y ./boxed.deb >log 2>&1 || cat log; minimal-boxed; \
                      cat /etc/boxed/conf /opt/boxed/file; stat -c %U /usr/bin/minimal-boxed; \
                      dpkg-query -W -f '${Status}\\n' minimal-boxed; apt-get remove -y minimal-boxed >log 2>&1 || cat log; \
                      test -e /usr/bin/minimal-boxed || test -e /opt/boxed || echo gone";
        let install = ["run", "-u", "root", "--name", "one", "--workspace", "copy", "--", "sh", "-c", script];
        let output = env.min(install).run();
        output.assert_code(0);
        output.assert_stdout("runs\nconf\nthere\ndaemon\ninstall ok installed\ngone\n");
        let expected = if env.account().is_root() { "full" } else { "new" };
        assert_eq!(env.newest()["enforcement"]["install"], expected);
        for path in ["/usr/bin/minimal-boxed", "/etc/boxed", "/opt/boxed"] {
            assert!(!Path::new(path).exists(), "{path} is on the host");
        }
        assert_eq!(fs::read("/var/lib/dpkg/status").unwrap(), before);
        env.min(["rm", "one"]).run().assert_code(0);
        assert_eq!(fs::read_dir(env.state_dir().join("reaping")).unwrap().count(), 0);
    }

    /// Root of an ordinary user's box makes and removes names anywhere, and changes no file of the
    /// host's; the next box has the host's system again.
    fn new_names(env) {
        if users(env) != "subordinate" {
            return;
        }
        let script = "touch /usr/bin/new /usr/local/lib/new /etc/new /opt/new /new && rm /usr/bin/yes && \
                      mkdir -p /usr/share/doc/new && ls /usr/bin/new /new; test -e /usr/bin/yes || echo removed; \
                      echo x 2>/dev/null >>/usr/bin/head || echo unchanged; rmdir /usr 2>&1 | grep -o busy; \
                      cat /etc/hostname";
        let output = env.min(["run", "-u", "root", "--name", "one", "--", "sh", "-c", script]).run();
        output.assert_code(0).assert_stdout("/new\n/usr/bin/new\nremoved\nunchanged\nbusy\none\n");
        assert_eq!(env.newest()["enforcement"]["install"], "new");
        for path in ["/usr/bin/new", "/usr/local/lib/new", "/etc/new", "/opt/new", "/new", "/usr/share/doc/new"] {
            assert!(!Path::new(path).exists(), "{path} is on the host");
        }
        assert!(Path::new("/usr/bin/yes").exists());
        let again = "ls /usr/bin/new /new 2>/dev/null; ls /usr/bin/yes; touch /usr/bin/new2 && echo more";
        let output = env.min(["run", "-u", "root", "--", "sh", "-c", again]).run();
        output.assert_code(0).assert_stdout("/usr/bin/yes\nmore\n");
    }

    /// A directory that the host gets while a daemon runs is in the next box as all others are.
    fn the_host_changes(env) {
        if !need::root() || users(env) != "subordinate" {
            return;
        }
        let new = format!("/usr/local/lib/minimal-test-{}", std::process::id());
        let script = format!("touch {new}/mine && echo made");
        let make = |env: &TestEnv| env.min(["run", "-u", "root", "--", "sh", "-c", &script]).run();
        assert_ne!(make(env).code(), Some(0));
        fs::create_dir(&new).unwrap();
        let after = make(env);
        fs::remove_dir(&new).unwrap();
        after.assert_code(0).assert_stdout("made\n");
    }

    /// Many at once, of which each finds the directories that one of them makes.
    fn at_once(env) {
        if users(env) != "subordinate" {
            return;
        }
        let runs: Vec<_> = (0..6)
            .map(|_| env.min(["run", "-u", "root", "--", "touch", "/usr/bin/new"]).spawn())
            .collect();
        for run in runs {
            run.wait().assert_code(0);
        }
        assert!(env.boxes().iter().filter(|it| it["enforcement"]["install"] == "new").count() == 6);
    }
}

for_each_kind_of_user! {
    /// With a daemon of root's, its box's root writes, removes and renames in the system's
    /// directories; with another it cannot, and the record says so. The host's stay as they are,
    /// and so do the next box's.
    fn the_system_is_written_to(env) {
        let script = "cd /usr/bin && touch new && rm yes && mv env env2 && echo x >> head && \
                      touch /usr/local/bin/new /etc/new /opt/new && rm /etc/ld.so.conf && \
                      mv /usr/share/doc /usr/share/documents; \
                      test -e /usr/bin/new && test ! -e /usr/bin/yes && test -e /usr/bin/env2 && echo wrote; \
                      cat /etc/hostname; cd /var/cache 2>/dev/null && touch x && echo cache";
        let output = env.min(["run", "-u", "root", "--name", "one", "--", "sh", "-c", script]).run();
        let record = env.newest();
        let enforcement = &record["enforcement"];
        if env.account().is_root() {
            output.assert_code(0).assert_stdout("wrote\none\ncache\n");
            assert_eq!(enforcement["install"], "full", "{record}");
        } else if record["state"] != "failed" {
            // What the host has keeps its name.
            output.assert_stdout("one\ncache\n");
            assert_eq!(enforcement["install"], "new", "{record}");
        }
        for path in ["/usr/bin/new", "/usr/bin/env2", "/usr/local/bin/new", "/etc/new", "/opt/new"] {
            assert!(!Path::new(path).exists(), "{path} is on the host");
        }
        for path in ["/usr/bin/yes", "/usr/bin/env", "/etc/ld.so.conf"] {
            assert!(Path::new(path).exists(), "{path} is gone from the host");
        }
        let output = env.run_sh("ls /usr/bin/yes /usr/bin/env; ls /usr/bin/new /etc/new 2>/dev/null; exit 0").run();
        output.assert_code(0).assert_stdout("/usr/bin/env\n/usr/bin/yes\n");
    }
}

/// What is mounted below a system directory would be hidden by a layer: then there is none, and the
/// record names it.
#[test]
fn no_layer_over_mounts() {
    if !need::root() {
        return;
    }
    let env = TestEnv::new();
    let host = "mkdir d; echo there > d/file; chmod -R a+rX . d; mount --bind d /usr/share/doc";
    let script = "cat /usr/share/doc/file; touch /usr/x";
    let output = on_a_host_with(&env, host, ["run", "-u", "root", "--", "sh", "-c", script]).run();
    output.assert_code(1).assert_stdout("there\n").assert_stderr_has("Read-only");
    let enforcement = env.newest()["enforcement"].clone();
    assert_eq!(enforcement["install"], "none", "{enforcement}");
    assert!(enforcement["missing"].to_string().contains("mounted below /usr"), "{enforcement}");
}
