//! The frame: how a piece of output stands in a segment file.
//!
//! ```text
//! 0  "ML"          magic
//! 2  1             version
//! 3  stream        1 stdout, 2 stderr, 3 pty
//! 4  length        of the payload, u32 little-endian, 1 to 256 KiB
//! 8  offset        of the payload in the log, u64 little-endian
//! 16 time          microseconds since the epoch, i64 little-endian
//! 24 payload
//!    length again  so that a file's end says where its last frame begins
//!    "\n"          so that a frame whose rest is missing, or NULs, is not taken for whole
//! ```

use minimal_proto::Timestamp;

/// Bytes before the payload.
pub(super) const HEADER: usize = 24;
/// Bytes after the payload.
pub(super) const TRAILER: usize = 5;
/// Bytes of a frame that are not payload.
pub(super) const OVERHEAD: usize = HEADER + TRAILER;
/// The longest payload: what a keeper reads from a pipe in one go, at most.
pub(super) const MAX_PAYLOAD: usize = 256 << 10;

const MAGIC: [u8; 2] = *b"ML";
const VERSION: u8 = 1;
const LAST: u8 = b'\n';

/// What stands before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The stream's byte; any but 0, since a later version may have more.
    pub(super) stream: u8,
    /// Length of the payload, 1 to [`MAX_PAYLOAD`].
    pub(super) length: u32,
    /// Offset of the payload's first byte.
    pub(super) offset: u64,
    /// When it was read from the box.
    pub(super) ts: Timestamp,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.stream;
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..].copy_from_slice(&self.ts.as_micros().to_le_bytes());
        bytes
    }

    pub(super) fn trailer(&self) -> [u8; TRAILER] {
        let [a, b, c, d] = self.length.to_le_bytes();
        [a, b, c, d, LAST]
    }

    /// Reads a header; `None` if it is none.
    pub(super) fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<2>()?;
        let ([version, stream], rest) = rest.split_first_chunk::<2>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (offset, micros) = rest.split_first_chunk::<8>()?;
        let header = Self {
            stream: *stream,
            length: u32::from_le_bytes(*length),
            offset: u64::from_le_bytes(*offset),
            ts: Timestamp::from_micros(i64::from_le_bytes(micros.try_into().ok()?)),
        };
        let valid = *magic == MAGIC
            && *version == VERSION
            && header.stream != 0
            && (1..=MAX_PAYLOAD).contains(&header.payload())
            && header.offset.checked_add(u64::from(header.length)).is_some();
        valid.then_some(header)
    }

    /// Length of the payload.
    pub(super) fn payload(&self) -> usize {
        self.length as usize
    }

    /// Length of the whole frame.
    pub(super) fn frame(&self) -> usize {
        OVERHEAD + self.payload()
    }

    /// Offset of the byte after the payload.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A whole frame.
    Frame(Header, &'a [u8]),
    /// The beginning of a frame that needs so many bytes, as far as can be told.
    Short(usize),
    /// Something else.
    Broken,
}

/// Reads the frame that `bytes` begin with, which must be for the offset `expected`.
pub(super) fn parse(bytes: &[u8], expected: u64) -> Parsed<'_> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Parsed::Short(HEADER);
    };
    match Header::decode(header) {
        Some(header) if header.offset == expected => {
            let Some((payload, rest)) = rest.split_at_checked(header.payload()) else {
                return Parsed::Short(header.frame());
            };
            match rest.first_chunk::<TRAILER>() {
                Some(trailer) if *trailer == header.trailer() => Parsed::Frame(header, payload),
                Some(_) => Parsed::Broken,
                None => Parsed::Short(header.frame()),
            }
        }
        Some(_) | None => Parsed::Broken,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_frame_round_trips_and_no_part_of_it_is_whole(
            stream in 1u8..,
            payload in proptest::collection::vec(any::<u8>(), 1..200),
            offset in 0..u64::MAX - 200,
            micros: i64,
            cut in 0usize..229,
            nuls: bool,
        ) {
            let header = Header {
                stream,
                length: u32::try_from(payload.len()).unwrap(),
                offset,
                ts: Timestamp::from_micros(micros),
            };
            let mut frame = [&header.encode()[..], &payload, &header.trailer()].concat();
            prop_assert_eq!(frame.len(), header.frame());
            prop_assert_eq!(parse(&frame, offset), Parsed::Frame(header, &payload));
            prop_assert_eq!(parse(&frame, offset ^ 1), Parsed::Broken);
            let whole = frame.len();
            frame.truncate(cut.min(whole - 1));
            if nuls {
                frame.resize(whole, 0);
            }
            prop_assert!(!matches!(parse(&frame, offset), Parsed::Frame(..)));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, expected: u64) {
            let _ = parse(&bytes, expected);
        }
    }
}
