//! Libraries of triggers in Rust.

use super::{c_failure, guarded};
use crate::abi::{self, FILTER_ABI, POLL_END, POLL_MORE, POLL_WAIT, TriggerBatch, TriggerTable};
use crate::filter::FilterFailure;
use crate::loading::OpenError;
use crate::source::PollEnd;
use crate::text;
use crate::trigger::{LibraryTrigger, TriggerSetup};
use sheaf_wire::{ByteCount, EventId, Nanos, RunNumber, Timestamp, TriggerType};
use std::ffi::{CStr, CString, c_char, c_void};
use std::{mem, ptr};

/// Triggers that are exported from a library.
///
/// ```
/// use sheaf_filter::{EventId, FilterFailure, PollEnd, TriggerPlugin, TriggerPluginSetup, TriggerRoom};
///
/// /// Gives a trigger in each poll.
/// struct Pulser {
///     next: EventId,
///     is_busy: bool,
/// }
///
/// impl TriggerPlugin for Pulser {
///     const HAS_VETO: bool = true;
///
///     fn open(_setup: &TriggerPluginSetup) -> Result<Self, FilterFailure> {
///         Ok(Self { next: EventId(0), is_busy: false })
///     }
///
///     fn start(&mut self, next: EventId) {
///         self.next = next;
///     }
///
///     fn poll(&mut self, room: &mut TriggerRoom<'_>) -> Result<PollEnd, FilterFailure> {
///         if self.is_busy {
///             room.add_vetoed(1);
///         } else if room.push(self.next) {
///             self.next.0 += 1;
///         }
///         Ok(PollEnd::More)
///     }
///
///     fn busy(&mut self, reason: Option<&str>) {
///         self.is_busy = reason.is_some();
///     }
/// }
///
/// sheaf_filter::export_trigger!(Pulser);
/// ```
pub trait TriggerPlugin: Send + Sized + 'static {
    /// Whether the device holds triggers back while the run is busy, as [`Self::busy`] says. If not, it is not polled meanwhile.
    const HAS_VETO: bool;

    /// Opens the device for a run.
    ///
    /// # Errors
    /// Describes the error to the operator. The run ends.
    fn open(setup: &TriggerPluginSetup) -> Result<Self, FilterFailure>;

    /// Takes note that the run takes triggers, and of the id of the next one: that of the first event, or the one that follows all
    /// triggers so far if the library was started again in a run.
    fn start(&mut self, _next: EventId) {}

    /// Reads triggers into `room`, as many as there are now and fit. Each has a greater id than all before it.
    ///
    /// # Errors
    /// Why nothing can be read. The pushed triggers are ignored, and the library is started again as configured for programs.
    fn poll(&mut self, room: &mut TriggerRoom<'_>) -> Result<PollEnd, FilterFailure>;

    /// Takes note that the run is busy for this reason, or, with `None`, that it is no longer. Triggers that happened before the device
    /// held back are still given, and become events.
    fn busy(&mut self, _reason: Option<&str>) {}

    /// Takes note that the run takes no more triggers. The device is not polled again.
    fn stop(&mut self) {}
}

/// Setup of a library of triggers, passed when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerPluginSetup {
    /// The number of the run.
    pub run: RunNumber,
    /// `trigger.library.parameters` of the configuration.
    pub parameters: String,
    /// Largest payload that is taken; 0 if the run takes none.
    pub max_payload: ByteCount,
}

/// Attributes of a trigger beside its id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriggerInfo {
    /// Time of the trigger.
    pub time: Timestamp,
    /// Type of the trigger.
    pub kind: TriggerType,
    /// The inputs that were set, or what else the device states.
    pub bits: u64,
}

/// Room for the triggers of a poll.
#[derive(Debug)]
pub struct TriggerRoom<'a> {
    heads: &'a mut Vec<abi::PolledTrigger>,
    bytes: &'a mut Vec<u8>,
    room: usize,
    vetoed: u64,
}

