//! The events of files and runs.

#![allow(unsafe_code)]

use crate::argument::{self, ArgumentError};
use crate::stored::{Shown, StoredEvent};
use sheaf_filter::text;
use sheaf_store::run::{RunReadError, RunReader};
use std::ffi::{CString, c_char};
use std::ptr;

/// Reason why a file or a run cannot be read.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Run(#[from] RunReadError),
}

/// Reads the events of an event file or of a run directory.
pub struct Reader {
    events: RunReader,
    tags: Vec<CString>,
    shown: Shown,
    message: CString,
}

/// Opens the event file or run directory at `path`. On failure, returns null and writes the reason to `message` (a
/// buffer of `message_bytes` bytes, or null). The caller owns the reader and closes it with sheaf_reader_close.
///
/// # Safety
/// `path` is null or a NUL-terminated text; `message` is null or a buffer of `message_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_reader_open(
    path: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> *mut Reader {
    // SAFETY: as the caller promises.
    match unsafe { open(path) } {
        Ok(events) => {
            let tags = events.tag_names().iter().map(|name| argument::c_text(name)).collect();
            let (shown, message) = (Shown::default(), CString::default());
            Box::into_raw(Box::new(Reader { events, tags, shown, message }))
        }
        Err(error) => {
            // SAFETY: as the caller promises.
            unsafe { text::write(&error.to_string(), message, message_bytes) };
            ptr::null_mut()
        }
    }
}

/// # Safety
/// `path` is null or a NUL-terminated text.
unsafe fn open(path: *const c_char) -> Result<RunReader, OpenError> {
    // SAFETY: as the caller promises.
    let path = unsafe { argument::path(path)? };
    Ok(RunReader::open(&path)?)
}

/// Reads the next event. Returns 1 with the event in `event`, 0 at the end, and -1 if data are damaged or cannot be
/// read; sheaf_reader_message then has the reason, and the next call continues after the damage.
///
/// # Safety
/// `reader` is null or from sheaf_reader_open and not closed; `event` is null or points to a writable event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_reader_next(reader: *mut Reader, event: *mut StoredEvent) -> i32 {
    // SAFETY: as the caller promises.
    let Some(reader) = (unsafe { reader.as_mut() }) else { return -1 };
    if event.is_null() {
        reader.message = argument::c_text("the pointer to the event is null");
        return -1;
    }
    match reader.events.next() {
        None => 0,
        Some(Err(error)) => {
            reader.message = argument::c_text(&error.to_string());
            -1
        }
        Some(Ok(stored)) => {
            let given = reader.shown.show(stored);
            // SAFETY: not null, and so writable.
            unsafe { event.write(given) };
            1
        }
    }
}

/// Returns the name of the tag with this bit, from 0, or null if there is none. The text belongs to the reader.
///
/// # Safety
/// `reader` is null or from sheaf_reader_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_reader_tag(reader: *const Reader, bit: u32) -> *const c_char {
    // SAFETY: as the caller promises.
    let reader = unsafe { reader.as_ref() };
    let name = reader.and_then(|reader| reader.tags.get(bit as usize));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// Describes the error of the last sheaf_reader_next that returned -1. The text belongs to the reader and is valid
/// until the next call.
///
/// # Safety
/// `reader` is null or from sheaf_reader_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_reader_message(reader: *const Reader) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { reader.as_ref() }.map_or(c"the reader is null".as_ptr(), |reader| reader.message.as_ptr())
}

/// Closes a reader. All data obtained from it become invalid. Null is ignored.
///
/// # Safety
/// `reader` is null or from sheaf_reader_open, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_reader_close(reader: *mut Reader) {
    if !reader.is_null() {
        // SAFETY: made with `Box::into_raw` by `sheaf_reader_open`, and not used again.
        drop(unsafe { Box::from_raw(reader) });
    }
}
