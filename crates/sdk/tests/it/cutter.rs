//! A relay that cuts connections off, as a daemon does that dies.

use std::path::PathBuf;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::random::Random;

/// Relays `listener` to the socket at `to`. Each connection ends once it has carried a number of
/// bytes, in both directions together, that the seed decides.
pub(crate) async fn cut(listener: UnixListener, to: PathBuf, seed: u64) {
    let mut random = Random(seed);
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let budget = match random.below(4) {
            // In the middle of a handshake, or before.
            0 => random.below(400),
            1 => random.below(4_000),
            2 => random.below(40_000),
            _ => random.below(400_000),
        };
        let server = UnixStream::connect(&to).await.unwrap();
        tokio::spawn(relay(client, server, budget));
    }
}

async fn relay(mut client: UnixStream, mut server: UnixStream, mut budget: usize) {
    let (mut up, mut down) = (vec![0; 8192], vec![0; 8192]);
    while budget > 0 {
        let (read, upwards) = tokio::select! {
            read = client.read(&mut up) => (read, true),
            read = server.read(&mut down) => (read, false),
        };
        let Ok(read @ 1..) = read else { return };
        let carried = read.min(budget);
        budget -= carried;
        let written = match upwards {
            true => server.write_all(&up[..carried]).await,
            false => client.write_all(&down[..carried]).await,
        };
        if written.is_err() {
            return;
        }
    }
}
