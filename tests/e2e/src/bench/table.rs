//! What comes out.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::samples::Samples;

/// One measured thing: ours, and what stands beside it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) name: &'static str,
    /// In what unit.
    pub(crate) unit: &'static str,
    /// What is wanted, in words.
    pub(crate) goal: &'static str,
    /// Ours.
    pub(crate) ours: Samples,
    /// Floors and peers, by name.
    pub(crate) beside: Vec<(&'static str, Samples)>,
    /// Whether the goal is met; `None` where no goal is set or nothing to compare with was there.
    pub(crate) met: Option<bool>,
}

/// Prints the table.
pub(crate) fn print(rows: &[Row]) {
    let shown =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    println!("\n{:<44} {:>10} {:>10} {:>6}  goal", "", "p50", "p95", "unit");
    for row in rows {
        let word = match row.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        println!(
            "{:<44} {:>10} {:>10} {:>6}  {} {word}",
            row.name,
            shown(row.ours.p50()),
            shown(row.ours.quantile(0.95)),
            row.unit,
            row.goal,
        );
        for (name, samples) in &row.beside {
            let ratio = samples.p50().zip(row.ours.p50()).map(|(other, ours)| ours / other);
            println!(
                "{:<44} {:>10} {:>10} {:>6}  ours is {} x",
                format!("    {name}"),
                shown(samples.p50()),
                shown(samples.quantile(0.95)),
                row.unit,
                shown(ratio),
            );
        }
    }
}

/// Writes the same, and more, to the file that `MIN_BENCH_JSON` names.
pub(crate) fn write_json(rows: &[Row]) -> Result<()> {
    let Some(path) = std::env::var_os("MIN_BENCH_JSON") else { return Ok(()) };
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let beside: Vec<Value> = row
                .beside
                .iter()
                .map(|(name, samples)| {
                    let ratio = samples.p50().zip(row.ours.p50()).map(|(other, ours)| ours / other);
                    json!({ "name": name, "samples": samples.to_json(), "ours_to_this": ratio })
                })
                .collect();
            json!({
                "name": row.name,
                "unit": row.unit,
                "goal": row.goal,
                "met": row.met,
                "ours": row.ours.to_json(),
                "beside": beside,
            })
        })
        .collect();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let all = json!({
        "schema": "min/v1/bench",
        "machine": { "kernel": kernel.trim(), "cores": cores, "uid": rustix::process::geteuid().as_raw() },
        "rows": rows,
    });
    let text = serde_json::to_string_pretty(&all)?;
    std::fs::write(&path, text + "\n").with_context(|| format!("write {}", path.display()))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}
