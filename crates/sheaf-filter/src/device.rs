//! Loaded libraries that are polled: of sources and of triggers.

#![allow(unsafe_code)]

use crate::abi::{
    self, POLL_END, POLL_MORE, POLL_WAIT, PollBatch, SourceSetup, SourceTable, TriggerBatch, TriggerSetup,
    TriggerTable,
};
use crate::filter::FilterFailure;
use crate::loading::{self, Loaded, MESSAGE_BYTES, OpenError, Table, Whose};
use crate::text;
use libloading::Library;
use sheaf_wire::Nanos;
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::slice;
use thiserror::Error;

/// Pause before the next poll of a library that names none.
const WAIT: Nanos = Nanos::from_micros(100);

/// Longest pause.
const LONGEST_WAIT: Nanos = Nanos::from_secs(1);

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
    fn of_answer(then: u32, wait_ns: u64) -> Result<Self, PollError> {
        match then {
            POLL_MORE => Ok(Self::More),
            POLL_WAIT if wait_ns == 0 => Ok(Self::After(WAIT)),
            POLL_WAIT => Ok(Self::After(Nanos(wait_ns).min(LONGEST_WAIT))),
            POLL_END => Ok(Self::Ended),
            other => Err(PollError::Invalid(format!("`then` is {other}"))),
        }
    }

    /// Returns `then` and `wait_ns` of an answer with this meaning.
    pub(crate) fn to_answer(self) -> (u32, u64) {
        match self {
            Self::More => (POLL_MORE, 0),
            // 0 would be the pause of a library that names none.
            Self::After(Nanos(wait)) => (POLL_WAIT, wait.max(1)),
            Self::Ended => (POLL_END, 0),
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

/// A function of a table that opens a device.
pub(crate) type OpenDevice<S> = unsafe extern "C" fn(setup: *const S) -> *mut c_void;

/// A function of a table that polls a device.
pub(crate) type PollDevice<B> = unsafe extern "C" fn(device: *mut c_void, batch: *mut B) -> i32;

/// A table whose device is opened with a setup of its own, and polled.
pub(crate) trait PolledTable: Table {
    /// Setup of the device.
    type Setup;
    /// Answer to a poll.
    type Batch;
    /// Elements of a batch, for messages.
    const ELEMENTS: &'static str;

    fn open(&self) -> Option<OpenDevice<Self::Setup>>;
    fn poll(&self) -> Option<PollDevice<Self::Batch>>;
    fn close(&self) -> Option<abi::DestroyFilter>;
    fn answer(batch: &Self::Batch) -> Answer;
}

/// The part of an answer that all batches have.
pub(crate) struct Answer {
    pub(crate) count: usize,
    pub(crate) room: usize,
    pub(crate) then: u32,
    pub(crate) wait_ns: u64,
    pub(crate) failure: *const c_char,
}

macro_rules! polled_tables {
    ($($table:ty: $setup:ty, $batch:ty, $elements:literal;)*) => {$(
        impl PolledTable for $table {
            type Setup = $setup;
            type Batch = $batch;
            const ELEMENTS: &'static str = $elements;

            fn open(&self) -> Option<OpenDevice<$setup>> {
                self.open
            }

            fn poll(&self) -> Option<PollDevice<$batch>> {
                self.poll
            }

            fn close(&self) -> Option<abi::DestroyFilter> {
                self.close
            }

            fn answer(batch: &$batch) -> Answer {
                Answer {
                    count: batch.count,
                    room: batch.room,
                    then: batch.then,
                    wait_ns: batch.wait_ns,
                    failure: batch.failure,
                }
            }
        }
    )*};
}

polled_tables! {
    SourceTable: SourceSetup, PollBatch, "fragments";
    TriggerTable: TriggerSetup, TriggerBatch, "triggers";
}

/// The part of a setup that all devices have.
pub(crate) struct SetupTexts {
    pub(crate) parameters: *const c_char,
    pub(crate) message: *mut c_char,
    pub(crate) message_bytes: usize,
}

/// A library whose device is not open yet. Its table is complete.
pub(crate) struct Closed<T: PolledTable> {
    table: T,
    open: OpenDevice<T::Setup>,
    poll: PollDevice<T::Batch>,
    whose: Whose,
    library: Option<Library>,
}

impl<T: PolledTable> Closed<T> {
    /// Loads the library at `path`, with the table that its function `symbol` gives.
    pub(crate) fn load(path: &Path, symbol: &str) -> Result<Self, OpenError> {
        let (table, whose, library) = loading::open::<T>(path, symbol)?;
        Self::new(table, whose, Some(library))
    }

    /// Takes a table of this program.
    ///
    /// # Safety
    /// `table` is null, or points to a table of some version of the interface whose functions do as it says.
    pub(crate) unsafe fn of_table(table: *const T) -> Result<Self, OpenError> {
        let whose = Whose::Program(T::KIND);
        // SAFETY: promised by the caller.
        let table = unsafe { loading::read_table(table, &whose)? };
        Self::new(table, whose, None)
    }

    fn new(table: T, whose: Whose, library: Option<Library>) -> Result<Self, OpenError> {
        let open = table.open().ok_or_else(|| whose.bad_table("`open` is null"))?;
        let poll = table.poll().ok_or_else(|| whose.bad_table("`poll` is null"))?;
        Ok(Self { table, open, poll, whose, library })
    }

    /// Opens the device with the setup that `complete` makes of these texts.
    ///
    /// # Safety
    /// All that this setup points to is valid until the function returns.
    pub(crate) unsafe fn open(
        self,
        parameters: &str,
        complete: impl FnOnce(SetupTexts) -> T::Setup,
    ) -> Result<Device<T>, OpenError> {
        let Self { table, open, poll, whose, library } = self;
        let parameters = loading::c_text(parameters, || format!("{}.parameters", T::KIND.section()))?;
        let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
        let setup = complete(SetupTexts {
            parameters: parameters.as_ptr(),
            message: message.as_mut_ptr(),
            message_bytes: message.len(),
        });
        // SAFETY: a function of the interface; the texts outlive the call, and the caller promises the rest.
        let thing = unsafe { open(&raw const setup) };
        let thing = Loaded::new(thing, table.close(), library, &whose, &message)?;
        Ok(Device { thing, table, poll })
    }
}

/// An open device of a library.
#[derive(Debug)]
pub(crate) struct Device<T: PolledTable> {
    thing: Loaded,
    table: T,
    poll: PollDevice<T::Batch>,
}

impl<T: PolledTable> Device<T> {
    pub(crate) fn table(&self) -> &T {
        &self.table
    }

    /// Returns the pointer that the functions of the table are given.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.thing.as_ptr()
    }

    /// Polls. Returns the number of elements in the batch, and the state of the device.
    ///
    /// # Safety
    /// The list of the batch has as much room as it says.
    pub(crate) unsafe fn poll(&mut self, batch: &mut T::Batch) -> Result<(usize, PollEnd), PollError> {
        let most = T::answer(batch).room;
        // SAFETY: a function of the interface, called with what the library has opened; the caller promises the list.
        let status = unsafe { (self.poll)(self.as_ptr(), &raw mut *batch) };
        let Answer { count, then, wait_ns, failure, .. } = T::answer(batch);
        if status != 0 {
            // SAFETY: null or a text with a NUL, which is valid until the library is called again.
            let failure = unsafe { text::read(failure, MESSAGE_BYTES) };
            let failure = failure.unwrap_or_else(|| format!("`poll` returned {status}"));
            return Err(FilterFailure(failure).into());
        }
        if count > most {
            let elements = T::ELEMENTS;
            return Err(PollError::Invalid(format!("{count} {elements} where there is room for {most}")));
        }
        Ok((count, PollEnd::of_answer(then, wait_ns)?))
    }
}

/// Returns a payload of a library; `None` if it has a size and no data, or a size that no object has.
///
/// # Safety
/// `data` is null, or has this number of bytes, which stay as they are for `'a`.
pub(crate) unsafe fn payload<'a>(data: *const u8, bytes: usize) -> Option<&'a [u8]> {
    match (data.is_null(), bytes) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        (false, bytes) if isize::try_from(bytes).is_err() => None,
        // SAFETY: promised by the caller; no object is larger.
        (false, bytes) => Some(unsafe { slice::from_raw_parts(data, bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_read_as_it_was_written_within_the_longest_pause() {
        for end in [PollEnd::More, PollEnd::Ended, PollEnd::After(Nanos(1)), PollEnd::After(LONGEST_WAIT)] {
            let (then, wait_ns) = end.to_answer();
            assert_eq!(PollEnd::of_answer(then, wait_ns), Ok(end));
        }
        let (then, wait_ns) = PollEnd::After(Nanos::ZERO).to_answer();
        assert_eq!(PollEnd::of_answer(then, wait_ns), Ok(PollEnd::After(Nanos(1))), "not the default");
        assert_eq!(PollEnd::of_answer(POLL_WAIT, 0), Ok(PollEnd::After(WAIT)));
        assert_eq!(PollEnd::of_answer(POLL_WAIT, u64::MAX), Ok(PollEnd::After(LONGEST_WAIT)));
        assert!(matches!(PollEnd::of_answer(3, 0), Err(PollError::Invalid(_))));
    }
}
