//! The calls of the API.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use minimal_proto::api::{
    BoxList, BoxRecord, BriefList, Cancelled, CreateBox, CreateExec, ExecList, ExecRecord,
    ExecWaitAnswer, HostInfo, IDEMPOTENCY_KEY, ResumeBox, SignalBox, StopBox, VersionInfo,
    WaitAnswer,
};
use minimal_proto::{BoxId, ErrorCode, ExecId, Signal, Spec};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use uuid::Uuid;

use crate::attach::{AttachHandle, AttachOptions, AttachStream};
use crate::events::EventReader;
use crate::http::{Call, Http, Repeat};
use crate::log::LogReader;
use crate::query::{ExecQuery, ListQuery, LogQuery, Target};
use crate::{CallError, Connector, RetryPolicy, Subject};

/// How late a daemon may be with saying that a wait's time is over, before it is taken to be silent.
const PUNCTUAL: Duration = Duration::from_secs(5);

/// An empty answer, `{}`, whatever is added to it later.
#[derive(Deserialize)]
struct Nothing {}

/// A client of one daemon. Clones share a connection.
#[derive(Clone, Debug)]
pub struct Client {
    http: Arc<Http>,
    retry: RetryPolicy,
}

impl Client {
    /// A client that reaches its daemon through `connector`.
    #[must_use]
    pub fn new(connector: Arc<dyn Connector>) -> Self {
        Self { http: Arc::new(Http::new(connector)), retry: RetryPolicy::default() }
    }

    /// The same client with another patience for a daemon that is lost.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// Which daemon answers.
    ///
    /// # Errors
    /// None does, or not in time.
    pub async fn version(&self) -> Result<VersionInfo, CallError> {
        self.http.json(&Call::get(Target::new("/v1/version"))).await
    }

    /// What the host has and can do.
    ///
    /// # Errors
    /// No daemon answers.
    pub async fn host(&self) -> Result<HostInfo, CallError> {
        self.http.json(&Call::get(Target::new("/v1/host"))).await
    }

    /// Asks the daemon to leave. Boxes run on.
    ///
    /// # Errors
    /// No daemon answers, or it is lost while it does.
    pub async fn step_down(&self) -> Result<(), CallError> {
        let call = Call::post(Target::new("/v1/step-down")).never_repeated();
        let answer = self.http.once::<Nothing>(&call).await;
        self.http.forget().await;
        answer.map(|Nothing {}| ())
    }

    /// Makes a box and starts it. The answer is its record once it runs or has failed to start.
    ///
    /// Sent again, with the same `key`, when the daemon is lost before it has answered: the same
    /// key never makes two boxes.
    ///
    /// # Errors
    /// Nothing was made, or ([`CallError::GaveUp`], [`CallError::Lost`]) it is not known.
    pub async fn create(&self, create: &CreateBox, key: Uuid) -> Result<BoxRecord, CallError> {
        let key = HeaderValue::from_str(&key.to_string()).expect("a UUID is ASCII");
        let call = Call::post(Target::new("/v1/boxes"))
            .body(create)
            .header(HeaderName::from_static(IDEMPOTENCY_KEY), key)
            .unlimited();
        self.http.json_within(&call, self.retry).await
    }

    /// Gives up making the box that [`Client::create`] with this key makes. Whether there was a start
    /// to give up: then that answers with a failed start.
    ///
    /// # Errors
    /// No daemon answers, or the box's keeper does not.
    pub async fn cancel(&self, key: Uuid) -> Result<bool, CallError> {
        let key = HeaderValue::from_str(&key.to_string()).expect("a UUID is ASCII");
        let call = Call::post(Target::new("/v1/cancel"))
            .header(HeaderName::from_static(IDEMPOTENCY_KEY), key)
            .never_repeated();
        self.http.once::<Cancelled>(&call).await.map(|answer| answer.cancelled)
    }

    /// One page of boxes, newest first.
    ///
    /// # Errors
    /// No daemon answers, or it does not understand the query.
    pub async fn list(&self, query: &ListQuery) -> Result<BoxList, CallError> {
        self.http.json(&Call::get(Target::list(query))).await
    }

    /// The same, with only what a listing shows of each: of ten thousand, 4 MB rather than 15.
    ///
    /// # Errors
    /// As for [`Client::list`].
    pub async fn brief_list(&self, query: &ListQuery) -> Result<BriefList, CallError> {
        self.http.json(&Call::get(Target::brief_list(query))).await
    }

    /// The record of the box that `address` means: an id, a name, or a part of an id. What it takes of
    /// the disk is not in it.
    ///
    /// # Errors
    /// `not_found`, `ambiguous`, or no daemon answers.
    pub async fn get(&self, address: &str) -> Result<BoxRecord, CallError> {
        self.http.json(&Call::get(Target::of_box(address, "").with("measure", "false"))).await
    }

