//! Watching a run in progress: a sample of its accepted events.

#![allow(unsafe_code)]

use crate::argument::{self, ArgumentError};
use crate::stored::{Shown, StoredEvent};
use sheaf_filter::text;
use sheaf_tap::taps::{Next, TapOptions, Taps, TapsError};
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::time::Duration;
use std::{ptr, slice};

/// Reason why a consumer cannot join a run.
#[derive(Debug, thiserror::Error)]
enum TapOpenError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("the selection has {0} tags and its list is null")]
    NullTags(usize),
    #[error(transparent)]
    Taps(#[from] TapsError),
}

/// Receives a sample of a run's accepted events.
pub struct Tap {
    taps: Taps,
    tags: Vec<CString>,
    shown: Shown,
    message: CString,
}

/// Selection among a run's accepted events. All zero: every event, as fast as the run provides them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TapSelection {
    /// Names of tags; an event must have at least one of them.
    pub tags: *const *const c_char,
    /// Number of tags; 0: all events.
    pub tag_count: usize,
    /// Prescale N: one in N of those events; 0 means 1.
    pub prescale: u32,
    /// Always 0.
    pub reserved: u32,
    /// Maximum number of events per second; 0: no limit.
    pub rate_hz: f64,
}

/// Joins the run at `target` as a consumer: a run directory, the socket of a builder unit in it, or `host:port`. `selection`
/// selects events (null: all), `name` identifies the consumer to the operator (may be null). A consumer never delays a
/// run; events that cannot be sent in time are left out. On failure, returns null and writes the reason to `message` (a
/// buffer of `message_bytes` bytes, or null). The caller owns the tap and closes it with sheaf_tap_close.
///
/// # Safety
/// Texts are null or NUL-terminated, `selection` is null or a valid SheafTapSelection, and `message` is null or a buffer of
/// `message_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_open(
    target: *const c_char,
    selection: *const TapSelection,
    name: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> *mut Tap {
    // SAFETY: as the caller promises.
    unsafe { sheaf_tap_open_with_key(target, ptr::null(), selection, name, message, message_bytes) }
}

/// Joins as sheaf_tap_open does, at HOST:PORT of a run that has a key: `key_file` is a copy of its transport.key_file,
/// readable only by the user. Null: the run has no key.
///
/// # Safety
/// As `sheaf_tap_open`; `key_file` is null or a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_open_with_key(
    target: *const c_char,
    key_file: *const c_char,
    selection: *const TapSelection,
    name: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> *mut Tap {
    // SAFETY: as the caller promises.
    match unsafe { open(target, key_file, selection, name) } {
        Ok(taps) => {
            let tags = taps.welcome().tag_names().iter().map(|name| argument::c_text(name)).collect();
            let (shown, message) = (Shown::default(), CString::default());
            Box::into_raw(Box::new(Tap { taps, tags, shown, message }))
        }
        Err(error) => {
            // SAFETY: as the caller promises.
            unsafe { text::write(&error.to_string(), message, message_bytes) };
            ptr::null_mut()
        }
    }
}

/// # Safety
/// As `sheaf_tap_open_with_key`.
unsafe fn open(
    target: *const c_char,
    key_file: *const c_char,
    selection: *const TapSelection,
    name: *const c_char,
) -> Result<Taps, TapOpenError> {
    // SAFETY: null or a NUL-terminated text, as the caller promises.
    let text = |first: *const c_char| {
        (!first.is_null()).then(|| unsafe { CStr::from_ptr(first) }.to_string_lossy().into_owned())
    };
    let target = text(target).ok_or(ArgumentError::Null("the target"))?;
    let key = text(key_file).map(PathBuf::from);
    let mut options = TapOptions { name: text(name).unwrap_or_default(), key, ..TapOptions::default() };
    // SAFETY: null or a selection, as the caller promises.
    if let Some(selection) = unsafe { selection.as_ref() } {
        if selection.tag_count > 0 && selection.tags.is_null() {
            return Err(TapOpenError::NullTags(selection.tag_count));
        }
        if selection.tag_count > 0 {
            // SAFETY: not null, and so a list of this length, as the caller promises.
            let tags = unsafe { slice::from_raw_parts(selection.tags, selection.tag_count) };
            let named = tags.iter().map(|tag| text(*tag).ok_or(ArgumentError::Null("the name of a tag")));
            options.tags = named.collect::<Result<_, _>>()?;
        }
        options.prescale = selection.prescale;
        options.rate_hz = (selection.rate_hz != 0.0).then_some(selection.rate_hz);
    }
    Ok(Taps::open(&target, options)?)
}

/// Waits up to `timeout_ms` for the next event. Returns 1 with the event in `event`, 0 when the run has ended, 2 if no
/// event arrived in this time, and -1 if the run was lost; sheaf_tap_message then has the reason.
///
/// # Safety
/// `tap` is null or from sheaf_tap_open and not closed; `event` is null or points to a writable event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_next(tap: *mut Tap, timeout_ms: u32, event: *mut StoredEvent) -> i32 {
    // SAFETY: as the caller promises.
    let Some(tap) = (unsafe { tap.as_mut() }) else { return -1 };
    if event.is_null() {
        tap.message = argument::c_text("the pointer to the event is null");
        return -1;
    }
    match tap.taps.next(Duration::from_millis(timeout_ms.into())) {
        Ok(Next::Ended) => 0,
        Ok(Next::Nothing) => 2,
        Ok(Next::Event(_, stored)) => {
            let given = tap.shown.show(*stored);
            // SAFETY: not null, and so writable.
            unsafe { event.write(given) };
            1
        }
        Err(error) => {
            tap.message = argument::c_text(&error.to_string());
            -1
        }
    }
}

/// Returns the name of the tag with this bit, from 0, or null if there is none. The text belongs to the tap.
///
/// # Safety
/// `tap` is null or from sheaf_tap_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_tag(tap: *const Tap, bit: u32) -> *const c_char {
    // SAFETY: as the caller promises.
    let tap = unsafe { tap.as_ref() };
    tap.and_then(|tap| tap.tags.get(bit as usize)).map_or(ptr::null(), |name| name.as_ptr())
}

/// Describes the error of the last sheaf_tap_next that returned -1. The text belongs to the tap and is valid until the
/// next call.
///
/// # Safety
/// `tap` is null or from sheaf_tap_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_message(tap: *const Tap) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { tap.as_ref() }.map_or(c"the tap is null".as_ptr(), |tap| tap.message.as_ptr())
}

/// Leaves the run and frees the tap. All data obtained from it become invalid. Null is ignored.
///
/// # Safety
/// `tap` is null or from sheaf_tap_open, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_close(tap: *mut Tap) {
    if !tap.is_null() {
        // SAFETY: made with `Box::into_raw` by `sheaf_tap_open`, and not used again.
        drop(unsafe { Box::from_raw(tap) });
    }
}
