//! Signals to the client, as a stream.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use minimal_proto::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Those that are passed on to the box. HUP is not among them: a terminal that closes ends the
/// client and leaves the box as it is.
const RELAYED: [Signal; 5] = [Signal::INT, Signal::TERM, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Signals that arrive from now on.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    /// Takes the signals that are passed on; but not what whoever started us has us ignore, as a
    /// shell does for what it starts in the background.
    ///
    /// # Errors
    /// What sigaction(2) says.
    pub fn listen() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let streams = RELAYED
            .into_iter()
            .filter(|relayed| ignored & (1 << (relayed.number() - 1)) == 0)
            .map(|relayed| Ok((relayed, signal(SignalKind::from_raw(relayed.number()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams })
    }

    /// The next signal. Cancelling loses none.
    pub async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (relayed, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*relayed);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The mask of ignored signals in proc_pid_status(5): bit n - 1 for signal n.
fn ignored(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_found() {
        assert_eq!(ignored("Name:\tmin\nSigIgn:\t0000000000001006\nSigCgt:\t00000001\n"), 0x1006);
        assert_eq!(ignored(""), 0);
    }
}
