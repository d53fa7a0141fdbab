//! Sections of a chore, with their durations.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Runs sections, goes on after one that failed, and says at the end which did.
#[derive(Debug, Default)]
pub(crate) struct Report {
    done: Vec<(String, Duration, Option<String>)>,
}

impl Report {
    /// Runs one section.
    pub(crate) fn section(&mut self, title: &str, body: impl FnOnce() -> Result<()>) {
        println!("\n== {title}");
        let start = Instant::now();
        let outcome = body();
        let took = start.elapsed();
        let error = outcome.err().map(|error| format!("{error:#}"));
        match &error {
            None => println!("-- {title}: ok, {:.1} s", took.as_secs_f64()),
            Some(error) => println!("-- {title}: FAILED, {:.1} s: {error}", took.as_secs_f64()),
        }
        self.done.push((title.to_owned(), took, error));
    }

    /// Whether every section so far went well.
    pub(crate) fn is_ok(&self) -> bool {
        self.done.iter().all(|(_, _, error)| error.is_none())
    }

    /// Prints what took how long.
    ///
    /// # Errors
    /// The sections that failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n== Summary");
        let mut failed = Vec::new();
        for (title, took, error) in &self.done {
            let word = if error.is_none() { "ok" } else { "FAILED" };
            println!("{word:>6}  {:>7.1} s  {title}", took.as_secs_f64());
            if error.is_some() {
                failed.push(title.as_str());
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(anyhow!("failed: {}", failed.join(", "))) }
    }
}
