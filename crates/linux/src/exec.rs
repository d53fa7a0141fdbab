//! execve(2) and the search for a program on a path.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A program to execute, with everything laid out in advance.
#[derive(Debug)]
pub struct Program {
    argv: Vec<CString>,
    environment: Vec<CString>,
}

/// Why a program was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecFault {
    /// There is none.
    NotFound,
    /// It is a directory.
    Directory,
    /// It may not be executed.
    NoPermission,
    /// It is there, but the interpreter it names (`#!`, or the dynamic loader) is not.
    NoInterpreter,
    /// It is in no format the kernel knows.
    BadFormat,
    /// Anything else, by errno.
    Other(i32),
}

impl Program {
    /// Lays out arguments and environment.
    ///
    /// # Errors
    /// `EINVAL` if there is no argument or one holds a NUL byte.
    pub fn new<'a>(
        argv: impl Iterator<Item = &'a [u8]>,
        environment: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> io::Result<Self> {
        let invalid = |_nul| io::Error::from_raw_os_error(libc::EINVAL);
        let argv: Vec<_> = argv.map(CString::new).collect::<Result<_, _>>().map_err(invalid)?;
        let environment = environment
            .map(|(name, value)| CString::new([name, b"=", value].concat()))
            .collect::<Result<_, _>>()
            .map_err(invalid)?;
        if argv.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Self { argv, environment })
    }

    /// The same from what [`Program::texts`] gave.
    ///
    /// # Errors
    /// As [`Program::new`].
    pub fn from_texts<'a>(
        argv: impl Iterator<Item = &'a [u8]>,
        environment: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<Self> {
        let argv: Vec<_> = argv.map(CString::new).collect::<Result<_, _>>()?;
        let environment = environment.map(CString::new).collect::<Result<_, _>>()?;
        if argv.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Self { argv, environment })
    }

    /// Its arguments, and its environment as `NAME=value`.
    #[must_use]
    pub fn texts(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        (
            self.argv.iter().map(|text| text.as_bytes()).collect(),
            self.environment.iter().map(|text| text.as_bytes()).collect(),
        )
    }

    /// The program's name, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.argv[0].to_string_lossy().into_owned()
    }

    /// Executes it; returns only if that failed. A name without a slash is searched on `path`
    /// (colon-separated), as execvp(3) does, but a text without `#!` is never given to a shell.
    pub fn execute(&self, path: &[u8]) -> ExecFault {
        let name = self.argv[0].as_bytes();
        if name.contains(&b'/') {
            return self.attempt(&self.argv[0]);
        }
        // The most telling fault wins: something that was found outranks nothing found.
        let mut fault = ExecFault::NotFound;
        for directory in path.split(|byte| *byte == b':') {
            let directory = if directory.is_empty() { b".".as_slice() } else { directory };
            let Ok(file) = CString::new([directory, b"/", name].concat()) else { continue };
            match self.attempt(&file) {
                ExecFault::NotFound => {}
                // A directory of that name on the path is no program; shells look further.
                ExecFault::Directory if fault == ExecFault::NotFound => {
                    fault = ExecFault::Directory;
                }
                ExecFault::NoPermission
                    if matches!(fault, ExecFault::NotFound | ExecFault::Directory) =>
                {
                    fault = ExecFault::NoPermission;
                }
                ExecFault::Directory | ExecFault::NoPermission => {}
                found => return found,
            }
        }
        if fault == ExecFault::Directory { ExecFault::NotFound } else { fault }
    }

    fn attempt(&self, file: &CStr) -> ExecFault {
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let argv = pointers(&self.argv);
        let environment = pointers(&self.environment);
        // SAFETY: the file is a C string, both arrays end with a null pointer, and every text in
        // them lives in `self`.
        unsafe { libc::execve(file.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
        let error = io::Error::last_os_error();
        let metadata = Path::new(std::ffi::OsStr::from_bytes(file.to_bytes())).metadata();
        match error.raw_os_error() {
            Some(libc::ENOENT) if metadata.is_ok() => ExecFault::NoInterpreter,
            // No file has a name that is too long for one.
            Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG) => ExecFault::NotFound,
            Some(libc::EACCES | libc::EISDIR)
                if metadata.as_ref().is_ok_and(std::fs::Metadata::is_dir) =>
            {
                ExecFault::Directory
            }
            Some(libc::EACCES | libc::EPERM) => ExecFault::NoPermission,
            Some(libc::ENOEXEC) => ExecFault::BadFormat,
            Some(libc::ELIBBAD) => ExecFault::NoInterpreter,
            Some(errno) => ExecFault::Other(errno),
            None => ExecFault::Other(libc::EIO),
        }
    }
}
