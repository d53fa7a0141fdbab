//! The hub's end against a runner that a test plays, frame by frame.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::contract::{
    Event, ExecOptions, Sandbox as _, SandboxError, SpawnOptions, StreamFault, Terminal,
    Unavailable,
};
use crate::fake::fixtures::script;
use crate::wire::{ExitCode, Op, Output};

/// A runner whose frames a test writes.
struct Played {
    socket: WebSocketStream<DuplexStream>,
    serving: JoinHandle<Served>,
}

async fn connected() -> (Connection, RunnerSandbox, Played) {
    let (here, there) = tokio::io::duplex(1 << 20);
    let config = Some(crate::socket::config());
    let socket = WebSocketStream::from_raw_socket(there, Role::Client, config).await;
    let hub = WebSocketStream::from_raw_socket(here, Role::Server, config).await;
    let (connection, serving) = Connection::serve(hub);
    let sandbox = RunnerSandbox::new(connection.clone());
    (connection, sandbox, Played { socket, serving: tokio::spawn(serving) })
}

impl Played {
    /// The next request.
    async fn request(&mut self) -> Value {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("{other:?} is no request"),
            }
        }
    }

    async fn send(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Answers the next request, which must be of this op, with a session.
    async fn open(&mut self, op: &str, session: &str) {
        let request = self.request().await;
        assert_eq!(request["op"], op);
        let result = json!({"session_id": session});
        self.send(json!({"id": request["id"], "ok": true, "result": result})).await;
    }

    /// The code and reason with which the hub hangs up.
    async fn hung_up(&mut self) -> (u16, String) {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    return (frame.code.into(), frame.reason.to_string());
                }
                Some(Ok(_)) => {}
                other => panic!("{other:?} is no close"),
            }
        }
    }
}

fn exit(code: i32) -> Event {
    Event::Terminal(Terminal::Exit(ExitCode::as_told(code)))
}

fn fault(fault: StreamFault) -> Event {
    Event::Terminal(Terminal::Fault(fault))
}

fn out(text: &str) -> Event {
    Event::Output(Output::Stdout, text.as_bytes().to_vec())
}

fn stdout(text: &str, replay_for: Option<u64>) -> Value {
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let mut frame = json!({"stream": "stdout", "session_id": "s-1", "data": data});
    if let Some(id) = replay_for {
        frame["replay_for"] = id.into();
    }
    frame
}

/// Three subscribers of one session and a call that waits.
async fn joined(
    sandbox: &RunnerSandbox,
    played: &mut Played,
) -> Vec<(RunnerCommand, crate::contract::CommandStream)> {
    let handle = sandbox.handle("b");
    let (command, options) = (script(&["stay"]), SpawnOptions::default());
    let (first, ()) =
        tokio::join!(sandbox.spawn(&handle, &command, &options), played.open("spawn", "s-1"));
    let mut all = vec![first.unwrap()];
    for _ in 0..2 {
        let (next, ()) = tokio::join!(sandbox.attach(&handle, "s-1"), played.open("attach", "s-1"));
        all.push(next.unwrap());
    }
    all
}

#[tokio::test]
async fn everybody_is_told_when_the_runner_goes() {
    let (connection, sandbox, mut played) = connected().await;
    let mut all = joined(&sandbox, &mut played).await;
    played.send(stdout("a", None)).await;
    let waiting = tokio::spawn(async move { connection.call(&Op::List, None).await });
    assert_eq!(played.request().await["op"], "list");
    played.socket.close(None).await.unwrap();
    let lost = SandboxError::Unavailable(Unavailable::RunnerDisconnected);
    assert_eq!(waiting.await.unwrap(), Err(lost));
    for (_, stream) in &mut all {
        assert_eq!(stream.next().await, Some(out("a")));
        assert_eq!(stream.next().await, Some(fault(StreamFault::RunnerDisconnected)));
        assert_eq!(stream.next().await, None);
    }
    // And from now on nobody is asked.
    let offline = SandboxError::Unavailable(Unavailable::RunnerOffline);
    let handle = sandbox.handle("b");
    assert_eq!(sandbox.get(&handle).await, Err(offline.clone()));
    let exec = sandbox.exec(&handle, &script(&[]), &ExecOptions::default()).await;
    assert_eq!(exec, Err(offline));
    let write = sandbox.write_stdin(&all[0].0, b"x").await;
    assert_eq!(write, Err(SandboxError::WriteFailed("runner_offline".to_owned())));
    sandbox.stop_command(&all[0].0).await.unwrap();
    assert_eq!(sandbox.host_path(&handle, "/home/sprite/x").await, "/home/sprite/x");
}

#[tokio::test]
async fn everybody_is_told_when_the_serving_is_dropped() {
    let (_, sandbox, mut played) = connected().await;
    let mut all = joined(&sandbox, &mut played).await;
    played.serving.abort();
    for (_, stream) in &mut all {
        assert_eq!(stream.next().await, Some(fault(StreamFault::RunnerDisconnected)));
    }
}

