//! `min run -- true` as a whole, with the daemon up.

use std::time::Duration;

use anyhow::Result;
use minimal_testkit::TestEnv;

use super::{min, ok};
use crate::peers::Peer;
use crate::samples::{Samples, timed};
use crate::table::Row;

const ROUNDS: usize = 150;
/// podman is slow enough that fewer say as much.
const SLOW_ROUNDS: usize = 12;

pub(crate) fn bench() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    ok(min(&env, &["run", "--", "true"]))?;
    let scratch = env.root().join("podman");
    let podman = Peer::podman(&scratch);
    let bwrap = Peer::bwrap();
    let peers: Vec<Peer> =
        [Some(Peer::plain()), Peer::unshare(), bwrap, podman].into_iter().flatten().collect();
    let mut ours = Samples::default();
    let mut with_leftovers = Samples::default();
    let mut beside: Vec<(&'static str, Samples)> =
        peers.iter().map(|peer| (peer.name, Samples::default())).collect();
    for round in 0..ROUNDS {
        let (outcome, took) = timed(|| ok(min(&env, &["run", "--", "true"])));
        outcome?;
        if round >= ROUNDS / 10 {
            ours.push_ms(took);
        }
        for (peer, (_, samples)) in peers.iter().zip(&mut beside) {
            if peer.name.starts_with("podman") && round % (ROUNDS / SLOW_ROUNDS) != 0 {
                continue;
            }
            let (outcome, took) = timed(|| peer.run(&["/usr/bin/true"]));
            outcome?;
            if round >= ROUNDS / 10 {
                samples.push_ms(took);
            }
        }
        if round % 5 == 0 {
            let script = "setsid sleep 1000 & sleep 1000 & exit 0";
            let (outcome, took) = timed(|| ok(min(&env, &["run", "--", "sh", "-c", script])));
            outcome?;
            with_leftovers.push_ms(took);
        }
    }
    let p50 = |name: &str| {
        beside
            .iter()
            .find(|(known, _)| known.starts_with(name))
            .and_then(|(_, samples)| samples.p50())
    };
    let met = ours.p50().map(|ours| {
        p50("bwrap").is_none_or(|bwrap| ours < bwrap)
            && p50("podman").is_none_or(|podman| ours * 20.0 <= podman)
    });
    let limit = Duration::from_millis(500).as_secs_f64() * 1000.0;
    let in_time = with_leftovers.quantile(1.0).map(|longest| longest <= limit);
    Ok(vec![
        Row {
            name: "min run -- true, whole, daemon up",
            unit: "ms",
            goal: "below bwrap, 20 x below podman:",
            ours,
            beside,
            met,
        },
        Row {
            name: "the same, leaving two children behind",
            unit: "ms",
            goal: "at most 500 ms:",
            ours: with_leftovers,
            beside: Vec::new(),
            met: in_time,
        },
    ])
}
