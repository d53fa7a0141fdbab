use std::fs;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use minimal_proto::stream::Stream;
use proptest::prelude::*;

use super::frame::{Header, OVERHEAD};
use super::*;
use crate::BoxDir;
use crate::fixture::at;

/// A box's directory of which only the log matters.
struct Fixture {
    root: tempfile::TempDir,
    dir: BoxDir,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("box/log")).unwrap();
        let dir = BoxDir::open(&root.path().join("box")).unwrap();
        Self { root, dir }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What all output here is made of, over and over: a prime number of bytes, so that no block or
/// segment repeats another.
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    (0..65_521u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0]).collect()
});

/// The output at an offset, so that it can be checked without being kept.
fn output(from: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut from, length) = (usize::try_from(from).unwrap(), usize::try_from(length).unwrap());
    while bytes.len() < length {
        let rest = &PATTERN[from % PATTERN.len()..];
        let some = rest.len().min(length - bytes.len());
        bytes.extend_from_slice(&rest[..some]);
        from += some;
    }
    bytes
}

fn add(writer: &mut LogWriter, length: u64) -> Appended {
    let end = writer.end();
    let time = at(i64::try_from(end).unwrap());
    writer.append(Stream::Stdout, time, &output(end, length))
}

fn open(fixture: &Fixture, log_max: u64) -> LogWriter {
    LogWriter::create_or_open(&fixture.dir, log_max).unwrap()
}

/// Reads up to `end`, checks that nothing is out of place, and returns the gaps.
fn check(reader: &mut LogReader, end: u64, max: usize) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut position = reader.position();
    while let Some(chunk) = reader.next_chunk(end, max).unwrap() {
        match chunk {
            Chunk::Gap { from, to } => {
                assert!(from == position && to > from && to <= end, "{from}..{to} at {position}");
                gaps.push((from, to));
                position = to;
            }
            Chunk::Frames(frames) => {
                let total: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
                assert!((1..=max).contains(&total), "{total} of at most {max}");
                for frame in frames {
                    assert_eq!(frame.offset, position);
                    assert!(!frame.bytes.is_empty());
                    let length = frame.bytes.len() as u64;
                    assert!(frame.bytes == output(position, length), "bytes at {position}");
                    position += length;
                }
            }
        }
        assert_eq!(reader.position(), position);
    }
    assert_eq!(position, end);
    gaps
}

fn gaps(dir: &BoxDir, from: u64, end: u64) -> Vec<(u64, u64)> {
    check(&mut LogReader::open(dir, from, end).unwrap(), end, 256 << 10)
}

fn segment_path(fixture: &Fixture, start: u64) -> PathBuf {
    fixture.dir.path().join("log").join(segment::name(start))
}

#[test]
fn output_is_read_back_by_any_offset_and_size() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, 256 * MIB);
    for length in [1, 70_000, 300_000, 5, 0, 700_000, 2] {
        assert!(!add(&mut writer, length).dropped);
    }
    let end = writer.end();
    for from in [0, 1, 70_000, 70_001, 332_144, end - 1, end] {
        for max in [1000, 1 << 20] {
            let mut reader = LogReader::open(&fixture.dir, from, end).unwrap();
            assert_eq!(check(&mut reader, end, max), []);
            assert_eq!(reader.next_chunk(end, max).unwrap(), None);
        }
    }
    let error = LogReader::open(&fixture.dir, end + 1, end).unwrap_err();
    assert!(matches!(error, LogError::PastEnd { .. }));
    assert_eq!(writer.seal(), end);
    assert_eq!(figures(&fixture.dir).unwrap().bytes, end);
}

