//! Writing a file in a box, by a command in it: the box's own user, file systems and limits.

use minimal_proto::exec::ExecMode;
use minimal_sdk::AttachOptions;

use super::command::{How, code_of, home_path};
use super::{LocalSandbox, error_of};
use crate::contract::{Answer, SandboxError, Unavailable};
use crate::wire::CommandLine;

/// Beside the file and renamed, so that nobody reads half of it; the mode is set whatever the umask.
const SCRIPT: &str = r#"set -e
mkdir -p -- "$(dirname -- "$1")"
new="$1.minimal-new.$$"
trap 'rm -f -- "$new"' EXIT
cat >"$new"
chmod -- "$2" "$new"
mv -fT -- "$new" "$1"
trap - EXIT"#;

impl LocalSandbox {
    pub(super) async fn put_file(
        &self,
        name: &str,
        path: &str,
        data: &[u8],
        mode: Option<u32>,
    ) -> Answer<()> {
        let id = self.running(name).await?.id;
        let mode = format!("{:o}", mode.unwrap_or(0o644));
        let args = ["-c", SCRIPT, "sh", &home_path(path), &mode].map(str::to_owned);
        let line =
            CommandLine { cmd: "sh".to_owned(), args: args.into(), ..CommandLine::default() };
        let how = How { mode: ExecMode::Attached, input: true, timeout_ms: None };
        let exec = self.run(id, &line, how).await?.id;
        let options = AttachOptions { input: true, pin: true, ..AttachOptions::default() };
        let attached = self.client.attach((id, exec), options).await;
        let (mut events, handle) = attached.map_err(|error| error_of(&error))?;
        let data = bytes::Bytes::copy_from_slice(data);
        let writing = tokio::spawn(async move {
            // Whether all of it was taken is told by the command's code.
            if handle.input(data).await.is_ok() {
                handle.eof();
            }
        });
        let mut said = Vec::new();
        let ending = loop {
            match events.next().await {
                Ok(minimal_sdk::StreamEvent::Exited(ending)) => break ending,
                Ok(minimal_sdk::StreamEvent::Output { bytes, .. }) => {
                    said.extend_from_slice(&bytes);
                }
                Ok(minimal_sdk::StreamEvent::Detached) | Err(_) => {
                    writing.abort();
                    return Err(SandboxError::Unavailable(Unavailable::ClosedBeforeExit));
                }
                Ok(_) => {}
            }
        };
        writing.abort();
        match code_of(&ending) {
            None => Err(SandboxError::Unavailable(Unavailable::ExitUnknown)),
            Some(code) if code.get() == 0 => Ok(()),
            Some(_) => {
                let said: String =
                    String::from_utf8_lossy(&said).trim().chars().take(500).collect();
                Err(SandboxError::WriteFailed(said))
            }
        }
    }
}
