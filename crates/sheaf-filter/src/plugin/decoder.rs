//! Decoders in Rust.

use super::{PluginSetup, c_failure, create_with, destroy, guarded};
use crate::abi::{self, DecoderTable, FILTER_ABI, FilterSetup};
use crate::decoder::HitRoom;
use crate::filter::FilterFailure;
use crate::preprocess::RawFragment;
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::ffi::{CString, c_void};
use std::{mem, slice};

/// A decoder of hits that is exported from a library.
///
/// ```
/// use sheaf_filter::abi::Hit;
/// use sheaf_filter::{DecoderPlugin, FilterFailure, HitRoom, PluginSetup, RawFragment};
///
/// /// Records of six bytes: channel, time of 32 bits, width.
/// struct Superframe;
///
/// impl DecoderPlugin for Superframe {
///     fn create(_setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
///         Ok(Self)
///     }
///
///     fn decode(&mut self, raw: &RawFragment<'_>, room: &mut HitRoom<'_>) -> Result<(), FilterFailure> {
///         for &[channel, t0, t1, t2, t3, width] in raw.payload.as_chunks::<6>().0 {
///             let time = u64::from(u32::from_le_bytes([t0, t1, t2, t3]));
///             room.hit(Hit { time, channel: u32::from(channel), value: u16::from(width), extra: 0 });
///         }
///         Ok(())
///     }
/// }
///
/// sheaf_filter::export_decoder!(Superframe);
/// ```
pub trait DecoderPlugin: Send + Sized + 'static {
    /// Makes the decoder of a source for a run.
    ///
    /// # Errors
    /// Describes the error in the setup to the operator. The run does not start.
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure>;

    /// Passes the hits of a fragment to `room`, in any order.
    ///
    /// # Errors
    /// Why the fragment cannot be decoded. It is counted as unreadable.
    fn decode(&mut self, raw: &RawFragment<'_>, room: &mut HitRoom<'_>) -> Result<(), FilterFailure>;
}

/// Exports a [`DecoderPlugin`] as the decoder of a library, by the function `sheaf_decoder` or one of another name:
/// `export_decoder!(Type as my_decoder)`.
#[macro_export]
macro_rules! export_decoder {
    ($plugin:ty) => {
        $crate::export_decoder!($plugin as sheaf_decoder);
    };
    ($plugin:ty as $symbol:ident) => {
        $crate::__export_table!($symbol: DecoderTable = decoder_table::<$plugin>);
    };
}

/// The table of a decoder, for [`export_decoder!`](crate::export_decoder).
#[must_use]
pub fn decoder_table<P: DecoderPlugin>() -> *const DecoderTable {
    &raw const *Exported::<P>::TABLE
}

/// A decoder as a library has it, with what the caller still reads after a call.
struct Exported<P> {
    plugin: P,
    failure: CString,
}

impl<P: DecoderPlugin> Exported<P> {
    const TABLE: &'static DecoderTable = &DecoderTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<DecoderTable>() as u32,
        create: Some(create::<P>),
        decode: Some(decode::<P>),
        destroy: Some(destroy::<Self>),
    };
}

/// # Safety
/// As [`abi::CreateFilter`] has it.
unsafe extern "C" fn create<P: DecoderPlugin>(setup: *const FilterSetup) -> *mut c_void {
    // SAFETY: the caller gives a setup that is valid during the call.
    unsafe {
        create_with(setup, |setup| Ok(Exported { plugin: P::create(setup)?, failure: CString::default() }))
    }
}

/// # Safety
/// As [`abi::DecodeFragment`] has it.
unsafe extern "C" fn decode<P: DecoderPlugin>(
    decoder: *mut c_void,
    fragment: *const abi::RawFragment,
    decoded: *mut abi::Decoded,
) -> i32 {
    // SAFETY: a thing that `create::<P>` made, called by one thread at a time; both structs are valid during the call.
    let (exported, raw, decoded) =
        unsafe { (&mut *decoder.cast::<Exported<P>>(), &*fragment, &mut *decoded) };
    // SAFETY: the pointer is not null, the length is valid during the call.
    let payload = unsafe { slice::from_raw_parts(raw.data, raw.bytes) };
    let raw = RawFragment {
        event: EventId(raw.event),
        source: SourceId(raw.source),
        time: Timestamp(raw.time_ns),
        payload,
    };
    // SAFETY: only the callee accesses the buffer, and it has that size.
    let mut room = unsafe { HitRoom::of(decoded) };
    match guarded(|| exported.plugin.decode(&raw, &mut room)) {
        Ok(()) => {
            (decoded.count, decoded.skipped) = room.counts();
            0
        }
        Err(failure) => {
            exported.failure = c_failure(&failure);
            decoded.failure = exported.failure.as_ptr();
            1
        }
    }
}
