//! Ways to files of the host's.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use minimal_testkit::{Account, TestEnv, for_each_kind_of_user, for_each_user, need};

use super::{HostFile, attack, strongest, take_down};

/// A group that nobody is in.
const GROUP: u32 = 4242;

for_each_kind_of_user! {
    /// A file of /etc that is root's, or the caller's, alone.
    fn secret_in_etc(env) {
        if !need::root() {
            return;
        }
        let secret = HostFile::new(env, "/etc", 0o600);
        let user = strongest(env);
        let read = |env: &TestEnv| env.min(["run", "-u", user, "--", "cat", secret.path()]).run();
        let (up, down) = attack(env, &["public_etc"], read);
        up.assert_code(1).assert_stdout("");
        down.assert_code(0).assert_stdout("secret\n");
    }

    /// A file of /usr/local that is the host's root's alone. An ordinary user's boxes have nobody who
    /// could read it.
    fn secret_in_local(env) {
        if !need::root() {
            return;
        }
        let secret = HostFile::new(env, "/usr/local/lib", 0o600);
        std::os::unix::fs::chown(&secret.0, Some(0), Some(0)).unwrap();
        let user = strongest(env);
        let read = |env: &TestEnv| env.min(["run", "-u", user, "--", "cat", secret.path()]).run();
        let (up, down) = attack(env, &["administrators"], read);
        up.assert_code(1).assert_stdout("");
        if env.account().is_root() {
            down.assert_code(0).assert_stdout("secret\n");
        } else {
            down.assert_code(1).assert_stdout("");
        }
    }

    /// The caller is in a group; a box with more than one user is not.
    fn group_file(env) {
        if !need::root() {
            return;
        }
        let file = HostFile::new(env, "/opt", 0o640);
        std::os::unix::fs::chown(&file.0, Some(0), Some(GROUP)).unwrap();
        let read = |env: &TestEnv| {
            let Account { uid, gid } = *env.account();
            let ids = [("--reuid", uid), ("--regid", gid), ("--groups", GROUP)];
            let mut args: Vec<String> =
                ids.iter().flat_map(|(option, id)| [(*option).to_owned(), id.to_string()]).collect();
            args.push(env.program().to_str().unwrap().to_owned());
            args.extend(["run", "--", "cat", file.path()].map(str::to_owned));
            env.command("/usr/bin/setpriv".as_ref(), args).account(Account::current()).run()
        };
        let is_single = strongest(env) == "box";
        env.stop_all();
        let up = read(env);
        if is_single {
            // The kernel's rule, which the record tells.
            up.assert_code(0).assert_stdout("secret\n");
            let missing = env.newest()["enforcement"]["missing"].to_string();
            assert!(missing.contains("supplementary_groups"), "{missing}");
            return;
        }
        up.assert_code(1).assert_stdout("");
        take_down(env, &["groups"]);
        read(env).assert_code(0).assert_stdout("secret\n");
    }

    /// A program that a box has made, for others on the host to become whoever made it.
    fn set_uid_file(env) {
        if !need::root() {
            return;
        }
        let script = "cp /usr/bin/id ~/mine && chmod 4755 ~/mine && chmod 755 ~ && cd && pwd";
        env.run_sh(script).run().assert_code(0);
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        let files = env.box_dir(&id).join("fs");
        let mine = files.join("home/mine");
        let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&mine).unwrap());
        assert_eq!(fs::metadata(&mine).unwrap().permissions().mode() & 0o7777, 0o4755);
        let nobody = Account { uid: 65_534, gid: 65_534 };
        let ask = |env: &TestEnv| {
            let args = ["-c", "exec \"$0\" -u", mine.to_str().unwrap()];
            env.command("/bin/sh".as_ref(), args).cwd("/").account(nobody.clone()).run()
        };
        // The scenario's own directory stands in for a home that others may enter.
        let open = |path: &std::path::Path| fs::set_permissions(path, Permissions::from_mode(0o711));
        open(env.root()).unwrap();
        ask(env).assert_code(126).assert_stdout("");
        // "private_state", taken down.
        let inner = [env.state_dir().to_owned(), env.state_dir().join("boxes"), env.box_dir(&id), files];
        let modes: Vec<_> = inner.iter().map(|path| fs::metadata(path).unwrap().permissions()).collect();
        for path in &inner {
            open(path).unwrap();
        }
        ask(env).assert_code(0).assert_stdout(format!("{owner}\n"));
        for (path, mode) in inner.iter().zip(modes) {
            fs::set_permissions(path, mode).unwrap();
        }
    }
}

for_each_user! {
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
        let (_, down) = attack(env, &["system_calls"], make);
        down.assert_code(0);
        assert_eq!(mode() & 0o6000, 0o4000);
    }

    /// A file of the host's that everybody may write to.
    fn host_file(env) {
        if !need::root() {
            return;
        }
        let file = HostFile::new(env, "/opt", 0o666);
        let script = format!("echo in > {}", file.path());
        let write = |env: &TestEnv| env.run_sh(&script).run();
        let up = write(env);
        assert_ne!(up.code(), Some(0), "{up}");
        assert_eq!(fs::read_to_string(&file.0).unwrap(), "secret\n");
        let (_, down) = attack(env, &["read_only"], write);
        down.assert_code(0);
        assert_eq!(fs::read_to_string(&file.0).unwrap(), "in\n");
    }
}
