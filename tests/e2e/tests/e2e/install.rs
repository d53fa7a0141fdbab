//! Root of a box changes the system it sees, and nothing of the host.

use std::fs;
use std::path::Path;

use minimal_testkit::{TestEnv, for_each_kind_of_user, need};

use crate::host_directories::on_a_host_with;

/// A package that brings a program, a directory of `/etc`, and a script that changes an owner.
const PACKAGE: &str = "set -e; mkdir -p p/DEBIAN p/usr/bin p/etc/boxed; \
    printf 'Package: minimal-boxed\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a <a@b.c>\\nDescription: d\\n' > p/DEBIAN/control; \
    printf '#!/bin/sh\\nset -e\\nchown daemon:daemon /usr/bin/minimal-boxed\\n' > p/DEBIAN/postinst; \
    printf '#!/bin/sh\\necho runs\\n' > p/usr/bin/minimal-boxed; echo conf > p/etc/boxed/conf; \
    chmod 755 p/DEBIAN/postinst p/usr/bin/minimal-boxed; dpkg-deb --root-owner-group -b p boxed.deb >/dev/null; rm -r p";

/// `apt-get install` of a file, its program, its removal; the host has no trace of it.
#[test]
fn a_package() {
    let has_apt = Path::new("/usr/bin/apt-get").exists();
    if !need::root() || !need::met("apt", has_apt, "there is no apt-get") {
        return;
    }
    let env = TestEnv::new();
    env.bash(PACKAGE).run().assert_code(0);
    let before = fs::read("/var/lib/dpkg/status").unwrap();
    let script = "apt-get install -y ./boxed.deb >log 2>&1 || cat log; minimal-boxed; cat /etc/boxed/conf; \
                  stat -c %U /usr/bin/minimal-boxed; dpkg-query -W -f '${Status}\\n' minimal-boxed; \
                  apt-get remove -y minimal-boxed >log 2>&1 || cat log; test -e /usr/bin/minimal-boxed || echo gone";
    // The package lies in the box's own workspace, so that its root can write there.
    let install = format!("cp /opt/boxed.deb /workbench/; cd /workbench; {script}");
    let host =
        "mount -t tmpfs none /opt; cp boxed.deb /opt/; chmod 755 /opt; chmod 644 /opt/boxed.deb";
    let output =
        on_a_host_with(&env, host, ["run", "-u", "root", "--", "sh", "-c", &install]).run();
    output.assert_code(0).assert_stdout("runs\nconf\ndaemon\ninstall ok installed\ngone\n");
    let record = env.newest();
    assert_eq!(record["enforcement"]["install"], "full", "{record}");
    for path in ["/usr/bin/minimal-boxed", "/etc/boxed"] {
        assert!(!Path::new(path).exists(), "{path} is on the host");
    }
    assert_eq!(fs::read("/var/lib/dpkg/status").unwrap(), before);
    env.min(["rm", "sh-1"]).run().assert_code(0);
    assert_eq!(fs::read_dir(env.state_dir().join("reaping")).unwrap().count(), 0);
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
            output.assert_stdout("one\n");
            assert_eq!(enforcement["install"], "none", "{record}");
            assert!(enforcement["missing"].to_string().contains("\"install\""), "{record}");
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
