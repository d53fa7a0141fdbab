//! Repositories: of the project, of a worktree, of a submodule.

use std::fs;

use minimal_testkit::{TestEnv, for_each_user, need};

/// Git with a name to commit by, and without anybody's configuration.
const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null; \
                   git() { command git -c user.name=n -c user.email=e -c init.defaultBranch=main \
                   -c protocol.file.allow=always \"$@\"; }; ";

/// A repository `main` with one commit.
fn repository(env: &TestEnv) {
    let script = "git init -q main && cd main && echo one > f && git add f && git commit -qm first";
    env.bash(&format!("{GIT}{script}")).run().assert_code(0);
}

fn inside(env: &TestEnv, directory: &str, script: &str) -> minimal_testkit::Output {
    env.run_sh(&format!("{GIT}{script}")).cwd(env.work().join(directory)).run()
}

fn outside(env: &TestEnv, directory: &str, script: &str) -> String {
    let output = env.bash(&format!("{GIT}cd {directory} && {script}")).run();
    output.assert_code(0);
    output.text().to_owned()
}

const COMMIT: &str = "git status --porcelain && echo two > f && git add f && git commit -qm second && git log --format=%s";

for_each_user! {
    /// The box's user owns it; its commits stay in the box.
    fn of_the_project(env) {
        repository(env);
        inside(env, "main", COMMIT).assert_code(0).assert_stdout("second\nfirst\n");
        assert_eq!(outside(env, "main", "git status --porcelain; git log --format=%s"), "first\n");
        inside(env, "main", "git worktree add -q /tmp/w && cd /tmp/w && git log --format=%s").assert_code(0).assert_stdout("first\n");
    }

    /// A worktree's repository comes along, at its own place and in the same way.
    fn of_a_worktree(env) {
        repository(env);
        outside(env, "main", "git worktree add -q ../wt 2>/dev/null; mkdir ../wt/sub; touch ../wt/sub/x");
        inside(env, "wt", COMMIT.replace("--porcelain", "--porcelain -uno").as_str()).assert_code(0).assert_stdout("second\nfirst\n");
        assert_eq!(outside(env, "wt", "git log --format=%s"), "first\n");
        // Also from below it, and with worktrees of the box's own.
        let script = "git worktree add -q /tmp/w && cd /tmp/w && touch n && git add n && git commit -qm third && git log --format=%s";
        inside(env, "wt/sub", script).assert_code(0).assert_stdout("third\nfirst\n");
        // Nothing else of where it is on the host is there, and nothing can be made there.
        let main = env.work().join("main");
        let script = format!("ls -A {0}; ls -A {0}/..; touch {0}/x 2>/dev/null || echo sealed", main.display());
        inside(env, "wt", &script).assert_code(0).assert_stdout(".git\nmain\nwt\nsealed\n".replace("sealed\n", if env.account().is_root() { "sealed\n" } else { "" }));
        for mode in ["copy", "bind"] {
            let output = env.min(["run", "--workspace", mode, "--", "sh", "-c", &format!("{GIT}git commit -q --allow-empty -m {mode} && git log --format=%s")])
                .cwd(env.work().join("wt")).run();
            output.assert_code(0).assert_stdout(format!("{mode}\nfirst\n"));
        }
        assert_eq!(outside(env, "wt", "git log --format=%s"), "bind\nfirst\n");
    }

    /// A submodule's too, though it names its repository by a path that leads elsewhere in a box.
    fn of_a_submodule(env) {
        repository(env);
        outside(env, ".", "git init -q super && cd super && git submodule --quiet add ../main sub 2>/dev/null && git commit -qm super");
        inside(env, "super/sub", COMMIT).assert_code(0).assert_stdout("second\nfirst\n");
        assert_eq!(outside(env, "super/sub", "git log --format=%s && git status --porcelain"), "first\n");
        inside(env, "super", "cd sub && git log --format=%s").assert_code(0).assert_stdout("first\n");
    }

    /// A file `.git` is the project's own word: what does not know the project is not shown.
    fn of_somebody_else(env) {
        repository(env);
        outside(env, "main", "git worktree add -q ../wt 2>/dev/null");
        let (main, evil) = (env.work().join("main/.git"), env.work().join("evil"));
        env.account().make_dir(&evil);
        for named in [main.join("worktrees/wt"), main.clone(), "/etc".into(), "/nosuch".into(), "/dev/zero".into()] {
            env.file("evil/.git", format!("gitdir: {}\n", named.display()));
            let output = env.run_sh(&format!("ls {} 2>/dev/null; echo ran", main.display())).cwd(&evil).run();
            output.assert_code(0).assert_stdout("ran\n").assert_stderr_has("Git does not work in the box");
            assert_eq!(env.newest()["enforcement"]["workspace"], "overlay");
        }
        fs::remove_file(evil.join(".git")).unwrap();
        // Nor what a link in its place leads to.
        std::os::unix::fs::symlink(&main, evil.join(".git")).unwrap();
        let output = env.run_sh("ls .git/ 2>/dev/null; echo ran").cwd(&evil).run();
        output.assert_code(0).assert_stdout("ran\n").assert_stderr_has("leads out of the project");
        fs::remove_file(evil.join(".git")).unwrap();
    }
}

/// Where a box has nothing of its own, it gets a root with room for the repository; all else is there
/// as ever.
#[test]
fn where_a_box_has_nothing() {
    if !need::root() || !need::userns(&minimal_testkit::Account::current()) {
        return;
    }
    for place in ["/srv", "/root", "/usr/src", "/home"] {
        if !std::path::Path::new(place).is_dir() {
            continue;
        }
        let env = TestEnv::new();
        let script = format!(
            "{GIT}at=$(mktemp -d {place}/mt-XXXXXX); chmod 755 $at; trap 'rm -rf $at' EXIT; git init -q $at/main; cd $at/main; echo one > f; \
             git add f; git commit -qm first; git worktree add -q ../wt 2>/dev/null; cd ../wt; min run -- sh -c \"$INNER\""
        );
        let inner = format!(
            "{GIT}{COMMIT}; git worktree list | wc -l; touch /x $(dirname $(git rev-parse --git-common-dir))/x 2>/dev/null || echo sealed; \
             id -un; echo > ~/h && echo > /tmp/t && echo > /dev/null && ls -d /home/box /workbench /proc/1 /sys/class; hostname"
        );
        let output = env.bash(&script).env("INNER", inner).run();
        let rest = "2\nsealed\nbox\n/home/box\n/proc/1\n/sys/class\n/workbench\nsh-1\n";
        output.assert_code(0).assert_stdout(format!("second\nfirst\n{rest}"));
    }
}
