//! The spec: what a box was created from, complete and frozen.
//!
//! One file for each section. It holds no values of the caller's environment: those travel beside it
//! ([`crate::api::CreateBox::values`]) and are never stored. Sections and keys are only ever added,
//! each with what earlier builds did as its value where a stored spec lacks it.

mod check;
mod execution;
mod files;
mod hooks;
mod identity;
mod io;
mod machine;
mod network;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ByteString;

pub use check::{MAX_NUMBER, MIN_RAM, SpecError};
pub use execution::{
    DEFAULT_STOP_GRACE_MS, DEFAULT_USER, EnvSource, ExecutionSection, OnOom, Probe, Ready, Restart,
    RestartPolicy,
};
pub use files::{FilesSection, Mount, MountMode, Patch, Repository, Rootfs, Workspace};
pub use hooks::{DEFAULT_HOOK_TIMEOUT_MS, Hook, HooksSection, Script};
#[cfg(feature = "openapi")]
pub(crate) use identity::IdentityJson;
pub use identity::{BoxType, Builtin, IdentitySection, Lifetime};
pub use io::{DEFAULT_LOG_MAX, IoSection, Resume};

pub use machine::{Arch, Limit, MachineSection, Max};
pub use network::{DynamicIngress, Egress, Ingress, NetworkMode, NetworkSection, Protocol};

/// A box's spec. JSON: schema `min/v1/spec`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Always `min/v1/spec`.
    pub schema: SpecSchema,
    /// Identity and lifetime.
    #[serde(rename = "box")]
    pub identity: IdentitySection,
    /// What runs.
    pub execution: ExecutionSection,
    /// Streams and the log.
    pub io: IoSection,
    /// What it sees of the host's files.
    pub files: FilesSection,
    /// What it reaches.
    pub network: NetworkSection,
    /// What it may use of the machine.
    #[serde(default)]
    pub machine: MachineSection,
    /// Values that the box reads as a file: its path is in `$MINIMAL_PARAMS_FILE`. Any JSON.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    /// What runs in the box at points of its life.
    #[serde(default)]
    pub hooks: HooksSection,
}

/// The one schema there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SpecSchema {
    /// Version 1.
    #[serde(rename = "min/v1/spec")]
    V1,
}

impl Spec {
    /// A task that runs `exec` with every default.
    #[must_use]
    pub fn task(exec: Vec<ByteString>) -> Self {
        Self {
            schema: SpecSchema::V1,
            identity: IdentitySection {
                name: None,
                entry: None,
                box_type: Builtin::Task.into(),
                lifetime: Lifetime::UntilComplete,
            },
            execution: ExecutionSection::of(exec),
            io: IoSection::default(),
            files: FilesSection::default(),
            network: NetworkSection::default(),
            machine: MachineSection::default(),
            params: BTreeMap::new(),
            hooks: HooksSection::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &Spec) -> Result<(), SpecError> {
        spec.check(BTreeMap::new().iter())
    }

    #[test]
    fn each_wrong_spec_is_told_apart() {
        assert_eq!(check(&Spec::task(vec![])), Err(SpecError::NoProgram));
        assert_eq!(check(&Spec::task(vec!["".into()])), Err(SpecError::EmptyProgram));
        let nul = Spec::task(vec!["a".into(), "b\0c".into()]);
        assert_eq!(check(&nul), Err(SpecError::Nul { key: "execution.exec[1]".into() }));
        for user in ["", "a b", "a:b", "-1", "+x", "a/b", "a,b", "caf\u{e9}", &"x".repeat(33)] {
            let mut wrong = Spec::task(vec!["a".into()]);
            wrong.execution.user = user.to_owned();
            assert_eq!(check(&wrong), Err(SpecError::User { user: user.to_owned() }));
        }
        let mut given = Spec::task(vec!["a".into()]);
        given.execution.env.insert("TOKEN".into(), EnvSource::Given);
        assert_eq!(check(&given), Err(SpecError::MissingValue { name: "TOKEN".into() }));
        let values = BTreeMap::from([("TOKEN".to_owned(), ByteString::from("x"))]);
        assert_eq!(given.check(values.iter()), Ok(()));
        assert_eq!(
            Spec::task(vec!["a".into()]).check(values.iter()),
            Err(SpecError::UnusedValue { name: "TOKEN".into() })
        );
    }

    #[test]
    fn a_limit_is_a_number_or_auto() {
        let mut spec = Spec::task(vec!["a".into()]);
        let mut json = serde_json::to_value(&spec).unwrap();
        let auto = serde_json::json!({"max": "auto", "required": false});
        let expected = serde_json::json!(
            {"ram": auto, "pids": auto, "cpus": auto, "disk": auto, "cpu_arch": null}
        );
        assert_eq!(json["machine"], expected);
        json["machine"] = serde_json::json!({"ram": {"max": 67_108_864, "required": true}});
        spec.machine.ram = Limit { max: Max::At(64 << 20), required: true };
        assert_eq!(serde_json::from_value::<Spec>(json.clone()).unwrap(), spec);
        for wrong in [serde_json::json!("much"), serde_json::json!(-1), serde_json::json!(0.5)] {
            json["machine"]["ram"]["max"] = wrong;
            serde_json::from_value::<Spec>(json.clone()).unwrap_err();
        }
        // A spec of before there were limits.
        json.as_object_mut().unwrap().remove("machine");
        assert_eq!(
            serde_json::from_value::<Spec>(json).unwrap().machine,
            MachineSection::default()
        );
        spec.machine.ram.max = Max::At(4096);
        assert_eq!(check(&spec), Err(SpecError::LittleRam { bytes: 4096 }));
        spec.machine = MachineSection::default();
        spec.machine.pids.max = Max::At(0);
        assert_eq!(check(&spec), Err(SpecError::ZeroLimit { key: "machine.pids" }));
    }

    #[test]
    fn json_round_trips() {
        let spec = Spec::task(vec!["echo".into(), vec![0xff].into()]);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec);
    }