    /// The same with what it takes of the disk, if that can be found out within half a second.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn get_measured(&self, address: &str) -> Result<BoxRecord, CallError> {
        self.http.json(&Call::get(Target::of_box(address, ""))).await
    }

    /// The spec a box was made from.
    ///
    /// # Errors
    /// `not_found`, or no daemon answers.
    pub async fn spec(&self, id: BoxId) -> Result<Spec, CallError> {
        self.http.json(&Call::get(box_target(id, "/spec"))).await
    }

    /// Waits until a box has ended; for at most `timeout`, if there is one. Goes on when the daemon
    /// is lost and another answers.
    ///
    /// # Errors
    /// `wait_timeout`; `not_found`; [`CallError::GaveUp`] when no daemon answered any more.
    pub async fn wait(
        &self,
        id: BoxId,
        timeout: Option<Duration>,
    ) -> Result<WaitAnswer, CallError> {
        self.wait_for(Subject::from(id), timeout).await
    }

    /// Waits for an ending at `…/wait`.
    async fn wait_for<T: DeserializeOwned>(
        &self,
        subject: Subject,
        timeout: Option<Duration>,
    ) -> Result<T, CallError> {
        let begun = Instant::now();
        let mut backoff = crate::backoff::Backoff::new(self.retry);
        loop {
            // One beyond all time is none.
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            let target =
                subject.target("/wait").with_some("timeout_ms", left.map(|left| left.as_millis()));
            let call = Call::get(target).unlimited();
            let mut stood = None;
            let answer = self.http.attempt(&call, &mut stood);
            let answered = match left.and_then(|left| left.checked_add(PUNCTUAL)) {
                None => answer.await,
                Some(limit) => tokio::time::timeout(limit, answer)
                    .await
                    .unwrap_or_else(|_elapsed| Err(CallError::Silent { what: call.what(), limit })),
            };
            match answered {
                Ok(answer) => return Ok(answer),
                // The daemon is asked once more when the time is over, and not sought any longer.
                Err(error) if error.is_loss() && left.is_some_and(|left| left.is_zero()) => {
                    let after = begun.elapsed();
                    return Err(CallError::GaveUp { after, source: Box::new(error) });
                }
                Err(error) => {
                    self.http.recover(&mut backoff, stood, Repeat::Safe, error).await?;
                }
            }
        }
    }

    /// Stops a box, and answers with its record once it has ended. An ended box is no error.
    ///
    /// # Errors
    /// `not_found`, `unresponsive`, or no daemon answers.
    pub async fn stop(&self, id: BoxId, stop: StopBox) -> Result<BoxRecord, CallError> {
        let call = Call::post(box_target(id, "/stop")).body(&stop).unlimited();
        self.http.json_within(&call, self.retry).await
    }

    /// Begins a further life of a box that has ended, and answers with its record once it runs. A
    /// request that says which life is sent again when the daemon is lost: it begins that life once.
    ///
    /// # Errors
    /// `not_found`; `wrong_state`, `name_held`, or what a new box of its spec would be refused for;
    /// `start_failed`: in all of these it is as it was. Or no daemon answers.
    pub async fn resume(&self, id: BoxId, resume: &ResumeBox) -> Result<BoxRecord, CallError> {
        let call = Call::post(box_target(id, "/resume")).body(resume).unlimited();
        match resume.life {
            Some(_) => self.http.json_within(&call, self.retry).await,
            None => self.http.json(&call.never_repeated()).await,
        }
    }

    /// Sends one signal to a box's entrypoint. Never sent twice.
    ///
    /// # Errors
    /// `wrong_state` if it does not run; [`CallError::Lost`]: whether it was sent is not known.
    pub async fn signal(&self, id: BoxId, signal: Signal) -> Result<(), CallError> {
        let call = Call::post(box_target(id, "/signal")).body(&SignalBox { signal });
        self.http.json(&call.never_repeated()).await.map(|Nothing {}| ())
    }

    /// Has a box stand still; answers once it does.
    ///
    /// # Errors
    /// `wrong_state` if it has ended, `not_supported` where no freezer can be had, or no daemon answers.
    pub async fn pause(&self, id: BoxId) -> Result<BoxRecord, CallError> {
        self.http.json_within(&Call::post(box_target(id, "/pause")), self.retry).await
    }

    /// Has it go on.
    ///
    /// # Errors
    /// `wrong_state` if it has ended, or no daemon answers.
    pub async fn unpause(&self, id: BoxId) -> Result<BoxRecord, CallError> {
        self.http.json_within(&Call::post(box_target(id, "/unpause")), self.retry).await
    }

    /// Tells the daemon that the creator knows the ending.
    ///
    /// # Errors
    /// `not_found` if the box is reaped already, or no daemon answers.
    pub async fn acknowledge(&self, id: BoxId) -> Result<(), CallError> {
        let call = Call::post(box_target(id, "/acknowledge"));
        self.http.json(&call).await.map(|Nothing {}| ())
    }

    /// Deletes a box's record, log and files. With `force` a box that runs is killed first.
    ///
    /// # Errors
    /// `needs_force`, `not_found`, or no daemon answers.
    pub async fn remove(&self, id: BoxId, force: bool) -> Result<(), CallError> {
        let target = box_target(id, "");
        let target = if force { target.with("force", "true") } else { target };
        let call = Call::new(Method::DELETE, target).unlimited().never_repeated();
        // Repeated here, where it is known that the first of two may have been carried out.
        let mut asked_before = false;
        let mut backoff = crate::backoff::Backoff::new(self.retry);
        loop {
            let mut stood = None;
            match self.http.attempt(&call, &mut stood).await {
                Ok(Nothing {}) => return Ok(()),
                Err(CallError::Api(body)) if asked_before && body.code == ErrorCode::NotFound => {
                    return Ok(());
                }
                Err(error) => {
                    asked_before |= matches!(error, CallError::Lost { .. });
                    self.http.recover(&mut backoff, stood, Repeat::Safe, error).await?;
                }
            }
        }
    }

    /// Runs a command in a box. The answer is its record once its program was executed, or could not
    /// be.
    ///
    /// Sent again, with the same `key`, when the daemon is lost before it has answered: the same key
    /// never makes two execs, for as long as the first lives and a minute.
    ///
    /// # Errors
    /// Nothing was run, or ([`CallError::GaveUp`], [`CallError::Lost`]) it is not known.
    pub async fn create_exec(
        &self,
        id: BoxId,
        create: &CreateExec,
        key: Uuid,
    ) -> Result<ExecRecord, CallError> {
        let key = HeaderValue::from_str(&key.to_string()).expect("a UUID is ASCII");
        let call = Call::post(box_target(id, "/execs"))
            .body(create)
            .header(HeaderName::from_static(IDEMPOTENCY_KEY), key)
            .unlimited();
        self.http.json_within(&call, self.retry).await
    }

    /// One page of a box's execs, newest first.
    ///
    /// # Errors
    /// `not_found`, or no daemon answers.
    pub async fn execs(&self, id: BoxId, query: ExecQuery) -> Result<ExecList, CallError> {
        let target = box_target(id, "/execs");
        let target = target.with_some("limit", query.limit).with_some("after", query.after);
        self.http.json(&Call::get(target)).await
    }

    /// The record of the exec that `address` means in a box: an id, or a part of one.
    ///
    /// # Errors
    /// `not_found`, `ambiguous`, or no daemon answers.
    pub async fn exec(&self, id: BoxId, address: &str) -> Result<ExecRecord, CallError> {
        self.http.json(&Call::get(Target::of_exec(&id.to_string(), address, ""))).await
    }

    /// Waits until an exec has ended, as [`Client::wait`] does for a box.
    ///
    /// # Errors
    /// As for [`Client::wait`].
    pub async fn wait_exec(
        &self,
        id: BoxId,
        exec: ExecId,
        timeout: Option<Duration>,
    ) -> Result<ExecWaitAnswer, CallError> {
        self.wait_for(Subject::from((id, exec)), timeout).await
    }

    /// Stops an exec, and answers with its record once it has ended. One that has ended is no error.
    ///
    /// # Errors
    /// `not_found`, `unresponsive`, or no daemon answers.
    pub async fn stop_exec(
        &self,
        id: BoxId,
        exec: ExecId,
        stop: StopBox,
    ) -> Result<ExecRecord, CallError> {
        let call = Call::post(Subject::from((id, exec)).target("/stop")).body(&stop).unlimited();
        self.http.json_within(&call, self.retry).await
    }

    /// Sends one signal to an exec's program. Never sent twice.
    ///
    /// # Errors
    /// `wrong_state` if it does not run; [`CallError::Lost`]: whether it was sent is not known.
    pub async fn signal_exec(
        &self,
        id: BoxId,
        exec: ExecId,
        signal: Signal,
    ) -> Result<(), CallError> {
        let target = Subject::from((id, exec)).target("/signal");
        let call = Call::post(target).body(&SignalBox { signal });
        self.http.json(&call.never_repeated()).await.map(|Nothing {}| ())
    }

    /// Reads what a box or an exec has printed, and goes on where a connection broke off.
    ///
    /// # Errors
    /// `not_found`, or no daemon answers.
    pub async fn log(
        &self,
        of: impl Into<Subject>,
        query: LogQuery,
    ) -> Result<LogReader, CallError> {
        LogReader::open(self.clone(), of.into(), query).await
    }

    /// Reads a box's events from the first; with `follow`, until the box has ended.
    ///
    /// # Errors
    /// `not_found`, or no daemon answers.
    pub async fn events(&self, id: BoxId, follow: bool) -> Result<EventReader, CallError> {
        EventReader::open(self.clone(), id, follow).await
    }

    /// Joins the streams of a box or of an exec. The stream goes on by itself when the daemon is lost.
    ///
    /// Must be called in a tokio runtime, where a task of the stream's own is started.
    ///
    /// # Errors
    /// `not_found`, `input_held`, or no daemon answers.
    pub async fn attach(
        &self,
        to: impl Into<Subject>,
        options: AttachOptions,
    ) -> Result<(AttachStream, AttachHandle), CallError> {
        crate::attach::attach(self.clone(), to.into(), options).await
    }
}

pub(crate) fn box_target(id: BoxId, rest: &str) -> Target {
    Target::of_box(&id.to_string(), rest)
}
