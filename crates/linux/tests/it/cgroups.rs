//! Control groups, where this machine lets us make them.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use minimal_linux::cgroup::{self, Cgroup, Controller, Site};
use minimal_testkit::{LIMIT, need, wait_until};

fn site(controller: Controller) -> Option<Site> {
    let found = cgroup::find(controller);
    let reason = found.as_ref().err().cloned().unwrap_or_default();
    need::met("cgroup", found.is_ok(), &reason).then(|| found.unwrap())
}

/// A group of this test's, removed with it.
struct Group {
    cgroup: Cgroup,
    site: Site,
}

impl Group {
    fn new(site: Site, name: &str) -> Self {
        let name = format!("minimal-test.{name}.{}", std::process::id());
        Self { cgroup: Cgroup::make(&site, &name).unwrap(), site }
    }

    /// Runs a script in the group.
    fn run(&self, script: &str) -> std::process::Output {
        let procs = self.cgroup.path().join("cgroup.procs");
        let script = format!("echo 0 > {}; {script}", procs.display());
        Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A test that fails may still be in it.
        cgroup::enter(&self.site.own).ok();
        self.cgroup.remove().ok();
    }
}

#[test]
fn who_enters_and_whom_it_makes_are_inside() {
    let Some(site) = site(Controller::Pids) else { return };
    let group = Group::new(site, "enter");
    group.cgroup.enter().unwrap();
    let inside = fs::read_to_string(group.cgroup.path().join("cgroup.procs")).unwrap();
    assert!(inside.lines().any(|pid| pid == std::process::id().to_string()), "{inside}");
    let name = group.cgroup.path().file_name().unwrap().to_str().unwrap();
    let child = Command::new("cat").arg("/proc/self/cgroup").output().unwrap();
    assert!(String::from_utf8_lossy(&child.stdout).contains(name), "{child:?}");
    let busy = group.cgroup.remove().unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
    let again = Cgroup::make(&group.site, name).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists, "it is in use");
    cgroup::enter(&group.site.own).unwrap();
    // One that is empty is nobody's, and gives way.
    let anew = Cgroup::make(&group.site, name).unwrap();
    assert_eq!(anew, group.cgroup);
    anew.remove().unwrap();
    anew.remove().unwrap();
}

#[test]
fn no_more_processes_than_the_limit() {
    let Some(site) = site(Controller::Pids) else { return };
    let group = Group::new(site, "pids");
    group.cgroup.limit_pids(u64::MAX).unwrap();
    group.cgroup.limit_pids(3).unwrap();
    let output = group.run("for i in 1 2 3; do sleep 60 >/dev/null 2>&1 & done");
    assert!(String::from_utf8_lossy(&output.stderr).contains("fork"), "{output:?}");
    let procs = fs::read_to_string(group.cgroup.path().join("cgroup.procs")).unwrap();
    assert_eq!(procs.lines().count(), 2, "the shell was the third");
    Command::new("kill").args(procs.lines()).status().unwrap();
    wait_until("the group is empty", LIMIT, || group.cgroup.remove());
}

#[test]
fn a_kill_for_memory_is_counted_before_it_is_seen() {
    let Some(site) = site(Controller::Memory) else { return };
    let group = Group::new(site, "memory");
    group.cgroup.limit_memory(32 << 20).unwrap();
    assert_eq!(group.cgroup.oom_kills().unwrap(), 0);
    let output = group.run("hog=x; while test ${#hog} -lt 268435456; do hog=$hog$hog; done");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(9));
    assert_eq!(group.cgroup.oom_kills().unwrap(), 1);
    let mut below = group.site.clone();
    below.place = group.cgroup.path().to_owned();
    assert_eq!(below.memory_limit(), Some(32 << 20), "what is made below is limited, too");
    wait_until("the group is empty", LIMIT, || group.cgroup.remove());
}