impl TriggerRoom<'_> {
    /// Number of triggers that there is room for.
    #[must_use]
    pub fn left(&self) -> usize {
        self.room - self.heads.len()
    }

    /// Adds a trigger at time 0, of type 0, without payload. Returns whether there was room for it.
    pub fn push(&mut self, id: EventId) -> bool {
        self.push_with(id, TriggerInfo::default(), &[])
    }

    /// Adds a trigger. Returns whether there was room for it.
    pub fn push_with(&mut self, id: EventId, info: TriggerInfo, payload: &[u8]) -> bool {
        let has_room = self.left() > 0;
        if has_room {
            self.bytes.extend_from_slice(payload);
            self.heads.push(abi::PolledTrigger {
                id: id.0,
                time_ns: info.time.0,
                bits: info.bits,
                kind: info.kind.0,
                bytes: payload.len(),
                ..abi::PolledTrigger::default()
            });
        }
        has_room
    }

    /// Counts triggers that the device has held back since the last poll.
    pub fn add_vetoed(&mut self, triggers: u64) {
        self.vetoed = self.vetoed.saturating_add(triggers);
    }
}

/// Exports a [`TriggerPlugin`] as the triggers of a library, by the function `sheaf_trigger` or one of another name:
/// `export_trigger!(Type as my_crate)`.
#[macro_export]
macro_rules! export_trigger {
    ($plugin:ty) => {
        $crate::export_trigger!($plugin as sheaf_trigger);
    };
    ($plugin:ty as $symbol:ident) => {
        /// The triggers of this library, for Sheaf.
        // SAFETY: the name is that of the interface, or one that the author chose for it.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $symbol() -> *const $crate::abi::TriggerTable {
            $crate::plugin::trigger_table::<$plugin>()
        }
    };
}

/// The table of a library of triggers, for [`export_trigger!`](crate::export_trigger).
#[must_use]
pub fn trigger_table<P: TriggerPlugin>() -> *const TriggerTable {
    &raw const *Exported::<P>::TABLE
}

impl LibraryTrigger {
    /// Opens a device of this program, without a library: in tests, and in programs of one's own.
    ///
    /// # Errors
    /// The error of [`TriggerPlugin::open`].
    pub fn of_plugin<P: TriggerPlugin>(setup: &TriggerSetup) -> Result<Self, OpenError> {
        // SAFETY: the functions of this module do as the table says.
        unsafe { Self::of_table(trigger_table::<P>(), setup) }
    }
}

/// A device as a library has it, with what the caller still reads after a call.
struct Exported<P> {
    plugin: P,
    heads: Vec<abi::PolledTrigger>,
    bytes: Vec<u8>,
    failure: CString,
}

impl<P: TriggerPlugin> Exported<P> {
    const TABLE: &'static TriggerTable = &TriggerTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<TriggerTable>() as u32,
        open: Some(open::<P>),
        start: Some(start::<P>),
        poll: Some(poll::<P>),
        busy: if P::HAS_VETO { Some(busy::<P>) } else { None },
        stop: Some(stop::<P>),
        close: Some(super::destroy::<Self>),
    };
}

/// # Safety
/// As `open` of [`TriggerTable`] has it.
unsafe extern "C" fn open<P: TriggerPlugin>(setup: *const abi::TriggerSetup) -> *mut c_void {
    // SAFETY: the caller gives a setup that is valid during the call.
    let setup = unsafe { &*setup };
    let opened = guarded(|| {
        if setup.abi != FILTER_ABI {
            let found = setup.abi;
            return Err(FilterFailure(format!("it has version {FILTER_ABI} of the interface, not {found}")));
        }
        // SAFETY: the version was checked, so the text is as documented for `TriggerSetup`.
        let parameters = unsafe { CStr::from_ptr(setup.parameters) };
        let plugin = P::open(&TriggerPluginSetup {
            run: RunNumber(setup.run),
            parameters: parameters.to_string_lossy().into_owned(),
            max_payload: ByteCount(setup.max_payload_bytes),
        })?;
        Ok(Exported { plugin, heads: Vec::new(), bytes: Vec::new(), failure: CString::default() })
    });
    match opened {
        Ok(exported) => Box::into_raw(Box::new(exported)).cast(),
        Err(failure) => {
            // SAFETY: the caller provides this number of bytes.
            unsafe { text::write(&failure.0, setup.message, setup.message_bytes) };
            ptr::null_mut()
        }
    }
}

