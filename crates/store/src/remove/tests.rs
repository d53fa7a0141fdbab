use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::*;

struct Tree {
    root: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("doomed")).unwrap();
        Self { root }
    }

    fn top(&self) -> PathBuf {
        self.root.path().join("doomed")
    }

    fn remove(&self) -> Result<(), RemoveError> {
        let parent = fs::File::open(self.root.path()).unwrap();
        remove_tree(parent.as_fd(), "doomed".as_ref())
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn everything_goes_and_no_link_is_followed() {
    let tree = Tree::new();
    let kept = tree.root.path().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "").unwrap();
    let top = tree.top();
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    for (place, target) in
        [("up", ".."), ("a/link", "../../kept"), ("a/b/file", "../../../kept/file")]
    {
        symlink(target, top.join(place)).unwrap();
    }
    fs::hard_link(kept.join("file"), top.join("a/b/c/file")).unwrap();
    // Names such as a removal gives to what it moves up.
    for n in 1..4 {
        fs::create_dir_all(top.join(format!(".{n}/x/y"))).unwrap();
        fs::write(top.join(format!("a/.{n}")), "").unwrap();
    }
    tree.remove().unwrap();
    assert!(!top.exists());
    assert!(kept.join("file").exists());
    tree.remove().unwrap();
}

#[test]
fn a_file_or_link_in_its_place_goes_and_what_it_names_stays() {
    let tree = Tree::new();
    fs::create_dir(tree.root.path().join("kept")).unwrap();
    fs::remove_dir(tree.top()).unwrap();
    symlink("kept", tree.top()).unwrap();
    tree.remove().unwrap();
    assert!(fs::symlink_metadata(tree.top()).is_err());
    assert!(tree.root.path().join("kept").exists());
}

/// Deeper than a stack, the descriptors of a process, or a path could follow.
#[test]
fn a_deep_tree_costs_no_more_than_a_flat_one() {
    const DEPTH: usize = 1200;
    let tree = Tree::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open(tree.top(), flags, PRIVATE_DIR).unwrap();
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&dir, "deeper", PRIVATE_DIR).unwrap();
        dir = rustix::fs::openat(&dir, "deeper", flags, PRIVATE_DIR).unwrap();
    }
    drop(dir);
    tree.remove().unwrap();
    assert!(!tree.top().exists());
}

#[test]
fn a_wide_tree_goes_too() {
    let tree = Tree::new();
    for n in 0..300 {
        fs::create_dir_all(tree.top().join(format!("d{}/e{n}", n % 7))).unwrap();
        fs::write(tree.top().join(format!("d{}/f{n}", n % 7)), "").unwrap();
    }
    tree.remove().unwrap();
    assert!(!tree.top().exists());
}

/// As an ordinary user, whom permissions bind: root's test run changes who this thread is.
#[test]
fn directories_without_permissions_are_no_obstacle_to_their_owner() {
    let tree = Tree::new();
    let root = tree.root.path().to_owned();
    chmod(&root, 0o777);
    fs::remove_dir(tree.top()).unwrap();
    let as_user = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_uid(nobody).unwrap();
        }
        let top = root.join("doomed");
        fs::create_dir_all(top.join("a/work/work")).unwrap();
        fs::write(top.join("a/work/file"), "").unwrap();
        fs::create_dir(top.join("b")).unwrap();
        for closed in ["a/work/work", "a/work", "a", "b", ""] {
            chmod(&top.join(closed), 0);
        }
        assert!(fs::read_dir(&top).is_err(), "permissions bind this thread");
        tree.remove()
    });
    as_user.join().unwrap().unwrap();
}

#[test]
fn what_cannot_go_is_named_and_the_rest_goes() {
    let tree = Tree::new();
    let root = tree.root.path().to_owned();
    chmod(&root, 0o777);
    if !rustix::process::geteuid().is_root() {
        // What follows takes a directory of another user.
        return;
    }
    for name in ["a/b", "c"] {
        fs::create_dir_all(tree.top().join(name)).unwrap();
    }
    fs::write(tree.top().join("a/file"), "").unwrap();
    fs::write(tree.top().join("a/b/file"), "").unwrap();
    let nobody = Some(65_534);
    for owned in ["", "a", "c"] {
        std::os::unix::fs::chown(tree.top().join(owned), nobody, nobody).unwrap();
    }
    let as_user = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        let error = tree.remove().unwrap_err();
        (tree, error)
    });
    let (tree, error) = as_user.join().unwrap();
    assert!(error.to_string().contains("doomed"), "{error}");
    let left: Vec<_> = fs::read_dir(tree.top()).unwrap().collect();
    assert_eq!(left.len(), 1, "only what holds the other user's directory: {left:?}");
    tree.remove().unwrap();
    assert!(!tree.top().exists());
}
