//! Who the users of a box are, on the host and inside.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use minimal_testkit::{Account, TestEnv, for_each_kind_of_user, need};
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
