//! Fragments that a program writes in place: reserve and commit.

#![allow(unsafe_code)]

use super::{DONE, FAILED, NOT_NOW, Source};
use crate::argument::ArgumentError;
use sheaf_feed::{FeedError, SourceClient};
use sheaf_wire::{EventId, Timestamp};
use std::ffi::c_void;

/// Reserves `bytes` for the payload of a fragment of the source `id`, and waits while there is no room. On success `*payload` is the
/// reserved memory, with undefined content and without alignment; the payload is written there, and sent by sheaf_source_commit.
/// On the same host this memory is shared with the run, and the library does not copy the payload. A program has one reservation at
/// a time; any other call but sheaf_source_commit gives it up, and `*payload` must not be used any longer.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `payload` is null or a pointer to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_reserve(
    source: *mut Source,
    id: u32,
    bytes: usize,
    payload: *mut *mut c_void,
) -> i32 {
    let reserve =
        |client: &mut SourceClient, index| client.reserve(index, bytes).map(|room| Some(room.as_mut_ptr()));
    // SAFETY: as the caller promises.
    unsafe { place(source, id, payload, reserve) }
}

/// Reserves room as sheaf_source_reserve, and returns 2 if there is none now.
///
/// # Safety
/// As for sheaf_source_reserve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_try_reserve(
    source: *mut Source,
    id: u32,
    bytes: usize,
    payload: *mut *mut c_void,
) -> i32 {
    let reserve = |client: &mut SourceClient, index| {
        client.try_reserve(index, bytes).map(|room| room.map(<[u8]>::as_mut_ptr))
    };
    // SAFETY: as the caller promises.
    unsafe { place(source, id, payload, reserve) }
}

/// Shows the caller the memory that `reserve` has reserved, if it has.
///
/// # Safety
/// As for sheaf_source_reserve.
unsafe fn place(
    source: *mut Source,
    id: u32,
    payload: *mut *mut c_void,
    reserve: impl FnOnce(&mut SourceClient, usize) -> Result<Option<*mut u8>, FeedError>,
) -> i32 {
    // SAFETY: as the caller promises.
    let (source, payload) = unsafe { (source.as_mut(), payload.as_mut()) };
    let Some(source) = source else { return FAILED };
    let Some(payload) = payload else { return source.fail(&ArgumentError::Null("`payload`")) };
    let index = match source.index_of(id) {
        Ok(index) => index,
        Err(error) => return source.fail(&error),
    };
    let reserved = reserve(&mut source.client, index);
    let answer = reserved.map(|place| {
        place.map_or(NOT_NOW, |place| {
            *payload = place.cast();
            DONE
        })
    });
    source.answer(answer)
}

/// Sends a fragment whose payload is the first `bytes` of the reserved memory. If `more` is not 0, the fragment waits for the next
/// ones of the same source, which are then sent in one message: it leaves when the message is full, or with any other call.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_commit(
    source: *mut Source,
    event: u64,
    time_ns: u64,
    bytes: usize,
    more: i32,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    let (event, time, client) = (EventId(event), Timestamp(time_ns), &mut source.client);
    let committed =
        if more == 0 { client.commit(event, time, bytes) } else { client.commit_more(event, time, bytes) };
    source.answer(committed.map(|()| DONE))
}
