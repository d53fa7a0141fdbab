//! A box that stands still, by the kernel's freezer.

use minimal_proto::{ErrorBody, ErrorCode, EventData};
use minimal_store::hook;

use super::Keeper;
use crate::timers::Timer;

impl Keeper<'_> {
    /// Has everything in the box stand still, and says so once it does.
    pub(super) fn pause(&mut self) -> Result<(), ErrorBody> {
        let wrong = |why: &str| ErrorBody::new(ErrorCode::WrongState, why);
        if self.paused.is_some() {
            return Ok(());
        }
        if self.ladder.is_ending() {
            return Err(wrong("the box is being ended"));
        }
        if let Err(why) = self.hosted.cgroups.freezer() {
            let message = format!("the box cannot be paused: {why}");
            return Err(ErrorBody::new(ErrorCode::NotSupported, message)
                .with_hint("`min doctor` says what it takes"));
        }
        let frozen =
            hook::point("keeper.pause.before_freeze").and_then(|()| self.hosted.cgroups.freeze());
        frozen.map_err(|error| {
            let message = match error.kind() {
                std::io::ErrorKind::TimedOut => {
                    "one of its processes does not stand still: it waits in the kernel".to_owned()
                }
                _ => error.to_string(),
            };
            let message = format!("the box was not paused, and runs on: {message}");
            ErrorBody::new(ErrorCode::Internal, message)
        })?;
        self.paused = Some(Vec::new());
        self.append(EventData::Paused);
        hook::point("keeper.pause.after_journal").ok();
        Ok(())
    }

    /// Has it go on.
    pub(super) fn unpause(&mut self) -> Result<(), ErrorBody> {
        if self.paused.is_none() {
            return Ok(());
        }
        self.hosted.cgroups.thaw().map_err(|error| {
            let message = format!("the box does not go on: {error}");
            ErrorBody::new(ErrorCode::Internal, message)
        })?;
        let held = self.paused.take().unwrap_or_default();
        self.append(EventData::Unpaused);
        for timer in held {
            self.timers.set_in(timer, std::time::Duration::ZERO);
        }
        Ok(())
    }

    /// The same for who cannot be told of a failure: it is said in the record.
    pub(super) fn go_on(&mut self) {
        if let Err(error) = self.unpause() {
            self.degraded(&error.message);
        }
    }

    /// Whether something waits until the box goes on: who would be sent into it now would stand still
    /// on the way.
    pub(super) fn holds(&mut self, timer: Timer) -> bool {
        match &mut self.paused {
            Some(held) if matches!(timer, Timer::Restart | Timer::Probe) => {
                held.push(timer);
                true
            }
            Some(_) | None => false,
        }
    }
}