/// Calls a function of the plugin that cannot report a failure. After a panic, the next poll fails if the plugin cannot go on.
///
/// # Safety
/// `triggers` is what `open::<P>` made, and is called by one thread at a time.
unsafe fn note<P: TriggerPlugin>(triggers: *mut c_void, call: impl FnOnce(&mut P)) {
    // SAFETY: promised by the caller.
    let exported = unsafe { &mut *triggers.cast::<Exported<P>>() };
    let _ = guarded(|| {
        call(&mut exported.plugin);
        Ok(())
    });
}

/// # Safety
/// As `start` of [`TriggerTable`] has it.
unsafe extern "C" fn start<P: TriggerPlugin>(triggers: *mut c_void, next: u64) {
    // SAFETY: promised by the caller.
    unsafe { note::<P>(triggers, |plugin| plugin.start(EventId(next))) };
}

/// # Safety
/// As `busy` of [`TriggerTable`] has it.
unsafe extern "C" fn busy<P: TriggerPlugin>(triggers: *mut c_void, reason: *const c_char) {
    let reason = (!reason.is_null()).then(|| {
        // SAFETY: not null, so a text that is valid during the call.
        unsafe { CStr::from_ptr(reason) }.to_string_lossy()
    });
    // SAFETY: promised by the caller.
    unsafe { note::<P>(triggers, |plugin| plugin.busy(reason.as_deref())) };
}

/// # Safety
/// As `stop` of [`TriggerTable`] has it.
unsafe extern "C" fn stop<P: TriggerPlugin>(triggers: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { note::<P>(triggers, P::stop) };
}

/// # Safety
/// As [`abi::PollTriggers`] has it.
unsafe extern "C" fn poll<P: TriggerPlugin>(triggers: *mut c_void, batch: *mut TriggerBatch) -> i32 {
    // SAFETY: what `open::<P>` made, called by one thread at a time; the batch is valid during the call.
    let (exported, batch) = unsafe { (&mut *triggers.cast::<Exported<P>>(), &mut *batch) };
    let Exported { plugin, heads, bytes, failure } = exported;
    heads.clear();
    bytes.clear();
    let mut room = TriggerRoom { heads, bytes, room: batch.room, vetoed: 0 };
    let polled = guarded(|| plugin.poll(&mut room));
    let vetoed = room.vetoed;
    let end = match polled {
        Ok(end) => end,
        Err(error) => {
            *failure = c_failure(&error);
            batch.failure = failure.as_ptr();
            return 1;
        }
    };
    // The payloads stay where they are from now on.
    let mut offset = 0;
    for head in heads.iter_mut() {
        head.data = bytes[offset..].as_ptr();
        offset += head.bytes;
    }
    // SAFETY: the caller's list has room for as many triggers as the plugin could push.
    unsafe { ptr::copy_nonoverlapping(heads.as_ptr(), batch.triggers, heads.len()) };
    (batch.count, batch.vetoed) = (heads.len(), vetoed);
    (batch.then, batch.wait_ns) = match end {
        PollEnd::More => (POLL_MORE, 0),
        PollEnd::After(Nanos(wait)) => (POLL_WAIT, wait.max(1)),
        PollEnd::Ended => (POLL_END, 0),
    };
    0
}
