//! Which box a sandbox is.

use minimal_proto::api::{BoxRecord, CreateBox, StartOptions};
use minimal_proto::spec::{Builtin, EnvSource, Lifetime};
use minimal_proto::{BoxName, ErrorCode, Spec, State};
use minimal_sdk::{CallError, ListQuery};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{LocalSandbox, error_of};
use crate::contract::{Answer, SandboxError, Unavailable};

/// The variable of a box's environment with its sandbox's name.
pub const NAME_VARIABLE: &str = "MINIMAL_SANDBOX";

/// The variable with the name of the runner that made it.
pub const RUNNER_VARIABLE: &str = "MINIMAL_RUNNER";

impl LocalSandbox {
    /// The newest box of a sandbox, running or not.
    ///
    /// # Errors
    /// `NotFound` if the daemon has none.
    pub(super) async fn find(&self, name: &str) -> Answer<BoxRecord> {
        let record = self.client.get(box_name(name)?.as_str()).await;
        let record = record.map_err(|error| match &error {
            // No box is called so, and its digits are part of the ids of several.
            CallError::Api(body) if body.code == ErrorCode::Ambiguous => SandboxError::NotFound,
            error => error_of(error),
        })?;
        match self.name_of(&record).await? {
            Some(found) if found == name => Ok(record),
            // Somebody's own box of that name, or of an id with these digits.
            Some(_) | None => Err(SandboxError::NotFound),
        }
    }

    /// The box of a sandbox, which must run.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable` if its box has ended: what it holds is kept.
    pub(super) async fn running(&self, name: &str) -> Answer<BoxRecord> {
        let record = self.find(name).await?;
        match &record.ending {
            None => Ok(record),
            Some(ending) => {
                let words = format!("the sandbox's box has ended: {}", ending.reason());
                Err(SandboxError::Unavailable(Unavailable::Other(words)))
            }
        }
    }

    /// Makes the box of a sandbox.
    ///
    /// # Errors
    /// It is not there, or it is not known.
    pub(super) async fn make(&self, name: &str) -> Answer<BoxRecord> {
        let mut spec = Spec::task(Vec::new());
        spec.identity.name = Some(box_name(name)?);
        spec.identity.box_type = Builtin::Sandbox.into();
        spec.identity.lifetime = Lifetime::UntilStopped;
        spec.execution.env.insert(NAME_VARIABLE.to_owned(), EnvSource::Value(name.into()));
        if let Some(runner) = &self.runner {
            let value = EnvSource::Value(runner.as_str().into());
            spec.execution.env.insert(RUNNER_VARIABLE.to_owned(), value);
        }
        let create = CreateBox {
            spec,
            digest: None,
            values: std::collections::BTreeMap::new(),
            start: StartOptions::default(),
        };
        let made = self.client.create(&create, Uuid::now_v7()).await;
        let record = match made {
            Ok(record) => record,
            // Somebody was faster; it may be theirs.
            Err(CallError::Api(body)) if body.code == ErrorCode::NameHeld => {
                return match self.running(name).await {
                    Err(SandboxError::NotFound) => Err(SandboxError::Invalid(body.message)),
                    other => other,
                };
            }
            Err(error) => return Err(error_of(&error)),
        };
        match &record.ending {
            None => Ok(record),
            Some(ending) => {
                let detail = ending.detail().get("message").and_then(|it| it.as_str());
                let words = detail.unwrap_or("the box could not be started").to_owned();
                Err(SandboxError::Unavailable(Unavailable::Other(words)))
            }
        }
    }

    /// The names of all sandboxes.
    ///
    /// # Errors
    /// The daemon cannot be asked, or a box that may be one cannot be read.
    pub(super) async fn names(&self) -> Answer<std::collections::BTreeSet<String>> {
        let mut names = std::collections::BTreeSet::new();
        let states = State::ALL.into_iter().filter(|state| *state != State::Failed).collect();
        let mut query = ListQuery { states, limit: Some(1000), ..ListQuery::default() };
        loop {
            let page = self.client.list(&query).await.map_err(|error| error_of(&error))?;
            for record in &page.boxes {
                match self.name_of(record).await {
                    Ok(name) => names.extend(name),
                    // Removed since it was listed.
                    Err(SandboxError::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(names),
            }
        }
    }

    /// The sandbox that a box is, if it is one.
    async fn name_of(&self, record: &BoxRecord) -> Answer<Option<String>> {
        if record.root_type != Some(Builtin::Sandbox) {
            return Ok(None);
        }
        let spec = self.client.spec(record.id).await.map_err(|error| error_of(&error))?;
        let value = |name: &str| match spec.execution.env.get(name) {
            Some(EnvSource::Value(value)) => Some(value.to_lossy()),
            Some(EnvSource::Given) | None => None,
        };
        Ok(value(NAME_VARIABLE).filter(|_| value(RUNNER_VARIABLE) == self.runner))
    }
}

/// What the box of a sandbox is called: the same, where a box can be called so.
fn box_name(name: &str) -> Answer<BoxName> {
    if let Ok(name) = name.parse() {
        return Ok(name);
    }
    let digest = Sha256::digest(name.as_bytes());
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("sandbox-{digits}").parse().map_err(|error: minimal_proto::name::BoxNameError| {
        SandboxError::Invalid(error.to_string())
    })
}
