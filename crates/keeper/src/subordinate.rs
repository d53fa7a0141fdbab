//! Subordinate ids: what an administrator lets an ordinary user use beside the user's own
//! (subuid(5), subgid(5)).

use std::fmt;
use std::path::Path;

use crate::users::RANGE;

/// Where they are written down, and the setuid programs that put them into a map, with the kind of
/// id in words.
pub(crate) const KINDS: [(&str, &str); 2] =
    [("/etc/subuid", "newuidmap"), ("/etc/subgid", "newgidmap")];

/// Directories of the programs: a nursery has no `PATH` to trust.
const PROGRAM_DIRECTORIES: [&str; 5] =
    ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin", "/run/wrappers/bin"];

/// What a user has, enough for a box's users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subordinate {
    /// First of at least 65,536 uids.
    pub first_uid: u32,
    /// First of at least 65,536 gids.
    pub first_gid: u32,
    /// The program that writes them into a uid map.
    pub(crate) uid_program: String,
    /// The program that writes them into a gid map.
    pub(crate) gid_program: String,
}

/// Why a user's boxes have one user only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// No line gives the user enough ids.
    Ids {
        /// `/etc/subuid` or `/etc/subgid`.
        file: &'static str,
        /// The user, by name where there is one.
        user: String,
        /// The first of 65,536 ids that nobody has in either file.
        free: Option<u32>,
    },
    /// A program is missing.
    Program {
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ids { file, user, .. } => {
                write!(f, "{file} has no line that gives {user} {RANGE} ids")
            }
            Self::Program { name } => write!(f, "there is no {name} on this host"),
        }
    }
}

impl Subordinate {
    /// What this host gives the user `uid`.
    ///
    /// # Errors
    /// Why it is not enough.
    pub fn find(uid: u32) -> Result<Self, Lack> {
        let read = |path: &str| {
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
        };
        let [uids, gids] = KINDS.map(|(file, _)| read(file));
        let user = name_of(uid, &read("/etc/passwd")).unwrap_or_else(|| uid.to_string());
        let first = |text: &str, file| {
            first_of(text, &[&user, &uid.to_string()]).ok_or_else(|| Lack::Ids {
                file,
                user: user.clone(),
                free: free(&[uids.as_str(), gids.as_str()].join("\n"), USUAL_FIRST),
            })
        };
        let program = |name| {
            let at = |directory| Path::new(directory).join(name);
            let found = PROGRAM_DIRECTORIES.into_iter().map(at).find(|path| path.is_file());
            let found = found.ok_or(Lack::Program { name })?;
            Ok(found.to_string_lossy().into_owned())
        };
        Ok(Self {
            first_uid: first(&uids, KINDS[0].0)?,
            first_gid: first(&gids, KINDS[1].0)?,
            uid_program: program(KINDS[0].1)?,
            gid_program: program(KINDS[1].1)?,
        })
    }
}

/// Where useradd(8) begins (login.defs(5), `SUB_UID_MIN`).
const USUAL_FIRST: u32 = 100_000;

/// Lines of subuid(5): user, first id, count. Whatever is none is passed over.
fn lines(text: &str) -> impl Iterator<Item = (&str, u32, u32)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let user = fields.next()?.trim();
        let mut number = || fields.next()?.trim().parse().ok();
        Some((user, number()?, number()?))
    })
}

/// The first id of the first line for one of these users that has enough, and not the host's root.
fn first_of(text: &str, users: &[&str]) -> Option<u32> {
    let fits = |(user, first, count): &(&str, u32, u32)| {
        users.contains(user) && *first > 0 && *count >= RANGE && first.checked_add(*count).is_some()
    };
    lines(text).find(fits).map(|(_, first, _)| first)
}

/// The first of 65,536 ids that no line has, in steps of as many from `from` on.
pub(crate) fn free(text: &str, from: u32) -> Option<u32> {
    let taken: Vec<(u64, u64)> = lines(text)
        .map(|(_, first, count)| (u64::from(first), u64::from(first) + u64::from(count)))
        .collect();
    let range = u64::from(RANGE);
    (u64::from(from)..u64::from(u32::MAX) - range)
        .step_by(RANGE as usize)
        .find(|base| taken.iter().all(|(first, end)| *end <= *base || *first >= base + range))
        .and_then(|base| u32::try_from(base).ok())
}

/// The name of a user in passwd(5).
fn name_of(uid: u32, passwd: &str) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_must_have_enough() {
        let text = "# c\nbob:100000:65536\nalice:1:100\nalice:0:65536\nalice:4294967295:65536\n\
                    broken:x\nalice:300000:65536\n1001:500000:70000\n";
        assert_eq!(first_of(text, &["bob", "7"]), Some(100_000));
        assert_eq!(first_of(text, &["alice", "8"]), Some(300_000));
        assert_eq!(first_of(text, &["carol", "1001"]), Some(500_000));
        assert_eq!(first_of(text, &["carol", "9"]), None);
    }

    #[test]
    fn what_is_free_overlaps_nobody() {
        assert_eq!(free("", 100_000), Some(100_000));
        assert_eq!(free("a:100000:65536\nb:165535:2\n", 100_000), Some(231_072));
        assert_eq!(free("a:0:4294967295", 100_000), None);
    }

    #[test]
    fn names_are_those_of_passwd() {
        let passwd = "root:x:0:0::/root:/bin/sh\n::7\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(name_of(1000, passwd).as_deref(), Some("alice"));
        assert_eq!(name_of(1001, passwd), None);
    }
}
