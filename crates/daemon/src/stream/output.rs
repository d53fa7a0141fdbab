//! Output pieces as messages and bodies. Pure.

use bytes::Bytes;
use minimal_proto::stream::{OUTPUT_HEADER, OutputFrame, REPAINT, Stream};
use minimal_store::FrameOut;

/// The binary messages for frames that follow each other. Neighbours of one stream become one
/// message: their offsets follow, and a client pays for each message.
pub(crate) fn messages(frames: &[FrameOut]) -> impl Iterator<Item = Bytes> {
    frames.chunk_by(|a, b| a.stream == b.stream).map(|run| {
        let length = run.iter().map(|frame| frame.bytes.len()).sum::<usize>();
        let first = &run[0];
        let header =
            OutputFrame { stream: first.stream, offset: first.offset, bytes: &[] }.header();
        let mut message = Vec::with_capacity(OUTPUT_HEADER + length);
        message.extend_from_slice(&header);
        for frame in run {
            message.extend_from_slice(&frame.bytes);
        }
        Bytes::from(message)
    })
}

/// How much of a repaint is in a message.
const PART: usize = 256 << 10;

/// The binary messages of a repaint that output from `offset` on follows.
pub(crate) fn repaint(bytes: &[u8], offset: u64) -> impl Iterator<Item = Bytes> {
    bytes.chunks(PART).map(move |part| {
        let mut message = Vec::with_capacity(OUTPUT_HEADER + part.len());
        message.push(REPAINT);
        message.extend_from_slice(&offset.to_le_bytes());
        message.extend_from_slice(part);
        Bytes::from(message)
    })
}

/// Payload alone, of one stream or of all.
pub(crate) fn raw(frames: &[FrameOut], only: Option<Stream>) -> Bytes {
    let mut body = Vec::new();
    for frame in chosen(frames, only) {
        body.extend_from_slice(&frame.bytes);
    }
    Bytes::from(body)
}

/// The framed form of `docs/reference/wire.md`, section 7.
pub(crate) fn framed(frames: &[FrameOut], only: Option<Stream>) -> Bytes {
    let mut body = Vec::new();
    for frame in chosen(frames, only) {
        let time = frame.ts.as_micros();
        push_frame(&mut body, frame.stream.to_byte(), frame.offset, time, &frame.bytes);
    }
    Bytes::from(body)
}

/// A gap in the framed form.
pub(crate) fn framed_gap(from: u64, to: u64) -> Bytes {
    let mut body = Vec::new();
    push_frame(&mut body, GAP, from, 0, &to.to_le_bytes());
    Bytes::from(body)
}

/// The stream byte of a gap.
const GAP: u8 = 0;

fn chosen(frames: &[FrameOut], only: Option<Stream>) -> impl Iterator<Item = &FrameOut> {
    frames.iter().filter(move |frame| only.is_none_or(|only| frame.stream == only))
}

fn push_frame(body: &mut Vec<u8>, stream: u8, offset: u64, micros: i64, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a piece is far below 4 GiB");
    body.push(stream);
    body.extend_from_slice(&offset.to_le_bytes());
    body.extend_from_slice(&micros.to_le_bytes());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use minimal_proto::Timestamp;

    use super::*;

    fn frame(stream: Stream, offset: u64, bytes: &[u8]) -> FrameOut {
        FrameOut { stream, offset, ts: Timestamp::from_micros(7), bytes: bytes.to_vec() }
    }

    #[test]
    fn neighbours_of_one_stream_are_one_message() {
        let frames = [
            frame(Stream::Stdout, 5, b"ab"),
            frame(Stream::Stdout, 7, b"c"),
            frame(Stream::Stderr, 8, b"!"),
            frame(Stream::Stdout, 9, b"d"),
        ];
        let messages: Vec<_> = messages(&frames).collect();
        let parsed: Vec<_> =
            messages.iter().map(|message| OutputFrame::parse(message).unwrap()).collect();
        let expected = [
            (Stream::Stdout, 5, b"abc".as_slice()),
            (Stream::Stderr, 8, b"!"),
            (Stream::Stdout, 9, b"d"),
        ];
        let expected =
            expected.map(|(stream, offset, bytes)| OutputFrame { stream, offset, bytes });
        assert_eq!(parsed, expected);
        assert_eq!(raw(&frames, None), "abc!d");
        assert_eq!(raw(&frames, Some(Stream::Stderr)), "!");
    }

    #[test]
    fn the_framed_form_is_the_documented_one() {
        let body = framed(&[frame(Stream::Stderr, 1, b"xy")], None);
        let mut expected = vec![2];
        expected.extend(1u64.to_le_bytes());
        expected.extend(7i64.to_le_bytes());
        expected.extend(2u32.to_le_bytes());
        expected.extend(b"xy");
        assert_eq!(body, expected);
        let gap = framed_gap(3, 9);
        assert_eq!((gap[0], gap.len()), (0, 21 + 8));
        assert_eq!(gap[21..], 9u64.to_le_bytes());
    }
}
