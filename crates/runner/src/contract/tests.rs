use std::time::Duration;

use super::*;
use crate::wire::Output;

#[tokio::test]
async fn a_stream_has_one_terminal_however_its_emitter_goes() {
    let closed = || Terminal::Fault(StreamFault::ClosedBeforeExit);
    // Dropped.
    let (mut emitter, mut stream) = command_stream(StreamFault::ClosedBeforeExit);
    emitter.output(Output::Stdout, b"a".to_vec());
    drop(emitter);
    assert_eq!(stream.next().await, Some(Event::Output(Output::Stdout, b"a".to_vec())));
    assert_eq!(stream.next().await, Some(Event::Terminal(closed())));
    assert_eq!(stream.next().await, None);
    // Ended: the drop of the rest says nothing more.
    let (emitter, mut stream) = command_stream(StreamFault::ClosedBeforeExit);
    emitter.end(Terminal::Exit(ExitCode::as_told(3)));
    assert_eq!(stream.next().await, Some(Event::Terminal(Terminal::Exit(ExitCode::as_told(3)))));
    assert_eq!(stream.next().await, None);
    // Lost with the task that held it.
    let (emitter, mut stream) = command_stream(StreamFault::RunnerDisconnected);
    let task = tokio::spawn(async move {
        let _held = emitter;
        std::future::pending::<()>().await;
    });
    task.abort();
    let lost = Terminal::Fault(StreamFault::RunnerDisconnected);
    assert_eq!(stream.collect().await, (vec![], vec![], lost));
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_and_nothing_follows() {
    let (mut emitter, mut stream) = command_stream(StreamFault::ClosedBeforeExit);
    let piece = vec![0; BACKLOG_MAX / 4];
    for _ in 0..4 {
        emitter.output(Output::Stdout, piece.clone());
    }
    emitter.output(Output::Stdout, b"x".to_vec());
    emitter.output(Output::Stdout, b"y".to_vec());
    emitter.end(Terminal::Exit(ExitCode::as_told(0)));
    let (stdout, _, terminal) = stream.collect().await;
    assert_eq!((stdout.len(), terminal), (BACKLOG_MAX, Terminal::Fault(StreamFault::Overrun)));
    // One that reads makes room.
    let (mut emitter, mut stream) = command_stream(StreamFault::ClosedBeforeExit);
    for _ in 0..8 {
        emitter.output(Output::Stderr, piece.clone());
        assert!(matches!(stream.next().await, Some(Event::Output(Output::Stderr, _))));
    }
    emitter.end(Terminal::Exit(ExitCode::as_told(0)));
    assert_eq!(stream.collect().await.2, Terminal::Exit(ExitCode::as_told(0)));
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_three_times_and_what_lasts_once() {
    let lasting = [
        SandboxError::NotFound,
        SandboxError::Truncated,
        SandboxError::NotSupported,
        SandboxError::AlreadyExists,
        SandboxError::Denied(String::new()),
        SandboxError::Invalid(String::new()),
        SandboxError::RestoreFailed(String::new()),
    ];
    let passing = [
        SandboxError::CommandExited,
        SandboxError::RateLimited(None),
        SandboxError::Unavailable(Unavailable::RunnerOffline),
        SandboxError::WriteFailed(String::new()),
        SandboxError::Provider { provider: "x", detail: String::new() },
    ];
    for (errors, expected) in [(&lasting[..], 1), (&passing[..], 3)] {
        for error in errors {
            let mut calls = 0;
            let answer: Answer<()> = with_backoff(Backoff::default(), || {
                calls += 1;
                std::future::ready(Err(error.clone()))
            })
            .await;
            assert_eq!((answer, calls), (Err(error.clone()), expected));
        }
    }
    let mut calls = 0;
    let answer = with_backoff(Backoff::default(), || {
        calls += 1;
        let lost = SandboxError::Unavailable(Unavailable::RunnerDisconnected);
        std::future::ready(if calls < 3 { Err(lost) } else { Ok(calls) })
    });
    assert_eq!(answer.await, Ok(3));
}

#[test]
fn no_number_of_attempts_makes_a_pause_short() {
    let backoff = Backoff::default();
    let millis: Vec<_> = (1..=5).map(|attempt| backoff.ceiling(attempt).as_millis()).collect();
    assert_eq!(millis, [250, 500, 1000, 2000, 2000]);
    for attempt in [32, 33, 35, 56, 64, 65, u32::MAX] {
        assert_eq!(backoff.ceiling(attempt), Duration::from_secs(2), "{attempt}");
        assert!(backoff.pause(attempt) >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_provider_that_can_wait_is_let_on_by_reading_and_by_leaving() {
    let (mut emitter, mut stream) = command_stream(StreamFault::ClosedBeforeExit);
    emitter.output(Output::Stdout, vec![0; 2 << 20]);
    emitter.gap(7);
    let waiting = tokio::spawn(async move {
        emitter.ready().await;
        emitter.output(Output::Stdout, vec![0; 2 << 20]);
        emitter.ready().await;
        emitter.is_heard()
    });
    assert!(matches!(stream.next().await, Some(Event::Output(..))));
    assert_eq!(stream.next().await, Some(Event::Gap(7)));
    drop(stream);
    assert!(!waiting.await.unwrap());
}
