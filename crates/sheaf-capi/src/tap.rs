//! Programs that look on: a sample of the accepted events of a run under way.

#![allow(unsafe_code)]

use crate::argument;
use crate::stored::{Shown, StoredEvent};
use sheaf_filter::text;
use sheaf_tap::taps::{Next, TapOptions, Taps};
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::time::Duration;
use std::{ptr, slice};

/// Gets a sample of a run's accepted events.
pub struct Tap {
    taps: Taps,
    tags: Vec<CString>,
    shown: Shown,
    message: CString,
}

/// Selection among a run's accepted events. All zero: every event, as fast as the run provides them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TapWish {
    /// Names of tags, of which an event must have one.
    pub tags: *const *const c_char,
    /// Number of tags; 0: all events.
    pub tag_count: usize,
    /// One of so many of those events; 0 is taken as 1.
    pub prescale: u32,
    /// Always 0.
    pub reserved: u32,
    /// At most so many events a second; 0: as many as there are.
    pub rate_hz: f64,
}

/// Begins to look on at `target`: a run's directory, the socket of a builder's door in it, or `host:port`. `wish` says what to
/// get (null: everything), `name` tells the operator who looks on (null: nobody in particular). A run is never held back by who
/// looks on; what cannot be sent in time is left out. Null: that is not possible, and `message` (with room for `message_bytes`,
/// or null) says why. The tap is the caller's, who closes it with sheaf_tap_close.
///
/// # Safety
/// Texts are null or end with a NUL, `wish` is null or as SheafTapWish says, and at `message` so many bytes may be written, or it
/// is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_open(
    target: *const c_char,
    wish: *const TapWish,
    name: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> *mut Tap {
    // SAFETY: as the caller promises.
    unsafe { sheaf_tap_open_with_key(target, ptr::null(), wish, name, message, message_bytes) }
}

/// Joins as sheaf_tap_open does, at HOST:PORT of a run that has a key: `key_file` is a copy of its transport.key_file, which nobody
/// else may read. Null: the run has no key.
///
/// # Safety
/// As `sheaf_tap_open`; `key_file` is null or a text with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_open_with_key(
    target: *const c_char,
    key_file: *const c_char,
    wish: *const TapWish,
    name: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> *mut Tap {
    // SAFETY: as the caller promises.
    match unsafe { open(target, key_file, wish, name) } {
        Ok(taps) => {
            let tags = taps.welcome().tag_names().iter().map(|name| argument::c_text(name)).collect();
            let (shown, message) = (Shown::default(), CString::default());
            Box::into_raw(Box::new(Tap { taps, tags, shown, message }))
        }
        Err(error) => {
            // SAFETY: as the caller promises.
            unsafe { text::write(&error, message, message_bytes) };
            ptr::null_mut()
        }
    }
}

/// # Safety
/// As `sheaf_tap_open_with_key`.
unsafe fn open(
    target: *const c_char,
    key_file: *const c_char,
    wish: *const TapWish,
    name: *const c_char,
) -> Result<Taps, String> {
    // SAFETY: null or a text with a NUL, as the caller promises.
    let text = |first: *const c_char| {
        (!first.is_null()).then(|| unsafe { CStr::from_ptr(first) }.to_string_lossy().into_owned())
    };
    let target = text(target).ok_or("the target is null")?;
    let key = text(key_file).map(PathBuf::from);
    let mut options = TapOptions { name: text(name).unwrap_or_default(), key, ..TapOptions::default() };
    // SAFETY: null or a wish, as the caller promises.
    if let Some(wish) = unsafe { wish.as_ref() } {
        if wish.tag_count > 0 && wish.tags.is_null() {
            return Err(format!("the wish has {} tags and its list is null", wish.tag_count));
        }
        if wish.tag_count > 0 {
            // SAFETY: not null, and so as many as it says.
            let tags = unsafe { slice::from_raw_parts(wish.tags, wish.tag_count) };
            let named = tags.iter().map(|tag| text(*tag).ok_or("the name of a tag is null"));
            options.tags = named.collect::<Result<_, _>>()?;
        }
        options.prescale = wish.prescale;
        options.rate_hz = (wish.rate_hz != 0.0).then_some(wish.rate_hz);
    }
    Taps::open(&target, options).map_err(|error| error.to_string())
}

/// Waits for the next event, up to `timeout_ms`. 1: it is in `event`. 0: the run has ended. 2: there was none in this time. -1:
/// the run was lost, and sheaf_tap_message says how.
///
/// # Safety
/// `tap` is null or of sheaf_tap_open and not closed; an event may be written at `event`, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_next(tap: *mut Tap, timeout_ms: u32, event: *mut StoredEvent) -> i32 {
    // SAFETY: as the caller promises.
    let Some(tap) = (unsafe { tap.as_mut() }) else { return -1 };
    if event.is_null() {
        tap.message = argument::c_text("the place for the event is null");
        return -1;
    }
    match tap.taps.next(Duration::from_millis(timeout_ms.into())) {
        Ok(Next::Ended) => 0,
        Ok(Next::Nothing) => 2,
        Ok(Next::Event(_, stored)) => {
            let given = tap.shown.show(*stored);
            // SAFETY: not null, and so a place for an event.
            unsafe { event.write(given) };
            1
        }
        Err(error) => {
            tap.message = argument::c_text(&error.to_string());
            -1
        }
    }
}

/// The name of the tag with this bit, from 0; null where it has none. It is the tap's.
///
/// # Safety
/// `tap` is null or of sheaf_tap_open and not closed.
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
/// `tap` is null or of sheaf_tap_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_message(tap: *const Tap) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { tap.as_ref() }.map_or(c"the tap is null".as_ptr(), |tap| tap.message.as_ptr())
}

/// Stops looking on. What the tap gave is gone with it. Null is nothing to close.
///
/// # Safety
/// `tap` is null or of sheaf_tap_open, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_tap_close(tap: *mut Tap) {
    if !tap.is_null() {
        // SAFETY: made with `Box::into_raw` by `sheaf_tap_open`, and not used again.
        drop(unsafe { Box::from_raw(tap) });
    }
}
