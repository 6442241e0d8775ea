//! Whether a built event holds what its sources sent.

use bytes::Bytes;
use sheaf_source::content;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{Event, Fragment};

/// What is checked in every fragment of every built event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentCheck {
    /// Nothing.
    #[default]
    Off,
    /// Nothing, but every payload byte is read once: what a look at the data costs, for measurements.
    Read,
    /// The checksum, where the source gave one.
    Checksum,
    /// The checksum, and the emulator's pattern of source, event and offset: proves that every byte is in its place.
    Pattern,
}

impl ContentCheck {
    /// Checks an event.
    ///
    /// # Errors
    /// What is wrong with the first bad fragment.
    pub fn check(self, event: &Event<Bytes>) -> Result<(), String> {
        match self {
            Self::Off => return Ok(()),
            Self::Read => {
                let sum = event.fragments.iter().map(|fragment| sum(&fragment.payload));
                // The sum goes nowhere; the compiler must not know.
                std::hint::black_box(sum.fold(0, u64::wrapping_add));
                return Ok(());
            }
            Self::Checksum | Self::Pattern => {}
        }
        event.fragments.iter().try_for_each(|fragment| self.check_fragment(event, fragment))
    }

    fn check_fragment(self, event: &Event<Bytes>, fragment: &Fragment<Bytes>) -> Result<(), String> {
        let source = fragment.source;
        if fragment.event != event.id {
            return Err(format!("source {source}: a fragment of event {}", fragment.event));
        }
        if let Some(declared) = fragment.checksum {
            let computed = crc32c(&fragment.payload);
            if computed != declared {
                return Err(format!(
                    "source {source}: checksum {computed:08x}, the source said {declared:08x}"
                ));
            }
        }
        if self == Self::Pattern {
            content::check(source, event.id, &fragment.payload)
                .map_err(|mismatch| format!("source {source}: {mismatch}"))?;
        }
        Ok(())
    }
}

/// The sum of all bytes as little-endian words, the last one filled up with zeros: the cheapest thing that needs every
/// byte. Independent sums side by side, so that loads and not the additions are what takes time.
#[must_use]
pub fn sum(bytes: &[u8]) -> u64 {
    const LANES: usize = 8;
    let (blocks, rest) = bytes.as_chunks::<{ LANES * size_of::<u64>() }>();
    let mut sums = [0_u64; LANES];
    for block in blocks {
        let (words, _) = block.as_chunks::<{ size_of::<u64>() }>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    let last = rest.chunks(size_of::<u64>()).map(|part| {
        let mut word = [0; size_of::<u64>()];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    });
    sums.into_iter().chain(last).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn every_byte_counts_in_the_sum() {
        for length in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
            let mut bytes = vec![3; length];
            let whole = sum(&bytes);
            for at in 0..length {
                bytes[at] += 1;
                assert_ne!(sum(&bytes), whole, "byte {at} of {length}");
                bytes[at] -= 1;
            }
        }
    }

    #[test]
    fn the_sum_is_of_little_endian_words() {
        let mut bytes = [0; 72];
        (bytes[0], bytes[8], bytes[64]) = (1, 2, 4);
        assert_eq!(sum(&bytes), 7);
        assert_eq!(sum(&[0, 1]), 256);
    }
}
