//! What the kernel's settings say about user namespaces.

use minimal_proto::ErrorCode;

use crate::error::Failure;

/// The settings; none where the kernel has no such one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kernel {
    max_user_namespaces: Option<u64>,
    unprivileged_userns_clone: Option<u64>,
    apparmor_restrict: Option<u64>,
}

/// A setting that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Which, and how it is.
    pub(super) what: &'static str,
    /// What to do.
    pub(super) fix: &'static str,
}

impl Kernel {
    pub(super) fn read() -> Self {
        let number = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
            text.trim().parse().ok()
        };
        Self {
            max_user_namespaces: number("user/max_user_namespaces"),
            unprivileged_userns_clone: number("kernel/unprivileged_userns_clone"),
            apparmor_restrict: number("kernel/apparmor_restrict_unprivileged_userns"),
        }
    }

    /// The first setting that refuses namespaces. Root is refused only by the first of them.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let refusal = |what, fix| Some(Refusal { what, fix });
        if self.max_user_namespaces == Some(0) {
            return refusal(
                "user.max_user_namespaces is 0",
                "as root: sysctl -w user.max_user_namespaces=65536",
            );
        }
        if self.unprivileged_userns_clone == Some(0) {
            return refusal(
                "kernel.unprivileged_userns_clone is 0",
                "as root: sysctl -w kernel.unprivileged_userns_clone=1",
            );
        }
        if self.apparmor_restrict == Some(1) {
            return refusal(
                "AppArmor restricts them",
                "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            );
        }
        None
    }
}

/// Adds to a refusal of isolation the setting that is its cause, as the doctor would.
pub(crate) fn with_cause(failure: Failure) -> Failure {
    if failure.code != ErrorCode::IsolationUnavailable {
        return failure;
    }
    match Kernel::read().refusal() {
        Some(Refusal { what, fix }) => {
            let mut failure = failure.hint(fix);
            failure.causes.push(what.to_owned());
            failure
        }
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_that_is_in_the_way() {
        let fix = |kernel: Kernel| kernel.refusal().unwrap().fix;
        let kernel = Kernel { max_user_namespaces: Some(0), ..Kernel::default() };
        assert!(fix(kernel).contains("user.max_user_namespaces"));
        let kernel = Kernel { unprivileged_userns_clone: Some(0), ..Kernel::default() };
        assert!(fix(kernel).contains("unprivileged_userns_clone"));
        let kernel = Kernel { apparmor_restrict: Some(1), ..Kernel::default() };
        assert!(fix(kernel).contains("apparmor"));
        assert_eq!(Kernel::default().refusal(), None);
    }
}
