//! The checks of what boxes are made with: who their users are, overlays, limits.

use minimal_keeper::nursery::with_subordinate_ids;
use minimal_keeper::subordinate::{Lack, Subordinate};
use minimal_linux::cgroup::{self, Controller};
use minimal_linux::probe::ProbeFailure;

use super::Check;

/// What was tried while this process had one thread.
#[derive(Debug)]
pub(super) struct Tried {
    users: Result<String, (String, String)>,
    overlay: Result<(), ProbeFailure>,
}

impl Tried {
    /// Tries it.
    pub(super) fn now() -> Self {
        Self { users: users(), overlay: minimal_linux::probe::overlay() }
    }

    pub(super) fn checks(self) -> Vec<Check> {
        let users = match self.users {
            Ok(message) => Check::ok(USERS, message),
            Err((message, fix)) => Check::warn(USERS, message, fix),
        };
        let overlay = match self.overlay {
            Ok(()) => Check::ok(OVERLAY, "works"),
            Err(failure) => Check::fail(
                OVERLAY,
                failure.to_string(),
                "load the kernel's module (as root: modprobe overlay), or boot a kernel with it; \
                 until then use `--workspace bind` or `none`",
            ),
        };
        vec![
            users,
            overlay,
            sockets(),
            limit("memory limit", Controller::Memory),
            pids_limit(),
            limit("pause", Controller::Freezer),
        ]
    }
}

const USERS: &str = "users of a box";
const OVERLAY: &str = "overlay";

/// What users boxes have, or why they have only one, and what to do.
fn users() -> Result<String, (String, String)> {
    let uid = rustix::process::getuid();
    if uid.is_root() && !minimal_linux::namespaces::is_initial_user_namespace() {
        return Err((
            "`box` only: this is root of a user namespace, whose other ids may be someone's"
                .to_owned(),
            "run it as an ordinary user with subordinate ids, or as the host's root".to_owned(),
        ));
    }
    if uid.is_root() {
        return Ok("root and others, on ids that nobody else has".to_owned());
    }
    let found = Subordinate::find(uid.as_raw()).map_err(|lack| {
        let fix = remedy(&lack);
        (format!("`box` only: {lack}"), fix)
    })?;
    match with_subordinate_ids(&found) {
        Ok(_namespace) => Ok(format!(
            "root and others, on subordinate ids from {} (groups from {})",
            found.first_uid, found.first_gid
        )),
        Err(error) => Err((
            format!("`box` only: {error}"),
            "newuidmap and newgidmap must be set-uid root: reinstall their package, then \
             `min host stop`"
                .to_owned(),
        )),
    }
}

fn remedy(lack: &Lack) -> String {
    // The daemon has its users from its start on.
    let then = "then `min host stop`";
    match lack {
        Lack::Ids { user, free: Some(first), .. } => {
            let range = format!("{first}-{}", first.saturating_add(65_535));
            format!("as root: usermod --add-subuids {range} --add-subgids {range} {user}; {then}")
        }
        Lack::Ids { user, free: None, .. } => format!(
            "as root: free 65536 ids in /etc/subuid and /etc/subgid, give them to {user}; {then}"
        ),
        Lack::Program { name } => format!(
            "as root: install {name} (Debian and Ubuntu: apt install uidmap; Fedora: dnf install \
             shadow-utils); {then}"
        ),
    }
}

/// What keeps a box on the host's network from its abstract sockets.
fn sockets() -> Check {
    let name = "Landlock";
    if minimal_linux::landlock::can_scope_sockets() {
        return Check::ok(name, "keeps `--network host_ip` from the host's abstract sockets");
    }
    Check::warn(
        name,
        "cannot keep `--network host_ip` from the host's abstract sockets",
        "boot Linux 6.12 or later with landlock in its `lsm=` list, or keep to `--network none`",
    )
}

fn limit(name: &'static str, controller: Controller) -> Check {
    match cgroup::find(controller) {
        Ok(site) => Check::ok(name, format!("by {}", site.version.as_str())),
        Err(why) => Check::warn(name, format!("none: {why}"), delegate()),
    }
}

/// Processes are counted by user where no control group can.
fn pids_limit() -> Check {
    let name = "process limit";
    match cgroup::find(Controller::Pids) {
        Ok(site) => Check::ok(name, format!("by {}", site.version.as_str())),
        Err(why) => Check::ok(name, format!("by RLIMIT_NPROC, not by a control group: {why}")),
    }
}

/// How control groups come into a user's hands.
fn delegate() -> &'static str {
    if std::path::Path::new("/run/systemd/system").exists() {
        "as root, in /etc/systemd/system/user@.service.d/delegate.conf: [Service] and \
         Delegate=cpu memory pids; then systemctl daemon-reload, log in anew, and `min host stop`"
    } else {
        "run the daemon as root, or in a control group (version 2, with the memory and pids \
         controllers) that belongs to you"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_an_exact_remedy() {
        let ids = |free| Lack::Ids { file: "/etc/subuid", user: "alice".to_owned(), free };
        assert_eq!(
            remedy(&ids(Some(100_000))),
            "as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 alice; then \
             `min host stop`"
        );
        assert!(remedy(&ids(None)).contains("alice"));
        assert!(remedy(&Lack::Program { name: "newuidmap" }).contains("apt install uidmap"));
    }
}
