//! `min run -- true` when nothing runs yet: daemon, nursery and box.

use anyhow::Result;
use minimal_testkit::TestEnv;

use super::{min, ok};
use crate::samples::{Samples, timed};
use crate::table::Row;

const ROUNDS: usize = 20;

pub(crate) fn bench() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    let (mut cold, mut warm) = (Samples::default(), Samples::default());
    for round in 0..ROUNDS {
        let (outcome, took) = timed(|| ok(min(&env, &["run", "--", "true"])));
        outcome?;
        let (outcome, again) = timed(|| ok(min(&env, &["run", "--", "true"])));
        outcome?;
        if round > 0 {
            cold.push_ms(took);
            warm.push_ms(again);
        }
        env.stop_all();
    }
    Ok(vec![Row {
        name: "min run -- true, whole, no daemon yet",
        unit: "ms",
        goal: "",
        ours: cold,
        beside: vec![("the second run", warm)],
        met: None,
    }])
}
