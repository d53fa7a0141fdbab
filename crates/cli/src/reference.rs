//! Pages of `docs/reference` that are written from the code.

use std::fmt::Write as _;

use clap::{Arg, CommandFactory as _};
use minimal_proto::ErrorCode;

use crate::args::Cli;
use crate::exit;

const HEAD: &str = "<!-- Written by `cargo xtask gen`; do not edit. -->\n\n";

/// `docs/reference/cli.md`: every command, from the model that parses them.
#[must_use]
pub fn reference() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = format!("{HEAD}# `min`\n\n");
    push_about(&mut page, &root);
    page.push_str(
        "A noun and a verb, with shortcuts for what is used daily. Standard output is data; standard \
         error is talk. A box is called by its name, its id, or at least six digits of an id's \
         beginning or end; listings show the last eight.\n\n",
    );
    push_options(&mut page, "Options of every command", root.get_arguments());
    for command in root.get_subcommands() {
        push_command(&mut page, command, "min");
    }
    page.push_str("## Environment\n\n| variable | |\n|---|---|\n");
    for (variable, meaning) in ENVIRONMENT {
        row(&mut page, &[&format!("`{variable}`"), meaning]);
    }
    page.push_str("\nExit statuses are on [the page of errors](errors.md).\n");
    page
}

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "MINIMAL_STATE_DIR",
        "where all state is; without it `/var/lib/minimal` for root, else `$XDG_STATE_HOME/minimal` or `~/.local/state/minimal`",
    ),
    ("MINIMAL_SOCKET", "the daemon's socket; without it `minimald.sock` in the state directory"),
    ("NO_COLOR", "no colour, unless `--color always`"),
];

/// `docs/reference/errors.md`: codes of errors, exit statuses.
#[must_use]
pub fn errors_reference() -> String {
    let mut page = format!("{HEAD}# Exit statuses and error codes\n\n");
    page.push_str("## Exit statuses\n\n| status | meaning |\n|---|---|\n");
    for (status, meaning) in exit::TABLE {
        row(&mut page, &[status, meaning]);
    }
    page.push_str(
        "\n`run`, `exec`, `wait` and `attach` return what the ending says. Before anything runs, `run` and `exec` \
         use 2 to 8 and 125 for faults of their own, and the message says that nothing was run. A command can return \
         any of these numbers itself: `--ending-file` and `--ending-fd` tell the two apart.\n\n\
         ## Error codes\n\n\
         With `-o json` or `-o jsonl` an error is one object on standard error, schema `min/v1/error`: \
         `schema, code, message, hint, details`. Codes are stable; messages and hints are for people and \
         may change.\n\n\
         | code | HTTP | exit status | again | meaning |\n|---|---|---|---|---|\n",
    );
    for code in ErrorCode::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        row(
            &mut page,
            &[
                &format!("`{code}`"),
                &code.http_status().to_string(),
                &code.exit_status().to_string(),
                again,
                code.meaning(),
            ],
        );
    }
    page.push_str("\n\"Again\": the same request may succeed later without a change.\n");
    page
}

fn push_command(page: &mut String, command: &clap::Command, parent: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    write!(page, "## `{name}`\n\n").expect("a String takes all");
    push_about(page, command);
    let aliases: Vec<_> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        write!(page, "Also called {}.\n\n", aliases.join(", ")).expect("a String takes all");
    }
    if command.has_subcommands() {
        push_verbs(page, command, &name);
        return;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    write!(page, "```text\n{usage}\n```\n\n").expect("a String takes all");
    let own = command.get_arguments().filter(|argument| !argument.is_global_set());
    push_options(page, "argument", own);
}

