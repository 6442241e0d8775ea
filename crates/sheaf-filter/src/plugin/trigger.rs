//! Libraries of triggers in Rust.

use super::polled::{self, Room};
use crate::abi::{self, FILTER_ABI, TriggerBatch, TriggerTable};
use crate::filter::FilterFailure;
use crate::loading::OpenError;
use crate::source::PollEnd;
use crate::trigger::{LibraryTrigger, TriggerSetup};
use sheaf_wire::{ByteCount, EventId, RunNumber, Timestamp, TriggerType};
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem;

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
    room: Room<'a, abi::PolledTrigger>,
    vetoed: u64,
}

impl TriggerRoom<'_> {
    /// Number of triggers that there is room for.
    #[must_use]
    pub fn left(&self) -> usize {
        self.room.left()
    }

    /// Adds a trigger at time 0, of type 0, without payload. Returns whether there was room for it.
    pub fn push(&mut self, id: EventId) -> bool {
        self.push_with(id, TriggerInfo::default(), &[])
    }

    /// Adds a trigger. Returns whether there was room for it.
    pub fn push_with(&mut self, id: EventId, info: TriggerInfo, payload: &[u8]) -> bool {
        let head = abi::PolledTrigger {
            id: id.0,
            time_ns: info.time.0,
            bits: info.bits,
            kind: info.kind.0,
            bytes: payload.len(),
            ..abi::PolledTrigger::default()
        };
        self.room.push(head, payload)
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
        $crate::__export_table!($symbol: TriggerTable = trigger_table::<$plugin>);
    };
}

/// The table of a library of triggers, for [`export_trigger!`](crate::export_trigger).
#[must_use]
pub fn trigger_table<P: TriggerPlugin>() -> *const TriggerTable {
    &raw const *Triggers::<P>::TABLE
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

/// A device as a library has it.
type Exported<P> = polled::Exported<P, abi::PolledTrigger>;

/// The table of a plugin.
struct Triggers<P>(PhantomData<P>);

impl<P: TriggerPlugin> Triggers<P> {
    const TABLE: &'static TriggerTable = &TriggerTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<TriggerTable>() as u32,
        open: Some(open::<P>),
        start: Some(start::<P>),
        poll: Some(poll::<P>),
        busy: if P::HAS_VETO { Some(busy::<P>) } else { None },
        stop: Some(stop::<P>),
        close: Some(super::destroy::<Exported<P>>),
    };
}

/// # Safety
/// As `open` of [`TriggerTable`] has it.
unsafe extern "C" fn open<P: TriggerPlugin>(setup: *const abi::TriggerSetup) -> *mut c_void {
    // SAFETY: the caller gives a setup that is valid during the call.
    let setup = unsafe { &*setup };
    let open = || {
        // SAFETY: called when the version was checked, so the text is as documented for `TriggerSetup`.
        let parameters = unsafe { CStr::from_ptr(setup.parameters) };
        P::open(&TriggerPluginSetup {
            run: RunNumber(setup.run),
            parameters: parameters.to_string_lossy().into_owned(),
            max_payload: ByteCount(setup.max_payload_bytes),
        })
    };
    // SAFETY: the caller provides this number of bytes.
    unsafe { Exported::<P>::open(setup.abi, (setup.message, setup.message_bytes), open) }
}

/// # Safety
/// As `start` of [`TriggerTable`] has it.
unsafe extern "C" fn start<P: TriggerPlugin>(triggers: *mut c_void, next: u64) {
    // SAFETY: what `open::<P>` made, called by one thread at a time.
    unsafe { Exported::<P>::note(triggers, |plugin| plugin.start(EventId(next))) };
}

/// # Safety
/// As `busy` of [`TriggerTable`] has it.
unsafe extern "C" fn busy<P: TriggerPlugin>(triggers: *mut c_void, reason: *const c_char) {
    let reason = (!reason.is_null()).then(|| {
        // SAFETY: not null, so a text that is valid during the call.
        unsafe { CStr::from_ptr(reason) }.to_string_lossy()
    });
    // SAFETY: as for `start`.
    unsafe { Exported::<P>::note(triggers, |plugin| plugin.busy(reason.as_deref())) };
}

/// # Safety
/// As `stop` of [`TriggerTable`] has it.
unsafe extern "C" fn stop<P: TriggerPlugin>(triggers: *mut c_void) {
    // SAFETY: as for `start`.
    unsafe { Exported::<P>::note(triggers, P::stop) };
}

/// # Safety
/// As [`abi::PollTriggers`] has it.
unsafe extern "C" fn poll<P: TriggerPlugin>(triggers: *mut c_void, batch: *mut TriggerBatch) -> i32 {
    // SAFETY: what `open::<P>` made, called by one thread at a time; the batch is valid during the call.
    let (exported, batch) = unsafe { (&mut *triggers.cast::<Exported<P>>(), &mut *batch) };
    let mut vetoed = 0;
    let poll = |plugin: &mut P, room: Room<'_, _>| {
        let mut room = TriggerRoom { room, vetoed: 0 };
        let end = plugin.poll(&mut room);
        vetoed = room.vetoed;
        end
    };
    // SAFETY: the list of the caller has this room.
    match unsafe { exported.poll(batch.room, batch.triggers, poll) } {
        Ok((count, end)) => {
            (batch.count, batch.vetoed) = (count, vetoed);
            (batch.then, batch.wait_ns) = end.to_answer();
            0
        }
        Err(failure) => {
            batch.failure = failure;
            1
        }
    }
}
