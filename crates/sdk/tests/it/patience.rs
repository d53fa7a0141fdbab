//! How long a client waits for a daemon that is gone, or silent. The clock is the runtime's own, and
//! goes on whenever everybody waits.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use minimal_sdk::{CallError, Client, ConnectError, Connecting, Connector, LogQuery};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

use crate::daemon::box_id;

/// How long it takes to find out that no daemon can be started.
const FRUITLESS: Duration = Duration::from_secs(15);

/// There was a daemon, once.
#[derive(Debug)]
struct Gone(Mutex<Option<UnixStream>>);

impl Connector for Gone {
    fn connect(&self) -> Connecting<'_> {
        let first = self.0.lock().unwrap().take();
        Box::pin(async {
            match first {
                Some(stream) => Ok(stream),
                None => {
                    tokio::time::sleep(FRUITLESS).await;
                    Err(ConnectError::Absent {
                        path: PathBuf::from("/gone"),
                        source: std::io::ErrorKind::NotFound.into(),
                    })
                }
            }
        })
    }
}

/// A client whose daemon takes one request, says `answer`, and is gone after so long.
fn client(answer: &'static str, lives: Duration) -> Client {
    let (ours, mut its) = UnixStream::pair().unwrap();
    drop(tokio::spawn(async move {
        let mut request = [0; 4096];
        assert_ne!(its.read(&mut request).await.unwrap(), 0);
        its.write_all(answer.as_bytes()).await.unwrap();
        tokio::time::sleep(lives).await;
    }));
    Client::new(Arc::new(Gone(Mutex::new(Some(ours)))))
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_wait_gives_up_after_a_minute_however_long_it_takes_to_find_nobody() {
    let client = client("", SECOND);
    let begun = Instant::now();
    let error = client.wait(box_id(), None).await.unwrap_err();
    assert!(matches!(error, CallError::GaveUp { .. }), "{error:?}");
    assert!((60..80).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_with_a_limit_ends_with_it_whether_or_not_anybody_answers() {
    let stopped = client("", SECOND * 1_000);
    let begun = Instant::now();
    let error = stopped.wait(box_id(), Some(SECOND * 5)).await.unwrap_err();
    assert!(matches!(error, CallError::Silent { .. }), "{error:?}");
    assert!((5..12).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());

    let gone = client("", SECOND);
    let begun = Instant::now();
    let error = gone.wait(box_id(), Some(SECOND * 20)).await.unwrap_err();
    assert!(matches!(error, CallError::GaveUp { .. } | CallError::Silent { .. }), "{error:?}");
    assert!((20..30).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_read_for_long_gives_up_after_a_minute_all_the_same() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let client = client(HEAD, SECOND * 100);
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut log = client.log(box_id(), query).await.unwrap();
    let begun = Instant::now();
    let error = log.next().await.unwrap_err();
    assert!(matches!(error, CallError::GaveUp { .. }), "{error:?}");
    assert!((160..180).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}