/// The verbs of a noun. One that has a shortcut is described there.
fn push_verbs(page: &mut String, noun: &clap::Command, name: &str) {
    let root = Cli::command();
    let root_name = root.get_name();
    let shortcut = |verb: &clap::Command| {
        let called = std::iter::once(verb.get_name()).chain(verb.get_visible_aliases());
        let mut called = called.filter_map(|called| root.find_subcommand(called));
        called.next().map(clap::Command::get_name)
    };
    let verbs = || noun.get_subcommands().filter(|verb| verb.get_name() != "help");
    // What a shortcut of the same name does is described there; `show` of something else is not it.
    let is_short = |verb: &clap::Command| {
        let same = shortcut(verb).and_then(|short| root.find_subcommand(short));
        same.filter(|same| is_alike(same, verb)).map(clap::Command::get_name)
    };
    if verbs().any(|verb| is_short(verb).is_some()) {
        page.push_str("| verb | the same as |\n|---|---|\n");
        for verb in verbs() {
            if let Some(short) = is_short(verb) {
                row(
                    page,
                    &[&format!("`{name} {}`", verb.get_name()), &format!("`{root_name} {short}`")],
                );
            }
        }
        page.push('\n');
    }
    for verb in verbs().filter(|verb| is_short(verb).is_none()) {
        push_command(page, verb, name);
    }
}

/// Whether two commands take the same arguments.
fn is_alike(one: &clap::Command, other: &clap::Command) -> bool {
    let own = |command: &clap::Command| {
        let arguments = command
            .get_arguments()
            .filter(|argument| !argument.is_global_set() && argument.get_id() != "help");
        arguments.map(|argument| argument.get_id().to_string()).collect::<Vec<_>>()
    };
    own(one) == own(other)
}

fn push_about(page: &mut String, command: &clap::Command) {
    if let Some(about) = command.get_about() {
        let about = about.to_string();
        let end = if about.ends_with('.') { "" } else { "." };
        write!(page, "{about}{end}\n\n").expect("a String takes all");
    }
}

fn push_options<'a>(page: &mut String, title: &str, arguments: impl Iterator<Item = &'a Arg>) {
    let shown: Vec<&Arg> = arguments
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    if shown.is_empty() {
        return;
    }
    write!(page, "| {title} | |\n|---|---|\n").expect("a String takes all");
    for argument in shown {
        row(page, &[&spelling(argument), &meaning(argument)]);
    }
    page.push('\n');
}

fn spelling(argument: &Arg) -> String {
    let mut names: Vec<String> = Vec::new();
    names.extend(argument.get_short().map(|short| format!("-{short}")));
    names.extend(argument.get_long().map(|long| format!("--{long}")));
    let mut text = names.join(", ");
    if argument.get_action().takes_values() {
        for value in argument.get_value_names().unwrap_or_default() {
            let value =
                if argument.is_positional() { format!("<{value}>") } else { value.to_string() };
            text = format!("{text} {value}").trim_start().to_owned();
        }
    }
    format!("`{}`", text.replace('|', "\\|"))
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> = argument
        .get_possible_values()
        .iter()
        .filter(|_| argument.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        write!(text, ": {}", values.join(", ")).expect("a String takes all");
    }
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .filter(|_| argument.get_action().takes_values() && !argument.is_hide_default_value_set())
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !defaults.is_empty() {
        write!(text, " (without it {})", defaults.join(", ")).expect("a String takes all");
    }
    text
}

fn row(page: &mut String, cells: &[&str]) {
    writeln!(page, "| {} |", cells.join(" | ")).expect("a String takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a page with the file that is checked in; `MIN_UPDATE=1` writes it instead.
    fn compare(name: &str, page: &str) {
        let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("MIN_UPDATE").is_some() {
            std::fs::write(&path, page).unwrap();
        }
        let held = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            held == page,
            "docs/reference/{name} is not what the code says: run `cargo xtask gen`"
        );
    }

    #[test]
    fn generated_cli_reference() {
        compare("cli.md", &reference());
    }

    #[test]
    fn generated_errors_reference() {
        compare("errors.md", &errors_reference());
    }
}
