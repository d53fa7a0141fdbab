//! The one writer of a session's input.

use std::time::Duration;

use minimal_proto::{ErrorCode, ExecId};
use minimal_sdk::{AttachHandle, AttachOptions, Subject};
use tokio::sync::Mutex;

use super::{LocalSandbox, error_of};
use crate::contract::{Answer, SandboxError};

/// How long an end may take to be told, once a command has closed its input by ending: its output is
/// read on for up to two seconds.
const END_LIMIT: Duration = Duration::from_secs(3);

/// Writes to a session, in the order of the calls. Opened by the first.
#[derive(Debug)]
pub(super) struct Writer {
    subject: Subject,
    handle: Mutex<Option<AttachHandle>>,
}

impl Writer {
    pub(super) fn of(subject: Subject) -> Self {
        Self { subject, handle: Mutex::new(None) }
    }

    /// Hands bytes on; none: the end of the input.
    ///
    /// # Errors
    /// `CommandExited`, or `WriteFailed` if it reads no input any more.
    pub(super) async fn put(&self, sandbox: &LocalSandbox, data: Option<&[u8]>) -> Answer<()> {
        let mut held = self.handle.lock().await;
        if sandbox.has_ended(self.subject).await? {
            return Err(SandboxError::CommandExited);
        }
        let handle = match &*held {
            Some(handle) => handle.clone(),
            None => {
                let handle = self.open(sandbox).await?;
                *held = Some(handle.clone());
                handle
            }
        };
        let Some(data) = data else {
            handle.eof();
            return Ok(());
        };
        if handle.input(data.to_vec().into()).await.is_ok() {
            return Ok(());
        }
        // Nobody reads: because the command is ending, which is soon told, or because it reads no
        // more.
        match sandbox.ends_soon(self.subject).await? {
            true => Err(SandboxError::CommandExited),
            false => Err(SandboxError::WriteFailed("the command reads no input".to_owned())),
        }
    }

    async fn open(&self, sandbox: &LocalSandbox) -> Answer<AttachHandle> {
        let from = sandbox.log_end(self.subject).await?;
        let options = AttachOptions { from, input: true, ..AttachOptions::default() };
        let attached = sandbox.client.attach(self.subject, options).await;
        let (mut stream, handle) = attached.map_err(|error| error_of(&error))?;
        // Its output is read elsewhere; here it is only kept from standing in the way.
        drop(tokio::spawn(async move { while stream.next().await.is_ok() {} }));
        Ok(handle)
    }
}

impl LocalSandbox {
    /// The writer of a session.
    pub(super) fn writer(&self, subject: Subject, exec: ExecId) -> std::sync::Arc<Writer> {
        let mut writers = self.writers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let writer = writers.entry(exec).or_insert_with(|| Writer::of(subject).into());
        std::sync::Arc::clone(writer)
    }

    /// Lets go of the writer of a session that has ended.
    pub(super) fn forget_writer(&self, exec: ExecId) {
        let mut writers = self.writers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        writers.remove(&exec);
    }

    async fn has_ended(&self, subject: Subject) -> Answer<bool> {
        Ok(self.exec_of(subject).await?.ending.is_some())
    }

    /// Whether it ends within [`END_LIMIT`].
    async fn ends_soon(&self, subject: Subject) -> Answer<bool> {
        let Some(exec) = subject.exec else { return Err(SandboxError::NotFound) };
        match self.client.wait_exec(subject.box_id, exec, Some(END_LIMIT)).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == ErrorCode::WaitTimeout => Ok(false),
            Err(error) => Err(error_of(&error)),
        }
    }

    async fn log_end(&self, subject: Subject) -> Answer<u64> {
        Ok(self.exec_of(subject).await?.log.bytes)
    }

    async fn exec_of(&self, subject: Subject) -> Answer<minimal_proto::api::ExecRecord> {
        let Some(exec) = subject.exec else { return Err(SandboxError::NotFound) };
        let record = self.client.exec(subject.box_id, &exec.to_string()).await;
        record.map_err(|error| error_of(&error))
    }
}
