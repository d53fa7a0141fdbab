//! A terminal that a test types in and reads from, with a program of ours at its other end.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::{LIMIT, Min, Output, Running, wait_until};

/// A program in a terminal. It does not control it: signals are sent to it by the test.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
    /// The program's end, which stays open for the test to look at.
    slave: Option<File>,
    before: Termios,
    seen: Arc<Mutex<Vec<u8>>>,
    /// The sizes it has had, each from a place in what was seen on.
    sizes: Mutex<Vec<(usize, Winsize)>>,
    /// Everything before this was waited for.
    at: usize,
    reader: Option<JoinHandle<()>>,
    running: Option<Running>,
}

impl Terminal {
    /// Starts a program in a terminal of this size.
    ///
    /// # Panics
    /// If there can be no terminal.
    #[must_use]
    pub fn start(min: Min, cols: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&master).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let slave = File::from(rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap());
        tcsetwinsize(&slave, winsize(cols, rows)).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let keys = File::from(master);
        let mut output = keys.try_clone().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            // EIO: nobody has the other end any more.
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                let mut seen = collected.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend_from_slice(&buffer[..length]);
            }
        });
        let end = || slave.try_clone().unwrap();
        let running = min.stdin_file(end()).stdout_file(end()).stderr_file(end()).spawn();
        Self {
            keys,
            slave: Some(slave),
            before,
            seen,
            sizes: Mutex::new(vec![(0, winsize(cols, rows))]),
            at: 0,
            reader: Some(reader),
            running: Some(running),
        }
    }

    /// Types.
    ///
    /// # Panics
    /// If the terminal takes nothing.
    pub fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Everything that was shown so far, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Waits until this is shown, behind what was waited for before.
    ///
    /// # Panics
    /// If it is not within the limit.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let (seen, at) = (Arc::clone(&self.seen), self.at);
        self.at = wait_until(&format!("the terminal shows {text:?}"), LIMIT, || {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let found = seen[at..].windows(text.len()).position(|part| part == text.as_bytes());
            found
                .map(|found| at + found + text.len())
                .ok_or_else(|| String::from_utf8_lossy(&seen[at..]).into_owned())
        });
    }

    /// What a person sees now.
    #[must_use]
    pub fn screen(&self) -> Picture {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut terminal, mut at) = (vt100::Parser::default(), 0);
        for (from, size) in sizes {
            terminal.process(&seen[at..from]);
            terminal.screen_mut().set_size(size.ws_row, size.ws_col);
            at = from;
        }
        terminal.process(&seen[at..]);
        Picture::of(terminal.screen())
    }

    /// Waits until a person sees the same as there.
    ///
    /// # Panics
    /// If it is not seen within the limit.
    #[track_caller]
    pub fn wait_for_picture(&self, wanted: &Picture) {
        wait_until("the terminal shows the same", LIMIT, || {
            self.screen().differs(wanted).map_or(Ok(()), Err)
        });
    }

    /// Waits until a person sees this.
    ///
    /// # Panics
    /// If it is not seen within the limit.
    #[track_caller]
    pub fn wait_for_screen(&self, what: &str, is_it: impl Fn(&Picture) -> bool) -> Picture {
        wait_until(&format!("the terminal shows {what}"), LIMIT, || {
            let screen = self.screen();
            if is_it(&screen) { Ok(screen) } else { Err(format!("{screen:#?}")) }
        })
    }

    /// Gives the terminal another size, and tells the program.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn resize(&self, cols: u16, rows: u16) {
        tcsetwinsize(&self.keys, winsize(cols, rows)).unwrap();
        let at = self.seen.lock().unwrap_or_else(PoisonError::into_inner).len();
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.push((at, winsize(cols, rows)));
        drop(sizes);
        self.signal(Signal::WINCH);
    }

    /// Signals the program.
    ///
    /// # Panics
    /// If it was waited for.
    pub fn signal(&self, signal: Signal) {
        self.running.as_ref().expect("it runs").signal(signal);
    }

    /// Waits for the program's end: how it ended, and everything that was shown.
    ///
    /// # Panics
    /// If it does not end within the limit, or leaves the terminal in another state than it found.
    #[track_caller]
    pub fn wait(mut self) -> (Output, String) {
        let output = self.running.take().expect("it is waited for once").wait();
        let slave = self.slave.take().expect("it is closed once");
        let after = tcgetattr(&slave).unwrap();
        assert_eq!(format!("{after:?}"), format!("{:?}", self.before), "the terminal is as it was");
        drop(slave);
        // Ended by the close of its other end.
        self.reader.take().expect("it is joined once").join().unwrap();
        let text = self.text();
        (output, text)
    }
}

/// What a terminal shows, and what decides how keys are sent; by a terminal of others' making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The lines' text, without blanks at their ends.
    pub lines: Vec<String>,
    /// The cursor's line and column, from 0.
    pub cursor: (u16, u16),
    /// Whether the cursor is shown.
    pub has_cursor: bool,
    /// Whether it is a full-screen program's.
    pub is_other: bool,
    /// How letters look, line by line: foreground, background, bold, inverse.
    looks: Vec<String>,
    /// The sequences that set how keys and mice are sent.
    input: String,
}

impl Picture {
    fn of(screen: &vt100::Screen) -> Self {
        let (rows, cols) = screen.size();
        let looks = |row| {
            let look = |col| {
                let cell = screen.cell(row, col)?;
                let letter = !cell.contents().trim().is_empty();
                let ink = letter.then(|| (cell.fgcolor(), cell.bold()));
                Some((ink, cell.bgcolor(), cell.inverse()))
            };
            format!("{:?}", (0..cols).map(look).collect::<Vec<_>>())
        };
        Self {
            lines: screen.rows(0, cols).map(|row| row.trim_end().to_owned()).collect(),
            cursor: screen.cursor_position(),
            has_cursor: !screen.hide_cursor(),
            is_other: screen.alternate_screen(),
            looks: (0..rows).map(looks).collect(),
            input: screen.input_mode_formatted().escape_ascii().to_string(),
        }
    }

    /// Where it is not the same as another, in words; none if it is.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let lines = self.lines.iter().zip(&other.lines).enumerate();
        let mut words: Vec<_> = lines
            .filter(|(_, (one, two))| one != two)
            .map(|(at, (one, two))| format!("line {at}: {one:?}, and not {two:?}"))
            .collect();
        let looks = self.looks.iter().zip(&other.looks).enumerate();
        words.extend(
            looks
                .filter(|(_, (one, two))| one != two)
                .map(|(at, _)| format!("the looks of line {at}")),
        );
        let rest =
            |it: &Self| (it.lines.len(), it.cursor, it.has_cursor, it.is_other, it.input.clone());
        words.push(format!("{:?}, and not {:?}", rest(self), rest(other)));
        Some(words.join("\n"))
    }

    /// Whether a line holds this.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.running.take());
        drop(self.slave.take());
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
    }
}

fn winsize(cols: u16, rows: u16) -> Winsize {
    Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}
