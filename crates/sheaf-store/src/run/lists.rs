//! Lists of closed files and their expected content: next to the files of a session during the run, and in the manifest
//! when it has ended.

use super::error::RunReadError;
use super::open_file::OpenFile;
use crate::event_file::{ClosedFile, FileName, PartFile, SessionName, Storage};
use crate::regular;
use sheaf_wire::checksum::crc32c_append;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IoSlice, Read};
use std::path::{Path, PathBuf};

/// Extension of a list, after the name of the session.
const EXTENSION: &str = "files.jsonl";

/// The name of a session's list.
#[must_use]
pub fn list_name(session: SessionName) -> String {
    format!("{session}.{EXTENSION}")
}

/// Writes the list of a session: one line of JSON for each closed file, made when there is one, and another when that is in
/// an object store. Of two lines of a file the second counts.
#[derive(Debug)]
pub struct FileList<S: Storage> {
    storage: S,
    name: String,
    file: Option<S::File>,
    /// Bytes up to the end of the last whole line.
    end: u64,
    /// Whether there may be bytes after that.
    dirty: bool,
    /// Lines that are not in the file yet.
    waiting: Vec<u8>,
}

impl<S: Storage> FileList<S> {
    /// The list of `session`, in `storage`.
    pub fn new(storage: S, session: SessionName) -> Self {
        Self { storage, name: list_name(session), file: None, end: 0, dirty: false, waiting: Vec::new() }
    }

    /// Adds a file.
    pub fn add(&mut self, closed: &ClosedFile) {
        // Text and numbers are always JSON.
        self.waiting.extend(serde_json::to_vec(closed).unwrap_or_default());
        self.waiting.push(b'\n');
    }

    /// Returns whether there are lines that are not in the file yet.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes the lines that are not in the file yet. Can be repeated after an error.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn write(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.storage.create(&self.name)?),
        };
        if self.dirty {
            file.truncate(self.end)?;
        }
        self.dirty = true;
        let mut rest = &self.waiting[..];
        while !rest.is_empty() {
            match file.append(&[IoSlice::new(rest)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => rest = &rest[bytes..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.dirty = false;
        self.end += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Returns the path of the list for error messages.
    pub fn path(&self) -> PathBuf {
        self.storage.path(&self.name)
    }
}

/// Reads the lists in `directory`, by file name. Incomplete lines are left out: their files then count as closed files
/// without a description.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn read_lists(directory: &Path) -> io::Result<BTreeMap<String, ClosedFile>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let session = name.strip_suffix(EXTENSION).and_then(|name| name.strip_suffix('.'));
        if session.and_then(SessionName::parse).is_some() {
            let text = regular::read(&path)?;
            let lines = text.split(|byte| *byte == b'\n');
            let closed = lines.filter_map(|line| serde_json::from_slice::<ClosedFile>(line).ok());
            all.extend(closed.map(|closed| (closed.file.clone(), closed)));
        }
    }
    Ok(all)
}

/// Why the files of a session cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The operating system refused.
    #[error("cannot list {path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A file could not be opened.
    #[error("cannot list the files of a session: {0}")]
    Open(#[from] RunReadError),
}

/// Returns the closed files of `session` in `directory`, by stream and part, with the checksums from its list.
/// Checksums of files that differ from the list, or that it lacks, are computed.
///
/// # Errors
/// A [`ListError`] that names the file.
pub fn closed_files(directory: &Path, session: SessionName) -> Result<Vec<ClosedFile>, ListError> {
    let io_error = |path: &Path, error| ListError::Io { path: path.to_owned(), error };
    let listed = read_lists(directory).map_err(|error| io_error(directory, error))?;
    let mut found = Vec::new();
    for (name, path) in session_files(directory, session, FileName::parse_either)
        .map_err(|error| io_error(directory, error))?
    {
        let (reader, _) = OpenFile::open(&path)?;
        let Some(events) = reader.events() else { continue };
        let bytes = reader.file_bytes();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = listed.get(&file).filter(|closed| (closed.events, closed.bytes) == (events, bytes));
        let object = known.and_then(|closed| closed.object.clone());
        let crc32c = match known.and_then(|closed| closed.crc32c) {
            Some(checksum) => checksum,
            None => checksum_of(&path).map_err(|error| io_error(&path, error))?,
        };
        found.push(ClosedFile { file, stream: name.stream, events, bytes, crc32c: Some(crc32c), object });
    }
    Ok(found)
}

/// Removes the list of `session`, whose content is in the manifest.
///
/// # Errors
/// The error of the operating system.
pub fn remove_list(directory: &Path, session: SessionName) -> io::Result<()> {
    match fs::remove_file(directory.join(list_name(session))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The files of a session whose names `parse` knows, by stream and part.
pub(crate) fn session_files(
    directory: &Path,
    session: SessionName,
    parse: fn(&str) -> Option<FileName>,
) -> io::Result<Vec<(FileName, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().and_then(parse)
            && name.owner() == session
        {
            files.push((name, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the CRC-32C of all bytes of a file.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn checksum_of(path: &Path) -> io::Result<u32> {
    let mut file = regular::open(path)?;
    let mut block = vec![0; 1 << 20];
    let mut checksum = 0;
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(checksum),
            Ok(bytes) => checksum = crc32c_append(checksum, &block[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