#[test]
fn streams_and_times_are_kept_and_a_part_of_a_frame_has_its_own_offset() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, MIB);
    writer.append(Stream::Stderr, at(-5), b"oh");
    writer.append(Stream::Pty, at(6), b"no");
    let mut reader = LogReader::open(&fixture.dir, 1, 4).unwrap();
    let frame = |stream, offset, micros, bytes: &[u8]| FrameOut {
        stream,
        offset,
        ts: at(micros),
        bytes: bytes.to_vec(),
    };
    let expected = vec![frame(Stream::Stderr, 1, -5, b"h"), frame(Stream::Pty, 2, 6, b"n")];
    assert_eq!(reader.next_chunk(3, 9).unwrap(), Some(Chunk::Frames(expected)));
    assert_eq!(reader.next_chunk(3, 9).unwrap(), None);
    let expected = vec![frame(Stream::Pty, 3, 6, b"o")];
    assert_eq!(reader.next_chunk(4, 9).unwrap(), Some(Chunk::Frames(expected)));
}

/// At every byte at which a write can be torn, and whether the rest is missing or NULs: whole
/// frames are given, nothing else is, and the next writer continues at the next offset.
#[test]
fn torn_at_any_byte_the_whole_frames_remain() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, MIB);
    let mut frames = vec![(0, 0)];
    let mut size = 0;
    for length in [3, 40, 1, 8] {
        let end = add(&mut writer, length).end;
        size += usize::try_from(length).unwrap() + OVERHEAD;
        frames.push((size, end));
    }
    let end = writer.end();
    let path = segment_path(&fixture, 0);
    let whole_file = fs::read(&path).unwrap();
    assert_eq!(whole_file.len(), size);
    for cut in 0..=size {
        for nuls in [false, true] {
            let log = path.parent().unwrap();
            fs::remove_dir_all(log).unwrap();
            fs::create_dir(log).unwrap();
            let mut torn = whole_file[..cut].to_vec();
            if nuls {
                torn.resize(size + 100, 0);
            }
            fs::write(&path, torn).unwrap();
            let (_, whole) = *frames.iter().rev().find(|(size, _)| *size <= cut).unwrap();
            let mut early = LogReader::open(&fixture.dir, 0, end).unwrap();
            assert_eq!(check(&mut early, whole, 1000), [], "cut at {cut}, nuls {nuls}");
            let expected = if whole == end { vec![] } else { vec![(whole, end)] };
            assert_eq!(gaps(&fixture.dir, 0, end), expected, "cut at {cut}, nuls {nuls}");
            assert_eq!(figures(&fixture.dir).unwrap().bytes, whole);
            let mut writer = open(&fixture, MIB);
            assert_eq!(writer.end(), whole, "cut at {cut}, nuls {nuls}");
            let end = add(&mut writer, 33).end;
            assert_eq!(end, whole + 33);
            assert_eq!(check(&mut early, end, 1000), [], "a reader that was there goes on");
            assert_eq!(gaps(&fixture.dir, 0, end), []);
            assert_eq!(figures(&fixture.dir).unwrap(), writer.figures());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is appended and wherever the pin is: nothing at or after the pin, and nothing of
    /// the head, is ever dropped; gaps are exact; the files stay within the limit.
    #[test]
    fn trimming_keeps_the_head_and_what_is_pinned(
        steps in proptest::collection::vec((1..400 * KIB, 0..6u32, any::<bool>()), 10..40),
        log_max in 1..4 * MIB,
        look in 0..6 * MIB,
    ) {
        let fixture = Fixture::new();
        let mut writer = open(&fixture, log_max);
        let mut pin = None;
        for (length, pinned, reopen) in steps {
            add(&mut writer, length);
            let end = writer.end();
            // Moves on sometimes, goes sometimes, and is never ahead of the output.
            pin = match pinned {
                0 => None,
                1 => Some(end),
                _ => pin,
            };
            prop_assert!(!writer.would_exceed(end), "who has read everything is never waited for");
            if let Some(pin) = pin {
                let behind = end - pin;
                if behind >= log_max {
                    prop_assert!(writer.would_exceed(pin));
                }
                // Frames take more than what they hold, but not as much as this.
                if behind + behind / 8 + 4 * KIB < log_max {
                    prop_assert!(!writer.would_exceed(pin));
                }
            }
            writer.trim(pin);
            if reopen {
                writer = open(&fixture, log_max);
                prop_assert_eq!(writer.end(), end);
            }
            let missing = gaps(&fixture.dir, 0, end);
            for (from, to) in &missing {
                prop_assert!(*from >= HEAD, "the head is kept: {from}");
                prop_assert!(pin.is_none_or(|pin| *to <= pin), "{to} is pinned");
            }
            let total: u64 = missing.iter().map(|(from, to)| to - from).sum();
            let expected = minimal_proto::api::LogFigures { bytes: end, dropped_bytes: total };
            prop_assert_eq!(writer.figures(), expected);
            prop_assert_eq!(figures(&fixture.dir).unwrap(), expected);
            // What may stay beyond the limit: the head's segments, one that is being written, and
            // one that the pin is in.
            let kept = end - total;
            let allowed = log_max.max(HEAD + 256 * KIB) + 2 * (MIB + 256 * KIB) + (end - pin.unwrap_or(end));
            prop_assert!(kept <= allowed, "{kept} of {allowed}");
        }
        let end = writer.end();
        gaps(&fixture.dir, look.min(end), end);
    }
}

/// A reader that runs beside the writer, through segments that close under it.
#[test]
fn a_reader_beside_the_writer_sees_whole_frames_only() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, 8 * MIB);
    let announced = AtomicU64::new(0);
    let total = 12 * MIB;
    std::thread::scope(|scope| {
        let (announced, dir) = (&announced, &fixture.dir);
        scope.spawn(move || {
            let mut reader = LogReader::open(dir, 0, 0).unwrap();
            while reader.position() < total {
                let end = announced.load(Ordering::Acquire);
                assert_eq!(check(&mut reader, end, 100_000), []);
            }
        });
        let mut length = 1;
        while writer.end() < total {
            length = (length * 7 + 13) % 90_000;
            let left = total - writer.end();
            let end = add(&mut writer, length.min(left)).end;
            announced.store(end, Ordering::Release);
        }
    });
}

