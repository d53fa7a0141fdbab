//! From a log to a repaint.

use minimal_proto::TerminalSize;
use minimal_screen::Screen;
use minimal_store::{Chunk, LogError, LogHome, LogReader};

use super::{Order, Painted};

/// How much is read at a time.
const PIECE: usize = 256 << 10;

/// What a log keeps of its beginning, whatever is dropped (`docs/reference/wire.md`): the modes a program
/// has set first are there.
const HEAD: u64 = 1 << 20;

/// How much of the log's end is read: more lines than are kept, and what a program that fills the screen
/// draws in many minutes. It takes a fraction of a second.
const TAIL: u64 = 32 << 20;

/// Paints what the order asks for.
///
/// # Errors
/// The log cannot be read.
pub(super) fn paint(dir: &impl LogHome, order: &Order) -> Result<Painted, LogError> {
    let mut sizes = order.sizes.iter().peekable();
    let first = sizes.peek().map_or(TerminalSize::DEFAULT, |(_, size)| *size);
    let mut screen = Screen::new(first);
    let mut whole = true;
    let tail = order.end.saturating_sub(TAIL);
    let pieces =
        if tail > HEAD { vec![(0, HEAD), (tail, order.end)] } else { vec![(0, order.end)] };
    for (from, end) in pieces {
        if from > 0 {
            screen.skip();
            whole = false;
        }
        let mut reader = LogReader::open(dir, from, order.end)?;
        while reader.position() < end {
            let at = reader.position();
            if at == order.life && at > 0 {
                screen.begin_anew();
            }
            while let Some((_, size)) = sizes.next_if(|(offset, _)| *offset <= at) {
                screen.resize(*size);
            }
            let next = sizes.peek().map_or(end, |(offset, _)| end.min(*offset));
            let until = if at < order.life { next.min(order.life) } else { next };
            match reader.next_chunk(until, PIECE)? {
                Some(Chunk::Frames(frames)) => {
                    for frame in frames {
                        screen.feed(&frame.bytes);
                    }
                }
                Some(Chunk::Gap { .. }) => {
                    screen.skip();
                    whole = false;
                }
                None => break,
            }
        }
    }
    if order.life == order.end && order.life > 0 {
        screen.begin_anew();
    }
    for (_, size) in sizes {
        screen.resize(*size);
    }
    screen.resize(order.size);
    let from = order.end - screen.unfinished().min(order.end);
    Ok(Painted { from, whole, bytes: screen.repaint().into() })
}
