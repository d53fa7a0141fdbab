//! A minute of everything at once, by a driver that knows what each command must return.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use minimal_testkit::{Dice, LIMIT, TestEnv, for_each_user, wait_until};

/// Says for how long, in seconds; without it, a minute.
const SECONDS: &str = "MIN_SOAK_SECONDS";
/// Says from which seed; without it, one of the clock's, which is printed.
const SEED: &str = "MIN_SOAK_SEED";

/// Clients at the same time.
const CLIENTS: u64 = 8;

/// One command and what it must return.
fn step(env: &TestEnv, dice: &mut Dice, name: &str) {
    let code = i32::try_from(dice.below(120)).unwrap();
    match dice.below(9) {
        0 => {
            let output = env.run_sh(&format!("echo {name}; exit {code}")).run();
            output.assert_code(code).assert_stdout(format!("{name}\n"));
        }
        1 => {
            let input: Vec<u8> = (0..dice.below(300_000)).flat_map(u64::to_le_bytes).collect();
            let output = env.run_sh(&format!("cat; exit {code}")).stdin(input.clone()).run();
            output.assert_code(code);
            assert!(output.stdout == input, "{name}: bytes differ");
        }
        2 => {
            let id = env.detached(&format!("echo {name}; exit {code}"));
            env.min(["wait", &id]).run().assert_code(code);
            assert_eq!(env.logs(&id), format!("{name}\n").as_bytes());
            env.min(["rm", &id]).run().assert_code(0);
        }
        3 => {
            env.run(["nosuch-program"]).run().assert_code(127);
        }
        4 => {
            let signal = ["TERM", "SEGV", "KILL", "USR1"][usize::try_from(dice.below(4)).unwrap()];
            let number: rustix::process::Signal = match signal {
                "TERM" => rustix::process::Signal::TERM,
                "SEGV" => rustix::process::Signal::SEGV,
                "KILL" => rustix::process::Signal::KILL,
                _ => rustix::process::Signal::USR1,
            };
            env.run_sh(&format!("kill -{signal} $$")).run().assert_code(128 + number.as_raw());
        }
        5 => {
            let output = env.min(["run", "--timeout", "100ms", "--", "sleep", "86621"]).run();
            output.assert_code(124);
        }
        6 => {
            let id = env.detached("sleep 86622");
            env.min(["stop", &id]).run().assert_code(0);
            env.min(["wait", &id]).run().assert_code(143);
        }
        7 => {
            let output = env.min(["run", "--rm", "--", "seq", "1", "20000"]).run();
            let expected: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
            output.assert_code(0).assert_stdout(expected);
        }
        _ => {
            env.min(["run", "-d", "--name", name, "--", "sleep", "86623"]).run().assert_code(0);
            env.min(["run", "--name", name, "--", "true"]).run().assert_code(2);
            env.min(["rm", "--force", name]).run().assert_code(0);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

for_each_user! {
    /// Eight clients, a daemon that is killed again and again, and nothing left over.
    fn a_minute_of_everything(env) {
        let seed = number(SEED).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) | 1
        });
        let length = Duration::from_secs(number(SECONDS).unwrap_or(60));
        eprintln!("seed {seed}: repeat with {SEED}={seed}");
        let (deadline, failed) = (Instant::now() + length, AtomicBool::new(false));
        let go_on = || Instant::now() < deadline && !failed.load(Ordering::Relaxed);
        let env = &*env;
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (go_on, failed) = (&go_on, &failed);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed.wrapping_add(client));
                    let run = std::panic::AssertUnwindSafe(|| {
                        for turn in 0.. {
                            if !go_on() {
                                return;
                            }
                            step(env, &mut dice, &format!("soak-{client}-{turn}"));
                        }
                    });
                    if let Err(panic) = std::panic::catch_unwind(run) {
                        failed.store(true, Ordering::Relaxed);
                        std::panic::resume_unwind(panic);
                    }
                });
            }
            let (go_on, dice) = (&go_on, &mut Dice::new(!seed));
            while go_on() {
                // Killed after a number of boxes, not of seconds, so that a slow machine kills less.
                let more = usize::try_from(1 + dice.below(20)).unwrap();
                let before = endings(env);
                wait_until("some boxes have ended", LIMIT, || {
                    if endings(env) >= before + more || !go_on() { Ok(()) } else { Err(endings(env)) }
                });
                if let Some(daemon) = env.daemon() {
                    daemon.kill();
                }
            }
        });
        wait_until("only the daemon's own processes are left", LIMIT, || {
            let left = env.find("sleep");
            let keepers = env.keepers();
            if left.is_empty() && keepers.is_empty() { Ok(()) } else { Err((left, keepers)) }
        });
        for record in env.boxes() {
            assert!(record["ending"].is_object(), "{record}");
            assert_ne!(record["ending"]["reason"], "lost", "{record}");
            assert_eq!(record["health"], "ok", "{record}");
        }
    }
}

/// How many box directories there are: what the disk says, with no daemon in between.
fn endings(env: &TestEnv) -> usize {
    std::fs::read_dir(env.state_dir().join("boxes")).into_iter().flatten().count()
}
