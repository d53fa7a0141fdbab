//! Tests of the command line as a whole.

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use std::fmt::Write as _;

use crate::args::{Cli, Command};
use crate::client;

#[test]
fn the_model_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_commands_own_options_stay_its_own() {
    let cli = read(&["run", "-q", "--", "ls", "-la", "--", "-o", "json"]);
    let Command::Run(args) = cli.command else { panic!("it is a run") };
    assert_eq!(args.argv, ["ls", "-la", "--", "-o", "json"]);
    assert!(args.is_command && cli.global.quiet);
    let Command::Run(args) = read(&["run", "--", "--", "x"]).command else { panic!("it is a run") };
    assert_eq!(args.argv, ["--", "x"]);
    assert!(args.is_command);
}

fn read(words: &[&str]) -> Cli {
    let words: Vec<_> = ["min"].iter().chain(words).map(Into::into).collect();
    Cli::read(&words).unwrap()
}

#[test]
fn what_is_behind_a_tasks_name_is_the_tasks() {
    for name in ["test", "help", "run"] {
        let words = [name, "--filter", "x y", "-q", "--detach", "--", "-o", "json", "--help"];
        let line = ["run", "-d", "--ram", "64MiB"].into_iter().chain(words);
        let cli = read(&line.collect::<Vec<_>>());
        let Command::Run(args) = cli.command else { panic!("it is a run") };
        assert_eq!(args.argv, words);
        assert!(args.detach && !cli.global.quiet && !args.is_command);
    }
}

#[test]
fn a_command_in_a_box_is_written_with_or_without_dashes() {
    let exec = |words: &[&str]| {
        let words = ["min", "exec"].iter().chain(words);
        let Command::Exec(args) = Cli::try_parse_from(words).unwrap().command else { panic!() };
        (args.address, args.workdir, args.detach, args.argv)
    };
    let ls = || (String::from("web"), Some("/tmp".into()), false, vec!["ls".into(), "-d".into()]);
    assert_eq!(exec(&["web", "-w", "/tmp", "--", "ls", "-d"]), ls());
    assert_eq!(exec(&["-w", "/tmp", "web", "ls", "-d"]), ls());
    assert_eq!(exec(&["web", "-w", "/tmp", "ls", "-d"]), ls());
    let (_, _, detach, argv) = exec(&["-d", "web", "--", "sh", "-c", "x", "--", "-d"]);
    assert!(detach);
    assert_eq!(argv, ["sh", "-c", "x", "--", "-d"]);
}

/// Every command with what it does, as a person sees them.
fn tree(command: &clap::Command, depth: usize, text: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let name = format!("{}{}", "  ".repeat(depth), command.get_name());
    writeln!(text, "{name:<14} {about}").unwrap();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in shown.filter(|verb| verb.get_name() != "help") {
        tree(verb, depth + 1, text);
    }
}

