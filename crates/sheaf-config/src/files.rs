//! Files beside the configuration.

use crate::MAX_FILE_BYTES;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Whether other files are read. A text that came from elsewhere, such as the configuration of a run on another host, has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    Read,
    Refuse,
}

impl Files {
    /// Reads a text.
    pub(crate) fn read(self, path: &Path) -> io::Result<String> {
        if self == Self::Refuse {
            return Err(io::Error::other("this configuration is a text without files"));
        }
        let bytes = regular(path)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("it has more than {MAX_FILE_BYTES} bytes")));
        }
        let text = String::from_utf8(bytes);
        text.map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            io::Error::other(format!("its byte {byte} is not UTF-8"))
        })
    }
}

/// Reads the bytes of a file, at most one more than [`MAX_FILE_BYTES`].
pub(crate) fn regular(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a named pipe would wait until its other end is opened.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() {
            "it is a directory, not a regular file"
        } else {
            "it is not a regular file"
        };
        return Err(io::Error::other(what));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
