//! CRC-32C (Castagnoli), the checksum of every layout in this crate; and a sum that only looks at every byte.
//!
//! Chosen because x86-64 and AArch64 compute it in hardware, so that a checksum costs a fraction of the copy that
//! it protects. Published test vector: `crc32c(b"123456789") == 0xe306_9283`.

/// The CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// Continues `checksum` over `bytes`: `crc32c_append(crc32c(a), b) == crc32c(a ++ b)`.
#[must_use]
pub fn crc32c_append(checksum: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(checksum, bytes)
}

/// The sum of all bytes as little-endian words, the last one filled up with zeros: the cheapest thing that needs every
/// byte, for measurements. Independent sums side by side, so that loads and not the additions are what takes time.
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
    // Whole words without a call of `memcpy` for each: of fragments whose sizes vary nearly all have such a rest.
    let (words, part) = rest.as_chunks::<{ size_of::<u64>() }>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let part = part.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
    sums.into_iter().chain(words).fold(part, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

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
