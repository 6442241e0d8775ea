//! Windows in time: where a filter found something in a time slice, stored as the payload of the event.
//! `docs/reference/time-slice.md` describes the same for other readers.

use crate::message::layout::layout;
use std::mem::size_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a window.
pub const WINDOW_BYTES: usize = size_of::<WindowBytes>();

layout! {
    /// A window, 32 bytes.
    WindowBytes[32] {
        /// Offset 0: begin, in picoseconds since the zero of the timeline that all sources share.
        begin_ps: U64,
        /// Offset 8: end; a hit at this time is not in the window.
        end_ps: U64,
        /// Offset 16: time of the first hit that was found.
        first_ps: U64,
        /// Offset 24: number of hits that were found, without those around them.
        hits: U32,
        /// Offset 28: number of different sources of these hits.
        sources: U32,
    }
}

/// A window in time in which a filter found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// Begin, in picoseconds since the zero of the timeline that all sources share.
    pub begin_ps: u64,
    /// End; a hit at this time is not in the window.
    pub end_ps: u64,
    /// Time of the first hit that was found.
    pub first_ps: u64,
    /// Number of hits that were found, without those around them.
    pub hits: u32,
    /// Number of different sources of these hits.
    pub sources: u32,
}

/// A payload that is not a list of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes are not a list of windows of {WINDOW_BYTES} bytes; is the payload that of another filter?"
)]
pub struct NotWindows {
    /// Its length.
    pub bytes: usize,
}

impl Window {
    /// Returns its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; WINDOW_BYTES] {
        let bytes = WindowBytes {
            begin_ps: self.begin_ps.into(),
            end_ps: self.end_ps.into(),
            first_ps: self.first_ps.into(),
            hits: self.hits.into(),
            sources: self.sources.into(),
        };
        zerocopy::transmute!(bytes)
    }
}

impl From<&WindowBytes> for Window {
    fn from(bytes: &WindowBytes) -> Self {
        Self {
            begin_ps: bytes.begin_ps.get(),
            end_ps: bytes.end_ps.get(),
            first_ps: bytes.first_ps.get(),
            hits: bytes.hits.get(),
            sources: bytes.sources.get(),
        }
    }
}

/// Returns the windows of a payload.
///
/// # Errors
/// [`NotWindows`], if it does not consist of whole windows.
pub fn windows(payload: &[u8]) -> Result<impl ExactSizeIterator<Item = Window> + '_, NotWindows> {
    let bytes = <[WindowBytes]>::ref_from_bytes(payload).map_err(|_| NotWindows { bytes: payload.len() })?;
    Ok(bytes.iter().map(Window::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_bytes_of_its_table_and_comes_back_from_them() {
        let window = Window {
            begin_ps: 0x0807_0605_0403_0201,
            end_ps: 0x100f_0e0d_0c0b_0a09,
            first_ps: 0x1817_1615_1413_1211,
            hits: 0x1c1b_1a19,
            sources: 0x201f_1e1d,
        };
        let bytes = window.to_bytes();
        assert_eq!(bytes, std::array::from_fn(|at| at as u8 + 1));
        assert_eq!(windows(&[bytes, bytes].concat()).unwrap().collect::<Vec<_>>(), [window, window]);
        assert_eq!(windows(&bytes[1..]).err(), Some(NotWindows { bytes: 31 }));
    }
}
