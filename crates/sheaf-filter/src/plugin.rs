//! Filter libraries in Rust: a type, and one line.
//!
//! ```
//! use sheaf_filter::{EventView, FilterFailure, Plugin, PluginSetup, Verdict};
//!
//! /// Wants events with data of at least two sources.
//! struct TwoSources;
//!
//! impl Plugin for TwoSources {
//!     fn create(_setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
//!         Ok(Self)
//!     }
//!
//!     fn judge(&mut self, event: &EventView<'_>) -> Result<Verdict, FilterFailure> {
//!         let seen = event.fragments().filter(|fragment| !fragment.payload().is_empty()).count();
//!         Ok(if seen >= 2 { Verdict::accept() } else { Verdict::reject() })
//!     }
//! }
//!
//! sheaf_filter::export_filter!(TwoSources);
//! ```
//!
//! Compiled as a `cdylib`, this is a library for `filter.kind = "library"`. A panic in it is a failure of the event
//! that it judged, not of the process. Step filters ([`StepPlugin`]), preprocessors ([`PreprocessPlugin`]), decoders ([`DecoderPlugin`]),
//! sources ([`SourcePlugin`]) and triggers ([`TriggerPlugin`]) are written alike.

#![allow(unsafe_code)]

mod decoder;
mod polled;
mod preprocess;
mod source;
mod step;
mod trigger;

pub use decoder::{DecoderPlugin, decoder_table};
pub use preprocess::{PreprocessPlugin, preprocessor_table};
pub use source::{PollRoom, SourcePlugin, SourcePluginSetup, source_table};
pub use step::{StepPlugin, step_table};
pub use trigger::{TriggerInfo, TriggerPlugin, TriggerPluginSetup, TriggerRoom, trigger_table};

use crate::abi::{self, FILTER_ABI, FilterSetup, FilterTable, FilterVerdict};
use crate::filter::{Filter, FilterFailure};
use crate::text;
use crate::view::{EventView, Scratch};
use bytes::Bytes;
use sheaf_wire::{Event, RunNumber, Tags, Verdict};
use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{mem, ptr, slice};

/// A filter that is exported from a library, or used [in the process](InProcess).
pub trait Plugin: Send + Sized + 'static {
    /// Makes the filter for a run.
    ///
    /// # Errors
    /// Describes the error in the setup to the operator. The run does not start.
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure>;

    /// Judges an event.
    ///
    /// # Errors
    /// Why there is no verdict. The event is stored as it was built and tagged `quarantined`.
    fn judge(&mut self, event: &EventView<'_>) -> Result<Verdict, FilterFailure>;
}

/// Setup of a filter, a step filter or a preprocessor, passed when it is created.
#[derive(Clone, Debug, Default)]
pub struct PluginSetup<'a> {
    /// The number of the run.
    pub run: RunNumber,
    /// `filter.parameters` of the configuration; of a step filter `building.parameters`, of a preprocessor
    /// `preprocessing.parameters`.
    pub parameters: &'a str,
    /// `filter.tags` of the configuration.
    pub tags: Vec<&'a str>,
}

impl PluginSetup<'_> {
    /// The tag called `name`.
    ///
    /// # Errors
    /// The configuration has no such tag.
    pub fn tag(&self, name: &str) -> Result<Tags, FilterFailure> {
        let index = self.tags.iter().position(|tag| *tag == name);
        index.and_then(Tags::named).ok_or_else(|| {
            FilterFailure(format!("the filter uses the tag `{name}`; add it to `filter.tags`"))
        })
    }
}

/// Exports the function that returns a table, for the macros of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_table {
    ($symbol:ident: $table:ident = $make:ident::<$plugin:ty>) => {
        /// Returns the table of this library, for Sheaf.
        // SAFETY: the name is that of the interface, or one that the author chose for it.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $symbol() -> *const $crate::abi::$table {
            $crate::plugin::$make::<$plugin>()
        }
    };
}

/// Exports a [`Plugin`] as the filter of a library, by the function `sheaf_filter` or one of another name:
/// `export_filter!(Type as my_filter)`.
#[macro_export]
macro_rules! export_filter {
    ($plugin:ty) => {
        $crate::export_filter!($plugin as sheaf_filter);
    };
    ($plugin:ty as $symbol:ident) => {
        $crate::__export_table!($symbol: FilterTable = table::<$plugin>);
    };
}

/// The table of a plugin, for [`export_filter!`](crate::export_filter).
#[must_use]
pub fn table<P: Plugin>() -> *const FilterTable {
    &raw const *Exported::<P>::TABLE
}

/// A plugin as a library has it, with what the caller still reads after a call.
struct Exported<P> {
    plugin: P,
    verdict: Verdict,
    failure: CString,
}

impl<P: Plugin> Exported<P> {
    const TABLE: &'static FilterTable = &FilterTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<FilterTable>() as u32,
        create: Some(create::<P>),
        judge: Some(judge::<P>),
        destroy: Some(destroy::<Self>),
    };
}

/// Calls `work`; a panic becomes a failure.
fn guarded<T>(work: impl FnOnce() -> Result<T, FilterFailure>) -> Result<T, FilterFailure> {
    // The state after a panic belongs to the plugin; the trait's documentation describes the consequences.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(FilterFailure(describe(&*panic))))
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let said =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", said.unwrap_or("without a text"))
}

