//! The users and groups that a box knows by name.

use std::fmt::Write as _;

use crate::plan::HOME;
use crate::users::BOX_USER;

/// The kernel's id for whoever has none (`/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65_534;

/// Ids of the system's own users and groups, which packages bring: 1 to 999 (login.defs(5),
/// `SYS_UID_MAX`). People come after them.
const SYSTEM: std::ops::RangeInclusive<u32> = 1..=999;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: String,
    pub(crate) shell: String,
}

/// All users and groups of a box: root, box, nobody, and the host's system accounts, since files
/// and packages of the system name them. None of the host's people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    users: Vec<Account>,
    /// Name and id.
    groups: Vec<(String, u32)>,
}

impl Accounts {
    /// From the host's `/etc/passwd` and `/etc/group` (passwd(5), group(5)).
    pub(crate) fn new(passwd: &str, group: &str) -> Self {
        let user = |name: &str, uid, home: &str, shell: &str| Account {
            name: name.to_owned(),
            uid,
            gid: uid,
            home: home.to_owned(),
            shell: shell.to_owned(),
        };
        let mut users = vec![user("root", 0, "/root", "/bin/sh")];
        let ours = ["root", "box", "nobody", "nogroup"];
        users.extend(passwd.lines().filter_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            let [name, _, uid, gid, _, home, shell] = fields[..] else { return None };
            let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
            let taken = is_name(name) && !ours.contains(&name) && SYSTEM.contains(&uid);
            taken.then(|| Account { gid, ..user(name, uid, home, shell) })
        }));
        users.push(user("box", BOX_USER, HOME, "/bin/sh"));
        users.push(user("nobody", NOBODY, "/nonexistent", "/usr/sbin/nologin"));
        let mut groups = vec![("root".to_owned(), 0)];
        groups.extend(group.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, gid) = (fields.next()?, fields.nth(1)?.parse().ok()?);
            let taken = is_name(name) && !ours.contains(&name) && SYSTEM.contains(&gid);
            taken.then(|| (name.to_owned(), gid))
        }));
        groups.extend([("box".to_owned(), BOX_USER), ("nogroup".to_owned(), NOBODY)]);
        Self { users, groups }
    }

    /// The user of this name or uid. A number need not have a name; its group is then of the same
    /// number.
    pub(crate) fn find(&self, user: &str) -> Option<Account> {
        if let Some(account) = self.users.iter().find(|account| account.name == user) {
            return Some(account.clone());
        }
        let uid: u32 = user.parse().ok()?;
        let named = self.users.iter().find(|account| account.uid == uid);
        Some(named.cloned().unwrap_or_else(|| Account {
            name: uid.to_string(),
            uid,
            gid: uid,
            home: "/".to_owned(),
            shell: "/bin/sh".to_owned(),
        }))
    }

    /// `/etc/passwd`.
    pub(crate) fn passwd(&self) -> String {
        self.users.iter().fold(String::new(), |mut text, user| {
            let Account { name, uid, gid, home, shell } = user;
            writeln!(text, "{name}:x:{uid}:{gid}::{home}:{shell}").expect("a String takes all");
            text
        })
    }

    /// `/etc/group`: nobody is a member of another's group.
    pub(crate) fn group(&self) -> String {
        self.groups.iter().fold(String::new(), |mut text, (name, gid)| {
            writeln!(text, "{name}:x:{gid}:").expect("a String takes all");
            text
        })
    }

    /// `/etc/shadow`: no password lets anybody in.
    pub(crate) fn shadow(&self) -> String {
        self.users.iter().map(|user| format!("{}:*:::::::\n", user.name)).collect()
    }

    /// `/etc/gshadow`.
    pub(crate) fn gshadow(&self) -> String {
        self.groups.iter().map(|(name, _)| format!("{name}:*::\n")).collect()
    }
}

/// Whether it can be a name: the compat lines of passwd(5) begin with a sign.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(['+', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_accounts_are_taken_and_people_are_not() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
                      box:x:500:500::/x:/bin/sh\nalice:x:1000:1000:Alice,,,:/home/alice:/bin/zsh\n\
                      +nis::::::\n+:x:7:7:::\nbroken\nbob:x:1001:1001::/home/bob:/bin/sh\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
        let group = "root:x:0:\nadm:x:4:alice\nalice:x:1000:\nbroken\nnogroup:x:65534:\n";
        let accounts = Accounts::new(passwd, group);
        assert_eq!(
            accounts.passwd(),
            "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n\
             box:x:1000:1000::/home/box:/bin/sh\n\
             nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        );
        assert_eq!(accounts.group(), "root:x:0:\nadm:x:4:\nbox:x:1000:\nnogroup:x:65534:\n");
        let id = |user: &str| accounts.find(user).map(|it| (it.name, it.uid, it.gid));
        assert_eq!(id("daemon"), Some(("daemon".to_owned(), 1, 1)));
        assert_eq!(id("1000"), Some(("box".to_owned(), 1000, 1000)));
        assert_eq!(id("4242"), Some(("4242".to_owned(), 4242, 4242)));
        assert_eq!([id("alice"), id(""), id("4294967296")], [None, None, None]);
        assert!(accounts.shadow().starts_with("root:*:::::::\ndaemon:*:::::::\n"));
        assert!(accounts.gshadow().contains("adm:*::\n"));
    }
}
