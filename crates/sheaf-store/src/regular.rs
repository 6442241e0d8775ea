//! Opens files from users without blocking on anything that is not a regular file.
//!
//! Opening a named pipe blocks until its other end is opened, and a device may do anything.

use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// The error of the operating system, or that it is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let what = match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => return Ok(file.into()),
        FileType::Fifo => "a named pipe",
        FileType::Directory => "a directory",
        _ => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

/// The content of a regular file.
///
/// # Errors
/// As for [`open`], and of reading.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_writer_is_no_file_and_nobody_waits_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("events.sheaf");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(open(&pipe).unwrap_err().to_string(), "it is a named pipe, not a regular file");
        assert_eq!(read(directory.path()).unwrap_err().to_string(), "it is a directory, not a regular file");
        assert_eq!(
            read(Path::new("/dev/zero")).unwrap_err().to_string(),
            "it is a device, not a regular file"
        );
        let file = directory.path().join("file");
        std::fs::write(&file, "content").unwrap();
        assert_eq!(read(&file).unwrap(), b"content");
        assert_eq!(open(&directory.path().join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
