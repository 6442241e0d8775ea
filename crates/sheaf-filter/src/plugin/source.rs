//! Libraries of sources in Rust.

use super::polled::{self, Room};
use crate::abi::{self, FILTER_ABI, PollBatch, SourceSetup, SourceTable};
use crate::filter::FilterFailure;
use crate::loading::OpenError;
use crate::source::{LibrarySource, PollEnd, PollSetup};
use sheaf_wire::{ByteCount, EventId, RunNumber, SourceId, Timestamp};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::{mem, slice};

/// Sources that are exported from a library.
///
/// ```
/// use sheaf_filter::{EventId, FilterFailure, PollEnd, PollRoom, SourcePlugin, SourcePluginSetup, Timestamp};
///
/// /// Reads a counter.
/// struct Counter {
///     setup: SourcePluginSetup,
///     next: u64,
/// }
///
/// impl SourcePlugin for Counter {
///     fn open(setup: &SourcePluginSetup) -> Result<Self, FilterFailure> {
///         Ok(Self { setup: setup.clone(), next: 0 })
///     }
///
///     fn poll(&mut self, room: &mut PollRoom<'_>) -> Result<PollEnd, FilterFailure> {
///         while room.left() >= self.setup.sources.len() {
///             for source in &self.setup.sources {
///                 room.push(*source, EventId(self.next), Timestamp::ZERO, &self.next.to_le_bytes());
///             }
///             self.next += 1;
///         }
///         Ok(PollEnd::More)
///     }
/// }
///
/// sheaf_filter::export_source!(Counter);
/// ```
pub trait SourcePlugin: Send + Sized + 'static {
    /// Opens the sources of a readout unit for a run.
    ///
    /// # Errors
    /// Describes the error to the operator. The run does not start.
    fn open(setup: &SourcePluginSetup) -> Result<Self, FilterFailure>;

    /// Takes note that the run has started.
    fn start(&mut self) {}

    /// Reads fragments into `room`, as many as there are now and fit. Must not block for long.
    ///
    /// # Errors
    /// Why nothing can be read. The pushed fragments are ignored, and the sources are polled again after a pause.
    fn poll(&mut self, room: &mut PollRoom<'_>) -> Result<PollEnd, FilterFailure>;

    /// Takes note that the run has ended. The sources are not polled again.
    fn stop(&mut self) {}
}

/// Setup of a library of sources, passed when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePluginSetup {
    /// The number of the run.
    pub run: RunNumber,
    /// `source.library.parameters` of the configuration.
    pub parameters: String,
    /// Sources to be read.
    pub sources: Vec<SourceId>,
    /// Largest fragment that is taken.
    pub max_fragment: ByteCount,
}

/// Room for the fragments of a poll.
#[derive(Debug)]
pub struct PollRoom<'a>(Room<'a, abi::PolledFragment>);

impl PollRoom<'_> {
    /// Number of fragments that there is room for.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.left()
    }

    /// Adds a fragment. Returns whether there was room for it.
    pub fn push(&mut self, source: SourceId, event: EventId, time: Timestamp, payload: &[u8]) -> bool {
        let head = abi::PolledFragment {
            event: event.0,
            time_ns: time.0,
            source: source.0,
            bytes: payload.len(),
            ..abi::PolledFragment::default()
        };
        self.0.push(head, payload)
    }
}

/// Exports a [`SourcePlugin`] as the sources of a library, by the function `sheaf_source` or one of another name:
/// `export_source!(Type as my_board)`.
#[macro_export]
macro_rules! export_source {
    ($plugin:ty) => {
        $crate::export_source!($plugin as sheaf_source);
    };
    ($plugin:ty as $symbol:ident) => {
        $crate::__export_table!($symbol: SourceTable = source_table::<$plugin>);
    };
}

/// The table of a library of sources, for [`export_source!`](crate::export_source).
#[must_use]
pub fn source_table<P: SourcePlugin>() -> *const SourceTable {
    &raw const *Sources::<P>::TABLE
}

impl LibrarySource {
    /// Opens sources of this program, without a library: in tests, and in programs of one's own.
    ///
    /// # Errors
    /// The error of [`SourcePlugin::open`].
    pub fn of_plugin<P: SourcePlugin>(setup: &PollSetup) -> Result<Self, OpenError> {
        // SAFETY: the functions of this module do as the table says.
        unsafe { Self::of_table(source_table::<P>(), setup) }
    }
}

/// Sources as a library has them.
type Exported<P> = polled::Exported<P, abi::PolledFragment>;

/// The table of a plugin.
struct Sources<P>(PhantomData<P>);

impl<P: SourcePlugin> Sources<P> {
    const TABLE: &'static SourceTable = &SourceTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<SourceTable>() as u32,
        open: Some(open::<P>),
        start: Some(start::<P>),
        poll: Some(poll::<P>),
        stop: Some(stop::<P>),
        close: Some(super::destroy::<Exported<P>>),
    };
}

/// # Safety
/// As `open` of [`SourceTable`] has it.
unsafe extern "C" fn open<P: SourcePlugin>(setup: *const SourceSetup) -> *mut c_void {
    // SAFETY: the caller gives a setup that is valid during the call.
    let setup = unsafe { &*setup };
    let open = || {
        // SAFETY: called when the version was checked, so the text and the list are as documented for `SourceSetup`.
        let (parameters, ids) = unsafe {
            (CStr::from_ptr(setup.parameters), slice::from_raw_parts(setup.sources, setup.source_count))
        };
        P::open(&SourcePluginSetup {
            run: RunNumber(setup.run),
            parameters: parameters.to_string_lossy().into_owned(),
            sources: ids.iter().copied().map(SourceId).collect(),
            max_fragment: ByteCount(setup.max_fragment_bytes),
        })
    };
    // SAFETY: the caller provides this number of bytes.
    unsafe { Exported::<P>::open(setup.abi, (setup.message, setup.message_bytes), open) }
}

/// # Safety
/// As `start` of [`SourceTable`] has it.
unsafe extern "C" fn start<P: SourcePlugin>(sources: *mut c_void) {
    // SAFETY: what `open::<P>` made, called by one thread at a time.
    unsafe { Exported::<P>::note(sources, P::start) };
}

/// # Safety
/// As `stop` of [`SourceTable`] has it.
unsafe extern "C" fn stop<P: SourcePlugin>(sources: *mut c_void) {
    // SAFETY: as for `start`.
    unsafe { Exported::<P>::note(sources, P::stop) };
}

/// # Safety
/// As [`abi::PollSources`] has it.
unsafe extern "C" fn poll<P: SourcePlugin>(sources: *mut c_void, batch: *mut PollBatch) -> i32 {
    // SAFETY: what `open::<P>` made, called by one thread at a time; the batch is valid during the call.
    let (exported, batch) = unsafe { (&mut *sources.cast::<Exported<P>>(), &mut *batch) };
    let poll = |plugin: &mut P, room: Room<'_, _>| plugin.poll(&mut PollRoom(room));
    // SAFETY: the list of the caller has this room.
    match unsafe { exported.poll(batch.room, batch.fragments, poll) } {
        Ok((count, end)) => {
            batch.count = count;
            (batch.then, batch.wait_ns) = end.to_answer();
            0
        }
        Err(failure) => {
            batch.failure = failure;
            1
        }
    }
}
