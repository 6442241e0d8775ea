//! Sources from shared libraries, which are polled for fragments.

#![allow(unsafe_code)]

use crate::abi::{self, FILTER_ABI, POLL_WAIT, PollBatch, SourceTable};
use crate::device::{self, Closed, Device, SetupTexts};
pub use crate::device::{PollEnd, PollError};
use crate::loading::OpenError;
use sheaf_wire::{ByteCount, EventId, RunNumber, SourceId, Timestamp};
use std::path::Path;
use std::ptr;

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
    device: Device<SourceTable>,
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
        Self::opened(Closed::load(path, symbol)?, setup)
    }

    /// Checks that the library at `path` can be loaded and has a table. Opens no source: hardware may bear that only once.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn check(path: &Path, symbol: &str) -> Result<(), OpenError> {
        Closed::<SourceTable>::load(path, symbol).map(drop)
    }

    /// Opens the sources of a table of this program.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Safety
    /// `table` is null, or points to a table of some version of the interface whose functions do as it says.
    pub unsafe fn of_table(table: *const SourceTable, setup: &PollSetup) -> Result<Self, OpenError> {
        // SAFETY: promised by the caller.
        Self::opened(unsafe { Closed::of_table(table)? }, setup)
    }

    fn opened(library: Closed<SourceTable>, setup: &PollSetup) -> Result<Self, OpenError> {
        let ids: Vec<u32> = setup.sources.iter().map(|source| source.0).collect();
        let given = |texts: SetupTexts| abi::SourceSetup {
            abi: FILTER_ABI,
            run: setup.run.0,
            parameters: texts.parameters,
            sources: ids.as_ptr(),
            source_count: ids.len(),
            max_fragment_bytes: setup.max_fragment.0,
            message: texts.message,
            message_bytes: texts.message_bytes,
        };
        // SAFETY: the list of ids outlives the call.
        let device = unsafe { library.open(&setup.parameters, given)? };
        let batch = vec![abi::PolledFragment::default(); setup.batch_fragments.max(1)];
        Ok(Self { device, batch, count: 0 })
    }

    /// Announces the start of the run.
    pub fn start(&mut self) {
        if let Some(start) = self.device.table().start {
            // SAFETY: a function of the interface, called with what the library has opened.
            unsafe { start(self.device.as_ptr()) };
        }
    }

    /// Announces the end of the run. Nothing is polled from now on.
    pub fn stop(&mut self) {
        self.count = 0;
        if let Some(stop) = self.device.table().stop {
            // SAFETY: as for `start`.
            unsafe { stop(self.device.as_ptr()) };
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
        // SAFETY: the list has as much room as the batch says.
        let (count, end) = unsafe { self.device.poll(&mut batch)? };
        self.count = count;
        Ok(end)
    }

    /// Returns a fragment of the last poll, by its place; `None` behind the last.
    #[must_use]
    pub fn fragment(&self, index: usize) -> Option<PolledFragment<'_>> {
        let found = self.batch[..self.count].get(index)?;
        // SAFETY: a payload of this size, which the library leaves as it is until it is called again (`abi::PolledFragment`).
        let payload = unsafe { device::payload(found.data, found.bytes) };
        Some(PolledFragment {
            event: EventId(found.event),
            source: SourceId(found.source),
            time: Timestamp(found.time_ns),
            payload,
        })
    }
}

#[cfg(test)]
mod tests;