/// # Safety
/// As [`abi::CreateFilter`] has it.
unsafe extern "C" fn create<P: Plugin>(setup: *const FilterSetup) -> *mut c_void {
    let make = |setup: &PluginSetup<'_>| {
        let plugin = P::create(setup)?;
        Ok(Exported { plugin, verdict: Verdict::reject(), failure: CString::default() })
    };
    // SAFETY: the caller gives a setup that is valid during the call.
    unsafe { create_with(setup, make) }
}

/// Makes something as a table's `create` does: a box of it, or null and a message.
///
/// # Safety
/// `setup` is as [`abi::CreateFilter`] has it.
unsafe fn create_with<T>(
    setup: *const FilterSetup,
    make: impl FnOnce(&PluginSetup<'_>) -> Result<T, FilterFailure>,
) -> *mut c_void {
    // SAFETY: promised by the caller.
    let setup = unsafe { &*setup };
    let make = || {
        // SAFETY: called when the version was checked, so the texts are as documented for `FilterSetup`.
        make(&unsafe { read_setup(setup)? })
    };
    // SAFETY: the caller provides this number of bytes.
    unsafe { make_boxed(setup.abi, (setup.message, setup.message_bytes), make) }
}

/// Makes something for a caller with version `abi` of the interface: a box of it, or null and a message.
///
/// # Safety
/// `message_bytes` may be written at `message`, or it is null.
unsafe fn make_boxed<T>(
    abi: u32,
    (message, message_bytes): (*mut c_char, usize),
    make: impl FnOnce() -> Result<T, FilterFailure>,
) -> *mut c_void {
    let made = guarded(|| {
        if abi != FILTER_ABI {
            return Err(FilterFailure(format!("it has version {FILTER_ABI} of the interface, not {abi}")));
        }
        make()
    });
    match made {
        Ok(thing) => Box::into_raw(Box::new(thing)).cast(),
        Err(failure) => {
            // SAFETY: promised by the caller.
            unsafe { text::write(&failure.0, message, message_bytes) };
            ptr::null_mut()
        }
    }
}

/// # Safety
/// `setup` must be valid as documented for [`FilterSetup`], for the lifetime `'a`.
unsafe fn read_setup<'a>(setup: &'a FilterSetup) -> Result<PluginSetup<'a>, FilterFailure> {
    let text = |first: *const c_char| {
        // SAFETY: texts of a setup end with a NUL and are valid as long as it.
        let text: &'a CStr = unsafe { CStr::from_ptr(first) };
        text.to_str().map_err(|error| FilterFailure(format!("a text of the setup is not UTF-8: {error}")))
    };
    let tags = if setup.tag_count == 0 {
        &[]
    } else {
        // SAFETY: a setup has this number of tags.
        unsafe { slice::from_raw_parts(setup.tags, setup.tag_count) }
    };
    Ok(PluginSetup {
        run: RunNumber(setup.run),
        parameters: text(setup.parameters)?,
        tags: tags.iter().map(|tag| text(*tag)).collect::<Result<_, _>>()?,
    })
}

/// # Safety
/// As [`abi::JudgeEvent`] has it.
unsafe extern "C" fn judge<P: Plugin>(
    filter: *mut c_void,
    event: *const abi::Event,
    verdict: *mut FilterVerdict,
) -> i32 {
    // SAFETY: a filter that `create::<P>` made, called by one thread at a time; event and verdict valid during the
    // call.
    let (exported, event, said) =
        unsafe { (&mut *filter.cast::<Exported<P>>(), EventView::new(&*event), &mut *verdict) };
    match guarded(|| exported.plugin.judge(&event)) {
        Ok(verdict) => {
            exported.verdict = verdict;
            let verdict = &exported.verdict;
            said.accepted = u32::from(verdict.accepted);
            said.tags = verdict.tags.0;
            said.payload = verdict.payload.as_ptr();
            said.payload_bytes = verdict.payload.len();
            0
        }
        Err(failure) => {
            exported.failure = c_failure(&failure);
            said.failure = exported.failure.as_ptr();
            1
        }
    }
}

/// A failure as passed to C. The text ends at its first NUL.
fn c_failure(failure: &FilterFailure) -> CString {
    let before = failure.0.split('\0').next().unwrap_or_default();
    CString::new(before).unwrap_or_default()
}

/// # Safety
/// As [`abi::DestroyFilter`] has it, for what [`create_with`] made as a `T`.
unsafe extern "C" fn destroy<T>(thing: *mut c_void) {
    // SAFETY: made with `Box::into_raw`, and not used again.
    let thing = unsafe { Box::from_raw(thing.cast::<T>()) };
    // A panic in the plugin's `drop` cannot be reported, and must not unwind into C.
    let _ = catch_unwind(AssertUnwindSafe(move || drop(thing)));
}

/// A plugin used as a filter without a library: in a program of one's own that joins as a processor, and in tests.
#[derive(Debug)]
pub struct InProcess<P> {
    plugin: P,
    scratch: Scratch,
}

impl<P: Plugin> InProcess<P> {
    /// Makes the filter.
    ///
    /// # Errors
    /// Returns the error of [`Plugin::create`].
    pub fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
        Ok(Self { plugin: P::create(setup)?, scratch: Scratch::default() })
    }
}

impl<P: Plugin> Filter for InProcess<P> {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        let borrowed = self.scratch.event(event);
        self.plugin.judge(&borrowed.view())
    }
}

#[cfg(test)]
mod tests;
