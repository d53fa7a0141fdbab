//! What a scripted command prints, and how it ends.

use std::collections::BTreeMap;

use crate::wire::{CHUNK_MAX, ExitCode, Output};

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this code.
    Code(ExitCode),
    /// It goes on, and echoes its input until that ends.
    Stay,
    /// It goes on for ever.
    Hang,
    /// Its stream is lost.
    Lost,
}

/// What a script can ask for.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) env: Vec<(String, String)>,
    pub(super) dir: Option<String>,
    pub(super) files: BTreeMap<String, (Vec<u8>, u32)>,
}

/// Runs a script: what it prints before its end, or before it waits. An instruction that nobody knows
/// ends it as a shell would: with words on stderr, and 127.
pub(super) fn run(script: &[String], around: &Surroundings) -> (Vec<(Output, Vec<u8>)>, End) {
    let mut printed = Vec::new();
    for instruction in script {
        let (word, rest) = instruction.split_once(':').unwrap_or((instruction, ""));
        let number = rest.parse::<i32>();
        let end = match (word, number) {
            ("err", _) => {
                printed.push((Output::Stderr, rest.as_bytes().to_vec()));
                continue;
            }
            ("exit", Ok(code)) => End::Code(ExitCode::as_told(code)),
            ("signal", Ok(signal)) => End::Code(ExitCode::as_told(128 + signal).by_signal(signal)),
            ("stay", _) => End::Stay,
            ("hang", _) => End::Hang,
            ("drop", _) => End::Lost,
            _ => match output(word, rest, around) {
                Some(bytes) => {
                    let pieces = bytes.chunks(CHUNK_MAX).map(<[u8]>::to_vec);
                    printed.extend(pieces.map(|bytes| (Output::Stdout, bytes)));
                    continue;
                }
                None => {
                    let words = format!("{instruction}: no such instruction, or nothing there\n");
                    printed.push((Output::Stderr, words.into_bytes()));
                    End::Code(ExitCode::as_told(127))
                }
            },
        };
        return (printed, end);
    }
    (printed, End::Code(ExitCode::as_told(0)))
}

/// What an instruction prints.
fn output(word: &str, rest: &str, around: &Surroundings) -> Option<Vec<u8>> {
    match word {
        "out" => Some(rest.as_bytes().to_vec()),
        "much" => {
            let length = rest.parse().ok()?;
            Some((0..=250).cycle().take(length).collect())
        }
        "env" => {
            let pair = around.env.iter().rev().find(|(name, _)| name == rest);
            Some(pair.map(|(_, value)| value.as_bytes().to_vec()).unwrap_or_default())
        }
        "dir" => Some(around.dir.as_deref().unwrap_or("/fake/home").as_bytes().to_vec()),
        "file" => Some(around.files.get(rest)?.0.clone()),
        "mode" => Some(format!("{:o}", around.files.get(rest)?.1).into_bytes()),
        _ => None,
    }
}
