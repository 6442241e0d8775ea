//! Preprocessors in Rust.

use super::{PluginSetup, c_failure, create_with, destroy, guarded};
use crate::abi::{self, FILTER_ABI, FilterSetup, PreprocessorTable};
use crate::filter::FilterFailure;
use crate::preprocess::{Processed, RawFragment};
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::ffi::{CString, c_void};
use std::{mem, slice};

/// A preprocessor that is exported from a library.
///
/// ```
/// use sheaf_filter::{FilterFailure, PluginSetup, PreprocessPlugin, Processed, RawFragment};
///
/// /// Removes trailing zero bytes.
/// struct Trim;
///
/// impl PreprocessPlugin for Trim {
///     fn create(_setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
///         Ok(Self)
///     }
///
///     fn process(&mut self, raw: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
///         let bytes = raw.payload.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
///         room[..bytes].copy_from_slice(&raw.payload[..bytes]);
///         Ok(Processed::Written(bytes))
///     }
/// }
///
/// sheaf_filter::export_preprocessor!(Trim);
/// ```
pub trait PreprocessPlugin: Send + Sized + 'static {
    /// Makes the preprocessor for a run. Each worker has one of its own.
    ///
    /// # Errors
    /// Describes the error in the setup to the operator. The run does not start.
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure>;

    /// As [`crate::Preprocessor::process`].
    ///
    /// # Errors
    /// Why the fragment cannot be processed. It leaves as the source sent it.
    fn process(&mut self, raw: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure>;
}

/// Exports a [`PreprocessPlugin`] as the preprocessor of a library, by the function `sheaf_preprocessor` or one of another
/// name: `export_preprocessor!(Type as my_preprocessor)`.
#[macro_export]
macro_rules! export_preprocessor {
    ($plugin:ty) => {
        $crate::export_preprocessor!($plugin as sheaf_preprocessor);
    };
    ($plugin:ty as $symbol:ident) => {
        $crate::__export_table!($symbol: PreprocessorTable = preprocessor_table::<$plugin>);
    };
}

/// The table of a preprocessor, for [`export_preprocessor!`](crate::export_preprocessor).
#[must_use]
pub fn preprocessor_table<P: PreprocessPlugin>() -> *const PreprocessorTable {
    &raw const *Exported::<P>::TABLE
}

/// A preprocessor as a library has it, with what the caller still reads after a call.
struct Exported<P> {
    plugin: P,
    failure: CString,
}

impl<P: PreprocessPlugin> Exported<P> {
    const TABLE: &'static PreprocessorTable = &PreprocessorTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<PreprocessorTable>() as u32,
        create: Some(create::<P>),
        process: Some(process::<P>),
        destroy: Some(destroy::<Self>),
    };
}

/// # Safety
/// As [`abi::CreateFilter`] has it.
unsafe extern "C" fn create<P: PreprocessPlugin>(setup: *const FilterSetup) -> *mut c_void {
    // SAFETY: the caller gives a setup that is valid during the call.
    unsafe {
        create_with(setup, |setup| Ok(Exported { plugin: P::create(setup)?, failure: CString::default() }))
    }
}

/// # Safety
/// As [`abi::ProcessFragment`] has it.
unsafe extern "C" fn process<P: PreprocessPlugin>(
    preprocessor: *mut c_void,
    fragment: *const abi::RawFragment,
    processed: *mut abi::Processed,
) -> i32 {
    // SAFETY: a thing that `create::<P>` made, called by one thread at a time; both structs are valid during the call.
    let (exported, raw, made) =
        unsafe { (&mut *preprocessor.cast::<Exported<P>>(), &*fragment, &mut *processed) };
    // SAFETY: neither pointer is null, both lengths are valid during the call, and only the callee accesses the room.
    let (payload, room) = unsafe {
        (slice::from_raw_parts(raw.data, raw.bytes), slice::from_raw_parts_mut(made.data, made.room))
    };
    let raw = RawFragment {
        event: EventId(raw.event),
        source: SourceId(raw.source),
        time: Timestamp(raw.time_ns),
        payload,
    };
    match guarded(|| exported.plugin.process(&raw, room)) {
        Ok(Processed::Kept) => {
            made.keep = 1;
            0
        }
        Ok(Processed::Written(bytes)) => {
            made.bytes = bytes;
            0
        }
        Err(failure) => {
            exported.failure = c_failure(&failure);
            made.failure = exported.failure.as_ptr();
            1
        }
    }
}
