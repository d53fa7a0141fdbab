//! Ways to our own processes, from a box they are in.

use std::fs;

use minimal_testkit::hooks::Held;
use minimal_testkit::{
    Account, LIMIT, Output, Running, TestEnv, for_each_kind_of_user, need, wait_until,
};

use super::{attack, strongest, take_down};

/// Where the entrypoint's process is last before it executes its program.
const INSIDE: &str = "keeper.birth.inside";

/// Perl for the pid of the process in the box that is neither its init nor the one that asks.
const OTHER: &str = "opendir(my $proc, '/proc'); my ($p) = grep { /^\\d+$/ && $_ > 1 && $_ != $$ } readdir $proc; $p += 0;";

/// Looks into process `$p`, and says what it saw.
fn look_script(process: &str) -> String {
    // ptrace(2) has a number on each machine; PTRACE_SEIZE stops nothing.
    let ptrace = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
    format!(
        r#"{process} my @saw;
push @saw, "exe" if defined readlink "/proc/$p/exe";
push @saw, "memory" if open(my $m, "<", "/proc/$p/mem");
push @saw, "environment" if open(my $e, "<", "/proc/$p/environ");
push @saw, "descriptors" if grep {{ defined readlink "/proc/$p/fd/$_" }} 0 .. 99;
push @saw, "root" if opendir(my $r, "/proc/$p/root/");
push @saw, "trace" if syscall({ptrace}, 0x4206, $p, 0, 0) == 0;
print "@saw\n";"#
    )
}

const EVERYTHING: &str = "exe memory environment descriptors root trace\n";

/// Where an exec's process is last before it executes its program.
const EXEC_INSIDE: &str = "keeper.exec.inside";

/// Perl for the pid of the newest process in the box but the one that asks.
const NEWEST: &str = "opendir(my $proc, '/proc'); my ($p) = sort { $b <=> $a } grep { /^\\d+$/ && $_ > 1 && $_ != $$ } readdir $proc; $p += 0;";

/// An exec that waits where it has become one of the box's processes.
struct WaitingExec {
    held: Held,
    run: Running,
}

impl WaitingExec {
    fn new(env: &TestEnv, id: &str) -> Self {
        let before = env.hooks().hits().iter().filter(|hit| *hit == EXEC_INSIDE).count();
        let pause = env.hooks().pause(EXEC_INSIDE);
        let run = env.min(["exec", id, "--", "echo", "up"]).spawn();
        let held = pause.reached();
        wait_until("it is inside", LIMIT, || {
            let hits = env.hooks().hits();
            if hits.iter().filter(|hit| *hit == EXEC_INSIDE).count() > before {
                Ok(())
            } else {
                Err(hits)
            }
        });
        Self { held, run }
    }
}

/// A box whose entrypoint's process waits where it has become one of the box's.
struct Waiting {
    held: Held,
    run: Running,
}

impl Waiting {
    fn new(env: &TestEnv) -> Self {
        let before = env.hooks().hits().iter().filter(|hit| *hit == INSIDE).count();
        let pause = env.hooks().pause(INSIDE);
        let run = env.run(["echo", "up"]).spawn();
        let held = pause.reached();
        wait_until("it is inside", LIMIT, || {
            let hits = env.hooks().hits();
            if hits.iter().filter(|hit| *hit == INSIDE).count() > before {
                Ok(())
            } else {
                Err(hits)
            }
        });
        Self { held, run }
    }

    /// Runs perl in its box, beside it, as the box's user: what could be there already.
    fn perl(&self, env: &TestEnv, script: &str) -> Output {
        let init = env.wait_for_process("min-init").pid.to_string();
        let enter = ["-t", &init, "-U", "-m", "-p", "-S", "1000", "-G", "1000"];
        let args = enter.into_iter().chain(["perl", "-e", script]);
        env.command("/usr/bin/nsenter".as_ref(), args).cwd("/").account(Account::current()).run()
    }
}

