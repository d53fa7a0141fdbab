//! Starting the daemon as a service of the user's systemd, where there is one: then it is not in
//! the session of whoever happened to need it first, and does not end with that session.

use std::ffi::OsString;
use std::hash::Hasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::autospawn::assignment;
use super::stage;
use crate::env::Env;
use crate::state_paths::StatePaths;

/// How long systemd may take to accept a service; it does so in milliseconds.
const LIMIT: Duration = Duration::from_secs(5);

/// `systemd-run`, where the user's own systemd answers.
pub(super) fn runner(env: &Env) -> Option<PathBuf> {
    let runtime = env.path("XDG_RUNTIME_DIR")?;
    // The private socket of a user manager (systemd's `user@.service`).
    if !runtime.join("systemd/private").exists() {
        return None;
    }
    let path = env.get("PATH")?;
    std::env::split_paths(path)
        .map(|directory| directory.join("systemd-run"))
        .find(|candidate| candidate.is_file())
}

/// Asks systemd to start the daemon. `false`: it does not; then it is started directly.
pub(super) async fn start(
    runner: &Path,
    paths: &StatePaths,
    environment: &[(OsString, OsString)],
) -> bool {
    let mut command = Command::new(runner);
    command
        .args(arguments(paths, environment))
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    match tokio::time::timeout(LIMIT, command.status()).await {
        Ok(Ok(status)) => status.success(),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// `KillMode=process`: boxes outlive the service. `--collect`: a failed one is not in the way of
/// the next.
fn arguments(paths: &StatePaths, environment: &[(OsString, OsString)]) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["--user", "--collect", "--quiet", "--property=KillMode=process", "--property=UMask=0077"]
            .map(OsString::from)
            .into();
    words.push(format!("--unit={}", unit(paths)).into());
    for (name, value) in environment {
        words.push(assignment("--setenv".as_ref(), &assignment(name, value)));
    }
    words.push("--".into());
    // systemd executes a path, and its name must be the role, which argv[0] would say otherwise.
    words.push(std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()).into());
    words.push(stage::SUBCOMMAND.into());
    words.extend(stage::arguments(paths));
    words
}

/// One service for each state directory.
fn unit(paths: &StatePaths) -> String {
    // Keys of its own are zero, so that every client names the same unit.
    #[expect(deprecated, reason = "the one hasher of the standard library whose keys are fixed")]
    let mut hasher = std::hash::SipHasher::new();
    hasher.write(paths.state_dir.as_os_str().as_bytes());
    format!("minimald-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_used_only_where_a_user_manager_is() {
        let root = tempfile::tempdir().unwrap();
        let text = root.path().to_str().unwrap();
        let env = Env::from([("XDG_RUNTIME_DIR", text), ("PATH", text)]);
        assert_eq!(runner(&env), None);
        std::fs::create_dir(root.path().join("systemd")).unwrap();
        std::fs::write(root.path().join("systemd/private"), "").unwrap();
        assert_eq!(runner(&env), None, "no systemd-run");
        std::fs::write(root.path().join("systemd-run"), "").unwrap();
        assert_eq!(runner(&env), Some(root.path().join("systemd-run")));
    }

    #[tokio::test]
    async fn the_service_is_described_whole_and_a_refusal_is_told() {
        let root = tempfile::tempdir().unwrap();
        let script = root.path().join("systemd-run");
        let words = root.path().join("words");
        let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\nexit $CODE\n", words.display());
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let paths = StatePaths { state_dir: "/s t".into(), socket: Some("/x.sock".into()) };
        for (code, accepted) in [("0", true), ("1", false)] {
            let environment = [("CODE".into(), code.into()), ("HOME".into(), "/h".into())];
            assert_eq!(start(&script, &paths, &environment).await, accepted);
        }
        let words = std::fs::read_to_string(words).unwrap();
        let words: Vec<&str> = words.lines().collect();
        assert_eq!(words[..4], ["--user", "--collect", "--quiet", "--property=KillMode=process"]);
        assert!(words.contains(&"--setenv=HOME=/h"), "{words:?}");
        let behind = words.iter().position(|word| *word == "--").unwrap();
        let expected = [stage::SUBCOMMAND, "--state-dir", "/s t", "--socket", "/x.sock"];
        assert_eq!(words[behind + 2..], expected);
        assert!(!start(&root.path().join("missing"), &paths, &[]).await);
    }
}
