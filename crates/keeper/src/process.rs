//! A keeper's process from its fork to its end.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use minimal_linux::{limits, title};
use minimal_proto::ending::Observer;
use minimal_proto::error::Chain;
use minimal_proto::keeper::{Decoder, Hello, Incoming, PROTOCOL, Start, ToKeeper};
use minimal_proto::{Ending, Timestamp};
use minimal_store::{BoxDir, JournalWriter, LifeLock, LogWriter, hook};

use crate::birth::{BirthError, Blank, give_birth};
use crate::control::Connection;
use crate::keeper::{Hosted, Keeper};
use crate::keeper_log::KeeperLog;
use crate::limits::Cgroups;
use crate::peers::Peers;
use crate::saving::save_and_tell;
use crate::shared_root::SharedRoot;

/// How long the daemon may take to say what to run, once it has begun to.
const START_LIMIT: Duration = Duration::from_secs(10);

/// What a keeper has made before it knows its box.
pub(crate) struct Ahead {
    pub(crate) cgroups: Cgroups,
    /// None could be made, or none is needed.
    pub(crate) blank: Option<Blank>,
}

/// The body of a keeper. Returns the status of its process, which nobody reads: what matters is on
/// disk.
pub(crate) fn run(
    mut connection: UnixStream,
    ahead: Ahead,
    state_dir: &Path,
    nursery: &SharedRoot,
) -> i32 {
    let Ok((mut start, decoder)) = receive_start(&mut connection) else {
        // The daemon is gone, and nobody needs a keeper. Nobody is about to enter a group either:
        // what is empty is left over, say from a keeper killed at its last step.
        drop(ahead);
        nursery.limits.sweep();
        return 0;
    };
    let id = start.box_id;
    title::set(&format!("min-keeper {id}")).ok();
    // Every exec takes a few, and what runs in the box has limits of its own.
    limits::raise_open_files();
    // Without a directory there is no place to say why; the daemon sees the connection end.
    let Ok(dir) = BoxDir::open(&state_dir.join("boxes").join(id.to_string())) else { return 1 };
    let mut log = KeeperLog::new(id, start.name.clone());
    match keep(&mut start, (connection, decoder), dir, ahead, nursery, &mut log) {
        Ok(()) => 0,
        Err((dir, cause)) => {
            log.error(&dir, "the box was not started", &cause);
            1
        }
    }
}

fn receive_start(connection: &mut UnixStream) -> io::Result<(Start, Decoder)> {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = connection.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        connection.set_read_timeout(Some(START_LIMIT))?;
        decoder.feed(&buffer[..length]);
        if let Some(message) = decoder.next_message().map_err(io::Error::other)? {
            return match message {
                Incoming::Message(ToKeeper::Start(start)) => Ok((*start, decoder)),
                Incoming::Message(_) | Incoming::Input { .. } => {
                    Err(io::ErrorKind::InvalidData.into())
                }
            };
        }
    }
}

fn keep(
    start: &mut Start,
    (connection, decoder): (UnixStream, Decoder),
    dir: BoxDir,
    Ahead { cgroups, blank }: Ahead,
    nursery: &SharedRoot,
    log: &mut KeeperLog,
) -> Result<(), (BoxDir, String)> {
    let opened = (|| {
        hook::point("keeper.birth.told").map_err(|error| error.to_string())?;
        let lock = LifeLock::open(&dir).map_err(|error| Chain(&error).to_string())?;
        if !lock.try_keeper().map_err(|error| Chain(&error).to_string())? {
            return Err("another keeper has this box".to_owned());
        }
        hook::point("keeper.birth.locked").map_err(|error| error.to_string())?;
        // The lock was taken on a file that may have been removed or belong to an earlier life by
        // now: only what is true after locking counts.
        if !dir.is_linked() {
            return Err("the box directory was removed".to_owned());
        }
        let generation = dir.read_generation().map_err(|error| Chain(&error).to_string())?;
        let meant = start.generation.unwrap_or(start.life);
        if generation != meant {
            return Err(format!(
                "this is try {generation} to begin a life of the box, not {meant}"
            ));
        }
        let journal = JournalWriter::open(&dir).map_err(|error| Chain(&error).to_string())?;
        // A daemon that found nobody here before we had locked has written that the start was
        // interrupted.
        if journal.record().ending.is_some() {
            return Err("the box has ended before it could start".to_owned());
        }
        let begin = journal.record().log_begin;
        let output = LogWriter::create_or_open(&dir, start.spec.io.log_max);
        let output = output.and_then(|mut log| log.go_on_at(begin).map(|()| log));
        Ok((lock, journal, output))
    })();
    let (lock, journal, output) = match opened {
        Ok(opened) => opened,
        Err(cause) => return Err((dir, cause)),
    };
    let output_end = output.as_ref().map_or(0, LogWriter::end);
    let greeting = greeting(start, output_end);
    let log = std::mem::replace(log, KeeperLog::new(start.box_id, start.name.clone()));
    let mut hosted = Hosted { dir, journal, log, unsaved: VecDeque::new(), cgroups };
    let mut peers = Peers::new(greeting);
    if let Ok(connection) = Connection::new(connection, decoder) {
        peers.welcome(connection);
    }
    let born = output
        .map_err(|error| {
            BirthError::new("open the box's log", &io::Error::other(Chain(&error).to_string()))
        })
        .and_then(|output| {
            let cgroups = &mut hosted.cgroups;
            give_birth(start, &hosted.dir, &lock, cgroups, nursery, (blank, &mut peers))
                .map(|newborn| (newborn, output))
        });
    // They were the entrypoint's alone: whoever is forked for an exec has none of them.
    start.values.clear();
    let mut hosted = match born {
        Ok((newborn, output)) => match Keeper::new(start, newborn, output, hosted, peers) {
            Ok(keeper) => keeper.keep(),
            Err(failed) => {
                let (mut hosted, mut peers, error) = *failed;
                fail(
                    &mut hosted,
                    &mut peers,
                    &BirthError::new("watch the box", &error),
                    output_end,
                );
                hosted
            }
        },
        Err(error) => {
            fail(&mut hosted, &mut peers, &error, output_end);
            hosted
        }
    };
    // Nobody listens any more, and the lock still says that somebody is there.
    hook::point("keeper.end.closed").ok();
    if let Err(error) = hosted.cgroups.remove() {
        let cause = error.to_string();
        hosted.log.error(&hosted.dir, "the box's control groups cannot be removed", &cause);
    }
    // Everything is on disk: only now may someone else write here.
    drop(lock);
    Ok(())
}

/// What whoever connects is told first.
fn greeting(start: &Start, log_end: u64) -> Hello {
    Hello {
        protocol: PROTOCOL,
        box_id: start.box_id,
        life: start.life,
        pid: rustix::process::getpid().as_raw_nonzero().get(),
        log_end,
        input_offset: 0,
        input_received: Some(0),
        input_writer: None,
        input_open: start.options.input || start.spec.io.pty_enabled,
        pinned: start.options.pin,
        unsaved_ending: None,
        execs: Some(Vec::new()),
        terminals: true,
    }
}

fn fail(hosted: &mut Hosted, peers: &mut Peers, error: &BirthError, log_end: u64) {
    let ending = Ending::start_failed(
        error.fault,
        &error.step,
        &error.message,
        error.errno,
        Timestamp::now(),
        Observer::Keeper,
    );
    save_and_tell(hosted, peers, None, &ending, log_end);
}
