//! `/etc` of a box: what everybody may read of the host's, and files of its own.

use std::fs;
use std::path::Path;

use minimal_testkit::{Account, TestEnv, for_each_user, need};

use crate::host_directories::on_a_host_with;

/// A file of the host's that goes with the scenario.
struct HostFile<'a>(&'a Path);

impl<'a> HostFile<'a> {
    fn new(path: &'a Path, text: &str) -> Self {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        Self(path)
    }
}

impl Drop for HostFile<'_> {
    fn drop(&mut self) {
        fs::remove_file(self.0).unwrap();
    }
}

for_each_user! {
    /// What the host changes is in the next box; the one that runs keeps what it has.
    fn changes(env) {
        if !need::root() {
            return;
        }
        let name = format!("minimal-test-changes-{}", std::process::id());
        let path = Path::new("/etc").join(&name);
        let read = |env: &TestEnv| env.run_sh(&format!("cat /etc/{name} 2>/dev/null; exit 0")).run();
        let mut waiting = env
            .run_sh(&format!("echo up; read line; cat /etc/{name} 2>/dev/null; exit 0"))
            .stdin_piped()
            .spawn();
        waiting.wait_for_stdout("up\n");
        let file = HostFile::new(&path, "one\n");
        read(env).assert_code(0).assert_stdout("one\n");
        // In place, too.
        fs::write(&path, "two\n").unwrap();
        read(env).assert_code(0).assert_stdout("two\n");
        drop(file);
        read(env).assert_code(0).assert_stdout("");
        waiting.write(b"\n");
        waiting.wait().assert_code(0).assert_stdout("up\n");
    }

    /// Of the host's files it has those that everybody may read, all the way, and nothing else: not
    /// the caller's own, not the daemon's, no sockets and pipes.
    fn what_everybody_may_read(env) {
        let host = "mkdir etc; cp /etc/ld.so.cache etc/; chmod 755 etc; cd etc; echo open > open; echo mine > mine; chmod 600 mine; \
                    echo group > group-file; chmod 640 group-file; mkfifo fifo; ln -s open link; \
                    mkdir -p keys/below; echo key > keys/key; echo key > keys/below/key; chmod 750 keys; \
                    mkdir listed; echo deep > listed/deep; chmod -R go+rX listed open ld.so.cache; cd ..; \
                    mount --bind etc /etc";
        let script = "cd /etc; cat open link listed/deep; \
                      for f in mine group-file fifo keys keys/key keys/below/key; do \
                      test -e $f && echo sees $f; done; echo x >> open && echo writes; echo done";
        let output = on_a_host_with(env, host, ["run", "--", "sh", "-c", script]).run();
        output.assert_code(0).assert_stdout("open\nopen\ndeep\ndone\n");
        let missing = env.newest()["enforcement"]["missing"].clone();
        assert!(!missing.to_string().contains("/etc"), "nothing was left out for want of room: {missing}");
    }

    /// What speaks of the host is the box's own: its users, its name, its resolver.
    fn files_of_its_own(env) {
        let host = "mkdir etc; cp /etc/passwd /etc/group /etc/ld.so.cache etc/; \
                    echo 'alice:x:1234:1234:Alice:/home/alice:/bin/zsh' >> etc/passwd; \
                    echo 'service:x:234:234::/x:/bin/false' >> etc/passwd; \
                    echo 'alice:x:1234:' >> etc/group; echo 'alice:100000:65536' > etc/subuid; \
                    echo 'root:$6$secret:1::::::' > etc/shadow; \
                    ln -s /run/resolver/resolv.conf etc/resolv.conf; echo b0b0b0 > etc/machine-id; \
                    echo host-of-mine > etc/hostname; chmod -R go+rX etc; chmod 644 etc/shadow; mount --bind etc /etc";
        let script = "id -un; getent passwd box root service; getent passwd alice; getent group alice; \
                      cat /etc/subuid /etc/machine-id 2>/dev/null; grep secret /etc/shadow 2>/dev/null; \
                      cat /etc/hostname; hostname; getent hosts named | head -1; \
                      test -f /etc/resolv.conf && test ! -L /etc/resolv.conf && cat /etc/resolv.conf; \
                      test -s /etc/nsswitch.conf && grep -c ' /proc ' /etc/mtab";
        let output = on_a_host_with(env, host, ["run", "--name", "named", "--", "sh", "-c", script]).run();
        output.assert_code(0);
        let lines: Vec<_> = output.text().lines().collect();
        assert_eq!(
            lines,
            [
                "box",
                "box:x:1000:1000::/home/box:/bin/sh",
                "root:x:0:0::/root:/bin/sh",
                "service:x:234:234::/x:/bin/false",
                "named",
                "named",
                "127.0.1.1       named",
                "1",
            ],
            "{output}"
        );
    }

    /// More than is kept in memory is left out, and the record says so once.
    fn bounds(env) {
        let host = "mkdir etc; cp /etc/ld.so.cache etc/; truncate -s 65M etc/large; \
                    mkdir etc/many; for d in 0 1 2 3 4 5 6 7 8 9; do mkdir etc/many/$d; \
                    (cd etc/many/$d; seq 2100 | xargs touch); done; chmod -R go+rX etc; \
                    mount --bind etc /etc";
        let output = on_a_host_with(env, host, ["run", "--", "sh", "-c", "test -e /etc/large || echo none; cat /etc/hostname"]).run();
        output.assert_code(0).assert_stdout("none\nsh-1\n");
        let record = env.newest();
        let missing: Vec<_> = record["enforcement"]["missing"].as_array().unwrap().iter()
            .filter(|missing| missing["what"] == "/etc").collect();
        assert_eq!(missing.len(), 1, "{record}");
        let why = missing[0]["why"].as_str().unwrap();
        assert!(why.contains("names beyond what is copied"), "{why}");
    }
}

/// A caller's supplementary groups open nothing of `/etc`, though a namespace with one user cannot
/// give them up.
#[test]
fn groups_of_the_caller_open_nothing() {
    let (true, Some(account)) = (need::root(), need::user()) else { return };
    if !need::userns(&account) {
        return;
    }
    let shadow = fs::read_to_string("/etc/shadow").unwrap();
    let group = std::os::unix::fs::MetadataExt::gid(&fs::metadata("/etc/shadow").unwrap());
    assert_ne!(group, 0, "the group that may read passwords has one of its own");
    let env = TestEnv::for_account(account.clone());
    let as_member = |argv: &[&str]| {
        let ids = [
            format!("--reuid={}", account.uid),
            format!("--regid={}", account.gid),
            format!("--groups={group}"),
        ];
        let words = ids.iter().map(String::as_str).chain(argv.iter().copied());
        env.command(Path::new("/usr/bin/setpriv"), words).account(Account::current()).run()
    };
    // Outside it does, or this shows nothing.
    as_member(&["cat", "/etc/shadow"]).assert_code(0).assert_stdout(&shadow);
    let output = as_member(&["min", "run", "--", "sh", "-c", "id -G; cat /etc/shadow"]);
    for line in shadow.lines().filter(|line| !line.contains(":*:")) {
        assert!(!output.text().contains(line), "{output}");
    }
    assert!(output.text().contains("box:*:"), "it has one of its own: {output}");
}
