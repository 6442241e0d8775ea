//! An open file of a run: an event file, or its conversion.

use super::error::RunReadError;
use crate::event_file::{
    EventFileReader, FileFormatError, FileHeader, FileRecords, HDF5_EXTENSION, StoredEvent,
};
use bytes::Bytes;
use std::fs::File;
use std::path::Path;

/// Returns whether a path is that of an HDF5 file.
pub(crate) fn is_hdf5(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == HDF5_EXTENSION)
}

/// An open file of a run: an iterator over its events. `Err` items cost only what they describe; the iterator continues
/// after them.
#[derive(Debug)]
pub(crate) enum OpenFile {
    Event(Box<EventFileReader<File>>),
    #[cfg(feature = "hdf5")]
    Hdf5(Box<crate::hdf5_file::Reader>, u64),
}

impl OpenFile {
    /// Opens a file; also returns the damage of a header that could be read nevertheless.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<FileFormatError>), RunReadError> {
        if is_hdf5(path) {
            return Self::open_hdf5(path).map(|file| (file, None));
        }
        match EventFileReader::open_damaged(path) {
            Ok((reader, wrong)) => Ok((Self::Event(Box::new(reader)), wrong)),
            // It may have been replaced since its directory was listed.
            Err(error) => match path.with_extension(HDF5_EXTENSION) {
                replaced if !path.exists() && replaced.exists() => {
                    Self::open_hdf5(&replaced).map(|file| (file, None))
                }
                _ => Err(error.into()),
            },
        }
    }

    #[cfg(feature = "hdf5")]
    fn open_hdf5(path: &Path) -> Result<Self, RunReadError> {
        let bytes = path.metadata().map(|metadata| metadata.len());
        let bytes =
            bytes.map_err(|error| RunReadError::Hdf5 { path: path.to_owned(), error: Box::new(error) })?;
        Ok(Self::Hdf5(Box::new(crate::hdf5_file::Reader::open(path)?), bytes))
    }

    #[cfg(not(feature = "hdf5"))]
    fn open_hdf5(path: &Path) -> Result<Self, RunReadError> {
        Err(RunReadError::NoHdf5 { path: path.to_owned() })
    }

    /// The metadata of the file; `None` where its header is damaged, or where it was made of several files.
    pub(crate) fn header(&self) -> Option<&FileHeader> {
        match self {
            Self::Event(reader) => reader.header(),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(reader, _) => reader.header(),
        }
    }

    /// The metadata, a JSON object as text.
    pub(crate) fn metadata(&self) -> &str {
        match self {
            Self::Event(reader) => reader.metadata(),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(reader, _) => reader.metadata(),
        }
    }

    /// Sets whether payload checksums are verified. The default is to verify them.
    pub(crate) fn check_payloads(&mut self, check: bool) {
        match self {
            Self::Event(reader) => reader.check_payloads(check),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(reader, _) => reader.check_payloads(check),
        }
    }

    /// Returns the run records of the file. Events are not read.
    pub(crate) fn records(&mut self) -> Result<FileRecords, RunReadError> {
        match self {
            Self::Event(reader) => Ok(reader.records()?),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(reader, _) => Ok(reader.records()?),
        }
    }

    /// The file's size.
    pub(crate) fn file_bytes(&self) -> u64 {
        match self {
            Self::Event(reader) => reader.file_bytes(),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(_, bytes) => *bytes,
        }
    }

    /// Returns whether its writer closed it. An HDF5 file has its name only then.
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Self::Event(reader) => reader.footer().is_ok(),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(..) => true,
        }
    }

    /// Returns the number of events, if the end of the file gives it.
    pub(crate) fn events(&self) -> Option<u64> {
        match self {
            Self::Event(reader) => reader.footer().ok().map(|footer| footer.events),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(reader, _) => Some(reader.events()),
        }
    }
}

impl Iterator for OpenFile {
    type Item = Result<StoredEvent<Bytes>, RunReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Event(reader) => reader.next().map(|item| item.map_err(RunReadError::from)),
            #[cfg(feature = "hdf5")]
            Self::Hdf5(reader, _) => reader.next().map(|item| item.map_err(RunReadError::from)),
        }
    }
}
