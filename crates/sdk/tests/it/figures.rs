//! A measurement, not a test: `cargo test --release -p minimal-sdk -- --ignored --nocapture`.

use std::time::Instant;

use minimal_proto::stream::Stream;
use minimal_sdk::{AttachOptions, StreamEvent};

use crate::attach::client;
use crate::daemon::{Daemon, Manner, box_id};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints a figure; both ends run in this process"]
async fn output_per_second() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, path) = Daemon::start(root.path(), Manner::Proper);
    let total = 1 << 30;
    for _ in 0..total >> 18 {
        daemon.print(Stream::Stdout, vec![b'x'; 256 << 10]);
    }
    daemon.finish();
    let options = AttachOptions { pin: true, ..Default::default() };
    let (mut stream, handle) = client(&path).attach(box_id(), options).await.unwrap();
    let start = Instant::now();
    let mut bytes_read = 0;
    loop {
        match stream.next().await.unwrap() {
            StreamEvent::Output { offset, bytes, .. } => {
                bytes_read += bytes.len();
                handle.read(offset + bytes.len() as u64);
            }
            StreamEvent::Exited(_) => break,
            _ => {}
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(bytes_read, total);
    println!("{:.0} MB/s", f64::from(u32::try_from(total >> 10).unwrap()) * 1.024e-3 / seconds);
}
