//! `min version`

use serde_json::json;

use crate::args::Format;
use crate::build_id::build_id;
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;

/// Prints who this is and, if one runs, who the daemon is. Starts none.
pub(super) async fn run(context: &Context) -> Result<Exit, Failure> {
    let (version, build) = (env!("CARGO_PKG_VERSION"), build_id());
    // A daemon that cannot be asked, or a place that is not there, is no reason to fail.
    let daemon = match daemon::if_running(context).await {
        Ok(Some(client)) => client.version().await.ok(),
        Ok(None) | Err(_) => None,
    };
    match context.printer.format() {
        Format::Table => {
            context.printer.line(&format!("min {version} (build {build})"))?;
            if let Some(daemon) = daemon {
                let (version, build) = (&daemon.version, &daemon.build);
                context
                    .printer
                    .line(&format!("minimald {version} (build {build}), pid {}", daemon.pid))?;
            }
        }
        Format::Json | Format::Jsonl => context.printer.json(&json!({
            "schema": "min/v1/version",
            "version": version,
            "build": build,
            "api": minimal_proto::api::API_VERSION,
            "daemon": daemon,
        }))?,
    }
    Ok(Exit::Done)
}
