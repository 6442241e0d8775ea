//! Sources from shared libraries, which are polled for fragments.

#![allow(unsafe_code)]

use crate::abi::{self, FILTER_ABI, POLL_END, POLL_MORE, POLL_WAIT, PollBatch, SourceTable};
use crate::filter::FilterFailure;
use crate::loading::{self, Loaded, MESSAGE_BYTES, OpenError, Whose};
use crate::text;
use libloading::Library;
use sheaf_wire::{ByteCount, EventId, Nanos, RunNumber, SourceId, Timestamp};
use std::ffi::c_char;
use std::path::Path;
use std::{ptr, slice};
use thiserror::Error;

/// Pause before the next poll of a library that names none.
const WAIT: Nanos = Nanos::from_micros(100);

/// Longest pause.
const LONGEST_WAIT: Nanos = Nanos::from_secs(1);

/// Setup of a library of sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollSetup {
    /// The number of the run.
    pub run: RunNumber,
    /// A text for the library alone.
    pub parameters: String,
    /// Sources to be read.
    pub sources: Vec<SourceId>,
    /// Largest fragment that is taken.
    pub max_fragment: ByteCount,
    /// Maximum number of fragments of a poll.
    pub batch_fragments: usize,
}

/// State of a library after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollEnd {
    /// There is more at once.
    More,
    /// There may be more after this time.
    After(Nanos),
    /// Nothing more comes.
    Ended,
}

impl PollEnd {
    /// Returns the meaning of `then` and `wait_ns` in the answer of a library.
    ///
    /// # Errors
    /// If `then` is none of the constants of the interface.
    pub(crate) fn of_answer(then: u32, wait_ns: u64) -> Result<Self, PollError> {
        match then {
            POLL_MORE => Ok(Self::More),
            POLL_WAIT if wait_ns == 0 => Ok(Self::After(WAIT)),
            POLL_WAIT => Ok(Self::After(Nanos(wait_ns).min(LONGEST_WAIT))),
            POLL_END => Ok(Self::Ended),
            other => Err(PollError::Invalid(format!("`then` is {other}"))),
        }
    }
}

/// Reason why a poll gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PollError {
    /// The library says that it failed.
    #[error(transparent)]
    Failed(#[from] FilterFailure),
    /// Its answer is invalid.
    #[error("the answer of the library is invalid: {0}")]
    Invalid(String),
}

/// A fragment of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledFragment<'a> {
    /// The event's number.
    pub event: EventId,
    /// Its source, which need not be one of the setup.
    pub source: SourceId,
    /// The source's own time of the event; zero where it has none.
    pub time: Timestamp,
    /// Its payload; `None` if it has a size and no data.
    pub payload: Option<&'a [u8]>,
}

/// Sources from a shared library.
#[derive(Debug)]
pub struct LibrarySource {
    sources: Loaded,
    table: SourceTable,
    poll: abi::PollSources,
    batch: Vec<abi::PolledFragment>,
    /// Number of fragments of the last poll.
    count: usize,
}

// SAFETY: pointers in `batch` are the library's, which any one thread at a time may call (`abi::SourceTable`).
unsafe impl Send for LibrarySource {}

impl LibrarySource {
    /// Loads the library at `path` and opens the sources of the table that its function `symbol` gives.
    ///
    /// The library's code runs in this process, with all its rights.
    ///
    /// # Errors
    /// Why that is not possible, and what would be right.
    pub fn open(path: &Path, symbol: &str, setup: &PollSetup) -> Result<Self, OpenError> {
        let (table, whose, library) = loading::open::<SourceTable>(path, symbol)?;
        Self::make(table, &whose, Some(library), setup)
    }

