//! Interface between Sheaf and a filter library: structs and functions as C has them.
//!
//! A library has a function without arguments for each thing that it offers: by default `sheaf_filter`, which gives a
//! [`FilterTable`], `sheaf_step_filter`, which gives a [`StepTable`], and `sheaf_preprocessor`, which gives a
//! [`PreprocessorTable`]. The three functions of a table make the thing, use it, and unmake it. `sheaf-capi` generates
//! `sheaf.h` from this module, where every type has the prefix `Sheaf`.
//!
//! All texts are UTF-8 and end with a NUL. All sizes are in bytes, all times in nanoseconds.

mod decoder_table;
mod trigger_table;

pub use decoder_table::{
    DECODER_SYMBOL, DecodeFragment, Decoded, DecoderTable, Hit, TIME_MARKER, TIME_PULSE, TIME_PULSE_RESET,
    TIME_RESET,
};
pub use trigger_table::{
    PollTriggers, PolledTrigger, TRIGGER_SYMBOL, TriggerBatch, TriggerSetup, TriggerTable,
};

use bytes::Bytes;
use std::ffi::{c_char, c_void};
use std::ptr;

/// The version of the interface between Sheaf and filters. It changes when an older filter would misread something, or when a newer one
/// could write beyond a struct of an older Sheaf.
pub const FILTER_ABI: u32 = 3;

/// The name of the function that gives a library's table, where the configuration names no other.
pub const FILTER_SYMBOL: &str = "sheaf_filter";

/// The name of the function that gives a library's table of a step filter, where the configuration names no other.
pub const STEP_FILTER_SYMBOL: &str = "sheaf_step_filter";

/// The name of the function that gives a library's table of a preprocessor, where the configuration names no other.
pub const PREPROCESSOR_SYMBOL: &str = "sheaf_preprocessor";

/// The name of the function that gives a library's table of sources, where the configuration names no other.
pub const SOURCE_SYMBOL: &str = "sheaf_source";

/// Fragment of one source of an event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// The source's number.
    pub source: u32,
    /// 1 if the readout unit's preprocessor produced the payload, 0 if it is as sent by the source.
    pub processed: u32,
    /// The source's own time of the event; 0 if it has none.
    pub time_ns: u64,
    /// The payload, in the memory in which it was received. Never null.
    pub data: *const u8,
    /// Size of the payload; may be 0.
    pub bytes: usize,
    /// If `disagrees` is 1: the check value of the fragment minus that of its event, not 0. If only `renumbered` is 1: number of
    /// events by which the fragment was moved. Otherwise 0. Numbers beyond 2,097,151 of either sign are given as that.
    pub difference: i32,
    /// 1 if the check value of the fragment disagrees with that of its event: it may belong to another event. 0 if it agrees or was
    /// not compared.
    pub disagrees: u8,
    /// 1 if the readout unit has changed the event number that the source gave, otherwise 0.
    pub renumbered: u8,
    /// Always 0.
    pub reserved: u16,
}

impl Fragment {
    /// Describes a fragment. The result is valid as long as its payload.
    #[must_use]
    pub fn of(fragment: &sheaf_wire::Fragment<Bytes>) -> Self {
        let mark = fragment.mark;
        let difference = mark.difference().or(mark.shift()).unwrap_or(0);
        Self {
            source: fragment.source.0,
            processed: u32::from(fragment.processed),
            time_ns: fragment.time.0,
            data: fragment.payload.as_ptr(),
            bytes: fragment.payload.len(),
            // A mark has a number of 22 bits.
            difference: i32::try_from(difference).unwrap_or(0),
            disagrees: u8::from(mark.disagrees()),
            renumbered: u8::from(mark.is_renumbered()),
            reserved: 0,
        }
    }
}

/// A source without a fragment in an event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// The source's number.
    pub source: u32,
    /// Reason: the code of a missing reason in docs/reference/protocol.md.
    pub reason: u32,
}

/// A built event. It and all its pointers belong to the caller, and are valid during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The event's number in the run.
    pub id: u64,
    /// Time of the trigger.
    pub time_ns: u64,
    /// Trigger type, in the experiment's own numbering.
    pub trigger_type: u32,
    /// Number of the attempt to build it, from 1.
    pub attempt: u32,
    /// 1 if a required source is missing, otherwise 0.
    pub incomplete: u32,
    /// Always 0.
    pub reserved: u32,
    /// The fragments, in ascending order of source number.
    pub fragments: *const Fragment,
    /// Number of fragments.
    pub fragment_count: usize,
    /// The missing sources, in ascending order.
    pub missing: *const Missing,
    /// Number of missing sources.
    pub missing_count: usize,
}

