//! Arguments from callers.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::slice;

/// Reason why an argument is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("{0} is null")]
    Null(&'static str),
    /// A list has items according to its length, and is null.
    #[error("{list} has {items} items and is null")]
    NullList { list: &'static str, items: usize },
    /// A text with its verb: `the name is`.
    #[error("{0} not UTF-8")]
    NotUtf8(&'static str),
}

/// Returns a path that was passed by the caller.
///
/// # Safety
/// `path` is null or a NUL-terminated text.
pub(crate) unsafe fn path(path: *const c_char) -> Result<PathBuf, ArgumentError> {
    if path.is_null() {
        return Err(ArgumentError::Null("the path"));
    }
    // SAFETY: not null, and so a NUL-terminated text.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Returns a list that was passed by the caller. `name` is its name in messages.
///
/// # Safety
/// `first` is null or a list of `items` items, which stay as they are while the result is used.
pub(crate) unsafe fn list<'a, T>(
    first: *const T,
    items: usize,
    name: &'static str,
) -> Result<&'a [T], ArgumentError> {
    match items {
        0 => Ok(&[]),
        _ if first.is_null() => Err(ArgumentError::NullList { list: name, items }),
        // SAFETY: not null, and so a list of this length.
        _ => Ok(unsafe { slice::from_raw_parts(first, items) }),
    }
}

/// Returns a text for C, truncated at its first NUL.
pub(crate) fn c_text(text: &str) -> CString {
    let before = text.split('\0').next().unwrap_or_default();
    CString::new(before).unwrap_or_default()
}
