//! What a client who comes to a terminal is shown first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use minimal_proto::TerminalSize;

use super::LogDir;
use crate::boxes::{Command, Line};
use crate::host::Host;
use crate::screen::{Order, Painted};

/// How long a program may look at a size that is not the terminal's, so that it draws anew.
const OTHER_SIZE: Duration = Duration::from_millis(50);

/// Who comes to a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    /// How large the own terminal is.
    pub(crate) size: TerminalSize,
    /// Whether it writes the input, and so decides about the size.
    pub(crate) has_keyboard: bool,
}

/// Paints a terminal as it stands. `life`: where the output of this life begins.
pub(crate) async fn paint(
    host: &Host,
    dir: &LogDir,
    line: &Arc<Line>,
    life: u64,
    visitor: Visitor,
) -> Painted {
    let Visitor { size, has_keyboard } = visitor;
    // Somebody reads: what the log has grown by is announced again.
    let _reading = line.reading();
    let end = line.flow.borrow().log_end;
    let order = Order { end, life: life.min(end), sizes: line.sizes(), size };
    let painted = host.painter.paint(dir, &order).await;
    if has_keyboard && painted.as_ref().is_none_or(|painted| !painted.whole) {
        draw_anew(Arc::clone(line), size);
    }
    painted.unwrap_or(Painted { from: end, whole: false, bytes: Bytes::new() })
}

/// Paints what a terminal has shown last, whose log ends at `end`. If that cannot be had, all output is
/// what there is.
pub(crate) async fn paint_last(
    host: &Host,
    dir: &LogDir,
    (life, end): (u64, u64),
    size: TerminalSize,
) -> Option<Painted> {
    let order = Order { end, life: life.min(end), sizes: Vec::new(), size };
    host.painter.paint(dir, &order).await
}

/// Has a program draw all of its screen, as far as one does that when the terminal changes its size.
fn draw_anew(line: Arc<Line>, size: TerminalSize) {
    let TerminalSize { cols, rows } = size;
    let other = TerminalSize { cols, rows: if rows > 1 { rows - 1 } else { rows + 1 } };
    tokio::spawn(async move {
        // Not noted: nothing that is kept is drawn for it.
        line.commands.send(Command::Resize(other)).await.ok();
        tokio::time::sleep(OTHER_SIZE).await;
        // Another may have come meanwhile and said its own.
        let size = line.sizes().last().map_or(size, |(_, size)| *size);
        line.commands.send(Command::Resize(size)).await.ok();
    });
}
