//! The text of a file, with comments for who reads it first.

use minimal_proto::BoxName;
use minimal_proto::spec::Builtin;

use super::{Group, Plan};

const HEAD: &str = "\
# What this project runs in boxes. `min task list` shows the tasks, `min run TASK` runs one, and
# `min box spec TASK --explain` says where each of its settings comes from.
#
# A box has the project at /workbench, and keeps what it changes in a layer of its own. It has no network, and of
# your home only what `mounts` names and your policy allows: the first run says what to write there.
";

const SESSION: &str = "
# What `min shell` opens.
[sessions.default]
exec = [\"bash\", \"-l\"]
";

/// The file for what was found.
#[must_use]
pub fn file(plan: &Plan) -> String {
    let mut text = HEAD.to_owned();
    if let Some(only) = &plan.only {
        return text + only;
    }
    if plan.tasks.is_empty() {
        text.push_str(&hello());
    }
    for (index, group) in plan.groups.iter().enumerate() {
        let is_typed = !group.mounts.is_empty() || !group.vars.is_empty();
        if is_typed || !group.notes.is_empty() {
            text.push('\n');
        }
        for note in &group.notes {
            text.extend([format!("# {note}\n")]);
        }
        if is_typed {
            text.push_str(&type_of(group));
        }
        for task in plan.tasks.iter().filter(|task| task.group == index) {
            text.extend([format!("\n[tasks.{}]\n", task.name)]);
            if is_typed {
                text.extend([format!("type = {}\n", quoted(&group.tool))]);
            }
            let words: Vec<_> =
                task.exec.iter().map(|word| quoted(&word.replace("%{", "%%{"))).collect();
            let description = quoted(&task.description);
            text.extend([format!("description = {description}\nexec = [{}]\n", words.join(", "))]);
        }
    }
    text + SESSION
}

/// Settings that tasks have in common.
fn type_of(group: &Group) -> String {
    let mut text = format!("[box_types.{}]\nextends = \"task\"\n", group.tool);
    if !group.mounts.is_empty() {
        text.push_str("defaults.mounts = [\n");
        for (source, mode) in &group.mounts {
            let mode =
                if *mode == "ro" { String::new() } else { format!(", mode = {}", quoted(mode)) };
            text.extend([format!("  {{ source = {}{mode} }},\n", quoted(source))]);
        }
        text.push_str("]\n");
    }
    for (name, value) in &group.vars {
        text.extend([format!("defaults.vars.{name} = {}\n", quoted(value))]);
    }
    text
}

fn hello() -> String {
    "\n[tasks.hello]\ndescription = \"say hello\"\nbash = \"echo hello $ARG_WHO from $MINIMAL_BOX_NAME\"\n\
     args.who = { type = \"string\", default = \"world\", help = \"whom to greet\" }\n"
        .to_owned()
}

/// One entry of a type.
#[must_use]
pub fn entry(name: &BoxName, box_type: &str, root: Builtin) -> String {
    let (table, is_own_table) = match root {
        Builtin::Task => ("tasks", true),
        Builtin::Session => ("sessions", true),
        Builtin::Agent => ("agents", true),
        Builtin::Service => ("services", true),
        Builtin::Sandbox | Builtin::Build | Builtin::ContainerBuild => ("boxes", false),
    };
    let mut text = format!("\n[{table}.{name}]\n");
    if !is_own_table || box_type != root.as_str() {
        text.extend([format!("type = {}\n", quoted(box_type))]);
    }
    text.push_str(match root {
        Builtin::Task => {
            "description = \"say hello\"\n# Program and arguments; no shell runs. A script is `bash = \"…\"`.\n\
             exec = [\"echo\", \"hello\"]\n"
        }
        Builtin::Session => "# What `min shell` opens.\nexec = [\"bash\", \"-l\"]\n",
        Builtin::Agent => "# It has a terminal, as a session has.\nexec = [\"bash\", \"-l\"]\n",
        Builtin::Service => {
            "# Runs until `min stop`. What tells that it is ready would be `ready = { port = 8080 }`.\n\
             exec = [\"sleep\", \"infinity\"]\n"
        }
        Builtin::Sandbox => "# A place for `min exec`, until `min stop`.\n",
        Builtin::Build | Builtin::ContainerBuild => {
            "# It has a copy of the project, and never a network.\nexec = [\"make\"]\n"
        }
    });
    text
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
