//! Figures taken many times.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rank among a few hundred values"
)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Values of one measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds a duration, in milliseconds.
    pub(crate) fn push_ms(&mut self, duration: Duration) {
        self.push(duration.as_secs_f64() * 1000.0);
    }

    /// The value below which this part of all lies (nearest rank); `None` without values.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (part * self.0.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }

    /// The median.
    pub(crate) fn p50(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// For the JSON file.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "n": self.0.len(),
            "min": self.quantile(0.0),
            "p50": self.p50(),
            "p95": self.quantile(0.95),
            "p99": self.quantile(0.99),
            "max": self.quantile(1.0),
        })
    }
}

/// How long something takes.
pub(crate) fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = body();
    (value, start.elapsed())
}
