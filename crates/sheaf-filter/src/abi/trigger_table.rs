//! The interface of a library of triggers.

use std::ffi::{c_char, c_void};
use std::ptr;

/// The name of the function that gives a library's table of triggers, where the configuration names no other.
pub const TRIGGER_SYMBOL: &str = "sheaf_trigger";

/// Setup of a library of triggers, passed when it is opened. The structure and all that it points to are valid during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TriggerSetup {
    /// Interface version of the caller.
    pub abi: u32,
    /// The number of the run.
    pub run: u32,
    /// `trigger.library.parameters` of the configuration, unchanged; empty if there are none.
    pub parameters: *const c_char,
    /// Size of the largest payload that is taken; 0 if the run takes none.
    pub max_payload_bytes: u64,
    /// Buffer for the reason of a failure, NUL-terminated.
    pub message: *mut c_char,
    /// Size of that buffer in bytes.
    pub message_bytes: usize,
}

/// A trigger of a library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PolledTrigger {
    /// The id, which is the number of the event: greater than those of all triggers before. Ids that are left out are counted.
    pub id: u64,
    /// The time of the trigger.
    pub time_ns: u64,
    /// The inputs that were set, or what else the device states.
    pub bits: u64,
    /// The type of the trigger.
    pub kind: u16,
    /// Leave them 0.
    pub reserved: [u16; 3],
    /// The payload. It belongs to the library and must stay unchanged until that is called again. Null only if `bytes` is 0.
    pub data: *const u8,
    /// Size of the payload; may be 0.
    pub bytes: usize,
}

/// Returns the initial value, which a library finds: trigger 0 of type 0, without payload.
impl Default for PolledTrigger {
    fn default() -> Self {
        Self { id: 0, time_ns: 0, bits: 0, kind: 0, reserved: [0; 3], data: ptr::null(), bytes: 0 }
    }
}

/// Triggers of one poll.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TriggerBatch {
    /// List to be filled from its beginning. It belongs to the caller.
    pub triggers: *mut PolledTrigger,
    /// Number of triggers that the list can have.
    pub room: usize,
    /// Number of triggers in it: 0 to `room`. 0 when the library is polled.
    pub count: usize,
    /// One of SHEAF_POLL_WAIT, SHEAF_POLL_MORE and SHEAF_POLL_END. SHEAF_POLL_WAIT when the library is polled.
    pub then: u32,
    /// Leave it 0.
    pub reserved: u32,
    /// Number of triggers that the device has held back since the last poll. They are counted as vetoes: of busy, if the run is busy or
    /// was since then, otherwise of the device's own dead time. 0 when the library is polled.
    pub vetoed: u64,
    /// With SHEAF_POLL_WAIT: time until the next poll; 0: 100 microseconds. At most a second. 0 when the library is polled.
    pub wait_ns: u64,
    /// Reason of a failure, or null. It belongs to the library and must stay unchanged until that is called again.
    pub failure: *const c_char,
}

/// A function that polls triggers.
pub type PollTriggers = unsafe extern "C" fn(triggers: *mut c_void, batch: *mut TriggerBatch) -> i32;

/// Function table of a library of triggers. It must stay unchanged while the library is loaded.
///
/// The library is in a process of its own, one thread of which calls it. A function may block, but the library does not learn that the
/// run is busy meanwhile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TriggerTable {
    /// Interface version of the library: `SHEAF_FILTER_ABI` of its header.
    pub abi: u32,
    /// Size of this struct in the library.
    pub table_bytes: u32,
    /// Opens the device for a run. On failure, returns null and writes the reason to the setup's `message`.
    pub open: Option<unsafe extern "C" fn(setup: *const TriggerSetup) -> *mut c_void>,
    /// Takes note that the run takes triggers, and of the id of the next one: that of the first event, or the one that follows all
    /// triggers so far if the library was started again in a run. May be null. The library is polled from now on.
    pub start: Option<unsafe extern "C" fn(triggers: *mut c_void, next: u64)>,
    /// Returns 0 with the batch filled in. Any other value is a failure, with the reason in `failure`.
    pub poll: Option<unsafe extern "C" fn(triggers: *mut c_void, batch: *mut TriggerBatch) -> i32>,
    /// Takes note that the run is busy for this reason, or, with null, that it is no longer; may be null. The text is valid during the
    /// call. Triggers that happened before the device held back are still given, and become events. If the function is null, the
    /// library is not polled while the run is busy.
    pub busy: Option<unsafe extern "C" fn(triggers: *mut c_void, reason: *const c_char)>,
    /// Takes note that the run takes no more triggers; may be null. The library is not polled again.
    pub stop: Option<unsafe extern "C" fn(triggers: *mut c_void)>,
    /// Closes the device, which is not used again; may be null.
    pub close: Option<unsafe extern "C" fn(triggers: *mut c_void)>,
}
