//! Who is in a process group.

use std::fs;

/// Whether a process other than its leader is in a group, or might be: where /proc cannot be read,
/// nobody knows. Both are numbers of our own pid namespace, and so is what /proc shows.
pub(super) fn has_others(leader: i32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return true };
    entries.flatten().any(|entry| {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            return false;
        };
        pid != leader
            && fs::read_to_string(entry.path().join("stat"))
                .is_ok_and(|stat| group_of_living(&stat) == Some(leader))
    })
}

/// The process group of a line of /proc/<pid>/stat (proc_pid_stat(5)); none of one that has ended.
fn group_of_living(stat: &str) -> Option<i32> {
    // The name, in parentheses, may hold anything; what follows the last one does not.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_read_whatever_the_name_holds() {
        assert_eq!(group_of_living("7 (a) b (c) S 1 42 42 0 -1"), Some(42));
        assert_eq!(group_of_living("7 (x) Z 1 42 42 0 -1"), None, "it has ended");
        assert_eq!(group_of_living("7 (x"), None);
    }
}
