//! A box whose system is a directory of the host's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use minimal_testkit::{TestEnv, Tmpfs, for_each_kind_of_user, for_each_user, need};

/// A small system below the work directory: a shell, a few programs, and what they are linked with.
fn system(env: &TestEnv) -> PathBuf {
    let root = env.work().join("system");
    for directory in ["bin", "etc", "opt"] {
        env.account().make_dir(&root.join(directory));
    }
    let mut files = Vec::new();
    for program in ["sh", "cat", "id", "ls", "touch", "hostname"] {
        let found = ["/bin", "/usr/bin"].map(|at| Path::new(at).join(program)).into_iter();
        let found = found.into_iter().find(|path| path.exists()).unwrap();
        let linked = Command::new("ldd").arg(&found).output().unwrap();
        let linked = String::from_utf8(linked.stdout).unwrap();
        files.extend(
            linked.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from),
        );
        fs::copy(&found, root.join("bin").join(program)).unwrap();
    }
    for file in files {
        let inside = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        fs::copy(&file, inside).unwrap();
    }
    fs::write(root.join("etc/marker"), "of the directory\n").unwrap();
    fs::write(root.join("etc/passwd"), "service:x:77:77::/:/bin/sh\nperson:x:1234:1::/:/bin/sh\n")
        .unwrap();
    // A link in it leads to where it would lead inside.
    std::os::unix::fs::symlink("/etc/marker", root.join("opt/link")).unwrap();
    own(env, &root);
    root
}

fn own(env: &TestEnv, path: &Path) {
    env.account().own(path);
    if !path.is_symlink() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| own(env, &entry.unwrap().path()));
    }
}

for_each_kind_of_user! {
    /// It is all there is of a system, and nothing in it changes.
    fn a_directory_as_the_root(env) {
        let root = system(env);
        let before = fs::read_to_string(root.join("etc/passwd")).unwrap();
        let directory = root.to_str().unwrap();
        let script = "id -un; pwd; cat /opt/link /etc/hostname; echo /usr/bin/*; ls / | while read it; do echo -n $it,; done; \
                      echo; cat /etc/passwd; ls /home /tmp /workbench; touch here ~/x /tmp/x && echo written";
        let output = env
            .min(["run", "--name", "own", "--workspace", "none", "--rootfs", directory, "--", "/bin/sh", "-c", script])
            .run();
        output.assert_code(0);
        let text = output.text();
        assert!(text.starts_with("box\n/workbench\nof the directory\nown\n"), "{output}");
        for absent in ["perl", "srv", "boot", "person", "mnt"] {
            assert!(!text.contains(absent), "{absent}: {output}");
        }
        for there in ["service:x:77", "box:x:1000", "root:x:0", "dev,", "proc,", "sys,", "written"] {
            assert!(text.contains(there), "{there}: {output}");
        }
        assert_eq!(fs::read_to_string(root.join("etc/passwd")).unwrap(), before);
        assert!(!root.join("home").exists() && !root.join("proc").exists());
    }

    /// Root of the box changes what it likes, for itself.
    fn its_root_writes(env) {
        let root = system(env);
        let directory = root.to_str().unwrap();
        env.run(["true"]).run().assert_code(0);
        if env.newest()["enforcement"]["users"] == "single" {
            return;
        }
        let script = "touch /new /bin/new && echo more >> /etc/marker && cat /etc/marker && ls /new /bin/new; ls -d /root";
        let output = env
            .min(["run", "-u", "root", "--workspace", "none", "--rootfs", directory, "--", "/bin/sh", "-c", script])
            .run();
        output.assert_code(0).assert_stdout("of the directory\nmore\n/bin/new\n/new\n/root\n");
        assert_eq!(env.newest()["enforcement"]["install"], "full");
        assert_eq!(fs::read_to_string(root.join("etc/marker")).unwrap(), "of the directory\n");
        assert!(!root.join("new").exists());
    }
}

for_each_user! {
    /// What cannot be a root is refused, with the reason.
    fn refusals(env) {
        let root = system(env);
        let run = |path: &Path| {
            let path = path.to_str().unwrap();
            env.min(["run", "--workspace", "none", "--rootfs", path, "--", "/bin/sh", "-c", "true"]).run()
        };
        run(&root).assert_code(0);
        run(&env.work().join("gone")).assert_code(2).assert_stderr_has("No such file");
        run(&root.join("etc/passwd")).assert_code(2).assert_stderr_has("not a directory");
        run(Path::new("/")).assert_code(125).assert_stderr_has("the state of every box is in it");
        run(env.root()).assert_code(125).assert_stderr_has("the state of every box is in it");
        run(&env.state_dir().join("boxes")).assert_code(125);
        if need::root() && !env.account().is_root() {
            std::os::unix::fs::chown(&root, Some(0), Some(0)).unwrap();
            fs::set_permissions(&root, fs::Permissions::from_mode(0o711)).unwrap();
            run(&root).assert_code(125).assert_stderr_has("Permission denied");
            own(env, &root);
        }
        let empty = env.work().join("empty");
        env.account().make_dir(&empty);
        run(&empty).assert_code(127);
    }

    /// What would be done names it.
    fn explained(env) {
        let root = system(env);
        let output =
            env.min(["run", "--explain", "--rootfs", root.to_str().unwrap(), "--", "/bin/sh"]).run();
        output.assert_code(0);
        assert!(output.text().contains(root.to_str().unwrap()), "{output}");
    }

    /// One that was mounted after the daemon had started, which has its mounts from before: refused, and
    /// not taken for what is below.
    fn one_that_was_mounted_since(env) {
        if !need::root() {
            return;
        }
        let root = system(env);
        env.boxes();
        let disk = Tmpfs::mount(&root, 1 << 20, env.account());
        let run = || {
            env.min(["run", "--workspace", "none", "--rootfs", root.to_str().unwrap(), "--", "/bin/sh", "-c", "true"])
                .run()
        };
        run().assert_code(125).assert_stderr_has("it is another one for the daemon");
        env.min(["host", "stop"]).run().assert_code(0);
        // The next one sees the empty directory.
        run().assert_code(127);
        env.min(["host", "stop"]).run().assert_code(0);
        drop(disk);
    }
}