/// Verdict of a filter on an event. All fields are 0 or null when the filter is called.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilterVerdict {
    /// 1: store the event; 0: reject it. Other values are invalid.
    pub accepted: u32,
    /// Leave it 0.
    pub reserved: u32,
    /// Bit i: the i-th tag of the setup. A bit without a tag is invalid.
    pub tags: u64,
    /// Payload to store with the event, or null. It belongs to the filter and must stay unchanged until the filter is
    /// called again.
    pub payload: *const u8,
    /// Size of the payload: 0 to 1 MiB.
    pub payload_bytes: usize,
    /// Reason of a failure, or null. It belongs to the filter, like the payload.
    pub failure: *const c_char,
}

/// Returns the initial value, which a filter finds when it is called: no result yet.
impl Default for FilterVerdict {
    fn default() -> Self {
        Self {
            accepted: 0,
            reserved: 0,
            tags: 0,
            payload: ptr::null(),
            payload_bytes: 0,
            failure: ptr::null(),
        }
    }
}

/// Setup of a filter, a step filter or a preprocessor, passed when it is created. The structure and all that it points
/// to are valid during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilterSetup {
    /// Interface version of the caller.
    pub abi: u32,
    /// The number of the run.
    pub run: u32,
    /// `filter.parameters` of the configuration (of a step filter `building.parameters`, of a preprocessor
    /// `preprocessing.parameters`), unchanged; empty if there are none.
    pub parameters: *const c_char,
    /// `filter.tags` of the configuration: names of tags, the first is bit 0. Empty for a preprocessor.
    pub tags: *const *const c_char,
    /// Number of tags: 0 to 63.
    pub tag_count: usize,
    /// Buffer for the reason of a failure, NUL-terminated.
    pub message: *mut c_char,
    /// Size of that buffer in bytes.
    pub message_bytes: usize,
}

/// Function table of a filter library. It must stay unchanged while the library is loaded.
///
/// Several filters may be created from one table. Each is called by one thread at a time; different filters may be
/// called concurrently.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilterTable {
    /// Interface version of the library: `SHEAF_FILTER_ABI` of its header.
    pub abi: u32,
    /// Size of this struct in the library.
    pub table_bytes: u32,
    /// Creates a filter for a run. On failure, returns null and writes the reason to the setup's `message`; the run
    /// does not start.
    pub create: Option<unsafe extern "C" fn(setup: *const FilterSetup) -> *mut c_void>,
    /// Judges an event. Returns 0 with the verdict filled in. Any other value is a failure, with the reason in the
    /// verdict's `failure`; the event is stored unfiltered, tagged `quarantined`.
    pub judge: Option<
        unsafe extern "C" fn(filter: *mut c_void, event: *const Event, verdict: *mut FilterVerdict) -> i32,
    >,
    /// Destroys a filter, which is not called again; may be null.
    pub destroy: Option<unsafe extern "C" fn(filter: *mut c_void)>,
}

/// A function that makes a filter, as in the table.
pub type CreateFilter = unsafe extern "C" fn(setup: *const FilterSetup) -> *mut c_void;

/// A function that judges an event, as in the table.
pub type JudgeEvent =
    unsafe extern "C" fn(filter: *mut c_void, event: *const Event, verdict: *mut FilterVerdict) -> i32;

/// A function that unmakes a filter, as in the table.
pub type DestroyFilter = unsafe extern "C" fn(filter: *mut c_void);

/// The function of a library that gives a table.
pub type GiveTable<T> = unsafe extern "C" fn() -> *const T;

/// The event is rejected; readout units drop its remaining fragments.
pub const STEP_REJECT: u32 = 0;
/// All remaining sources are requested; then the filter judges the event.
pub const STEP_ALL: u32 = 1;
/// No more sources are needed: the filter judges the event.
pub const STEP_ENOUGH: u32 = 2;
/// The sources in the verdict's list are requested; then the step filter is called again. Invalid with `building.windows`.
pub const STEP_SOURCES: u32 = 3;
/// The hits of all remaining sources in the windows of the verdict's list are requested; then the filter judges the event. Valid only with
/// `building.windows`.
pub const STEP_WINDOWS: u32 = 4;

/// Maximum number of windows in a verdict of a step filter.
pub const STEP_MAX_WINDOWS: usize = 64;

/// Window of time, in picoseconds since time 0 of the run, like the times of hits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First moment.
    pub from_ps: u64,
    /// End, exclusive: greater than `from_ps`.
    pub until_ps: u64,
}