#[test]
fn a_segment_deleted_under_the_writer_is_a_gap() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, 8 * MIB);
    add(&mut writer, 100);
    fs::remove_file(segment_path(&fixture, 0)).unwrap();
    // Noticed by the next look at the name, at the latest after a second of the box's time.
    writer.append(Stream::Stdout, at(5_000_000), &output(100, 50));
    assert_eq!(gaps(&fixture.dir, 0, 150), [(0, 100)]);
    assert_eq!((writer.end(), writer.figures().dropped_bytes), (150, 100));
}

#[test]
fn a_log_deleted_under_the_writer_is_made_again() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, 8 * MIB);
    add(&mut writer, 100);
    let mut reader = LogReader::open(&fixture.dir, 0, 100).unwrap();
    fs::remove_dir_all(fixture.dir.path().join("log")).unwrap();
    assert_eq!(gaps(&fixture.dir, 0, 100), [(0, 100)]);
    writer.append(Stream::Stdout, at(5_000_000), &output(100, 50));
    assert_eq!(check(&mut reader, 150, 1000), [(0, 100)], "a reader that was there finds it");
    assert_eq!(figures(&fixture.dir).unwrap(), writer.figures());
}

#[test]
fn a_log_that_is_not_a_directory_of_files_is_refused() {
    let fixture = Fixture::new();
    let log = fixture.dir.path().join("log");
    let refused =
        || matches!(LogWriter::create_or_open(&fixture.dir, MIB), Err(LogError::Open { .. }));
    let elsewhere = fixture.root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir(&log).unwrap();
    symlink(&elsewhere, &log).unwrap();
    assert!(refused());
    fs::remove_file(&log).unwrap();
    fs::write(&log, "").unwrap();
    assert!(refused());
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    symlink(elsewhere.join("x"), segment_path(&fixture, 0)).unwrap();
    assert!(refused());
    fs::remove_file(segment_path(&fixture, 0)).unwrap();
    fs::create_dir(segment_path(&fixture, 0)).unwrap();
    assert!(refused());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // For a reader it is as if it was not there.
    assert_eq!(gaps(&fixture.dir, 0, 10), [(0, 10)]);
}

