//! What a hub can ask for.

use serde_json::{Map, Value, json};

use super::fields::{Fields, invalid};
use super::{Code, Refusal, SandboxName, data};

/// What a hub asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Make a sandbox, or adopt the one of that name.
    Create {
        /// The sandbox.
        name: SandboxName,
    },
    /// Whether it is there, and how.
    Get {
        /// The sandbox.
        name: SandboxName,
    },
    /// End it, and delete what it holds. One that is gone is no error.
    Destroy {
        /// The sandbox.
        name: SandboxName,
    },
    /// The names of all sandboxes.
    List,
    /// Stop it from running, and keep what it holds.
    Suspend {
        /// The sandbox.
        name: SandboxName,
    },
    /// Let it run again.
    Resume {
        /// The sandbox.
        name: SandboxName,
    },
    /// Write a file, with the directories above it.
    WriteFile {
        /// The sandbox.
        name: SandboxName,
        /// Where.
        path: String,
        /// All of it.
        data: Vec<u8>,
        /// Permission bits; none: 0644.
        mode: Option<u32>,
    },
    /// Run a command, and answer with its output and code.
    Exec {
        /// The sandbox.
        name: SandboxName,
        /// What.
        command: CommandLine,
        /// Milliseconds after which it is ended; none: never.
        timeout_ms: Option<u64>,
        /// Whether stderr is part of the output; else it is dropped.
        stderr_to_stdout: bool,
    },
    /// Start a command as a session.
    Spawn {
        /// The sandbox.
        name: SandboxName,
        /// What.
        command: CommandLine,
        /// Whether it has an input; else that is empty.
        stdin: bool,
        /// A wish for a terminal.
        tty: bool,
        /// A wish for a session that outlives its connection, as all do.
        detachable: bool,
    },
    /// Write to a session's input.
    Stdin {
        /// The sandbox.
        name: SandboxName,
        /// The session.
        session_id: String,
        /// What.
        data: Vec<u8>,
    },
    /// End a session's input.
    StdinClose {
        /// The sandbox.
        name: SandboxName,
        /// The session.
        session_id: String,
    },
    /// Nobody at the hub listens to the session any more.
    Detach {
        /// The session.
        session_id: String,
    },
    /// The sessions of a sandbox.
    ListSessions {
        /// The sandbox.
        name: SandboxName,
    },
    /// Send a session's frames from the first, and go on with what comes.
    Attach {
        /// The sandbox.
        name: SandboxName,
        /// The session.
        session_id: String,
        /// Whether the hub will write.
        stdin: bool,
    },
}

/// A command: a program, its arguments and surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The program: a path, or a name that is looked for on the sandbox's PATH.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that are added to the sandbox's.
    pub env: Vec<(String, String)>,
    /// Where it starts; none: the sandbox's home.
    pub dir: Option<String>,
}

impl Op {
    /// Reads the fields of a request.
    ///
    /// # Errors
    /// What to answer: `not_supported` with the op's name, or `invalid` naming the field.
    pub(super) fn read(object: &Map<String, Value>) -> Result<Self, Refusal> {
        let fields = Fields(object);
        let op = fields.text("op")?;
        Ok(match op.as_str() {
            "create" => Self::Create { name: fields.name()? },
            "get" => Self::Get { name: fields.name()? },
            "destroy" => Self::Destroy { name: fields.name()? },
            "list" => Self::List,
            "suspend" => Self::Suspend { name: fields.name()? },
            "resume" => Self::Resume { name: fields.name()? },
            "write_file" => Self::WriteFile {
                name: fields.name()?,
                path: fields.text("path")?,
                data: fields.bytes("data")?,
                mode: mode(&fields)?,
            },
            "exec" => Self::Exec {
                name: fields.name()?,
                command: CommandLine::read(&fields)?,
                // Nothing and less than nothing mean the same.
                timeout_ms: fields
                    .integer("timeout_ms")?
                    .and_then(|limit| u64::try_from(limit).ok())
                    .filter(|limit| *limit > 0),
                stderr_to_stdout: fields.flag("stderr_to_stdout")?,
            },
            "spawn" => Self::Spawn {
                name: fields.name()?,
                command: CommandLine::read(&fields)?,
                stdin: fields.flag("stdin")?,
                tty: fields.flag("tty")?,
                detachable: fields.flag("detachable")?,
            },
            "stdin" => Self::Stdin {
                name: fields.name()?,
                session_id: fields.text("session_id")?,
                data: fields.bytes("data")?,
            },
            "stdin_close" => {
                Self::StdinClose { name: fields.name()?, session_id: fields.text("session_id")? }
            }
            "detach" => Self::Detach { session_id: fields.text("session_id")? },
            "list_sessions" => Self::ListSessions { name: fields.name()? },
            "attach" => Self::Attach {
                name: fields.name()?,
                session_id: fields.text("session_id")?,
                stdin: fields.flag("stdin")?,
            },
            _ => return Err(Refusal { code: Code::NotSupported, detail: Some(op) }),
        })
    }