    /// Checks that the library at `path` can be loaded and has a table. Opens no source: hardware may bear that only once.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn check(path: &Path, symbol: &str) -> Result<(), OpenError> {
        let (table, whose, _library) = loading::open::<SourceTable>(path, symbol)?;
        complete(&table, &whose).map(drop)
    }

    /// Opens the sources of a table of this program.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Safety
    /// `table` is null, or points to a table of some version of the interface whose functions do as it says.
    pub unsafe fn of_table(table: *const SourceTable, setup: &PollSetup) -> Result<Self, OpenError> {
        let whose = Whose::Program(loading::Kind::Source);
        // SAFETY: promised by the caller.
        let table = unsafe { loading::read_table(table, &whose)? };
        Self::make(table, &whose, None, setup)
    }

    fn make(
        table: SourceTable,
        whose: &Whose,
        library: Option<Library>,
        setup: &PollSetup,
    ) -> Result<Self, OpenError> {
        let (open, poll) = complete(&table, whose)?;
        let parameters = loading::c_text(&setup.parameters, || "source.library.parameters".to_owned())?;
        let ids: Vec<u32> = setup.sources.iter().map(|source| source.0).collect();
        let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
        let given = abi::SourceSetup {
            abi: FILTER_ABI,
            run: setup.run.0,
            parameters: parameters.as_ptr(),
            sources: ids.as_ptr(),
            source_count: ids.len(),
            max_fragment_bytes: setup.max_fragment.0,
            message: message.as_mut_ptr(),
            message_bytes: message.len(),
        };
        // SAFETY: a function of the interface; all that the setup points to outlives the call.
        let thing = unsafe { open(&raw const given) };
        let sources = Loaded::new(thing, table.close, library, whose, &message)?;
        let batch = vec![abi::PolledFragment::default(); setup.batch_fragments.max(1)];
        Ok(Self { sources, table, poll, batch, count: 0 })
    }

    /// Announces the start of the run.
    pub fn start(&mut self) {
        if let Some(start) = self.table.start {
            // SAFETY: a function of the interface, called with what the library has opened.
            unsafe { start(self.sources.as_ptr()) };
        }
    }

    /// Announces the end of the run. Nothing is polled from now on.
    pub fn stop(&mut self) {
        self.count = 0;
        if let Some(stop) = self.table.stop {
            // SAFETY: as for `start`.
            unsafe { stop(self.sources.as_ptr()) };
        }
    }

    /// Polls. The fragments are those that [`Self::fragment`] returns from now on.
    ///
    /// # Errors
    /// If the library failed or its answer is invalid. There are no fragments then.
    pub fn poll(&mut self) -> Result<PollEnd, PollError> {
        self.count = 0;
        let mut batch = PollBatch {
            fragments: self.batch.as_mut_ptr(),
            room: self.batch.len(),
            count: 0,
            then: POLL_WAIT,
            reserved: 0,
            wait_ns: 0,
            failure: ptr::null(),
        };
        // SAFETY: a function of the interface; the list has as much room as the batch says.
        let status = unsafe { (self.poll)(self.sources.as_ptr(), &raw mut batch) };
        if status != 0 {
            // SAFETY: null or a text with a NUL, which is valid until the library is called again.
            let failure = unsafe { text::read(batch.failure, MESSAGE_BYTES) };
            let failure = failure.unwrap_or_else(|| format!("`poll` returned {status}"));
            return Err(FilterFailure(failure).into());
        }
        if batch.count > self.batch.len() {
            let (count, room) = (batch.count, self.batch.len());
            return Err(PollError::Invalid(format!("{count} fragments where there is room for {room}")));
        }
        let end = PollEnd::of_answer(batch.then, batch.wait_ns)?;
        self.count = batch.count;
        Ok(end)
    }

    /// Returns a fragment of the last poll, by its place; `None` behind the last.
    #[must_use]
    pub fn fragment(&self, index: usize) -> Option<PolledFragment<'_>> {
        let found = self.batch[..self.count].get(index)?;
        let payload = match (found.data.is_null(), found.bytes) {
            (_, 0) => Some(&[][..]),
            (true, _) => None,
            // No object is larger.
            (false, bytes) if isize::try_from(bytes).is_err() => None,
            // SAFETY: a payload of this size, which the library leaves as it is until it is called again (`abi::PolledFragment`).
            (false, bytes) => Some(unsafe { slice::from_raw_parts(found.data, bytes) }),
        };
        Some(PolledFragment {
            event: EventId(found.event),
            source: SourceId(found.source),
            time: Timestamp(found.time_ns),
            payload,
        })
    }
}

type OpenSources = unsafe extern "C" fn(setup: *const abi::SourceSetup) -> *mut std::ffi::c_void;

fn complete(table: &SourceTable, whose: &Whose) -> Result<(OpenSources, abi::PollSources), OpenError> {
    let open = table.open.ok_or_else(|| whose.bad_table("`open` is null"))?;
    let poll = table.poll.ok_or_else(|| whose.bad_table("`poll` is null"))?;
    Ok((open, poll))
}

#[cfg(test)]
mod tests;
