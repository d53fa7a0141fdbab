//! `min completions`

use std::fmt::Write as _;

use clap::CommandFactory as _;
use clap_complete::generate;

use crate::args::{Cli, Shell};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// The commands whose arguments are boxes.
const OF_BOXES: [&str; 11] =
    ["exec", "attach", "show", "logs", "wait", "events", "stop", "kill", "pause", "unpause", "rm"];

/// Prints a script that completes commands, options and the names of boxes.
pub(super) fn run(context: &Context, shell: Shell) -> Result<Exit, Failure> {
    context.printer.data(script(shell).as_bytes())?;
    Ok(Exit::Done)
}

fn script(shell: Shell) -> String {
    let (generator, with_boxes): (_, fn(&str) -> String) = match shell {
        Shell::Bash => (clap_complete::Shell::Bash, bash),
        Shell::Zsh => (clap_complete::Shell::Zsh, zsh),
        Shell::Fish => (clap_complete::Shell::Fish, fish),
    };
    let mut script = Vec::new();
    generate(generator, &mut Cli::command(), "min", &mut script);
    with_boxes(&String::from_utf8(script).expect("what is generated of our own words is text"))
}

/// Names are added to what the generated function offers.
fn bash(script: &str) -> String {
    let verbs = OF_BOXES.join("|");
    format!(
        r#"{script}
_min_tasks() {{
    local at=1 word task=""
    while [[ "${{COMP_WORDS[at]}}" != run ]]; do at=$((at + 1)); done
    for word in "${{COMP_WORDS[@]:at+1:COMP_CWORD-at-1}}"; do
        [[ "$word" == -- ]] && return 0
        [[ -z "$task" && "$word" != -* ]] && task="$word"
    done
    local cur="${{COMP_WORDS[COMP_CWORD]}}"
    if [[ -z "$task" ]]; then
        COMPREPLY+=( $(compgen -W "$("${{COMP_WORDS[0]}}" __tasks 2>/dev/null)" -- "$cur") )
    else
        COMPREPLY=( $(compgen -W "$("${{COMP_WORDS[0]}}" __tasks "$task" 2>/dev/null)" -- "$cur") )
    fi
}}
_min_with_boxes() {{
    _min "$@"
    local cur="${{COMP_WORDS[COMP_CWORD]}}" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ "$cur" == -* && "$word" != run ]] && continue
        case "$word" in
            {verbs})
                COMPREPLY+=( $(compgen -W "$("${{COMP_WORDS[0]}}" __boxes 2>/dev/null)" -- "$cur") )
                return 0
                ;;
            --)
                return 0
                ;;
            run)
                _min_tasks
                return 0
                ;;
        esac
    done
}}

complete -F _min_with_boxes -o bashdefault -o default min
"#
    )
}

/// The generated function offers file names where a box is wanted.
fn zsh(script: &str) -> String {
    let wants_box =
        |line: &str| line.starts_with("':address -- ") || line.starts_with("'*::addresses -- ");
    let wants_task = |line: &str| line.starts_with("'*::argv -- A task");
    let mut whole = String::with_capacity(script.len() + 1024);
    for line in script.lines() {
        if line.starts_with("if [ \"$funcstack") {
            // Before the script calls or registers its main function.
            whole.push_str(
                "(( $+functions[_min_box_names] )) ||\n_min_box_names() {\n    \
                 local -a names\n    names=(${(f)\"$(_call_program boxes min __boxes 2>/dev/null)\"})\n    \
                 _describe -t boxes box names\n}\n\n\
                 (( $+functions[_min_task_names] )) ||\n_min_task_names() {\n    \
                 local -a names\n    names=(${(f)\"$(_call_program tasks min __tasks 2>/dev/null)\"})\n    \
                 _describe -t tasks task names\n}\n\n",
            );
        }
        match (wants_box(line), wants_task(line)) {
            (true, _) => whole.push_str(&line.replace(":_default'", ":_min_box_names'")),
            (false, true) => whole.push_str(&line.replace(":_default'", ":_min_task_names'")),
            (false, false) => whole.push_str(line),
        }
        whole.push('\n');
    }
    whole
}

fn fish(script: &str) -> String {
    let mut script = script.to_owned();
    for verb in OF_BOXES {
        for condition in [
            format!("__fish_min_using_subcommand {verb}"),
            format!("__fish_min_using_subcommand box; and __fish_seen_subcommand_from {verb}"),
        ] {
            writeln!(
                script,
                "complete -c min -n \"{condition}\" -f -a \"(min __boxes 2>/dev/null)\""
            )
            .expect("a String takes all");
        }
    }
    for condition in [
        "__fish_min_using_subcommand run",
        "__fish_min_using_subcommand box; and __fish_seen_subcommand_from run",
        "__fish_min_using_subcommand task; and __fish_seen_subcommand_from run",
    ] {
        writeln!(script, "complete -c min -n \"{condition}\" -f -a \"(min __tasks 2>/dev/null)\"")
            .expect("a String takes all");
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_takes_boxes_offers_them() {
        let command = Cli::command();
        let takes_boxes = |name: &str| {
            let arguments = command.find_subcommand(name).unwrap().get_positionals();
            arguments
                .filter(|it| it.get_value_names().is_some_and(|names| names[0] == "BOX"))
                .count()
        };
        let named: Vec<_> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .filter(|name| takes_boxes(name) > 0)
            .collect();
        assert_eq!(named, OF_BOXES);
        // As a shortcut and as a verb of `box`.
        assert!(script(Shell::Zsh).matches(":_min_box_names'").count() >= OF_BOXES.len() * 2);
        assert!(!script(Shell::Zsh).contains("digits of an id'\\''s beginning or end:_default"));
        // Of `run`, and of the verbs of two nouns, each of which has a plural.
        assert_eq!(script(Shell::Zsh).matches(":_min_task_names'").count(), 5);
        assert_eq!(script(Shell::Fish).matches("min __tasks").count(), 3);
        assert_eq!(script(Shell::Fish).matches("min __boxes").count(), OF_BOXES.len() * 2);
    }
}
