//! Texts that cross the border to C.

#![allow(unsafe_code)]

use std::ffi::c_char;
use std::{ptr, slice};

/// Returns the text at `first`, up to its NUL or `most` bytes; `None` if `first` is null or the text is empty.
///
/// # Safety
/// `first` is null, or a text that ends with a NUL, or has at least `most` bytes.
#[must_use]
pub unsafe fn read(first: *const c_char, most: usize) -> Option<String> {
    if first.is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: bytes up to the NUL, and no more than `most`, are there.
    while length < most && unsafe { *first.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: this number of bytes was just read.
    let bytes = unsafe { slice::from_raw_parts(first.cast::<u8>(), length) };
    (length > 0).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Writes as much of a text as fits, with a NUL.
///
/// # Safety
/// `room` bytes may be written at `first`, or it is null.
pub unsafe fn write(text: &str, first: *mut c_char, room: usize) {
    if first.is_null() || room == 0 {
        return;
    }
    let kept = &text.as_bytes()[..text.floor_char_boundary(room - 1)];
    // SAFETY: at most `room` bytes with the NUL, and the caller's memory is not ours.
    unsafe {
        ptr::copy_nonoverlapping(kept.as_ptr(), first.cast(), kept.len());
        *first.add(kept.len()) = 0;
    }
}