#[test]
fn a_stream_of_a_later_version_is_a_gap() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, MIB);
    add(&mut writer, 10);
    let header = Header { stream: 9, length: 4, offset: 10, ts: at(0) };
    let later = [&header.encode()[..], b"????", &header.trailer()].concat();
    let path = segment_path(&fixture, 0);
    fs::write(&path, [fs::read(&path).unwrap(), later].concat()).unwrap();
    let mut writer = open(&fixture, MIB);
    assert_eq!(writer.end(), 14);
    add(&mut writer, 10);
    assert_eq!(gaps(&fixture.dir, 0, 24), [(10, 14)]);
    assert_eq!(gaps(&fixture.dir, 12, 24), [(12, 14)]);
}

#[test]
fn what_a_box_prints_is_not_taken_for_a_frame() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, MIB);
    let inner = Header { stream: 1, length: 6, offset: 0, ts: at(0) };
    let forged = [&inner.encode()[..], b"forged", &inner.trailer()].concat();
    writer.append(Stream::Stdout, at(0), &forged);
    // Cut such that the file ends with what the box printed.
    let path = segment_path(&fixture, 0);
    let file = fs::read(&path).unwrap();
    fs::write(&path, &file[..file.len() - frame::TRAILER]).unwrap();
    assert_eq!(gaps(&fixture.dir, 0, 35), [(0, 35)]);
    assert_eq!(open(&fixture, MIB).end(), 0);
}

/// The output of some lines over two streams, and the same as plain data.
fn lines_of(fixture: &Fixture, pieces: &[(bool, Vec<u8>)]) -> (u64, Vec<(Stream, u8)>) {
    let mut writer = open(fixture, 8 * MIB);
    let mut plain = Vec::new();
    for (index, (first, bytes)) in pieces.iter().enumerate() {
        let stream = if *first { Stream::Stdout } else { Stream::Stderr };
        writer.append(stream, at(i64::try_from(index).unwrap() * 10), bytes);
        plain.extend(bytes.iter().map(|byte| (stream, *byte)));
    }
    (writer.seal(), plain)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_last_lines_are_found(
        pieces in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a')], 1..8)),
            0..12,
        ),
        lines in 0u64..8,
        filter in 0u8..3,
        cut in 0u64..4,
    ) {
        let fixture = Fixture::new();
        let (end, plain) = lines_of(&fixture, &pieces);
        let end = end.saturating_sub(cut);
        let filter = Stream::from_byte(filter);
        let offset = tail_offset(&fixture.dir, end, lines, filter).unwrap();
        let text = |from: u64| -> Vec<u8> {
            let range = usize::try_from(from).unwrap()..usize::try_from(end).unwrap();
            let wanted = |(stream, _): &&(Stream, u8)| filter.is_none_or(|only| only == *stream);
            plain[range].iter().filter(wanted).map(|(_, byte)| *byte).collect()
        };
        let all = text(0);
        let all: Vec<&[u8]> = all.split_inclusive(|byte| *byte == b'\n').collect();
        let keep = usize::try_from(lines).unwrap().min(all.len());
        prop_assert_eq!(text(offset), all[all.len() - keep..].concat());
    }
}

