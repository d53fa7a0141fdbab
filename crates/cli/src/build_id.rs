//! Which build this executable is.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use std::fmt::Write as _;

/// The identity of the executable that runs: its GNU build id, or where it has none what tells one
/// file from another: version, size and time of change.
#[must_use]
pub fn build_id() -> String {
    // The link leads to the file we run even when its name is gone or another's.
    let Ok(file) = File::open("/proc/self/exe") else {
        return concat!(env!("CARGO_PKG_VERSION"), "-unknown").to_owned();
    };
    if let Ok(Some(id)) = gnu_build_id(&file) {
        return id;
    }
    match file.metadata() {
        Ok(meta) => {
            format!("{}-{}-{}", env!("CARGO_PKG_VERSION"), meta.size(), meta.mtime())
        }
        Err(_) => concat!(env!("CARGO_PKG_VERSION"), "-unknown").to_owned(),
    }
}

/// The size of an ELF64 file header and of a program header (elf(5)).
const FILE_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// `PT_NOTE` and `NT_GNU_BUILD_ID`.
const NOTE: u32 = 4;
const BUILD_ID: u32 = 3;
/// More program headers, or longer notes, than any linker writes.
const HEADERS_MAX: u16 = 128;
const NOTES_MAX: u64 = 64 << 10;

/// The GNU build id in the notes of an ELF64 file, in hex. `None`: it has none, or is no such file.
fn gnu_build_id(file: &File) -> io::Result<Option<String>> {
    let mut header = [0; FILE_HEADER];
    file.read_exact_at(&mut header, 0)?;
    // Magic, 64 bits, little-endian: what we are built for.
    if header[..6] != *b"\x7fELF\x02\x01" {
        return Ok(None);
    }
    let table = u64_at(&header, 32);
    let (entry, count) = (u16_at(&header, 54), u16_at(&header, 56));
    if usize::from(entry) != PROGRAM_HEADER || count > HEADERS_MAX {
        return Ok(None);
    }
    for index in 0..u64::from(count) {
        let mut header = [0; PROGRAM_HEADER];
        let Some(at) = table.checked_add(index * PROGRAM_HEADER as u64) else { break };
        file.read_exact_at(&mut header, at)?;
        if u32_at(&header, 0) != NOTE {
            continue;
        }
        let (offset, size) = (u64_at(&header, 8), u64_at(&header, 32).min(NOTES_MAX));
        let mut notes = vec![0; usize::try_from(size).expect("64 KiB at most")];
        file.read_exact_at(&mut notes, offset)?;
        if let Some(id) = build_id_in(&notes) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Each note: sizes of name and description, a type, then both, padded to four bytes.
fn build_id_in(mut notes: &[u8]) -> Option<String> {
    while let Some((header, rest)) = notes.split_at_checked(12) {
        let padded = |size: u32| (size as usize).checked_next_multiple_of(4);
        let (name_size, id_size) = (u32_at(header, 0), u32_at(header, 4));
        let (name, rest) = rest.split_at_checked(padded(name_size)?)?;
        let (id, rest) = rest.split_at_checked(padded(id_size)?)?;
        if u32_at(header, 8) == BUILD_ID && name == b"GNU\0" {
            let mut hex = String::new();
            for byte in id.iter().take(id_size as usize) {
                write!(hex, "{byte:02x}").expect("a String takes all");
            }
            return (!hex.is_empty()).then_some(hex);
        }
        notes = rest;
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_stays_the_same_and_is_not_empty() {
        assert_eq!(build_id(), build_id());
        assert!(!build_id().is_empty());
    }

    #[test]
    fn the_note_of_that_name_and_type_is_taken() {
        let mut notes = Vec::new();
        for (name, kind, id) in [(b"GNU\0", 1u32, b"xxxx"), (b"GNU\0", 3, b"\x01\xab\xff\0")] {
            notes.extend(4u32.to_le_bytes());
            notes.extend(4u32.to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(id);
        }
        assert_eq!(build_id_in(&notes).as_deref(), Some("01abff00"));
        assert_eq!(build_id_in(&notes[..20]), None);
    }

    proptest! {
        #[test]
        fn no_file_panics(head: Vec<u8>, rest: Vec<u8>) {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(b"\x7fELF\x02\x01", 0).unwrap();
            file.write_all_at(&head, 6).unwrap();
            file.write_all_at(&rest, 64).unwrap();
            drop(gnu_build_id(&file));
            build_id_in(&rest);
        }
    }
}