#[test]
fn the_tree_of_commands() {
    let mut text = String::new();
    tree(&Cli::command(), 0, &mut text);
    insta::assert_snapshot!(text, @r"
    min            Runs commands in isolated boxes that outlive whoever started them, and tells how they ended
      run          Run a task, or any command, in a fresh box
      exec         Run a command in a box that runs
      shell        Show a session of this project in this terminal: the one that runs, or a new one
      attach       Watch a box's output, from its beginning to its end, and write its input
      ls           List boxes of this project, newest first
      show         Show the record of a box, or of an exec in it
      logs         Print what a box has printed
      wait         Wait until boxes have ended, and return the worst status
      events       Print what has happened to a box
      stop         End boxes: TERM to every process, then KILL
      kill         Send one signal to the command of boxes
      pause        Have everything in boxes stand still
      unpause      Have paused boxes go on
      rm           Remove boxes: their records, logs and files
      box          Everything about boxes
        start      Start a service, or any command, in a box that runs until it is stopped, and print its id
        run        Run a task, or any command, in a fresh box
        exec       Run a command in a box that runs
        attach     Watch a box's output, from its beginning to its end, and write its input
        list       List boxes of this project, newest first
        execs      List what was run in a box with `min exec`, newest first
        show       Show the record of a box, or of an exec in it
        logs       Print what a box has printed
        spec       Print the spec of an entry as it would be run, or of a box as it was made
        wait       Wait until boxes have ended, and return the worst status
        events     Print what has happened to a box
        stop       End boxes: TERM to every process, then KILL
        kill       Send one signal to the command of boxes
        pause      Have everything in boxes stand still
        unpause    Have paused boxes go on
        resume     Begin a further life of boxes that have ended, with the files they had
        rm         Remove boxes: their records, logs and files
      task         Tasks of the project
        run        Run a task in a fresh box
        list       List the tasks that the project declares
        logs       Print what a box has printed
        wait       Wait until boxes have ended, and return the worst status
        stop       End boxes: TERM to every process, then KILL
        rm         Remove boxes: their records, logs and files
      type         Types of boxes
        list       List types of boxes, and where each is defined
        show       Show what a type defaults to and what it allows
      init         Write a minimal.toml for the project, or add an entry to the one there is
      host         The daemon and its machine
        show       Show the daemon, its boxes by state, and whether it can isolate
        stop       Stop the daemon; boxes run on
      runner       Serve this machine's boxes to a hub that it dials
        connect    Dial a hub and serve it, again and again, until a signal ends it; what runs here runs on
        install    Write a systemd unit that runs `connect`
        status     Show the runners of this machine
      doctor       Check what this host can and cannot isolate, each with what to do
      version      Print the version and build of this program and of the daemon
      completions  Print a completion script for a shell
    ");
}

/// What is wrong with a command line, as clap says it.
fn mistake(words: &[&str]) -> String {
    let error = Cli::try_parse_from(words).unwrap_err();
    let (message, hint) = client::split(&error.render().to_string());
    format!("{message}\n{}", hint.unwrap_or_default())
}

#[test]
fn mistakes_say_what_is_wrong() {
    let mistakes = [
        &["min", "nosuch"][..],
        &["min", "sto", "x"],
        &["min", "show"],
        &["min", "ls", "--state", "over"],
        &["min", "run", "--timeout", "10", "--", "x"],
        &["min", "run", "--timeout=-1s", "--", "x"],
        &["min", "run", "--name", "Web", "--", "x"],
        &["min", "kill", "-s", "NOSUCH", "x"],
        &["min", "logs", "--since", "yesterday", "x"],
        &["min", "stop", "--force", "--grace", "1s", "x"],
        &["min", "wait", ""],
    ];
    let text = mistakes.map(|words| format!("{}\n{}", words.join(" "), mistake(words)));
    insta::assert_snapshot!(text.join("\n"), @r"
    min nosuch
    unrecognized subcommand 'nosuch'
    usage: min [OPTIONS] <COMMAND>
    min sto x
    unrecognized subcommand 'sto'
    some similar subcommands exist: 'show', 'stop'
    min show
    the following required arguments were not provided: <BOX>
    usage: min show <BOX>
    min ls --state over
    invalid value 'over' for '--state <STATE>': no such state: one of created, pending, materializing, running, exited, stopped, failed

    min run --timeout 10 -- x
    invalid value '10' for '--timeout <DURATION>': `10` has no unit: write 10s for seconds, 10ms for milliseconds, 10m for minutes

    min run --timeout=-1s -- x
    invalid value '-1s' for '--timeout <DURATION>': `-1s` is negative: a duration must be longer than nothing

    min run --name Web -- x
    invalid value 'Web' for '--name <NAME>': `Web` cannot name a box: only lower-case letters, digits and hyphens are allowed

    min kill -s NOSUCH x
    invalid value 'NOSUCH' for '--signal <SIGNAL>': `NOSUCH` is not a signal: give a name such as TERM, or a number from 1 to 64

    min logs --since yesterday x
    invalid value 'yesterday' for '--since <TIME|DURATION>': neither a time such as 2026-01-02T03:04:05Z, nor: `yesterday` is not a duration: write a number and a unit, as in 500ms, 20s, 1h30m

    min stop --force --grace 1s x
    the argument '--force' cannot be used with '--grace <DURATION>'
    usage: min stop --force <BOX>...
    min wait 
    invalid value '' for '<BOX>...': a box has no empty name
    ");
}

/// What is told to be run can be run: every `min …` in a message of any crate is parsed.
#[test]
fn no_hint_names_a_command_that_does_not_exist() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut checked = 0;
    for krate in std::fs::read_dir(crates).unwrap() {
        let source = krate.unwrap().path().join("src");
        for_each_source(&source, &mut |path, text| {
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for hint in hints(line) {
                    let words = words(hint);
                    match Cli::try_parse_from(&words) {
                        Ok(_) => {}
                        // A command that is only named is there, too.
                        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {}
                        Err(error) if error.kind() == ErrorKind::DisplayHelp => {}
                        Err(error) => panic!("{}: `{hint}`: {error}", path.display()),
                    }
                    checked += 1;
                }
            }
        });
    }
    assert!(checked > 10, "{checked} hints were found");
    assert!(Cli::try_parse_from(words("min box rm x")).is_ok(), "the line about a kept box");
}

fn for_each_source(directory: &std::path::Path, each: &mut impl FnMut(&std::path::Path, &str)) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_tests = path.file_name().is_some_and(|name| name == "tests.rs" || name == "tests");
        if path.is_dir() && !is_tests {
            for_each_source(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tests {
            each(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn hints(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("min "))
}

/// Places to fill in become a word.
fn words(hint: &str) -> Vec<String> {
    hint.split_whitespace()
        .map(|word| if word.contains(['{', '<', '…']) { "x".to_owned() } else { word.to_owned() })
        .collect()
}
