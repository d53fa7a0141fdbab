//! Who the users of a box are, on the host and inside.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use minimal_testkit::{Account, LIMIT, TestEnv, for_each_kind_of_user, need, wait_until};
use serde_json::{Value, json};

/// First subordinate id of an account; none where it has no line.
fn subordinate(account: &Account, file: &str) -> Option<u32> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let uid = account.uid.to_string();
    let name =
        passwd.lines().find(|line| line.split(':').nth(2) == Some(&uid))?.split(':').next()?;
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(1)?.parse().ok()
}

for_each_kind_of_user! {
    /// A command is the user `box`, whose files on the host are the caller's; the record tells the
    /// whole map, in ids of the host.
    fn the_caller_is_box(env) {
        let account = env.account().clone();
        let script = "id -u; id -g; id -un; touch made; stat -c %u:%g made /home/box /tmp /workbench";
        let output = env.min(["run", "--workspace", "bind", "--", "sh", "-c", script]).run();
        output.assert_code(0).assert_stdout("1000\n1000\nbox\n1000:1000\n1000:1000\n1000:1000\n1000:1000\n");
        let made = fs::metadata(env.work().join("made")).unwrap();
        assert_eq!((made.uid(), made.gid()), (account.uid, account.gid));
        let enforcement = env.newest()["enforcement"].clone();
        let subordinate_ids = subordinate(&account, "/etc/subuid");
        let (users, map) = match subordinate_ids {
            _ if account.is_root() => {
                let base = enforcement["uid_map"][0][1].as_u64().unwrap();
                assert!(base >= 65_536, "the host's root is in no box: {enforcement}");
                ("range", json!([[0, base, 65_536]]))
            }
            Some(first) => ("subordinate", json!([
                [0, first, 1000], [1000, account.uid, 1], [1001, first + 1000, 64_535],
            ])),
            None => ("single", json!([[1000, account.uid, 1]])),
        };
        assert_eq!((&enforcement["users"], &enforcement["uid_map"]), (&json!(users), &map), "{enforcement}");
        let output = env.min(["host", "show", "-o", "json"]).run();
        assert_eq!(output.json()["isolation"]["users"], users, "{output}");
    }

    /// Where there are several users, the caller's groups are given up; else the record says that
    /// they could not be.
    fn groups(env) {
        let output = env.run_sh("id -G").run();
        output.assert_code(0).assert_stdout("1000\n");
        let enforcement = env.newest()["enforcement"].clone();
        let kept = names(&enforcement).contains(&"supplementary_groups");
        assert_eq!(kept, enforcement["users"] == "single", "{enforcement}");
        assert_eq!(names(&enforcement).contains(&"subordinate_ids"), kept, "{enforcement}");
    }

    /// `min doctor` says which users a box has, and where there is one only, how to get more.
    fn doctor(env) {
        let output = env.min(["doctor", "-o", "json"]).run();
        output.assert_code(0);
        let json = output.json();
        let check = |name: &str| {
            let checks = json["checks"].as_array().unwrap();
            checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {json}"))
        };
        let account = env.account();
        let users = check("users of a box");
        if account.is_root() || subordinate(account, "/etc/subuid").is_some() {
            assert_eq!((&users["status"], &users["fix"]), (&json!("ok"), &Value::Null), "{users}");
        } else {
            assert_eq!(users["status"], "warn", "{users}");
            assert!(users["fix"].as_str().unwrap().contains("usermod --add-subuids"), "{users}");
        }
        assert_eq!(check("overlay")["status"], "ok");
        assert!(check("Landlock")["message"].as_str().unwrap().contains("host_ip"), "{json}");
        env.run_sh("true").run().assert_code(0);
        let limits = env.newest()["enforcement"]["limits"].clone();
        let is_limited = limits.as_array().unwrap().iter().any(|limit| limit["what"] == "ram");
        assert_eq!(check("memory limit")["status"] == "ok", is_limited, "{json} {limits}");
    }

    /// `-u root`: every right over the box's own files and users, none over what the box is made of.
    /// Where a box has one user it is refused, and nothing ran.
    fn root_of_a_box(env) {
        let script = "id -un; echo $HOME; cd && touch here; touch /workbench/x; \
                      chown 33:33 /workbench/x; stat -c %u /workbench/x; su -s /bin/sh box -c 'id -un'; \
                      grep -E '^(CapPrm|CapBnd|NoNewPrivs)' /proc/self/status | cut -f2; \
                      { echo x > /proc/sys/kernel/core_pattern; } 2>/dev/null && echo core_pattern; \
                      mount -t tmpfs none /tmp 2>/dev/null && echo mounts; \
                      unshare -U true 2>/dev/null && echo namespaces; \
                      mknod /tmp/null c 1 3 2>/dev/null && echo devices; \
                      cat /proc/1/environ >/dev/null 2>&1 && echo environ; \
                      readlink /proc/1/exe /proc/1/root /proc/1/fd/* 2>/dev/null && echo fds; \
                      head -c1 /proc/1/mem >/dev/null 2>&1 && echo memory; \
                      touch /dev/x 2>/dev/null && echo writes; kill -9 1; echo done";
        let output = env.min(["run", "-u", "root", "--", "sh", "-c", script]).run();
        let record = env.newest();
        if needs_more_users(&record) {
            output.assert_code(125).assert_stdout("").assert_stderr_has("one user");
            assert_eq!((&record["state"], &record["started_at"]), (&json!("failed"), &Value::Null));
            return;
        }
        output.assert_code(0).assert_stdout(
            "root\n/root\n33\nbox\n00000000200405fb\n00000000200405fb\n1\ndone\n",
        );
        let capabilities = record["enforcement"]["capabilities"].to_string();
        assert!(capabilities.contains("CAP_CHOWN") && !capabilities.contains("ADMIN"), "{record}");
        env.run_sh("true").run().assert_code(0);
        assert_eq!(env.newest()["enforcement"]["capabilities"], json!([]));
    }

    /// By name, by number, unknown, and what can be no user.
    fn other_users(env) {
        let id_of = |user: &str| env.min(["run", "-u", user, "--", "sh", "-c", "id -u; echo $USER"]).run();
        for user in ["box", "1000"] {
            id_of(user).assert_code(0).assert_stdout("1000\nbox\n");
        }
        id_of("nosuch").assert_code(125).assert_stderr_has("no such user");
        for (user, expected) in [("daemon", "1\ndaemon\n"), ("4242", "4242\n4242\n")] {
            let output = id_of(user);
            if needs_more_users(&env.newest()) {
                output.assert_code(125).assert_stderr_has("one user");
            } else {
                output.assert_code(0).assert_stdout(expected);
            }
        }
        let output = id_of("70000");
        output.assert_code(125).assert_stdout("");
        for wrong in ["", "a b", "a:b", "../x"] {
            id_of(wrong).assert_code(2).assert_stderr_has("nothing was run");
        }
    }

    /// What any user of a box wrote is deleted with it, however it is closed, owned and nested.
    fn files_of_all_users_are_deleted(env) {
        let script = "cd /workbench; mkdir -p a/b/c; touch a/b/c/f; chown -R 33:33 a; chmod 0 a/b/c a/b a; \
                      mkdir -m 700 /tmp/r; touch /tmp/r/f; chown 65535:65535 /tmp/r; \
                      for i in $(seq 300); do mkdir -m 700 deep_directory_name && cd deep_directory_name; done; \
                      touch f; exit 0";
        let output = env.min(["run", "-u", "root", "--", "sh", "-c", script]).run();
        if !needs_more_users(&env.newest()) {
            output.assert_code(0);
        }
        env.min(["rm", "sh-1"]).run().assert_code(0);
        for place in ["boxes", "reaping"] {
            let left: Vec<_> = fs::read_dir(env.state_dir().join(place)).unwrap().collect();
            assert!(left.is_empty(), "{place}: {left:?}");
        }
    }

    /// A daemon that died over such files is no reason for them to stay.
    fn files_of_all_users_after_a_crash(env) {
        let script = "mkdir -m 700 /tmp/r; touch /tmp/r/f; chown 33:33 /tmp/r; exit 0";
        env.min(["run", "-u", "root", "--", "sh", "-c", script]).run();
        env.hooks().kill("store.reap.after_rename");
        env.min(["rm", "sh-1"]).run().assert_code(0);
        env.hooks().wait_fired("store.reap.after_rename.kill");
        env.min(["ls"]).run().assert_code(0);
        let reaping = env.state_dir().join("reaping");
        wait_until("the next daemon has deleted it", LIMIT, || {
            let left: Vec<_> = fs::read_dir(&reaping).unwrap().flatten().map(|entry| entry.path()).collect();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}

/// Whether a box could not be made since it needs more users than there are here.
fn needs_more_users(record: &Value) -> bool {
    let message = record["ending"]["detail"]["message"].as_str().unwrap_or_default();
    message.contains("boxes have one user")
}

/// What is missing, by name.
fn names(enforcement: &Value) -> Vec<&str> {
    let missing = enforcement["missing"].as_array().unwrap();
    missing.iter().filter_map(|missing| missing["what"].as_str()).collect()
}

/// `min` as this account, with these supplementary groups, on a host in whose directories root has
/// done this.
fn as_member(env: &TestEnv, host: &str, groups: &str, script: &str) -> minimal_testkit::Output {
    let account = env.account();
    let wrapped = format!(
        "{host}\nexec setpriv --reuid={} --regid={} --groups={groups} \"$@\"",
        account.uid, account.gid
    );
    let words = ["--mount", "sh", "-euc", &wrapped, "sh", "min", "run", "--", "sh", "-c", script];
    env.command(Path::new("/usr/bin/unshare"), words).account(Account::current()).run()
}

/// With subordinate ids a box has none of the caller's supplementary groups, wherever they would be
/// of use.
#[test]
fn groups_of_the_caller_are_given_up() {
    let Some(account) = need::subordinate_ids() else { return };
    if !need::userns(&account) {
        return;
    }
    let env = TestEnv::for_account(account);
    let host = "mount -t tmpfs none /opt; echo for-members > /opt/file; \
                chgrp 4242 /opt/file; chmod 640 /opt/file; chmod 755 /opt";
    let output = as_member(&env, host, "4242", "id -G; cat /opt/file");
    output.assert_code(1).assert_stdout("1000\n").assert_stderr_has("Permission denied");
}

/// A program that does not map the ids leaves a box with one user, and the record says why.
#[test]
fn no_ids_without_the_program() {
    let Some(account) = need::subordinate_ids() else { return };
    if !need::userns(&account) {
        return;
    }
    for (host, why) in [
        ("mount --bind /dev/null /usr/bin/newuidmap", "there is no newuidmap"),
        (
            "printf '#!/bin/sh\\necho newgidmap: not today >&2; exit 1' > p; chmod 755 p; \
             chmod 755 .; mount --bind p /usr/bin/newgidmap",
            "newgidmap: not today",
        ),
        (
            "printf '#!/bin/sh\\nkill -9 $$' > p; chmod 755 p; mount --bind p /usr/bin/newuidmap",
            "newuidmap: signal: 9",
        ),
    ] {
        let env = TestEnv::for_account(account.clone());
        let output = as_member(&env, host, "0", "id -u");
        output.assert_code(0).assert_stdout("1000\n");
        let enforcement = env.newest()["enforcement"].clone();
        assert_eq!(enforcement["users"], "single", "{enforcement}");
        let missing = enforcement["missing"].as_array().unwrap();
        let said = missing.iter().find(|missing| missing["what"] == "subordinate_ids");
        let said = said.unwrap_or_else(|| panic!("{enforcement}"))["why"].as_str().unwrap();
        assert!(said.contains(why), "{said}");
    }
}

/// A caller that ignores the end of children passes that on, and is no reason to do without ids.
#[test]
fn a_caller_that_ignores_children() {
    let Some(account) = need::subordinate_ids() else { return };
    if !need::userns(&account) {
        return;
    }
    let env = TestEnv::for_account(account);
    let script = "trap '' CHLD; exec min run -- id -u";
    env.bash(script).run().assert_code(0).assert_stdout("1000\n");
    assert_eq!(env.newest()["enforcement"]["users"], "subordinate");
}
