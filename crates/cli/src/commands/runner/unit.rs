//! The systemd unit of a runner: its text, and where such units are.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_runner::dial::{HubAddress, RunnerName};

use crate::context::Context;

/// How a unit begins that was written here; one that does not is somebody else's.
pub(super) const MARK: &str =
    "# Written by `min runner install`; it replaces this file when it is run again.\n";

/// Where units of the administrator's are (systemd.unit(5)).
const SYSTEM: &str = "/etc/systemd/system";

/// Whose systemd runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manager {
    /// The machine's.
    System,
    /// The user's own.
    User,
}

impl Manager {
    /// The directory of its units. `None`: there is no home to put it in.
    pub(super) fn directory(self, context: &Context) -> Option<PathBuf> {
        match self {
            Self::System => Some(SYSTEM.into()),
            Self::User => {
                let config = context.env.path("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
                let config = config.or_else(|| Some(context.home()?.join(".config")))?;
                Some(config.join("systemd/user"))
            }
        }
    }

    /// How its units are spoken to.
    pub(super) const fn systemctl(self) -> &'static str {
        match self {
            Self::System => "systemctl",
            Self::User => "systemctl --user",
        }
    }
}

/// What the unit of a runner is called.
pub(super) fn name(runner: &RunnerName) -> String {
    format!("minimal-runner-{runner}.service")
}

/// What a unit is made of.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub(super) manager: Manager,
    pub(super) program: &'a Path,
    pub(super) hub: &'a HubAddress,
    pub(super) name: &'a RunnerName,
    pub(super) token_file: &'a Path,
    /// Variables that decide where the daemon is found.
    pub(super) variables: &'a [(&'static str, PathBuf)],
}

impl Unit<'_> {
    /// The text. `None` if a path holds what cannot stand in a unit.
    pub(super) fn text(&self) -> Option<String> {
        let program = quoted(self.program.as_os_str(), "")?;
        let token = quoted(self.token_file.as_os_str(), "")?;
        let hub = quoted(OsStr::new(&self.hub.to_string()), "")?;
        let name = self.name;
        let (online, target) = match self.manager {
            Manager::System => {
                ("Wants=network-online.target\nAfter=network-online.target\n", "multi-user.target")
            }
            // A user's manager does not know it; the runner dials until the network is there.
            Manager::User => ("", "default.target"),
        };
        let mut variables = String::new();
        for (variable, value) in self.variables {
            let value = quoted(value.as_os_str(), &format!("{variable}="))?;
            writeln!(variables, "Environment={value}").ok()?;
        }
        Some(format!(
            "{MARK}\
             [Unit]\n\
             Description=Minimal runner {name}\n\
             {online}\
             \n\
             [Service]\n\
             ExecStart={program} runner connect {hub} --name {name} --token-file {token}\n\
             {variables}\
             UMask=0077\n\
             Restart=always\n\
             RestartSec=10\n\
             # Nothing of this changes by itself: arguments, settings, what the hub does not know or allows.\n\
             RestartPreventExitStatus=2 3 4 5\n\
             # The daemon and boxes may run below the service, and outlive it.\n\
             KillMode=process\n\
             \n\
             [Install]\n\
             WantedBy={target}\n"
        ))
    }
}

/// A word of a unit, after `before` within the same quotes: specifiers and variables are taken from it
/// (systemd.unit(5), systemd.service(5)). `None`: it holds a control character or is not UTF-8.
fn quoted(word: &OsStr, before: &str) -> Option<String> {
    let text = std::str::from_utf8(word.as_bytes()).ok()?;
    if text.chars().any(char::is_control) {
        return None;
    }
    let mut quoted = format!("\"{before}");
    for c in text.chars() {
        match c {
            '%' => quoted.push_str("%%"),
            // Only a command line has variables.
            '$' if before.is_empty() => quoted.push_str("$$"),
            '"' | '\\' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Some(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(manager: Manager, token_file: &str) -> Option<String> {
        Unit {
            manager,
            program: Path::new("/opt/min imal/min"),
            hub: &"https://hub.example/100%".parse().unwrap(),
            name: &"box-1".parse().unwrap(),
            token_file: Path::new(token_file),
            variables: &[("MINIMAL_STATE_DIR", "/s t/$x".into())],
        }
        .text()
    }

    #[test]
    fn a_unit_says_each_path_as_it_is() {
        let system = text(Manager::System, "/t/a\"b\\c$d").unwrap();
        insta::assert_snapshot!(system, @r#"
        # Written by `min runner install`; it replaces this file when it is run again.
        [Unit]
        Description=Minimal runner box-1
        Wants=network-online.target
        After=network-online.target

        [Service]
        ExecStart="/opt/min imal/min" runner connect "https://hub.example/100%%" --name box-1 --token-file "/t/a\"b\\c$$d"
        Environment="MINIMAL_STATE_DIR=/s t/$x"
        UMask=0077
        Restart=always
        RestartSec=10
        # Nothing of this changes by itself: arguments, settings, what the hub does not know or allows.
        RestartPreventExitStatus=2 3 4 5
        # The daemon and boxes may run below the service, and outlive it.
        KillMode=process

        [Install]
        WantedBy=multi-user.target
        "#);
        let user = text(Manager::User, "/t").unwrap();
        assert!(!user.contains("network-online") && user.ends_with("WantedBy=default.target\n"));
        // A line of a unit ends there, and the rest would be another setting.
        assert_eq!(text(Manager::User, "/t\nExecStart=/evil"), None);
    }
}
