//! Many fragments with one call.

#![allow(unsafe_code)]

use super::error::SourceArgumentError;
use super::{FAILED, SentFragment, Source, fragment};
use crate::argument;
use sheaf_feed::client::SourceFragment;
use sheaf_wire::{EventId, Timestamp};
use std::ffi::c_void;
use std::slice;

/// Sends `count` fragments of the source `id` in their order, many in one message. Waits while there is no room. Payloads
/// are copied. If the run ends or the call fails, sheaf_source_progress has the number of those sent.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `fragments` is null or a list of `count` fragments, whose
/// `data` are null or have `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_send_many(
    source: *mut Source,
    id: u32,
    fragments: *const SentFragment,
    count: usize,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    // SAFETY: as the caller promises, also of the payloads.
    match unsafe { listed(fragments, count) } {
        Ok(read) => source.send_all(id, &read),
        Err(error) => source.fail(&error),
    }
}

/// # Safety
/// As `sheaf_source_send_many`; the payloads stay as they are while the result is used.
unsafe fn listed<'a>(
    fragments: *const SentFragment,
    count: usize,
) -> Result<Vec<SourceFragment<'a>>, SourceArgumentError> {
    // SAFETY: null or a list of this length, as the caller promises.
    let sent = unsafe { argument::list(fragments, count, "the list of fragments")? };
    // SAFETY: as the caller promises.
    sent.iter().map(|sent| unsafe { fragment(sent) }).collect()
}

/// Sends `count` fragments as sheaf_source_send_many does, from arrays: fragment i has the event number `events[i]`, the
/// time `times_ns[i]` (`times_ns` may be null: there are no times), and the bytes of `payload` from `offsets[i]` to
/// `offsets[i + 1]`.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `events` and `times_ns` are null or have `count` numbers,
/// `offsets` is null or has one more, and `payload` is null or has as many bytes as the last of `offsets` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_send_arrays(
    source: *mut Source,
    id: u32,
    count: usize,
    events: *const u64,
    times_ns: *const u64,
    payload: *const c_void,
    offsets: *const u64,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    // SAFETY: as the caller promises.
    match unsafe { arrays(count, events, times_ns, payload, offsets) } {
        Ok(read) => source.send_all(id, &read),
        Err(error) => source.fail(&error),
    }
}

/// # Safety
/// As `sheaf_source_send_arrays`; the arrays stay as they are while the result is used.
unsafe fn arrays<'a>(
    count: usize,
    events: *const u64,
    times_ns: *const u64,
    payload: *const c_void,
    offsets: *const u64,
) -> Result<Vec<SourceFragment<'a>>, SourceArgumentError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: null or of these lengths, as the caller promises.
    let (events, offsets, times) = unsafe {
        let times = if times_ns.is_null() { None } else { Some(slice::from_raw_parts(times_ns, count)) };
        (
            argument::list(events, count, "the array of events")?,
            argument::list(offsets, count + 1, "the array of offsets")?,
            times,
        )
    };
    let bytes = usize::try_from(offsets[count]).map_err(|_| SourceArgumentError::LastOffset)?;
    // SAFETY: null or of this length, as the caller promises.
    let payload = unsafe { argument::list(payload.cast::<u8>(), bytes, "the payload")? };
    let one = |(at, event): (usize, &u64)| {
        let offsets = offsets[at] as usize..offsets[at + 1] as usize;
        let Some(payload) = payload.get(offsets.clone()) else {
            return Err(SourceArgumentError::Offsets { fragment: at, offsets });
        };
        let time = times.map_or(0, |times| times[at]);
        Ok(SourceFragment { event: EventId(*event), time: Timestamp(time), payload })
    };
    events.iter().enumerate().map(one).collect()
}
