//! The host's system directories as a box sees them, on hosts of several shapes.

use std::path::Path;

use minimal_testkit::{Min, TestEnv, for_each_user};

/// `min`, with a daemon of its own, in a mount namespace in which root has done this to the host's
/// directories. It starts in the scenario's working directory. An ordinary user is root there, and
/// nowhere else.
pub(crate) fn on_a_host_with<const N: usize>(env: &TestEnv, script: &str, args: [&str; N]) -> Min {
    let mut words = vec!["--mount"];
    if !env.account().is_root() {
        words.extend(["--user", "--map-root-user"]);
    }
    let script = format!("{script}\ncd \"$HOME\"; exec min \"$@\"");
    words.extend(["sh", "-euc", &script, "sh"]);
    words.extend(args);
    env.command(Path::new("/usr/bin/unshare"), words)
}

/// A root made of links, files and mounts in odd places, entered for good.
const ODD_ROOT: &str = "mkdir root; mount -t tmpfs none root; cd root; \
    mkdir usr etc dev proc tmp run srv old; \
    for d in usr dev proc tmp run etc; do mount --rbind /$d $d; done; \
    ln -s usr/bin bin; ln -s /usr/sbin sbin; ln -s usr/lib lib; ln -s usr/lib64 lib64; \
    echo file > libx32; ln -s nowhere lib32; \
    mkdir srv/opt; echo here > srv/opt/file; ln -s /srv/opt opt; \
    pivot_root . old; umount -l /old";

for_each_user! {
    /// Links stay links where they lead to something shown, are followed where not, and what is no
    /// directory is left out with its reason.
    fn odd_top_directories(env) {
        let script = "readlink /bin /sbin; cat /opt/file; test -L /opt || echo directory; \
                      for f in /libx32 /lib32 /srv /old; do test -e $f && echo sees $f; done; echo done";
        let output = on_a_host_with(env, ODD_ROOT, ["run", "--", "sh", "-c", script]).run();
        output.assert_code(0).assert_stdout("usr/bin\n/usr/sbin\nhere\ndirectory\ndone\n");
        let record = env.newest();
        let missing = record["enforcement"]["missing"].as_array().unwrap();
        for path in ["/libx32", "/lib32"] {
            assert!(missing.iter().any(|missing| missing["what"] == path), "{path}: {record}");
        }
    }

    /// What is mounted below a system directory is shown, read-only, set-uid or not.
    fn mounts_below(env) {
        let host = "mount -t tmpfs none /opt; mkdir /opt/below; mount -t tmpfs none /opt/below; \
                    echo there > /opt/below/file; chmod -R a+rX /opt";
        let script = "cat /opt/below/file; echo x > /opt/below/x; echo x > /opt/x; \
                      grep -c ' /opt/below .*\\<ro,nosuid,nodev\\>' /proc/mounts";
        let output = on_a_host_with(env, host, ["run", "--", "sh", "-c", script]).run();
        output.assert_code(0).assert_stdout("there\n1\n");
        assert_eq!(output.stderr.matches("Read-only file system").count(), 2, "{output}");
    }
}

/// With a root daemon a box has none of the host's ids, so the host's permissions hold: what
/// others may not read, nobody in a box may.
#[test]
fn permissions_of_the_host_hold_against_a_root_daemon() {
    if !minimal_testkit::need::root() {
        return;
    }
    let env = TestEnv::new();
    let host = "mount -t tmpfs none /opt; mount -t tmpfs none /usr/local; mkdir /usr/local/etc; \
                for d in /opt /usr/local/etc; do echo key > $d/key; chmod 600 $d/key; \
                echo group > $d/group; chmod 640 $d/group; echo open > $d/open; done; \
                chmod 755 /opt /usr/local /usr/local/etc";
    let script = "for d in /opt /usr/local/etc; do cat $d/key $d/group; cat $d/open; done; exit 0";
    for user in ["box", "root"] {
        let output =
            on_a_host_with(&env, host, ["run", "-u", user, "--", "sh", "-c", script]).run();
        output.assert_code(0).assert_stdout("open\nopen\n");
        assert_eq!(output.stderr.matches("Permission denied").count(), 4, "{output}");
        // The next one's directories are those of another namespace, and seen by another daemon.
        env.stop_all();
    }
}
