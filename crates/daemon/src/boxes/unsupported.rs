//! What a spec can say and this build cannot do: refused by name, never ignored.
//!
//! One table. Whoever builds one of these takes its row away.

use minimal_proto::spec::{DynamicIngress, Egress, Lifetime, NetworkMode, OnOom};
use minimal_proto::{ErrorBody, ErrorCode, Spec};

/// Key, whether a spec asks for it, and what to do instead.
type Row = (&'static str, fn(&Spec) -> bool, &'static str);

const ROWS: &[Row] = &[
    (
        "execution.on_oom",
        |spec| spec.execution.on_oom == OnOom::EndBox,
        "`kill_process` is what happens: the box ends if its entrypoint is killed",
    ),
    (
        "io.pty_enabled",
        // A terminal ends with the program it was made for.
        |spec| spec.io.pty_enabled && spec.identity.lifetime == Lifetime::UntilStopped,
        "leave it out: a terminal can only be had by a box that ends with its entrypoint",
    ),
    (
        "network.mode",
        |spec| spec.network.mode == NetworkMode::OwnIp,
        "`none` or `host_ip`: there is nothing in between yet",
    ),
    (
        "network.egress",
        // Without a network, whatever is denied is.
        |spec| spec.network.mode != NetworkMode::None && spec.network.egress != Egress::default(),
        "leave it out: it needs network.mode own_ip, which cannot be had yet",
    ),
    (
        "network.ingress",
        |spec| !spec.network.ingress.is_empty(),
        "leave it out: it needs network.mode own_ip, which cannot be had yet",
    ),
    (
        "network.dynamic_ingress",
        |spec| spec.network.dynamic_ingress != DynamicIngress::Deny,
        "leave it out: it needs network.mode own_ip, which cannot be had yet",
    ),
    ("hooks", |spec| !spec.hooks.is_empty(), "leave them out"),
];

/// Refuses what this build, or this machine, cannot do.
///
/// # Errors
/// `not_supported`, naming the first such key.
pub(crate) fn check(spec: &Spec) -> Result<(), ErrorBody> {
    if let Some((key, _, instead)) = ROWS.iter().find(|(_, asks, _)| asks(spec)) {
        let message = format!("this version cannot do what {key} asks for");
        return Err(refusal(key, message).with_hint(*instead));
    }
    let here = std::env::consts::ARCH;
    match spec.machine.cpu_arch {
        Some(arch) if arch.as_str() != here => Err(refusal(
            "machine.cpu_arch",
            format!("machine.cpu_arch is {}, and this host's processor is {here}", arch.as_str()),
        )),
        Some(_) | None => Ok(()),
    }
}

fn refusal(key: &str, message: String) -> ErrorBody {
    ErrorBody::new(ErrorCode::NotSupported, message).with_detail("key", key)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// For each row a value that asks for it.
    fn asking() -> Vec<(&'static str, Value)> {
        vec![
            ("execution.on_oom", json!("end_box")),
            ("io.pty_enabled", json!(true)),
            ("network.mode", json!("own_ip")),
            ("network.egress", json!({"allow_subnets": ["10.0.0.0/8"]})),
            ("network.ingress", json!([{"host_port": 1, "box_port": 1, "protocol": "tcp"}])),
            ("network.dynamic_ingress", json!("ask")),
            ("hooks", json!({"on_attach": [{"script": {"inline": "true"}, "timeout_ms": 1}]})),
        ]
    }

    #[test]
    fn each_row_refuses_its_key_by_name() {
        let plain = Spec::task(vec!["true".into()]);
        assert_eq!(check(&plain), Ok(()));
        let asking = asking();
        let keys: Vec<_> = asking.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ROWS.iter().map(|(key, ..)| *key).collect::<Vec<_>>());
        for (key, value) in asking {
            let mut json = serde_json::to_value(&plain).unwrap();
            let pointer = format!("/{}", key.replace('.', "/"));
            *json.pointer_mut(&pointer).unwrap() = value;
            if key == "io.pty_enabled" {
                json["box"]["lifetime"] = json!("until_stopped");
            }
            if key == "network.egress" {
                json["network"]["mode"] = json!("host_ip");
            }
            let spec = serde_json::from_value(json).unwrap();
            let error = check(&spec).unwrap_err();
            assert_eq!((error.code, &error.details["key"]), (ErrorCode::NotSupported, &key.into()));
            assert!(error.message.contains(key), "{}", error.message);
        }
    }

    #[test]
    fn another_processor_is_refused_and_this_one_is_not() {
        let mut spec = Spec::task(vec!["true".into()]);
        let arch = |word: &str| serde_json::from_value(word.into()).unwrap();
        spec.machine.cpu_arch = Some(arch(std::env::consts::ARCH));
        assert_eq!(check(&spec), Ok(()));
        let others = ["x86_64", "aarch64", "riscv64"];
        let other = others.into_iter().find(|word| *word != std::env::consts::ARCH).unwrap();
        spec.machine.cpu_arch = Some(arch(other));
        assert_eq!(check(&spec).unwrap_err().details["key"], "machine.cpu_arch");
    }
}
