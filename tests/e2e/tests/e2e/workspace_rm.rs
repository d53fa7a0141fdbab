//! What workspaces leave behind is deleted, however hard that is.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use minimal_testkit::{LIMIT, TestEnv, for_each_user, need, wait_until};

/// What is left of boxes.
fn left(env: &TestEnv) -> Vec<PathBuf> {
    let names = |directory: &str| {
        fs::read_dir(env.state_dir().join(directory)).into_iter().flatten().flatten()
    };
    names("boxes").chain(names("reaping")).map(|entry| entry.path()).collect()
}

fn gone(env: &TestEnv) {
    wait_until("nothing of the boxes is left", LIMIT, || {
        let left = left(env);
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

/// Changes of every kind: whiteouts, replaced and emptied directories, files copied up, and what the
/// box forbids itself.
const CHANGES: &str = "rm kept; rm -r sub; mkdir sub; echo x > sub/new; mkdir -p a/b/c; touch a/b/c/d; ln -s /etc link; mkfifo p; \
                       mv other moved; chmod 0 a/b/c a/b a sub; echo x >> written; chmod 0 written";

for_each_user! {
    /// By `rm`, and by `--rm`: layers with the file system's own scratch directories, and copies.
    fn layers_and_copies(env) {
        for name in ["kept", "written", "sub/x", "other/y"] {
            env.file(name, "x");
        }
        for mode in ["overlay", "copy"] {
            let output = env.min(["run", "--name", mode, "--workspace", mode, "--", "sh", "-c", CHANGES]).run();
            output.assert_code(0);
            assert_eq!(left(env).len(), 1);
            env.min(["rm", mode]).run().assert_code(0);
            gone(env);
            env.min(["run", "--rm", "--workspace", mode, "--", "sh", "-c", CHANGES]).run().assert_code(0);
            gone(env);
        }
        assert_eq!(fs::read_dir(env.work()).unwrap().count(), 4, "and nothing of the project");
    }

    /// Deeper than any path can say, and names as long as names get.
    fn deep_trees_and_long_names(env) {
        // Not by a shell, which would spell out the whole path at every step.
        let script = "my $n = 'n' x 255; mkdir $n; for (1..4000) { mkdir 'd' and chdir 'd' or die $! } mkdir $n; print qq(4000\\n)";
        for directory in ["/workbench", "/tmp"] {
            let output = env.min(["run", "--name", "deep", "-w", directory, "--", "perl", "-e", script]).run();
            output.assert_code(0).assert_stdout("4000\n");
            env.min(["rm", "deep"]).run().assert_code(0);
            gone(env);
        }
    }

    /// A hundred thousand files.
    fn many_files(env) {
        let script = "mkdir m; cd m; for d in $(seq 100); do mkdir $d; (cd $d; seq 1000 | xargs touch); done; find . -type f | wc -l";
        env.run_sh(script).run().assert_code(0).assert_stdout("100000\n");
        env.min(["rm", "sh-1"]).run().assert_code(0);
        gone(env);
    }

    /// What only the host's root can have made: it is told, the rest goes, and so does it later.
    fn what_cannot_be_deleted(env) {
        if !need::root() {
            return;
        }
        let id = env.detached("mkdir d; touch d/fixed other; cat");
        env.min(["stop", "--force", &id]).run().assert_code(0);
        let fixed = env.box_dir(&id).join("fs/upper/d/fixed");
        let chattr = |flag: &str, path: &PathBuf| Command::new("chattr").arg(flag).arg(path).status().is_ok_and(|status| status.success());
        if !need::met("chattr", chattr("+i", &fixed), "no file can be made immutable here") {
            return;
        }
        env.min(["rm", &id]).run().assert_code(0);
        env.min(["show", &id]).run().assert_code(4);
        let find = || {
            let below = |path: &PathBuf| Command::new("find").arg(path).args(["-type", "f"]).output().unwrap().stdout;
            left(env).iter().map(below).collect::<Vec<_>>().concat()
        };
        let found = wait_until("all but the fixed file is gone", LIMIT, || {
            let found = String::from_utf8(find()).unwrap();
            if found.lines().count() == 1 { Ok(found) } else { Err(found) }
        });
        assert!(found.ends_with("/fixed\n"), "{found}");
        let log = fs::read_to_string(env.state_dir().join("daemon.log")).unwrap();
        assert!(log.contains("not all of the box could be deleted"), "{log}");
        assert!(chattr("-i", &PathBuf::from(found.trim_end())));
        env.min(["host", "stop"]).run().assert_code(0);
        env.boxes();
        gone(env);
    }
}
