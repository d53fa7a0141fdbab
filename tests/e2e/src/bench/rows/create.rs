//! From the request to the first byte of output, through the API.

use std::time::{Duration, Instant};

use anyhow::Result;
use minimal_proto::Spec;
use minimal_proto::api::{CreateBox, StartOptions};
use minimal_sdk::{AttachOptions, Client};
use minimal_testkit::TestEnv;

use super::{client, first_output, min, ok};
use crate::peers::Peer;
use crate::samples::Samples;
use crate::table::Row;

const ROUNDS: usize = 200;
const ECHO: [&str; 2] = ["/usr/bin/echo", "x"];

/// One box: how long until its first byte. It is read to its end, so that nothing of it falls into
/// the next round.
async fn first_byte(client: &Client) -> Result<Duration> {
    let create = CreateBox {
        digest: None,
        spec: Spec::task(ECHO.map(Into::into).into()),
        values: std::collections::BTreeMap::new(),
        start: StartOptions::default(),
    };
    let start = Instant::now();
    let record = client.create(&create, uuid::Uuid::now_v7()).await?;
    let (stream, _handle) = client.attach(record.id, AttachOptions::default()).await?;
    first_output(stream, start).await
}

pub(crate) fn bench() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    ok(min(&env, &["run", "--", "true"]))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = client(&env);
    let peers: Vec<Peer> =
        [Some(Peer::plain()), Peer::unshare(), Peer::bwrap()].into_iter().flatten().collect();
    let mut ours = Samples::default();
    let mut beside: Vec<(&'static str, Samples)> =
        peers.iter().map(|peer| (peer.name, Samples::default())).collect();
    for round in 0..ROUNDS {
        let took = runtime.block_on(first_byte(&client))?;
        for (peer, (_, samples)) in peers.iter().zip(&mut beside) {
            let start = Instant::now();
            let mut until = start;
            peer.first_byte(&ECHO, || until = Instant::now())?;
            // The first rounds warm caches up.
            if round >= ROUNDS / 10 {
                samples.push_ms(until - start);
            }
        }
        if round >= ROUNDS / 10 {
            ours.push_ms(took);
        }
    }
    let met = ours.p50().map(|p50| p50 <= 3.0);
    Ok(vec![Row {
        name: "API create to first output byte, warm",
        unit: "ms",
        goal: "p50 at most 3 ms:",
        ours,
        beside,
        met,
    }])
}
