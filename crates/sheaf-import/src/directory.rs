//! A directory of fragment streams: complete, or as it was before.

use crate::report::Coverage;
use crate::{Format, ImportError, ImportReport};
use sheaf_store::fragment_stream::{EXTENSION, StreamHeader, StreamWriter, file_name};
use sheaf_wire::{Fragment, RunNumber, SourceId};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The streams of one import. They are written to a staging directory inside the output directory and moved to their
/// places by [`StreamDirectory::finish`]; dropped before that, it leaves the output directory as it was.
#[derive(Debug)]
pub(crate) struct StreamDirectory {
    path: PathBuf,
    staging: PathBuf,
    /// Whether the directory was made for this import.
    made: bool,
    run: RunNumber,
    metadata: String,
    writers: BTreeMap<SourceId, StreamWriter<File>>,
    coverage: Coverage,
    fragments: u64,
    bytes: u64,
}

impl StreamDirectory {
    pub(crate) fn create(
        path: &Path,
        run: RunNumber,
        metadata: String,
        force: bool,
    ) -> Result<Self, ImportError> {
        let made = prepare(path, force)?;
        // From here on, dropping cleans up.
        let directory = Self {
            path: path.to_owned(),
            staging: path.join(format!(".importing-{}", std::process::id())),
            made,
            run,
            metadata,
            writers: BTreeMap::new(),
            coverage: Coverage::default(),
            fragments: 0,
            bytes: 0,
        };
        fs::create_dir(&directory.staging).map_err(|error| output_error(path, error))?;
        Ok(directory)
    }

    pub(crate) fn append(&mut self, fragment: &Fragment<&[u8]>) -> Result<(), ImportError> {
        let source = fragment.source;
        if !self.writers.contains_key(&source) {
            let header =
                StreamHeader { source, run: self.run, has_events: true, has_times: true, time_base: None };
            let writer = StreamWriter::create(&self.staging.join(file_name(source)), header, &self.metadata)?;
            self.writers.insert(source, writer);
        }
        if let Some(writer) = self.writers.get_mut(&source) {
            writer.append(fragment)?;
        }
        self.coverage.add(source, fragment.event);
        self.fragments += 1;
        self.bytes += fragment.payload.len() as u64;
        Ok(())
    }

    pub(crate) fn fragments(&self) -> u64 {
        self.fragments
    }

    /// Ends every stream and gives the directory its content.
    pub(crate) fn finish(mut self, format: Format) -> Result<ImportReport, ImportError> {
        let sources: Vec<SourceId> = self.writers.keys().copied().collect();
        for (_, writer) in std::mem::take(&mut self.writers) {
            writer.finish()?;
        }
        self.publish(&sources).map_err(|error| output_error(&self.path, error))?;
        self.made = false;
        Ok(ImportReport {
            format,
            output: self.path.clone(),
            run: self.run.0,
            sources: sources.len() as u64,
            events: self.coverage.events(),
            events_incomplete: self.coverage.incomplete(),
            fragments: self.fragments,
            fragments_repeated: self.coverage.repeated(),
            bytes: self.bytes,
            missing: self.coverage.missing(),
        })
    }

    /// Moves the new streams in, after removing streams of an earlier import that would mix with them.
    fn publish(&self, sources: &[SourceId]) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new(EXTENSION)) {
                fs::remove_file(path)?;
            }
        }
        for &source in sources {
            let name = file_name(source);
            fs::rename(self.staging.join(&name), self.path.join(&name))?;
        }
        Ok(())
    }
}

impl Drop for StreamDirectory {
    fn drop(&mut self) {
        // A failure here cannot be handled, and the original error is more informative.
        let _ = fs::remove_dir_all(&self.staging);
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Prepares the output directory for writing. Returns whether it was created.
fn prepare(path: &Path, force: bool) -> Result<bool, ImportError> {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if !force && entries.next().is_some() {
                return Err(ImportError::OutputNotEmpty { path: path.to_owned() });
            }
            Ok(false)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path).map_err(|error| output_error(path, error))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(ImportError::OutputNotDirectory { path: path.to_owned() })
        }
        Err(error) => Err(output_error(path, error)),
    }
}

fn output_error(path: &Path, error: io::Error) -> ImportError {
    ImportError::Output { path: path.to_owned(), error }
}
