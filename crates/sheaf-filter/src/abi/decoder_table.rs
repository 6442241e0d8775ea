//! The interface of a library with a decoder of hits.

use super::{FilterSetup, RawFragment};
use std::ffi::{c_char, c_void};

/// The name of the function that gives a library's table of a decoder, where the configuration names no other.
pub const DECODER_SYMBOL: &str = "sheaf_decoder";

/// Channel of a hit that is no hit: it tells that the source's time has come to its `time`.
pub const TIME_MARKER: u32 = u32::MAX;

/// Channel of a hit that is no hit: a pulse of the reference came when the source's clock read its `time`.
pub const TIME_PULSE: u32 = u32::MAX - 1;

/// Channel of a hit that is no hit: the source's counter restarts at 0 after it read `time`. Hits before it precede it in the list.
pub const TIME_RESET: u32 = u32::MAX - 2;

/// Channel of a hit that is no hit: a pulse of the reference that restarts the counter, which read `time` before.
pub const TIME_PULSE_RESET: u32 = u32::MAX - 3;

/// A hit that a decoder has found, 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Reading of the source's clock in ticks of `source.timed.tick`. With `source.timed.times = "fragment"`: ticks since the time of
    /// the fragment.
    pub time: u64,
    /// Channel. No hit, but a reading of the clock: `SHEAF_TIME_MARKER`, `SHEAF_TIME_PULSE`, `SHEAF_TIME_RESET`,
    /// `SHEAF_TIME_PULSE_RESET`.
    pub channel: u32,
    /// Measured value.
    pub value: u16,
    /// Second measured value.
    pub extra: u16,
}

/// Result of a decoder for a fragment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    /// Buffer for the hits, in any order of time. It belongs to the caller; its initial contents are undefined.
    pub hits: *mut Hit,
    /// Number of hits that it has room for: `source.decoder.max_hits`.
    pub room: usize,
    /// Number of hits in it: 0 to `room`. 0 when the decoder is called.
    pub count: usize,
    /// Number of records that are neither hits nor readings of the clock. 0 when the decoder is called.
    pub skipped: u64,
    /// Reason of a failure, or null. It belongs to the decoder and must stay unchanged until that is called again.
    pub failure: *const c_char,
}

/// Function table of a library with a decoder: like that of a filter, for fragments that hold hits in place of events.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DecoderTable {
    /// Interface version of the library: `SHEAF_FILTER_ABI` of its header.
    pub abi: u32,
    /// Size of this struct in the library.
    pub table_bytes: u32,
    /// Creates a decoder for a source of a run. On failure, returns null and writes the reason to the setup's `message`; the run
    /// does not start. The setup has no tags.
    pub create: Option<unsafe extern "C" fn(setup: *const FilterSetup) -> *mut c_void>,
    /// Decodes a fragment, or a packet: its time and event are then 0. Returns 0 with the result filled in. Any other value is a
    /// failure, with the reason in `failure`; the fragment is counted as unreadable. Fragments of a source come in the order in
    /// which it sent them.
    pub decode: Option<
        unsafe extern "C" fn(
            decoder: *mut c_void,
            fragment: *const RawFragment,
            decoded: *mut Decoded,
        ) -> i32,
    >,
    /// Destroys a decoder, which is not called again; may be null.
    pub destroy: Option<unsafe extern "C" fn(decoder: *mut c_void)>,
}

/// A function that decodes a fragment, as in the table.
pub type DecodeFragment =
    unsafe extern "C" fn(decoder: *mut c_void, fragment: *const RawFragment, decoded: *mut Decoded) -> i32;
