//! Arguments from callers.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A path that the caller gave.
///
/// # Safety
/// `path` is null or a text with a NUL.
pub(crate) unsafe fn path(path: *const c_char) -> Result<PathBuf, String> {
    if path.is_null() {
        return Err("the path is null".into());
    }
    // SAFETY: not null, and so a text with a NUL.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// A text for C; what is behind a NUL in it is left out.
pub(crate) fn c_text(text: &str) -> CString {
    let before = text.split('\0').next().unwrap_or_default();
    CString::new(before).unwrap_or_default()
}
