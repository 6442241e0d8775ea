//! Arguments from callers.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns a path that was passed by the caller.
///
/// # Safety
/// `path` is null or a NUL-terminated text.
pub(crate) unsafe fn path(path: *const c_char) -> Result<PathBuf, String> {
    if path.is_null() {
        return Err("the path is null".into());
    }
    // SAFETY: not null, and so a NUL-terminated text.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Returns a text for C, truncated at its first NUL.
pub(crate) fn c_text(text: &str) -> CString {
    let before = text.split('\0').next().unwrap_or_default();
    CString::new(before).unwrap_or_default()
}
