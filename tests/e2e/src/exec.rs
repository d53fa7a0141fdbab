//! Running commands in a box, for scenarios.

use minimal_testkit::{Min, Output, TestEnv};
use serde_json::Value;

/// A box, and what is run in it.
#[derive(Clone, Copy, Debug)]
pub struct Execs<'a> {
    env: &'a TestEnv,
    /// The box.
    pub id: &'a str,
}

impl<'a> Execs<'a> {
    /// In this box.
    #[must_use]
    pub fn of(env: &'a TestEnv, id: &'a str) -> Self {
        Self { env, id }
    }

    /// A shell line, attached.
    #[must_use]
    pub fn sh(&self, script: &str) -> Min {
        self.env.min(["exec", self.id, "--", "sh", "-c", script])
    }

    /// A shell line, detached: its id.
    #[must_use]
    pub fn detached(&self, script: &str) -> String {
        let output = self.env.min(["exec", "-d", self.id, "--", "sh", "-c", script]).run();
        output.assert_code(0).word().to_owned()
    }

    /// What a verb says of an exec.
    #[must_use]
    pub fn verb(&self, verb: &str, exec: &str) -> Output {
        self.env.min([verb, self.id, "--exec", exec]).run()
    }

    /// The record of an exec.
    #[must_use]
    pub fn show(&self, exec: &str) -> Value {
        self.env.min(["show", "-o", "json", self.id, "--exec", exec]).run().json()
    }

    /// Every record, newest first.
    #[must_use]
    pub fn all(&self) -> Vec<Value> {
        let output = self.env.min(["box", "execs", "-a", "-o", "json", self.id]).run();
        output.json()["execs"].as_array().cloned().unwrap_or_default()
    }
}