for_each_kind_of_user! {
    /// The first process of the box.
    fn init(env) {
        let user = strongest(env);
        let script = look_script("my $p = 1;");
        let look = |env: &TestEnv| env.min(["run", "-u", user, "--", "perl", "-e", &script]).run();
        let (up, down) = attack(env, &["hidden"], look);
        up.assert_code(0).assert_stdout("\n");
        down.assert_code(0).assert_stdout(EVERYTHING);
    }

    /// What will be the entrypoint, and is ours until then.
    fn joiner(env) {
        if !need::root() {
            return;
        }
        let look = |env: &TestEnv| {
            let waiting = Waiting::new(env);
            let saw = waiting.perl(env, &look_script(OTHER));
            waiting.held.release();
            waiting.run.wait().assert_code(0).assert_stdout("up\n");
            saw
        };
        let (up, down) = attack(env, &["hidden"], look);
        up.assert_code(0).assert_stdout("\n");
        down.assert_code(0).assert_stdout(EVERYTHING);
    }

    /// Killed or stopped from within the box before it executes: a start that failed, at once.
    fn joiner_killed_or_stopped(env) {
        if !need::root() {
            return;
        }
        for (signal, what) in [("KILL", "killed"), ("STOP", "stopped")] {
            let waiting = Waiting::new(env);
            // Its own status says nothing: it goes with the box.
            waiting.perl(env, &format!("{OTHER} $p && kill('{signal}', $p)"));
            let output = waiting.run.wait();
            output.assert_code(125).assert_stdout("");
            output.assert_stderr_has(what);
            let ending = env.newest()["ending"].clone();
            assert_eq!(ending["reason"], "start_failed", "{ending}");
            drop(waiting.held);
        }
        env.run(["echo", "up"]).run().assert_code(0).assert_stdout("up\n");
    }

    /// What will be an exec, and is ours until then; from the box that it enters, by its strongest user.
    fn exec_joiner(env) {
        let user = strongest(env);
        let look = |env: &TestEnv| {
            let id = env.min(["run", "-d", "-u", user, "--", "sleep", "86580"]).run().word().to_owned();
            let waiting = WaitingExec::new(env, &id);
            let script = look_script(NEWEST);
            let saw = env.min(["exec", &id, "--", "perl", "-e", &script]).run();
            waiting.held.release();
            waiting.run.wait().assert_code(0).assert_stdout("up\n");
            saw
        };
        let (up, down) = attack(env, &["hidden"], look);
        up.assert_code(0).assert_stdout("\n");
        down.assert_code(0).assert_stdout(EVERYTHING);
    }

    /// Killed or stopped from within the box before it executes: a start that failed, at once, and
    /// nobody else's.
    fn exec_joiner_killed_or_stopped(env) {
        let id = env.detached("exec sleep 86580");
        for (signal, what) in [("KILL", "killed"), ("STOP", "stopped")] {
            let waiting = WaitingExec::new(env, &id);
            let script = format!("{NEWEST} $p && kill('{signal}', $p)");
            env.min(["exec", &id, "--", "perl", "-e", &script]).run().assert_code(0);
            let output = waiting.run.wait();
            output.assert_code(125).assert_stdout("");
            output.assert_stderr_has(what);
            drop(waiting.held);
        }
        env.min(["exec", &id, "--", "echo", "up"]).run().assert_code(0).assert_stdout("up\n");
    }

    /// Our executable, where its owner is somebody in a box.
    fn executable(env) {
        let user = strongest(env);
        env.stop_all();
        if env.account().is_root() {
            // The host's root is nobody in a box.
            return;
        }
        let own = env.file("min", fs::read(env.program()).unwrap());
        let mode = |mode: u32| fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(mode));
        let now = || std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&own).unwrap().permissions()) & 0o7777;
        mode(0o755).unwrap();
        let change = |env: &TestEnv| {
            let script = "chmod(0700, '/proc/1/exe') == 1 or exit 3";
            let output = env.min(["run", "-u", user, "--", "perl", "-e", script]).program(&own).run();
            env.stop_all();
            (output.code(), now())
        };
        assert_eq!(change(env), (Some(3), 0o755));
        take_down(env, &["hidden"]);
        assert_eq!(change(env), (Some(3), 0o755), "it is read-only");
        take_down(env, &["own_executable"]);
        assert_eq!(change(env), (Some(0), 0o700));
        fs::remove_file(&own).unwrap();
    }

    /// Nothing is open but the three streams.
    fn inherited(env) {
        let script = "opendir(my $d, '/proc/self/fd'); my $own = fileno($d); \
                      my @more = grep { /^\\d+$/ && $_ > 2 && $_ != $own } readdir $d; \
                      print scalar(@more) ? \"in\\n\" : \"\"";
        let count = |env: &TestEnv| env.run(["perl", "-e", script]).run();
        let (up, down) = attack(env, &["descriptors"], count);
        up.assert_code(0).assert_stdout("");
        down.assert_code(0).assert_stdout("in\n");
    }
}
