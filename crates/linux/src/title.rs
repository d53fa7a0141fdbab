//! What a process is called in `ps`.

use std::io;
use std::sync::OnceLock;

/// Where the arguments are and how long. A fork has them in the same place, so the nursery finds
/// them once for all its keepers.
static ARGUMENTS: OnceLock<(usize, usize)> = OnceLock::new();

/// Names this process: `comm` (15 bytes, prctl(2)) and, as far as it fits, the command line that
/// `ps` shows, which lives in the memory the kernel laid out at exec (proc_pid_stat(5),
/// `arg_start` and `arg_end`).
///
/// # Errors
/// /proc cannot be read. The process is then called as before.
pub fn set(title: &str) -> io::Result<()> {
    let comm: Vec<u8> = title.bytes().take(15).filter(|byte| *byte != 0).collect();
    let comm = std::ffi::CString::new(comm).map_err(io::Error::other)?;
    rustix::thread::set_name(&comm)?;
    let (start, room) = match ARGUMENTS.get() {
        Some(found) => *found,
        None => {
            let found = find_arguments()?;
            *ARGUMENTS.get_or_init(|| found)
        }
    };
    let text = title.as_bytes();
    let length = text.len().min(room - 1);
    let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel says that the bytes from start to end hold our arguments; they are on our
    // stack, writable, and nothing but ps reads them after start-up (std copies its arguments'
    // pointers, and the callers of this have read their arguments).
    unsafe { std::ptr::write_bytes(place, 0, room) };
    // SAFETY: as above, and `length` is less than the room.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), place, length) };
    Ok(())
}

fn find_arguments() -> io::Result<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is the name in parentheses, which may hold anything.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field =
        |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse::<usize>().ok();
    let (Some(start), Some(end)) = (field(48), field(49)) else {
        return Err(io::Error::other("/proc/self/stat has no argument addresses"));
    };
    match end.checked_sub(start) {
        Some(room) if start > 0 && room > 0 => Ok((start, room)),
        _ => Err(io::Error::other("the kernel does not tell where the arguments are")),
    }
}
