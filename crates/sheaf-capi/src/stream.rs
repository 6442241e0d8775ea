//! The fragments of a fragment stream.

#![allow(unsafe_code)]

use crate::argument::{self, ArgumentError};
use bytes::Bytes;
use sheaf_filter::{abi, text};
use sheaf_store::fragment_stream::{StreamOpenError, StreamReader};
use std::ffi::{CString, c_char};
use std::fs::File;
use std::ptr;

/// Reason why a fragment stream cannot be read.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Stream(#[from] StreamOpenError),
}

/// Reads the fragments of one source.
pub struct Stream {
    fragments: StreamReader<File>,
    /// Payload returned last, which the caller may read until the next call.
    current: Bytes,
    message: CString,
}

/// Opens the fragment stream at `path`. On failure, returns null and writes the reason to `message` (a buffer of
/// `message_bytes` bytes, or null). The caller owns the stream and closes it with sheaf_stream_close.
///
/// # Safety
/// `path` is null or a NUL-terminated text; `message` is null or a buffer of `message_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_stream_open(
    path: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> *mut Stream {
    // SAFETY: as the caller promises.
    match unsafe { open(path) } {
        Ok(fragments) => {
            let (current, message) = (Bytes::new(), CString::default());
            Box::into_raw(Box::new(Stream { fragments, current, message }))
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
unsafe fn open(path: *const c_char) -> Result<StreamReader<File>, OpenError> {
    // SAFETY: as the caller promises.
    let path = unsafe { argument::path(path)? };
    Ok(StreamReader::open(&path)?)
}

/// Reads the next fragment. Returns 1 with the fragment in `fragment` and its event number in `event`; the payload is
/// valid until the stream is used again. Returns 0 at the end, and -1 if data are damaged or cannot be read;
/// sheaf_stream_message then has the reason, and the next call continues after the damage.
///
/// # Safety
/// `stream` is null or from sheaf_stream_open and not closed; `event` and `fragment` are null or point to a writable
/// number and fragment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_stream_next(
    stream: *mut Stream,
    event: *mut u64,
    fragment: *mut abi::Fragment,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return -1 };
    if event.is_null() || fragment.is_null() {
        stream.message = argument::c_text("the pointer to the event number or to the fragment is null");
        return -1;
    }
    match stream.fragments.next() {
        None => 0,
        Some(Err(error)) => {
            stream.message = argument::c_text(&error.to_string());
            -1
        }
        Some(Ok(read)) => {
            let given = abi::Fragment::of(&read);
            stream.current = read.payload;
            // SAFETY: not null, and so writable.
            unsafe {
                event.write(read.event.0);
                fragment.write(given);
            }
            1
        }
    }
}

/// Describes the error of the last sheaf_stream_next that returned -1. The text belongs to the stream and is valid
/// until the next call.
///
/// # Safety
/// `stream` is null or from sheaf_stream_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_stream_message(stream: *const Stream) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { stream.as_ref() }.map_or(c"the stream is null".as_ptr(), |stream| stream.message.as_ptr())
}

/// Closes a stream. All data obtained from it become invalid. Null is ignored.
///
/// # Safety
/// `stream` is null or from sheaf_stream_open, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_stream_close(stream: *mut Stream) {
    if !stream.is_null() {
        // SAFETY: made with `Box::into_raw` by `sheaf_stream_open`, and not used again.
        drop(unsafe { Box::from_raw(stream) });
    }
}
