use std::sync::atomic::{AtomicU32, Ordering};

use super::fixtures::{fixtures, script};
use super::*;
use crate::conformance::{Fixtures, Kit, check, suite};

/// The fake, honest or lying.
struct FakeKit {
    lie: Option<Rule>,
    names: AtomicU32,
}

fn kit(lie: Option<Rule>) -> FakeKit {
    FakeKit { lie, names: AtomicU32::new(0) }
}

impl Kit for FakeKit {
    type Sandbox = FakeSandbox;

    async fn fresh(&self) -> FakeSandbox {
        self.lie.map_or_else(FakeSandbox::new, FakeSandbox::lying)
    }

    fn name(&self) -> String {
        format!("conformance-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    fn fixtures(&self) -> Fixtures {
        fixtures()
    }
}

#[tokio::test]
async fn the_fake_keeps_every_rule() {
    assert_eq!(suite(&kit(None)).await, []);
}

/// For each rule a provider that breaks it: the suite must name that rule.
#[tokio::test(start_paused = true)]
async fn every_liar_is_caught_by_the_rule_it_breaks() {
    for rule in Rule::ALL {
        let broken = check(&kit(Some(*rule)), *rule).await;
        assert!(broken.is_err(), "nobody sees that {rule:?} is broken");
    }
}

#[tokio::test]
async fn an_exit_0_for_a_lost_stream_is_named_as_that() {
    let broken = check(&kit(Some(Rule::LostIsNoExit)), Rule::LostIsNoExit).await.unwrap_err();
    assert_eq!(broken.to_string(), "LostIsNoExit is broken: a lost stream is told as exit 0");
}

#[tokio::test]
async fn an_instruction_that_nobody_knows_is_no_success() {
    let fake = FakeSandbox::new();
    let handle = fake.create("b").await.unwrap();
    let (_, code) = fake.exec(&handle, &script(&["fly"]), &ExecOptions::default()).await.unwrap();
    assert_eq!(code.get(), 127);
}
