//! Triggers from shared libraries, which are polled for them.

#![allow(unsafe_code)]

use crate::abi::{self, FILTER_ABI, POLL_WAIT, TriggerBatch, TriggerTable};
use crate::device::{self, Closed, Device, PollEnd, PollError, SetupTexts};
use crate::loading::OpenError;
use sheaf_wire::{ByteCount, EventId, RunNumber, Timestamp, TriggerType};
use std::ffi::CStr;
use std::path::Path;
use std::ptr;

/// Setup of a library of triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerSetup {
    /// The number of the run.
    pub run: RunNumber,
    /// A text for the library alone.
    pub parameters: String,
    /// Largest payload that is taken.
    pub max_payload: ByteCount,
    /// Maximum number of triggers of a poll.
    pub batch_triggers: usize,
}

/// A trigger of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledTrigger<'a> {
    /// Its id, which need not be greater than those before.
    pub id: EventId,
    /// Its time.
    pub time: Timestamp,
    /// Its type.
    pub kind: TriggerType,
    /// Its bits.
    pub bits: u64,
    /// Its payload, which may be too large; `None` if it has a size and no data.
    pub payload: Option<&'a [u8]>,
}

/// Triggers from a shared library.
#[derive(Debug)]
pub struct LibraryTrigger {
    device: Device<TriggerTable>,
    batch: Vec<abi::PolledTrigger>,
    /// Number of triggers of the last poll.
    count: usize,
    /// Number of triggers that were held back before the last poll.
    vetoed: u64,
}

impl LibraryTrigger {
    /// Loads the library at `path` and opens the device of the table that its function `symbol` gives.
    ///
    /// The library's code runs in this process, with all its rights.
    ///
    /// # Errors
    /// Why that is not possible, and what would be right.
    pub fn open(path: &Path, symbol: &str, setup: &TriggerSetup) -> Result<Self, OpenError> {
        Self::opened(Closed::load(path, symbol)?, setup)
    }

    /// Checks that the library at `path` can be loaded and has a table. Opens no device: hardware may bear that only once.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn check(path: &Path, symbol: &str) -> Result<(), OpenError> {
        Closed::<TriggerTable>::load(path, symbol).map(drop)
    }

    /// Opens the device of a table of this program.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Safety
    /// `table` is null, or points to a table of some version of the interface whose functions do as it says.
    pub unsafe fn of_table(table: *const TriggerTable, setup: &TriggerSetup) -> Result<Self, OpenError> {
        // SAFETY: promised by the caller.
        Self::opened(unsafe { Closed::of_table(table)? }, setup)
    }

    fn opened(library: Closed<TriggerTable>, setup: &TriggerSetup) -> Result<Self, OpenError> {
        let given = |texts: SetupTexts| abi::TriggerSetup {
            abi: FILTER_ABI,
            run: setup.run.0,
            parameters: texts.parameters,
            max_payload_bytes: setup.max_payload.0,
            message: texts.message,
            message_bytes: texts.message_bytes,
        };
        // SAFETY: the setup points to its texts alone.
        let device = unsafe { library.open(&setup.parameters, given)? };
        let batch = vec![abi::PolledTrigger::default(); setup.batch_triggers.max(1)];
        Ok(Self { device, batch, count: 0, vetoed: 0 })
    }

    /// Announces that the run takes triggers, from this id on.
    pub fn start(&mut self, next: EventId) {
        if let Some(start) = self.device.table().start {
            // SAFETY: a function of the interface, called with what the library has opened.
            unsafe { start(self.device.as_ptr(), next.0) };
        }
    }

    /// Returns whether the library holds triggers back while the run is busy. If not, it must not be polled meanwhile.
    #[must_use]
    pub fn has_veto(&self) -> bool {
        self.device.table().busy.is_some()
    }

    /// Announces that the run is busy, or is no longer.
    pub fn busy(&mut self, reason: Option<&CStr>) {
        if let Some(busy) = self.device.table().busy {
            // SAFETY: as for `start`; the text outlives the call.
            unsafe { busy(self.device.as_ptr(), reason.map_or(ptr::null(), CStr::as_ptr)) };
        }
    }

    /// Announces the end of triggers. Nothing is polled from now on.
    pub fn stop(&mut self) {
        self.count = 0;
        if let Some(stop) = self.device.table().stop {
            // SAFETY: as for `start`.
            unsafe { stop(self.device.as_ptr()) };
        }
    }

    /// Polls. The triggers are those that [`Self::trigger`] returns from now on.
    ///
    /// # Errors
    /// If the library failed or its answer is invalid. There are no triggers then.
    pub fn poll(&mut self) -> Result<PollEnd, PollError> {
        (self.count, self.vetoed) = (0, 0);
        self.batch.fill(abi::PolledTrigger::default());
        let mut batch = TriggerBatch {
            triggers: self.batch.as_mut_ptr(),
            room: self.batch.len(),
            count: 0,
            then: POLL_WAIT,
            reserved: 0,
            vetoed: 0,
            wait_ns: 0,
            failure: ptr::null(),
        };
        // SAFETY: the list has as much room as the batch says.
        let (count, end) = unsafe { self.device.poll(&mut batch)? };
        (self.count, self.vetoed) = (count, batch.vetoed);
        Ok(end)
    }

    /// Returns the number of triggers that the device has held back before the last poll.
    #[must_use]
    pub fn vetoed(&self) -> u64 {
        self.vetoed
    }

    /// Returns a trigger of the last poll, by its place; `None` behind the last.
    #[must_use]
    pub fn trigger(&self, index: usize) -> Option<PolledTrigger<'_>> {
        let found = self.batch[..self.count].get(index)?;
        // SAFETY: a payload of this size, which the library leaves as it is until it is called again (`abi::PolledTrigger`).
        let payload = unsafe { device::payload(found.data, found.bytes) };
        let (id, time, kind) = (EventId(found.id), Timestamp(found.time_ns), TriggerType(found.kind));
        Some(PolledTrigger { id, time, kind, bits: found.bits, payload })
    }
}

#[cfg(test)]
mod tests;
