//! The key of a run: a secret that its nodes share, and proofs that somebody has it.
//!
//! A peer that has to prove itself is given a [`Nonce`], and answers with a [`Proof`]: the HMAC-SHA256 of everything that both
//! sides have said, both nonces included, for one [`Purpose`]. A proof is of use once, to the one who gave the nonce, and for what
//! it was made: whoever records it gains nothing by saying it again, or by sending it back to the one who made it.
//!
//! | module | holds |
//! |---|---|
//! | this | [`RunKey`], and what is proven with it |
//! | `file` | keys in files: who may read them, how they are written |
//!
//! Deliberately not part of this crate: encryption, or protection of data after a proof. Whoever can change packets on
//! their way can take over a connection after the proof; TLS is for networks where somebody can.

mod file;

pub use file::KeyError;

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use std::fmt;
use std::sync::Arc;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// A number that nobody can foresee, and that is used once.
pub type Nonce = [u8; NONCE_BYTES];

/// That somebody has the key.
pub type Proof = [u8; PROOF_BYTES];

/// Purpose of a proof. A proof that was made for one purpose is worth nothing for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// The side of a TCP connection that was called proves itself to the caller.
    TcpCalled,
    /// The caller proves itself to the side that was called.
    TcpCaller,
    /// A name under which nodes of a host find each other.
    MeetingPlace,
    /// Whoever sends a question or an answer in a datagram proves itself.
    DatagramGreeting,
    /// The key of a link over datagrams.
    DatagramLink,
    /// A nonce of a link over datagrams, for one of its lives.
    DatagramNonce,
    /// A consumer proves itself at a builder's door.
    Consumer,
    /// A builder's door proves itself to a consumer.
    ConsumersDoor,
}

impl Purpose {
    /// Prefix of everything that is proven for this purpose. Part of the protocol.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::TcpCalled => "sheaf tcp called",
            Self::TcpCaller => "sheaf tcp caller",
            Self::MeetingPlace => "sheaf meeting place",
            Self::DatagramGreeting => "sheaf datagram greeting",
            Self::DatagramLink => "sheaf datagram link",
            Self::DatagramNonce => "sheaf datagram nonce",
            Self::Consumer => "sheaf consumer",
            Self::ConsumersDoor => "sheaf consumers door",
        }
    }
}

/// The system has no randomness to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random bytes (getrandom)")]
pub struct NoRandomness;

/// The key of a run. Cheap to clone; it never shows what it is.
#[derive(Clone)]
pub struct RunKey(Arc<hmac::Key>);

impl RunKey {
    /// The key with these bytes.
    #[must_use]
    pub fn new(secret: &[u8; KEY_BYTES]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// A new key, which is nowhere else.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn random() -> Result<Self, NoRandomness> {
        Ok(Self::new(&random()?))
    }

    /// Proves that this node has the key, of `parts`: what both sides have said. Where one part ends and the next begins is
    /// covered, too.
    #[must_use]
    pub fn prove(&self, purpose: Purpose, parts: &[&[u8]]) -> Proof {
        let mut context = hmac::Context::with_key(&self.0);
        feed(purpose, parts, |bytes| context.update(bytes));
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(context.sign().as_ref());
        proof
    }

    /// Whether `proof` proves that its sender has the key. Takes the same time whatever is wrong with it.
    #[must_use]
    pub fn is_proof(&self, purpose: Purpose, parts: &[&[u8]], proof: &[u8]) -> bool {
        let mut said = Vec::with_capacity(256);
        feed(purpose, parts, |bytes| said.extend_from_slice(bytes));
        hmac::verify(&self.0, &said, proof).is_ok()
    }

    /// A name that nobody can guess without the key, of hexadecimal digits: the same for all who have the key.
    #[must_use]
    pub fn secret_name(&self, name: &str) -> String {
        use fmt::Write;
        let proof = self.prove(Purpose::MeetingPlace, &[name.as_bytes()]);
        proof[..16].iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// Gives everything that a proof covers to `take`: the label, then each part behind its length.
fn feed(purpose: Purpose, parts: &[&[u8]], mut take: impl FnMut(&[u8])) {
    for part in std::iter::once(purpose.label().as_bytes()).chain(parts.iter().copied()) {
        take(&(part.len() as u64).to_le_bytes());
        take(part);
    }
}

impl fmt::Debug for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunKey(..)")
    }
}

/// A nonce from the operating system.
///
/// # Errors
/// The system has none.
pub fn nonce() -> Result<Nonce, NoRandomness> {
    random()
}

fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

const _: () = assert!(digest::SHA256_OUTPUT_LEN == PROOF_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(byte: u8) -> RunKey {
        RunKey::new(&[byte; KEY_BYTES])
    }

    #[test]
    fn a_proof_is_the_documented_hmac() {
        // Made with Python: hmac.new(bytes([7])*32, message, "sha256") with the message that the page describes.
        let proof = key(7).prove(Purpose::TcpCaller, &[b"one", b""]);
        let expected = [
            0x17, 0x8b, 0x0f, 0xd7, 0x6f, 0xdb, 0x99, 0xea, 0xf7, 0x33, 0x97, 0xef, 0xf9, 0xcf, 0xfe, 0xa0,
            0x9a, 0x98, 0x12, 0x33, 0xe7, 0x01, 0x8b, 0xf9, 0xdb, 0x68, 0xd0, 0x09, 0x9d, 0x8f, 0x15, 0xb9,
        ];
        assert_eq!(proof, expected);
    }

    #[test]
    fn a_proof_is_for_one_purpose_and_one_division_into_parts() {
        let parts: [&[u8]; 2] = [b"ab", b"c"];
        let proof = key(1).prove(Purpose::TcpCalled, &parts);
        assert!(key(1).is_proof(Purpose::TcpCalled, &parts, &proof));
        assert!(!key(1).is_proof(Purpose::TcpCaller, &parts, &proof), "sent back to who made it");
        assert!(!key(1).is_proof(Purpose::TcpCalled, &[b"a", b"bc"], &proof));
        assert!(!key(1).is_proof(Purpose::TcpCalled, &parts[..1], &proof));
        assert!(!key(2).is_proof(Purpose::TcpCalled, &parts, &proof), "another key");
        assert!(!key(1).is_proof(Purpose::TcpCalled, &parts, &proof[..31]));
        assert!(!key(1).is_proof(Purpose::TcpCalled, &parts, &[]));
    }

    #[test]
    fn nonces_and_names_differ_and_a_key_does_not_show_itself() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
        assert_eq!(key(1).secret_name("ru0").len(), 32);
        assert_ne!(key(1).secret_name("ru0"), key(1).secret_name("ru1"));
        assert_ne!(key(1).secret_name("ru0"), key(2).secret_name("ru0"));
        assert_eq!(format!("{:?}", key(65)), "RunKey(..)");
    }

    proptest! {
        #[test]
        fn any_change_of_what_was_said_spoils_a_proof(
            said in proptest::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            flip in 1_u8..,
        ) {
            let proof = key(3).prove(Purpose::TcpCaller, &[&said]);
            let mut changed = said.clone();
            changed[at.index(said.len())] ^= flip;
            prop_assert!(key(3).is_proof(Purpose::TcpCaller, &[&said], &proof));
            prop_assert!(!key(3).is_proof(Purpose::TcpCaller, &[&changed], &proof));
            let mut forged = proof;
            forged[at.index(PROOF_BYTES)] ^= flip;
            prop_assert!(!key(3).is_proof(Purpose::TcpCaller, &[&said], &forged));
        }
    }
}
