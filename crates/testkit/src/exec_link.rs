//! An exec, asked of a box's keeper by its own protocol, as a daemon does.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use minimal_proto::exec::{ExecCommand, ExecMode};
use minimal_proto::keeper::{
    Decoder, ExecStanding, ExecStart, FromKeeper, Hello, Incoming, ToKeeper, encode_input,
    encode_json,
};
use minimal_proto::{ByteString, Ending, ErrorBody, ExecId};
use rustix::fs::{Mode, OFlags};
use rustix::process::Uid;

use crate::{LIMIT, TestEnv};

/// A command for an exec that lives by itself and takes no input.
#[must_use]
pub fn command(argv: &[&str]) -> ExecCommand {
    ExecCommand {
        argv: argv.iter().map(|argument| ByteString::from(*argument)).collect(),
        cwd: None,
        user: None,
        variables: Vec::new(),
        timeout_ms: None,
        stop_grace_ms: None,
        mode: ExecMode::Detached,
        input: false,
        terminal: None,
    }
}

/// A request for an exec under an id of its own.
#[must_use]
pub fn request(command: ExecCommand) -> ExecStart {
    ExecStart {
        exec: ExecId::from_uuid(uuid::Uuid::now_v7()),
        command,
        values: BTreeMap::new(),
        idempotency_key: None,
        request_digest: None,
    }
}

/// A connection to a keeper.
#[derive(Debug)]
pub struct ExecLink {
    stream: UnixStream,
    decoder: Decoder,
}

impl ExecLink {
    /// Connects to the keeper of a box, as whoever the scenario runs as: a keeper listens to nobody
    /// else.
    ///
    /// # Errors
    /// What connect(2) says.
    pub fn connect(env: &TestEnv, box_id: &str) -> std::io::Result<Self> {
        let directory = rustix::fs::open(
            env.box_dir(box_id),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let path = format!("/proc/self/fd/{}/keeper.sock", directory.as_raw_fd());
        let ours = rustix::process::getuid();
        let theirs = Uid::from_raw(env.account().uid);
        let is_other = ours != theirs;
        if is_other {
            // Of this thread alone; the real one stays, and with it the way back.
            rustix::thread::set_thread_res_uid(ours, theirs, ours)?;
        }
        let connected = UnixStream::connect(path);
        if is_other {
            rustix::thread::set_thread_res_uid(ours, ours, ours)?;
        }
        let stream = connected?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Self { stream, decoder: Decoder::default() })
    }

    /// Asks for an exec.
    ///
    /// # Panics
    /// The keeper cannot be reached.
    #[must_use]
    #[track_caller]
    pub fn run(env: &TestEnv, box_id: &str, start: ExecStart) -> Self {
        let mut link = Self::connect(env, box_id).unwrap();
        link.send(&ToKeeper::Exec(Box::new(start)));
        link
    }

    /// Sends a message. Whether the keeper still reads shows at the next answer.
    pub fn send(&mut self, message: &ToKeeper) {
        self.stream.write_all(&encode_json(message)).ok();
    }

    /// Sends input.
    pub fn input(&mut self, offset: u64, bytes: &[u8]) {
        self.stream.write_all(&encode_input(offset, bytes)).ok();
    }

    /// The keeper's next message; none if it is gone.
    ///
    /// # Panics
    /// It says nothing for [`LIMIT`], or nothing that can be read.
    #[track_caller]
    pub fn next_message(&mut self) -> Option<FromKeeper> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                match message {
                    Incoming::Message(message) => return Some(message),
                    Incoming::Input { .. } => panic!("a keeper sends no input"),
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.decoder.feed(&buffer[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the keeper says nothing")
                }
                Err(_) => return None,
            }
        }
    }

    /// The next message that is wanted; others before it are passed over.
    ///
    /// # Panics
    /// As [`ExecLink::next_message`].
    #[track_caller]
    pub fn wait_for<T>(&mut self, wanted: impl Fn(FromKeeper) -> Option<T>) -> Option<T> {
        loop {
            let message = self.next_message()?;
            if let Some(found) = wanted(message) {
                return Some(found);
            }
        }
    }

    /// What the keeper says first.
    #[track_caller]
    pub fn hello(&mut self) -> Option<Hello> {
        self.wait_for(|message| match message {
            FromKeeper::Hello(hello) => Some(hello),
            _ => None,
        })
    }

    /// The answer to the request: where things stand, or why there is no such exec. None if the
    /// keeper is gone.
    #[track_caller]
    pub fn answer(&mut self) -> Option<Result<ExecStanding, ErrorBody>> {
        self.wait_for(|message| match message {
            FromKeeper::Exec(standing) => Some(Ok(standing)),
            FromKeeper::Refused { error } => Some(Err(error)),
            _ => None,
        })
    }

    /// The answer to an exec that can be started.
    ///
    /// # Panics
    /// It was refused, or could not be executed.
    #[track_caller]
    pub fn started(&mut self) -> ExecStanding {
        let standing = self.answer().expect("the keeper is there").unwrap();
        assert!(standing.started_at.is_some(), "{standing:?}");
        standing
    }

    /// The ending, with the log's end. None if the keeper is gone without one.
    #[track_caller]
    pub fn end(&mut self) -> Option<(Ending, u64)> {
        self.wait_for(|message| match message {
            FromKeeper::Ended { ending, log_end } => Some((ending, log_end)),
            _ => None,
        })
    }

    /// The ending of an exec whose keeper lives.
    #[track_caller]
    pub fn ending(&mut self) -> Ending {
        self.end().expect("the keeper is there").0
    }

    /// Sends a request and waits until it was carried out, or not.
    ///
    /// # Panics
    /// The keeper is gone.
    #[track_caller]
    pub fn ask(&mut self, message: &ToKeeper) -> Option<ErrorBody> {
        self.send(message);
        self.wait_for(|message| match message {
            FromKeeper::Done { error, .. } => Some(error),
            _ => None,
        })
        .expect("the keeper is there")
    }
}