    /// Its word on the wire.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Get { .. } => "get",
            Self::Destroy { .. } => "destroy",
            Self::List => "list",
            Self::Suspend { .. } => "suspend",
            Self::Resume { .. } => "resume",
            Self::WriteFile { .. } => "write_file",
            Self::Exec { .. } => "exec",
            Self::Spawn { .. } => "spawn",
            Self::Stdin { .. } => "stdin",
            Self::StdinClose { .. } => "stdin_close",
            Self::Detach { .. } => "detach",
            Self::ListSessions { .. } => "list_sessions",
            Self::Attach { .. } => "attach",
        }
    }

    /// Its fields. What is absent is written as null.
    pub(super) fn write(&self) -> Value {
        match self {
            Self::Create { name }
            | Self::Get { name }
            | Self::Destroy { name }
            | Self::Suspend { name }
            | Self::Resume { name }
            | Self::ListSessions { name } => json!({"name": name.as_str()}),
            Self::List => json!({}),
            Self::WriteFile { name, path, data, mode } => json!({
                "name": name.as_str(), "path": path, "data": data::encode(data), "mode": mode,
            }),
            Self::Exec {
                name,
                command: CommandLine { cmd, args, env, dir },
                timeout_ms,
                stderr_to_stdout,
            } => {
                json!({
                    "name": name.as_str(), "cmd": cmd, "args": args, "env": env, "dir": dir,
                    "timeout_ms": timeout_ms, "stderr_to_stdout": stderr_to_stdout,
                })
            }
            Self::Spawn {
                name,
                command: CommandLine { cmd, args, env, dir },
                stdin,
                tty,
                detachable,
            } => {
                json!({
                    "name": name.as_str(), "cmd": cmd, "args": args, "env": env, "dir": dir,
                    "stdin": stdin, "tty": tty, "detachable": detachable,
                })
            }
            Self::Stdin { name, session_id, data } => json!({
                "name": name.as_str(), "session_id": session_id, "data": data::encode(data),
            }),
            Self::StdinClose { name, session_id } => {
                json!({"name": name.as_str(), "session_id": session_id})
            }
            Self::Detach { session_id } => json!({"session_id": session_id}),
            Self::Attach { name, session_id, stdin } => {
                json!({"name": name.as_str(), "session_id": session_id, "stdin": stdin})
            }
        }
    }
}

impl CommandLine {
    fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let command = Self {
            cmd: fields.text("cmd")?,
            args: fields.texts("args")?,
            env: fields.pairs("env")?,
            dir: fields.optional_text("dir")?,
        };
        if command.cmd.is_empty() {
            return Err(invalid("`cmd` is empty"));
        }
        // The kernel's strings end there: the command would be another one than was asked for.
        let nul = |text: &String| text.contains('\0');
        let in_env = command.env.iter().any(|(name, value)| nul(name) || nul(value));
        if nul(&command.cmd) || command.args.iter().any(nul) || in_env {
            return Err(invalid("the command holds a NUL character"));
        }
        Ok(command)
    }
}

fn mode(fields: &Fields<'_>) -> Result<Option<u32>, Refusal> {
    fields
        .integer("mode")?
        .map(|mode| {
            u32::try_from(mode)
                .ok()
                .filter(|mode| *mode <= 0o7777)
                .ok_or_else(|| invalid("`mode` is not a file's mode (0 to 4095)"))
        })
        .transpose()
}