#[test]
fn times_and_tails_are_found_across_segments_and_gaps() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, 2 * MIB);
    // Line n, of 100,000 bytes, is at offset n x 100,000 and at time n x 100,000.
    let line = [vec![b'x'; 99_999], vec![b'\n']].concat();
    for n in 0..60 {
        writer.append(Stream::Stdout, at(n * 100_000), &line);
        writer.trim(None);
    }
    let (dir, end) = (&fixture.dir, writer.end());
    let missing = {
        let mut reader = LogReader::open(dir, 0, end).unwrap();
        let mut missing = None;
        while let Some(chunk) = reader.next_chunk(end, 1 << 20).unwrap() {
            if let Chunk::Gap { from, to } = chunk {
                assert_eq!(missing.replace((from, to)), None, "one gap");
            }
        }
        missing.unwrap()
    };
    assert_eq!(missing.0, 11 * 100_000, "the head's segment closed after a MiB");
    let kept = (end - missing.1) / 100_000;
    for n in 1..=kept {
        assert_eq!(tail_offset(dir, end, n, None).unwrap(), end - n * 100_000);
    }
    assert_eq!(tail_offset(dir, end, 1, Some(Stream::Stderr)).unwrap(), 0);
    assert_eq!(tail_offset(dir, end, kept + 1, None).unwrap(), 10 * 100_000);
    let since = |micros| since_offset(dir, end, at(micros)).unwrap();
    assert_eq!((since(-1), since(0), since(1)), (0, 0, 100_000));
    assert_eq!(since(1_000_000), 1_000_000);
    assert_eq!(since(1_100_000), missing.1, "what is missing has no time");
    assert_eq!(since(5_900_000), 5_900_000);
    assert_eq!(since(5_800_001), 5_900_000);
    assert_eq!(since(5_900_001), end);
}

#[test]
fn an_empty_log_has_nothing_and_no_directory_is_an_empty_log() {
    let fixture = Fixture::new();
    for _ in 0..2 {
        assert_eq!(figures(&fixture.dir).unwrap().bytes, 0);
        assert_eq!(tail_offset(&fixture.dir, 0, 5, None).unwrap(), 0);
        assert_eq!(since_offset(&fixture.dir, 0, at(0)).unwrap(), 0);
        fs::remove_dir(fixture.dir.path().join("log")).ok();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_bytes_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        name in prop_oneof![
            Just("00000000000000000000".to_owned()),
            Just("18446744073709551615".to_owned()),
            "[0-9]{20}",
        ],
        valid: bool,
    ) {
        let fixture = Fixture::new();
        let mut writer = open(&fixture, MIB);
        if valid {
            add(&mut writer, 10);
        }
        let path = fixture.dir.path().join(format!("log/{name}.seg"));
        let before = fs::read(&path).unwrap_or_default();
        fs::remove_file(&path).ok();
        fs::write(&path, [before, bytes].concat()).unwrap();
        let end = figures(&fixture.dir).unwrap().bytes;
        let mut reader = LogReader::open(&fixture.dir, 0, 300).unwrap();
        while reader.next_chunk(300, 1000).unwrap().is_some() {}
        tail_offset(&fixture.dir, end, 3, None).unwrap();
        since_offset(&fixture.dir, end, at(3)).unwrap();
        let mut writer = open(&fixture, MIB);
        writer.append(Stream::Stdout, at(0), b"more");
    }
}

/// A log that goes on past its files' end, as after a life whose last output a full disk took, never
/// gives an offset twice.
#[test]
fn a_log_goes_on_where_it_is_told_to() {
    let fixture = Fixture::new();
    let mut writer = open(&fixture, 64 * MIB);
    add(&mut writer, 10);
    drop(writer);
    let mut writer = open(&fixture, 64 * MIB);
    writer.go_on_at(7).unwrap();
    assert_eq!(writer.end(), 10, "never back");
    writer.go_on_at(25).unwrap();
    assert_eq!(add(&mut writer, 5).end, 30);
    assert_eq!(writer.figures(), minimal_proto::api::LogFigures { bytes: 30, dropped_bytes: 15 });
    let mut reader = LogReader::open(&fixture.dir, 0, 30).unwrap();
    let mut seen = Vec::new();
    while let Some(chunk) = reader.next_chunk(30, 1 << 20).unwrap() {
        seen.push(match chunk {
            Chunk::Frames(frames) => (frames[0].offset, frames[0].bytes.len() as u64),
            Chunk::Gap { from, to } => (from, to - from),
        });
    }
    assert_eq!(seen, [(0, 10), (10, 15), (25, 5)]);
    drop(writer);
    assert_eq!(open(&fixture, 64 * MIB).end(), 30);
}