/// Verdict of a step filter on a part of an event. All fields are 0 or null when the step filter is called.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StepVerdict {
    /// One of SHEAF_STEP_REJECT, SHEAF_STEP_ALL, SHEAF_STEP_ENOUGH, SHEAF_STEP_SOURCES and SHEAF_STEP_WINDOWS. Other values are
    /// invalid.
    pub decision: u32,
    /// Leave it 0.
    pub reserved: u32,
    /// With SHEAF_STEP_SOURCES: numbers of sources, in any order. Sources that are already present or missing are
    /// ignored. The list belongs to the step filter and must stay unchanged until that is called again.
    pub sources: *const u32,
    /// Number of listed sources: 0 to 65,536.
    pub source_count: usize,
    /// Reason of a failure, or null. It belongs to the step filter, like the list.
    pub failure: *const c_char,
    /// With SHEAF_STEP_WINDOWS: windows, in any order. They may overlap, begin before the slice and end after it. A hit in several of
    /// them is sent once. The list belongs to the step filter, like that of sources.
    pub windows: *const Window,
    /// Number of listed windows: 1 to SHEAF_STEP_MAX_WINDOWS.
    pub window_count: usize,
}

/// Returns the initial value, which a step filter finds when it is called: no result yet.
impl Default for StepVerdict {
    fn default() -> Self {
        Self {
            decision: 0,
            reserved: 0,
            sources: ptr::null(),
            source_count: 0,
            failure: ptr::null(),
            windows: ptr::null(),
            window_count: 0,
        }
    }
}

/// Function table of a library with a step filter: like that of a filter, with another verdict.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StepTable {
    /// Interface version of the library: `SHEAF_FILTER_ABI` of its header.
    pub abi: u32,
    /// Size of this struct in the library.
    pub table_bytes: u32,
    /// Creates a step filter for a run. On failure, returns null and writes the reason to the setup's `message`; the
    /// run does not start.
    pub create: Option<unsafe extern "C" fn(setup: *const FilterSetup) -> *mut c_void>,
    /// Judges the part of an event that is present. Returns 0 with the verdict filled in. Any other value is a failure,
    /// with the reason in the verdict's `failure`; the rest of the event is requested.
    pub judge: Option<
        unsafe extern "C" fn(step_filter: *mut c_void, part: *const Event, verdict: *mut StepVerdict) -> i32,
    >,
    /// Destroys a step filter, which is not called again; may be null.
    pub destroy: Option<unsafe extern "C" fn(step_filter: *mut c_void)>,
}

/// A requested fragment, before it leaves the readout unit. It and all its pointers belong to the caller, and are valid
/// during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawFragment {
    /// The event's number in the run.
    pub event: u64,
    /// The source's own time of the event; 0 if it has none.
    pub time_ns: u64,
    /// The source's number.
    pub source: u32,
    /// Always 0.
    pub reserved: u32,
    /// The payload as the source sent it. Never null.
    pub data: *const u8,
    /// Size of the payload; may be 0.
    pub bytes: usize,
}

/// Result of a preprocessor for a fragment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Processed {
    /// Buffer for the new payload. It belongs to the caller; its initial contents are undefined.
    pub data: *mut u8,
    /// Size of that buffer in bytes: at least that of the fragment; `preprocessing.extra_bytes` adds to it.
    pub room: usize,
    /// Size of the new payload: 0 to `room`. 0 when the preprocessor is called.
    pub bytes: usize,
    /// 1: the fragment is sent unchanged, whatever was written; 0: the new payload is sent in its place. 0 when the
    /// preprocessor is called.
    pub keep: u32,
    /// Leave it 0.
    pub reserved: u32,
    /// Reason of a failure, or null. It belongs to the preprocessor and must stay unchanged until that is called again.
    pub failure: *const c_char,
}

/// Function table of a library with a preprocessor: like that of a filter, for fragments in place of events.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PreprocessorTable {
    /// Interface version of the library: `SHEAF_FILTER_ABI` of its header.
    pub abi: u32,
    /// Size of this struct in the library.
    pub table_bytes: u32,
    /// Creates a preprocessor for a run. On failure, returns null and writes the reason to the setup's `message`; the
    /// run does not start.
    pub create: Option<unsafe extern "C" fn(setup: *const FilterSetup) -> *mut c_void>,
    /// Processes a fragment. Returns 0 with the result filled in. Any other value is a failure, with the reason in
    /// `failure`; the fragment is sent unprocessed. The same fragment may be processed again, so the result should
    /// depend on nothing else.
    pub process: Option<
        unsafe extern "C" fn(
            preprocessor: *mut c_void,
            fragment: *const RawFragment,
            processed: *mut Processed,
        ) -> i32,
    >,
    /// Destroys a preprocessor, which is not called again; may be null.
    pub destroy: Option<unsafe extern "C" fn(preprocessor: *mut c_void)>,
}

/// A function that judges a part of an event, as in the table.
pub type JudgePart =
    unsafe extern "C" fn(step_filter: *mut c_void, part: *const Event, verdict: *mut StepVerdict) -> i32;