    /// What a build before these keys has stored.
    #[test]
    fn a_spec_of_an_earlier_build_reads_as_what_it_did() {
        let spec = Spec::task(vec!["a".into()]);
        let mut json = serde_json::to_value(&spec).unwrap();
        let mut without = |section: &str, keys: &[&str]| {
            for key in keys {
                json[section].as_object_mut().unwrap().remove(*key).unwrap();
            }
        };
        without("box", &["root", "entry"]);
        without("execution", &["on_oom", "restart", "ready"]);
        without("io", &["pty_enabled", "exec_enabled", "resume"]);
        without("files", &["rootfs", "workspace_exclude", "mounts", "patches"]);
        without("network", &["egress", "ingress", "dynamic_ingress"]);
        for section in ["machine", "params", "hooks"] {
            json.as_object_mut().unwrap().remove(section).unwrap();
        }
        assert_eq!(serde_json::from_value::<Spec>(json).unwrap(), spec);
    }

    #[test]
    fn only_a_box_that_is_stopped_does_without_a_program_or_starts_it_again() {
        let mut spec = Spec::task(vec![]);
        spec.identity.lifetime = Lifetime::UntilStopped;
        assert_eq!(check(&spec), Ok(()));
        spec.execution.restart.policy = RestartPolicy::Always;
        assert_eq!(check(&spec), Err(SpecError::RestartOfNothing));
        spec.execution.exec = vec!["a".into()];
        assert_eq!(check(&spec), Ok(()));
        spec.execution.restart.max = 0;
        assert_eq!(check(&spec), Err(SpecError::Backoff));
        spec.execution.restart = Restart { backoff_max_ms: 999, ..Restart::default() };
        assert_eq!(check(&spec), Err(SpecError::Backoff));
        spec.execution.restart = Restart { policy: RestartPolicy::OnFailure, ..Restart::default() };
        spec.identity.lifetime = Lifetime::UntilComplete;
        assert_eq!(check(&spec), Err(SpecError::RestartOfComplete));
        spec = Spec::task(vec!["a".into()]);
        let ready = |probe| Some(Ready { probe, timeout_ms: 1, interval_ms: 1 });
        for wrong in [Probe::Port(0), Probe::Exec(vec![]), Probe::Exec(vec!["".into()])] {
            spec.execution.ready = ready(wrong);
            assert!(matches!(check(&spec), Err(SpecError::Ready { .. })), "{spec:?}");
        }
        spec.execution.ready = ready(Probe::Exec(vec!["true".into()]));
        assert_eq!(check(&spec), Ok(()));
    }

    #[test]
    fn paths_networks_and_numbers_that_cannot_be_are_named() {
        let task = || Spec::task(vec!["a".into()]);
        let mount = |source: &str, dest: &str| Mount {
            source: source.into(),
            dest: dest.into(),
            mode: MountMode::Ro,
        };
        for dest in ["", "a", "/", "//", "/a/../b", "/./a", "/a\0"] {
            let mut spec = task();
            spec.files.mounts = vec![mount("~/x", dest)];
            let key = "files.mounts[0].dest".to_owned();
            assert_eq!(check(&spec), Err(SpecError::Dest { key }), "{dest}");
        }
        for dest in ["/proc", "//dev/x", "/sys/"] {
            let mut spec = task();
            spec.files.mounts = vec![mount("~/x", dest)];
            assert!(matches!(check(&spec), Err(SpecError::Reserved { .. })), "{dest}");
        }
        let mut spec = task();
        spec.files.mounts = vec![mount("~/x", "/a"), mount("y", "/b"), mount("/z", "/a")];
        let dest = "/a".to_owned();
        assert_eq!(check(&spec), Err(SpecError::SameDest { first: 0, second: 2, dest }));
        spec.files.mounts.truncate(2);
        assert_eq!(check(&spec), Ok(()));
        spec.files.mounts[1].source = "".into();
        assert!(matches!(check(&spec), Err(SpecError::Path { .. })));
        spec.files = FilesSection { rootfs: Rootfs::Path("".into()), ..FilesSection::default() };
        assert_eq!(check(&spec), Err(SpecError::Path { key: "files.rootfs".into() }));

        for mode in [NetworkMode::None, NetworkMode::HostIp] {
            let mut spec = task();
            spec.network.mode = mode;
            spec.network.egress.allow_dns_hosts = vec!["example.com".into()];
            assert_eq!(check(&spec), Err(SpecError::NeedsOwnIp { key: "network.egress", mode }));
            spec.network.mode = NetworkMode::OwnIp;
            assert_eq!(check(&spec), Ok(()));
        }
        let mut spec = task();
        spec.io.log_max = MAX_NUMBER + 1;
        assert_eq!(check(&spec), Err(SpecError::LargeNumber { key: "io.log_max" }));
        spec.io.log_max = MAX_NUMBER;
        assert_eq!(check(&spec), Ok(()));
    }
}
