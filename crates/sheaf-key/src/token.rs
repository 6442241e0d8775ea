//! Bearer tokens: secrets that a person or a script shows, of which only a hash is kept.

use crate::{NoRandomness, random};
use ring::digest;
use std::fmt::Write as _;

/// Returns a new token: 256 random bits in hexadecimal digits.
///
/// # Errors
/// If the system provides no randomness.
pub fn make_token() -> Result<String, NoRandomness> {
    Ok(hexadecimal(&random::<32>()?))
}

/// Returns the SHA-256 of a token in hexadecimal digits. A token has so many random bits that its hash needs no salt.
#[must_use]
pub fn token_hash(token: &str) -> String {
    hexadecimal(digest::digest(&digest::SHA256, token.as_bytes()).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_hashes_are_those_of_the_standard() {
        let (one, other) = (make_token().expect("there is randomness"), make_token().expect("there is"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 64);
        // FIPS 180-2, appendix B.1.
        assert_eq!(token_hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
