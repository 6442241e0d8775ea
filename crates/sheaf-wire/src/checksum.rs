//! CRC-32C (Castagnoli), the checksum of every layout in this crate; and a sum that only reads every byte.
//!
//! Chosen because x86-64 and AArch64 compute it in hardware, so that a checksum costs a fraction of the copy that
//! it protects. Published test vector: `crc32c(b"123456789") == 0xe306_9283`. Catalogues of CRCs call it CRC-32/ISCSI.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Continues `checksum` over `bytes`: `crc32c_append(crc32c(a), b) == crc32c(a ++ b)`.
#[must_use]
pub fn crc32c_append(checksum: u32, bytes: &[u8]) -> u32 {
    // The register holds the complement of the checksum.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!checksum));
    digest.update(bytes);
    // The upper half of a sum of 32 bits is zero.
    digest.finalize() as u32
}

/// Returns the sum of all bytes as little-endian words, the last one padded with zeros: the cheapest operation that
/// needs every byte, for measurements. Independent sums run side by side, so that the time is that of the loads.
#[must_use]
pub fn word_sum(bytes: &[u8]) -> u64 {
    const LANES: usize = 8;
    let (blocks, rest) = bytes.as_chunks::<{ LANES * size_of::<u64>() }>();
    let mut sums = [0_u64; LANES];
    for block in blocks {
        let (words, _) = block.as_chunks::<{ size_of::<u64>() }>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    // Whole words without a call of `memcpy` for each: nearly all fragments of varying size have such a rest.
    let (words, part) = rest.as_chunks::<{ size_of::<u64>() }>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let part = part.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
    sums.into_iter().chain(words).fold(part, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: the remainder of a division, bit by bit.
    fn by_definition(bytes: &[u8]) -> u32 {
        let step = |rest: u32| if rest & 1 == 1 { (rest >> 1) ^ 0x82f6_3b78 } else { rest >> 1 };
        !bytes.iter().fold(u32::MAX, |rest, byte| (0..8).fold(rest ^ u32::from(*byte), |rest, _| step(rest)))
    }

    proptest! {
        /// Lengths and starts of all kinds: vector instructions treat a partial vector separately.
        #[test]
        fn the_checksum_is_that_of_the_definition_wherever_bytes_are_cut(
            bytes in prop::collection::vec(any::<u8>(), 0..2_000),
            cut in any::<prop::sample::Index>(),
        ) {
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(crc32c(&bytes), by_definition(&bytes));
            prop_assert_eq!(crc32c(back), by_definition(back));
            prop_assert_eq!(crc32c_append(crc32c(front), back), by_definition(&bytes));
            prop_assert_eq!(crc32c_append(0, &bytes), by_definition(&bytes));
        }
    }

    #[test]
    fn matches_the_published_vector() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xe306_9283);
    }

    #[test]
    fn every_byte_counts_in_the_sum() {
        for length in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
            let mut bytes = vec![3; length];
            let whole = word_sum(&bytes);
            for at in 0..length {
                bytes[at] += 1;
                assert_ne!(word_sum(&bytes), whole, "byte {at} of {length}");
                bytes[at] -= 1;
            }
        }
    }

    #[test]
    fn the_sum_is_of_little_endian_words() {
        let mut bytes = [0; 72];
        (bytes[0], bytes[8], bytes[64]) = (1, 2, 4);
        assert_eq!(word_sum(&bytes), 7);
        assert_eq!(word_sum(&[0, 1]), 256);
    }
}
