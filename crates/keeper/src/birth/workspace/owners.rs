//! Who the owners of a project's files are in the box.
//!
//! The project's owner is the box's user, and the other way round. An ordinary user is that already.
//! A daemon of root's maps: whoever else owns a file is who has the same id in the box, so that a
//! file of root's in a person's project can be read and not changed there too.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use minimal_linux::namespaces::{IdRange, map_only};
use minimal_proto::keeper::Missing;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};

use super::project::Project;
use crate::users::{BOX_USER, Users};

/// How many names of a project are looked at for owners that a box does not have. A look at the
/// whole tree would take longer than the start.
const LOOKED_AT: usize = 64;

/// How many ids a box has, where it has more than one.
const IDS: u32 = 65_536;

/// What an id is shown as that a user namespace does not have (user_namespaces(7), "overflowuid").
const NOBODY: u32 = 65_534;

/// The map for what root owns, as a daemon of root's most often meets it. To make a map takes a
/// process, so the nursery makes this one for all its keepers.
static OF_ROOTS: OnceLock<OwnedFd> = OnceLock::new();

/// Makes the maps that are made once. Without them each box makes its own.
pub(crate) fn make_common_maps(users: Users) {
    if let Users::Range { base } = users {
        let ranges = everyone_else_is_themselves(0, base);
        drop(map_only(&ranges, &ranges).map(|map| OF_ROOTS.set(map)));
    }
}

/// A map for what the box only reads, or changes in a layer of its own.
pub(super) fn everyone(project: &Project, users: Users) -> io::Result<Option<OwnedFd>> {
    let is_roots = (project.stat.st_uid, project.stat.st_gid) == (0, 0);
    match OF_ROOTS.get() {
        Some(map) if is_roots => map.try_clone().map(Some),
        _ => map(project, users, everyone_else_is_themselves),
    }
}

/// A map for the real tree. Nobody but the owner is in it: with root's id a box could leave set-uid
/// programs of root's there.
pub(super) fn owner_only(project: &Project, users: Users) -> io::Result<Option<OwnedFd>> {
    map(project, users, |owner, base| {
        vec![IdRange { inside: owner, outside: base + BOX_USER, count: 1 }]
    })
}

fn map(
    project: &Project,
    users: Users,
    ranges: impl Fn(u32, u32) -> Vec<IdRange>,
) -> io::Result<Option<OwnedFd>> {
    match users {
        Users::Subordinate | Users::Single => Ok(None),
        Users::Range { base } => {
            let (uid, gid) = (project.stat.st_uid, project.stat.st_gid);
            map_only(&ranges(uid, base), &ranges(gid, base)).map(Some)
        }
    }
}

/// Ids on disk, and what they are shown as: `owner` and the box's user change places.
fn everyone_else_is_themselves(owner: u32, base: u32) -> Vec<IdRange> {
    let one = |inside, shown| IdRange { inside, outside: base + shown, count: 1 };
    let mut ranges = vec![one(owner, BOX_USER)];
    if owner < IDS && owner != BOX_USER {
        ranges.push(one(BOX_USER, owner));
    }
    let mut first = 0;
    for end in BTreeSet::from([owner.min(IDS), BOX_USER, IDS]) {
        if end > first {
            ranges.push(IdRange { inside: first, outside: base + first, count: end - first });
        }
        first = end + 1;
    }
    ranges
}

/// What belongs to somebody the box does not have, as far as a look at the top shows.
pub(super) fn strangers(project: &Project, users: Users) -> Option<Missing> {
    let owner = project.stat.st_uid;
    let is_stranger = |uid: u32| match users {
        Users::Range { .. } => uid != owner && uid >= IDS,
        // Those whom the namespace we live in does not have either.
        Users::Subordinate | Users::Single => uid == NOBODY,
    };
    let strangers = look(project, is_stranger);
    let (first, others) = strangers.split_first()?;
    let others = match others.len() {
        0 => " belongs".to_owned(),
        count => format!(" and {count} more in `{}` belong", project.path.display()),
    };
    Some(Missing {
        what: "workspace_owners".to_owned(),
        why: format!(
            "`{first}`{others} to somebody who is nobody in the box: what anybody may read can be \
             read there, and nothing of it can be changed"
        ),
    })
}

fn look(project: &Project, is_stranger: impl Fn(u32) -> bool) -> Vec<String> {
    let mut strangers = Vec::new();
    if is_stranger(project.stat.st_uid) {
        strangers.push(project.path.display().to_string());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // What cannot be listed cannot be told of: the box's user may not look either.
    let listed = rustix::fs::openat(project.fd(), ".", flags, Mode::empty()).and_then(Dir::new);
    for entry in listed.into_iter().flatten().take(LOOKED_AT).flatten() {
        let name = entry.file_name();
        let path = project.path.join(Path::new(&*name.to_string_lossy()));
        // A look at a mount could wait for ever.
        if matches!(name.to_bytes(), b"." | b"..") || project.mounts_below.contains(&path) {
            continue;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        if let Ok(stat) = rustix::fs::statat(project.fd(), name, flags)
            && is_stranger(stat.st_uid)
        {
            strangers.push(name.to_string_lossy().into_owned());
        }
    }
    strangers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where an id on disk is shown.
    fn shown(ranges: &[IdRange], id: u32) -> Option<u32> {
        let mut found =
            ranges.iter().filter(|range| (range.inside..range.inside + range.count).contains(&id));
        let range = found.next()?;
        assert!(found.next().is_none(), "{id} is in two ranges");
        Some(range.outside + (id - range.inside))
    }

    #[test]
    fn owner_and_box_user_change_places_and_nobody_is_anybody_twice() {
        let base = 1 << 30;
        for owner in [0, 1, 999, 1000, 1001, 65_535, 65_536, 100_000] {
            let ranges = everyone_else_is_themselves(owner, base);
            assert_eq!(shown(&ranges, owner), Some(base + BOX_USER), "{owner}");
            let mut all: Vec<u32> =
                (0..IDS).chain([owner]).filter_map(|id| shown(&ranges, id)).collect();
            all.sort_unstable();
            all.dedup();
            for id in [0, 1, 998, 1002, 65_534] {
                if id != owner {
                    assert_eq!(shown(&ranges, id), Some(base + id), "{owner}");
                }
            }
            let others = if owner < IDS { 65_536 } else { 65_535 };
            assert!(all.len() >= others, "{owner}: {}", all.len());
            assert!(all.iter().all(|id| (base..base + IDS).contains(id)), "{owner}");
            if owner < IDS {
                assert_eq!(shown(&ranges, BOX_USER), Some(base + owner));
            }
        }
    }
}
