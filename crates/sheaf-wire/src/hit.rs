//! A fragment that is one source's part of a time slice: hits, one after another, in order of time.
//! `docs/reference/time-slice.md` describes the same for other readers.

use crate::HitInterval;
use crate::message::layout::layout;
use std::mem::size_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a hit.
pub const HIT_BYTES: usize = size_of::<HitBytes>();

layout! {
    /// A hit, 16 bytes.
    HitBytes[16] {
        /// Offset 0: picoseconds since the zero of the timeline that all sources share.
        time_ps: U64,
        /// Offset 8: channel, in the detector's numbering.
        channel: U32,
        /// Offset 12: the measured value, mostly a charge.
        value: U16,
        /// Offset 14: whatever else the decoder keeps of a hit.
        extra: U16,
    }
}

/// A hit: something that a channel of a source saw at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// Picoseconds since the zero of the timeline that all sources share.
    pub time_ps: u64,
    /// Channel, in the detector's numbering.
    pub channel: u32,
    /// Measured value, mostly a charge.
    pub value: u16,
    /// Whatever else the decoder keeps of a hit.
    pub extra: u16,
}

/// A payload that is not a list of hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are not a list of hits of {HIT_BYTES} bytes; is the fragment part of a time slice?")]
pub struct NotHits {
    /// Its length.
    pub bytes: usize,
}

impl Hit {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HIT_BYTES] {
        let bytes = HitBytes {
            time_ps: self.time_ps.into(),
            channel: self.channel.into(),
            value: self.value.into(),
            extra: self.extra.into(),
        };
        zerocopy::transmute!(bytes)
    }
}

impl From<&HitBytes> for Hit {
    fn from(bytes: &HitBytes) -> Self {
        Self {
            time_ps: bytes.time_ps.get(),
            channel: bytes.channel.get(),
            value: bytes.value.get(),
            extra: bytes.extra.get(),
        }
    }
}

/// The hits of a payload.
///
/// # Errors
/// [`NotHits`], if it does not consist of whole hits.
pub fn hits(payload: &[u8]) -> Result<impl ExactSizeIterator<Item = Hit> + '_, NotHits> {
    let bytes = <[HitBytes]>::ref_from_bytes(payload).map_err(|_| NotHits { bytes: payload.len() })?;
    Ok(bytes.iter().map(Hit::from))
}

/// Returns those of the hits of a payload that are in an interval, without a copy. They must be in order of time. Bytes that are no hits
/// contain none.
#[must_use]
pub fn hits_in(payload: &[u8], interval: HitInterval) -> &[u8] {
    let hits = <[HitBytes]>::ref_from_bytes(payload).unwrap_or_default();
    let from = hits.partition_point(|hit| hit.time_ps.get() < interval.from_ps);
    let until = from + hits[from..].partition_point(|hit| hit.time_ps.get() < interval.until_ps);
    hits[from..until].as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_has_the_bytes_of_its_table_and_comes_back_from_them() {
        let hit = Hit { time_ps: 0x0807_0605_0403_0201, channel: 0x0c0b_0a09, value: 0x0e0d, extra: 0x100f };
        let bytes = hit.to_bytes();
        assert_eq!(bytes, std::array::from_fn(|at| at as u8 + 1));
        assert_eq!(hits(&[bytes, bytes].concat()).unwrap().collect::<Vec<_>>(), [hit, hit]);
        assert_eq!(hits(&bytes[1..]).err(), Some(NotHits { bytes: 15 }));
        assert_eq!(hits(&[]).unwrap().len(), 0);
    }
}