/// A function that processes a fragment, as in the table.
pub type ProcessFragment = unsafe extern "C" fn(
    preprocessor: *mut c_void,
    fragment: *const RawFragment,
    processed: *mut Processed,
) -> i32;

/// There is nothing more now: the library is polled again after `wait_ns`.
pub const POLL_WAIT: u32 = 0;
/// There is more: the library is polled again at once.
pub const POLL_MORE: u32 = 1;
/// All sources have ended: the library is not polled again.
pub const POLL_END: u32 = 2;

/// Setup of a library of sources, passed when it is opened. The structure and all that it points to are valid during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SourceSetup {
    /// Interface version of the caller.
    pub abi: u32,
    /// The number of the run.
    pub run: u32,
    /// `source.library.parameters` of the configuration, unchanged; empty if there are none.
    pub parameters: *const c_char,
    /// Numbers of the sources that the readout unit reads, at least one.
    pub sources: *const u32,
    /// Number of sources.
    pub source_count: usize,
    /// Size of the largest fragment that is taken.
    pub max_fragment_bytes: u64,
    /// Buffer for the reason of a failure, NUL-terminated.
    pub message: *mut c_char,
    /// Size of that buffer in bytes.
    pub message_bytes: usize,
}

/// A fragment that a library has read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PolledFragment {
    /// The event's number.
    pub event: u64,
    /// The source's own time of the event; 0 if it has none.
    pub time_ns: u64,
    /// The source's number: one of the setup.
    pub source: u32,
    /// Leave it 0.
    pub reserved: u32,
    /// The payload. It belongs to the library and must stay unchanged until that is called again. Null only if `bytes` is 0.
    pub data: *const u8,
    /// Size of the payload; may be 0.
    pub bytes: usize,
}

/// Returns the initial value, which a library finds: event 0 of source 0, without payload.
impl Default for PolledFragment {
    fn default() -> Self {
        Self { event: 0, time_ns: 0, source: 0, reserved: 0, data: ptr::null(), bytes: 0 }
    }
}

/// Fragments of one poll.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PollBatch {
    /// List to be filled from its beginning. It belongs to the caller.
    pub fragments: *mut PolledFragment,
    /// Number of fragments that the list can have.
    pub room: usize,
    /// Number of fragments in it: 0 to `room`. 0 when the library is polled.
    pub count: usize,
    /// One of SHEAF_POLL_WAIT, SHEAF_POLL_MORE and SHEAF_POLL_END. SHEAF_POLL_WAIT when the library is polled.
    pub then: u32,
    /// Leave it 0.
    pub reserved: u32,
    /// With SHEAF_POLL_WAIT: time until the next poll; 0: 100 microseconds. At most a second. 0 when the library is polled.
    pub wait_ns: u64,
    /// Reason of a failure, or null. It belongs to the library and must stay unchanged until that is called again.
    pub failure: *const c_char,
}

/// Function table of a library of sources. It must stay unchanged while the library is loaded.
///
/// Each readout unit opens the library once, for all its sources. One thread at a time calls it: that of the readout unit, or
/// that of a process of its own (`source.library.isolated`). No function may block for long: the readout unit does nothing else
/// meanwhile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SourceTable {
    /// Interface version of the library: `SHEAF_FILTER_ABI` of its header.
    pub abi: u32,
    /// Size of this struct in the library.
    pub table_bytes: u32,
    /// Opens the sources for a run. On failure, returns null and writes the reason to the setup's `message`; the run does not
    /// start.
    pub open: Option<unsafe extern "C" fn(setup: *const SourceSetup) -> *mut c_void>,
    /// Takes note that the run has started; may be null. The library is polled from now on.
    pub start: Option<unsafe extern "C" fn(sources: *mut c_void)>,
    /// Returns 0 with the batch filled in. Any other value is a failure, with the reason in `failure`; what is in the batch is
    /// ignored, and the library is polled again after a pause. A library that waits for its hardware returns no fragments.
    pub poll: Option<unsafe extern "C" fn(sources: *mut c_void, batch: *mut PollBatch) -> i32>,
    /// Takes note that the run has ended; may be null. The library is not polled again.
    pub stop: Option<unsafe extern "C" fn(sources: *mut c_void)>,
    /// Closes the sources, which are not used again; may be null.
    pub close: Option<unsafe extern "C" fn(sources: *mut c_void)>,
}

/// A function that polls sources, as in the table.
pub type PollSources = unsafe extern "C" fn(sources: *mut c_void, batch: *mut PollBatch) -> i32;

/// A function of the table that takes note of something.
pub type NoteSources = unsafe extern "C" fn(sources: *mut c_void);
