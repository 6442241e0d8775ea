//! Preprocessors, which make new payloads of fragments in a readout unit before they leave it.

#![allow(unsafe_code)]

use crate::abi::{self, PreprocessorTable};
use crate::filter::FilterFailure;
use crate::loading::{self, Kind, Loaded, MESSAGE_BYTES, OpenError, Setup, Whose};
use crate::text;
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::path::Path;
use std::ptr;

/// A fragment that a builder unit has asked for.
#[derive(Clone, Copy, Debug)]
pub struct RawFragment<'a> {
    /// The event's number.
    pub event: EventId,
    /// Who saw it.
    pub source: SourceId,
    /// The source's own time of the event; zero where it has none.
    pub time: Timestamp,
    /// The payload as the source sent it.
    pub payload: &'a [u8],
}

/// Result of a preprocessor for a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processed {
    /// Nothing: the fragment leaves as it is.
    Kept,
    /// A new payload of this many bytes, in the buffer provided.
    Written(usize),
}

/// Processes fragments before they leave a readout unit: compaction, zero suppression, features in place of samples.
pub trait Preprocessor: Send {
    /// Makes a new payload of a fragment, in `room`, which has at least as many bytes as the fragment; or leaves it as
    /// it is.
    ///
    /// Where a builder unit asks again the same fragment comes again: the result should depend on nothing else.
    ///
    /// # Errors
    /// A [`FilterFailure`] where the fragment cannot be processed. It then leaves as the source sent it.
    fn process(&mut self, fragment: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure>;

    /// Number of times that the process doing the work was replaced because it had died or hung; 0 where the work is
    /// done in this process.
    fn restarts(&self) -> u64 {
        0
    }
}

/// A preprocessor from a shared library.
#[derive(Debug)]
pub struct LibraryPreprocessor {
    preprocessor: Loaded,
    process: abi::ProcessFragment,
}

impl LibraryPreprocessor {
    /// Loads the library at `path` and makes a preprocessor of the table that its function `symbol` gives.
    ///
    /// The library's code runs in this process, with all its rights.
    ///
    /// # Errors
    /// Why that is not possible, and what would be right.
    pub fn open(path: &Path, symbol: &str, setup: &Setup) -> Result<Self, OpenError> {
        let (table, whose, library) = loading::open::<PreprocessorTable>(path, symbol)?;
        let preprocessor = loading::make(&table, setup, &whose, Some(library))?;
        Self::of(&table, preprocessor, &whose)
    }

    /// Makes a preprocessor of a table of this program.
    ///
    /// # Errors
    /// If the table is not valid, with the reason and the valid values.
    ///
    /// # Safety
    /// `table` must be null, or a table whose functions behave as documented for [`PreprocessorTable`] as long as the
    /// preprocessor lives.
    pub unsafe fn of_table(table: *const PreprocessorTable, setup: &Setup) -> Result<Self, OpenError> {
        let whose = Whose::Program(Kind::Preprocessor);
        // SAFETY: promised by the caller.
        let table = unsafe { loading::read_table(table, &whose)? };
        let preprocessor = loading::make(&table, setup, &whose, None)?;
        Self::of(&table, preprocessor, &whose)
    }

    fn of(table: &PreprocessorTable, preprocessor: Loaded, whose: &Whose) -> Result<Self, OpenError> {
        let process = table.process.ok_or_else(|| whose.bad_table("`process` is null"))?;
        Ok(Self { preprocessor, process })
    }
}

impl Preprocessor for LibraryPreprocessor {
    fn process(&mut self, fragment: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        let raw = abi::RawFragment {
            event: fragment.event.0,
            time_ns: fragment.time.0,
            source: fragment.source.0,
            reserved: 0,
            data: fragment.payload.as_ptr(),
            bytes: fragment.payload.len(),
        };
        let mut made = abi::Processed {
            data: room.as_mut_ptr(),
            room: room.len(),
            bytes: 0,
            keep: 0,
            reserved: 0,
            failure: ptr::null(),
        };
        // SAFETY: a function of the interface, a thing that it made and has not unmade, structs that outlive the call.
        let status = unsafe { (self.process)(self.preprocessor.as_ptr(), &raw const raw, &raw mut made) };
        if status != 0 {
            // SAFETY: null or a text with a NUL, which is valid until the preprocessor is called again.
            let failure = unsafe { text::read(made.failure, MESSAGE_BYTES) };
            let failure = failure.unwrap_or_else(|| format!("the preprocessor returned {status}"));
            return Err(FilterFailure(failure));
        }
        match made.keep {
            1 => Ok(Processed::Kept),
            0 if made.bytes <= room.len() => Ok(Processed::Written(made.bytes)),
            0 => Err(FilterFailure(format!(
                "the preprocessor's result is invalid: {} bytes, but at most {} fit",
                made.bytes,
                room.len()
            ))),
            other => Err(FilterFailure(format!(
                "the preprocessor's result is invalid: `keep` is {other}, not 0 or 1"
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