#[tokio::test]
async fn a_tagged_frame_is_one_subscribers_own() {
    let (_, sandbox, mut played) = connected().await;
    let mut all = joined(&sandbox, &mut played).await;
    played.send(stdout("old", Some(2))).await;
    let tagged = json!({"stream": "exit", "session_id": "s-1", "code": 7, "replay_for": 2});
    played.send(tagged).await;
    played.send(stdout("new", None)).await;
    played.send(json!({"stream": "exit", "session_id": "s-1", "code": 7})).await;
    // Nothing follows the end.
    played.send(stdout("late", None)).await;
    let mut streams = all.iter_mut().map(|(_, stream)| stream);
    let (one, two, three) =
        (streams.next().unwrap(), streams.next().unwrap(), streams.next().unwrap());
    assert_eq!((two.next().await, two.next().await), (Some(out("old")), Some(exit(7))));
    for stream in [one, three] {
        assert_eq!((stream.next().await, stream.next().await), (Some(out("new")), Some(exit(7))));
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test]
async fn an_exit_without_a_code_is_no_exit() {
    for code in [json!(null), json!("0"), json!(0.5)] {
        let (_, sandbox, mut played) = connected().await;
        let mut all = joined(&sandbox, &mut played).await;
        played.send(json!({"stream": "exit", "session_id": "s-1", "code": code})).await;
        for (_, stream) in &mut all {
            assert_eq!(stream.next().await, Some(fault(StreamFault::ExitUnknown)));
        }
    }
}

#[tokio::test]
async fn what_is_no_json_text_is_hung_up_on() {
    for message in [Message::text("hello"), Message::binary(b"{}".to_vec())] {
        let (_, _, mut played) = connected().await;
        played.send(json!({"hello": 1})).await;
        played.socket.send(message).await.unwrap();
        assert_eq!(played.hung_up().await, (1003, "frames must be JSON text".to_owned()));
        let served = played.serving.await.unwrap();
        assert!(matches!(served, Served::ByHub(Hangup::NotJsonText)), "{served:?}");
    }
    for (why, code) in [(Hangup::Deleted, 4404), (Hangup::AlreadyConnected, 4409)] {
        let (connection, _, mut played) = connected().await;
        connection.hang_up(why);
        assert_eq!(played.hung_up().await.0, code);
    }
}

#[tokio::test]
async fn an_answer_that_lacks_something_is_named() {
    let (_, sandbox, mut played) = connected().await;
    let handle = sandbox.handle("b");
    let provider = |answer: SandboxError| match answer {
        SandboxError::Provider { provider: "runner", detail } => detail,
        other => panic!("{other:?}"),
    };
    for (result, words) in [
        (json!({"output": "aGk="}), "malformed_exec_reply"),
        (json!({"output": "aGk=", "code": "0"}), "malformed_exec_reply"),
        (json!({"code": 0}), "malformed_exec_reply"),
    ] {
        let (command, options) = (script(&[]), ExecOptions::default());
        let (answer, ()) = tokio::join!(sandbox.exec(&handle, &command, &options), async {
            let request = played.request().await;
            played.send(json!({"id": request["id"], "ok": true, "result": result})).await;
        });
        assert!(provider(answer.unwrap_err()).starts_with(words));
    }
    let (answer, ()) = tokio::join!(sandbox.attach(&handle, "s-1"), played.open("attach", "s-2"));
    assert!(provider(answer.unwrap_err()).starts_with("malformed_attach_reply"));
    assert_eq!(played.request().await["op"], "detach");
    let (answer, ()) = tokio::join!(sandbox.list_all_names(), async {
        let request = played.request().await;
        played.send(json!({"id": request["id"], "ok": true, "result": {"names": "b"}})).await;
    });
    assert!(provider(answer.unwrap_err()).starts_with("malformed_list"));
    let (answer, ()) = tokio::join!(sandbox.get(&handle), async {
        let request = played.request().await;
        played.send(json!({"id": request["id"], "ok": "maybe"})).await;
        // A second answer is nobody's.
        played.send(json!({"id": request["id"], "ok": true, "result": {}})).await;
    });
    assert!(provider(answer.unwrap_err()).starts_with("malformed_reply"));
}

#[tokio::test]
async fn the_last_to_let_go_detaches() {
    let (connection, sandbox, mut played) = connected().await;
    let all = joined(&sandbox, &mut played).await;
    for (command, _) in &all {
        for _ in 0..2 {
            sandbox.stop_command(command).await.unwrap();
        }
    }
    let detach = played.request().await;
    assert_eq!(detach, json!({"id": 0, "op": "detach", "session_id": "s-1"}));
    // Once, and not before the last: else it would come before this.
    let asking = tokio::spawn(async move { connection.call(&Op::List, None).await });
    assert_eq!(played.request().await["op"], "list");
    asking.abort();
    for (_, mut stream) in all {
        assert_eq!(stream.next().await, Some(fault(StreamFault::Stopped)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_opens_too_late_is_let_go() {
    let (_, sandbox, mut played) = connected().await;
    let handle = sandbox.handle("b");
    let (command, options) = (script(&[]), SpawnOptions::default());
    // No answer for half a minute.
    let answer = sandbox.spawn(&handle, &command, &options).await.map(|_| ());
    assert_eq!(answer, Err(SandboxError::Unavailable(Unavailable::RunnerTimeout)));
    played.open("spawn", "s-1").await;
    assert_eq!(played.request().await, json!({"id": 0, "op": "detach", "session_id": "s-1"}));
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_says_nothing_is_given_up() {
    let (_, sandbox, mut played) = connected().await;
    let mut all = joined(&sandbox, &mut played).await;
    // It reads nothing, and so it answers no ping.
    assert!(matches!((&mut played.serving).await.unwrap(), Served::Silent));
    assert_eq!(all[0].1.next().await, Some(fault(StreamFault::RunnerDisconnected)));
}
