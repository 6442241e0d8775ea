//! The key of a run: a secret shared by its nodes, and proofs of its possession.
//!
//! A peer that has to authenticate receives a [`Nonce`] and answers with a [`Proof`]: the HMAC-SHA256 of everything that both
//! sides have sent, including both nonces, for one [`Purpose`]. A proof is valid once, for the side that sent the nonce, and for
//! its purpose. So an attacker gains nothing by recording and replaying it, or by reflecting it to its sender.
//!
//! | module | contents |
//! |---|---|
//! | this | [`RunKey`] and its proofs |
//! | `door` | challenge and response at a door, both sides |
//! | `token` | bearer tokens and their hashes |
//! | `file` | key files: permissions, reading and writing |
//! | `certificates` | files with certificates and their keys |
//!
//! Deliberately not part of this crate: encryption, or protection of data after a proof. An attacker who can modify packets in
//! transit can take over a connection after the proof; use TLS on such networks.

mod certificates;
mod door;
mod file;
mod token;

pub use certificates::{CertificateError, read_certificates, read_private_key};
pub use door::{CallerProof, DoorProof, DoorPurposes};
pub use file::KeyError;
pub use token::{make_token, token_hash};

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use std::fmt;
use std::sync::Arc;

/// Size of a key in bytes.
pub const KEY_BYTES: usize = 32;

/// Size of a nonce in bytes.
pub const NONCE_BYTES: usize = 32;

/// Size of a proof in bytes.
pub const PROOF_BYTES: usize = 32;

/// An unpredictable number that is used once.
pub type Nonce = [u8; NONCE_BYTES];

/// Proof that the sender has the key.
pub type Proof = [u8; PROOF_BYTES];

/// Purpose of a proof. A proof for one purpose is not valid for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// The called side of a TCP connection authenticates to the caller.
    TcpCalled,
    /// The caller authenticates to the called side.
    TcpCaller,
    /// Name by which nodes of a host find each other.
    MeetingPlace,
    /// The sender of a greeting or of its answer in a datagram authenticates.
    DatagramGreeting,
    /// Key of a link over datagrams.
    DatagramLink,
    /// Nonce of a link over datagrams, for one of its lives.
    DatagramNonce,
    /// A consumer authenticates at a builder unit's door.
    Consumer,
    /// A builder unit's door authenticates to a consumer.
    ConsumersDoor,
    /// A trigger supervisor authenticates to the event manager.
    Supervisor,
    /// The event manager authenticates to a trigger supervisor.
    TriggerDoor,
    /// A requester of windows authenticates to a hit spool.
    SpoolRequester,
    /// A hit spool authenticates to a requester of windows.
    SpoolDoor,
    /// A run authenticates to an agent.
    AgentCaller,
    /// An agent authenticates to a run.
    AgentDoor,
}

impl Purpose {
    /// Returns the prefix of the proven data for this purpose. Part of the protocol.
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
            Self::Supervisor => "sheaf trigger supervisor",
            Self::TriggerDoor => "sheaf trigger door",
            Self::SpoolRequester => "sheaf spool requester",
            Self::SpoolDoor => "sheaf spool door",
            Self::AgentCaller => "sheaf agent caller",
            Self::AgentDoor => "sheaf agent door",
        }
    }
}

/// The system provides no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system provides no random bytes (getrandom)")]
pub struct NoRandomness;

/// The key of a run. Cheap to clone; its bytes are never printed.
#[derive(Clone)]
pub struct RunKey(Arc<hmac::Key>);

impl RunKey {
    /// Creates the key with these bytes.
    #[must_use]
    pub fn new(secret: &[u8; KEY_BYTES]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// Creates a new random key.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn random() -> Result<Self, NoRandomness> {
        Ok(Self::new(&random()?))
    }

    /// Returns the proof that this node has the key. `parts` is the data that both sides have sent. The proof also covers the
    /// boundaries between the parts.
    #[must_use]
    pub fn prove(&self, purpose: Purpose, parts: &[&[u8]]) -> Proof {
        let mut context = hmac::Context::with_key(&self.0);
        feed(purpose, parts, |bytes| context.update(bytes));
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(context.sign().as_ref());
        proof
    }

    /// Returns whether `proof` proves that its sender has the key. Takes constant time.
    #[must_use]
    pub fn is_proof(&self, purpose: Purpose, parts: &[&[u8]], proof: &[u8]) -> bool {
        let mut said = Vec::with_capacity(256);
        feed(purpose, parts, |bytes| said.extend_from_slice(bytes));
        hmac::verify(&self.0, &said, proof).is_ok()
    }

    /// Returns a name of hexadecimal digits that cannot be guessed without the key and is the same for all holders of the key.
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

/// Passes everything that a proof covers to `take`: the label, then each part preceded by its length.
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

/// Returns a nonce from the operating system.
///
/// # Errors
/// If the system provides no randomness.
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
        // Computed with Python: hmac.new(bytes([7])*32, message, "sha256"), with the message described on the page.
        let proof = key(7).prove(Purpose::TcpCaller, &[b"one", b""]);
        let expected = [
            0x17, 0x8b, 0x0f, 0xd7, 0x6f, 0xdb, 0x99, 0xea, 0xf7, 0x33, 0x97, 0xef, 0xf9, 0xcf, 0xfe, 0xa0,
            0x9a, 0x98, 0x12, 0x33, 0xe7, 0x01, 0x8b, 0xf9, 0xdb, 0x68, 0xd0, 0x09, 0x9d, 0x8f, 0x15, 0xb9,
        ];
        assert_eq!(proof, expected);
    }

    #[test]
    fn a_proof_is_valid_for_one_purpose_and_one_division_into_parts() {
        let parts: [&[u8]; 2] = [b"ab", b"c"];
        let proof = key(1).prove(Purpose::TcpCalled, &parts);
        assert!(key(1).is_proof(Purpose::TcpCalled, &parts, &proof));
        assert!(!key(1).is_proof(Purpose::TcpCaller, &parts, &proof), "reflected to its sender");
        assert!(!key(1).is_proof(Purpose::TcpCalled, &[b"a", b"bc"], &proof));
        assert!(!key(1).is_proof(Purpose::TcpCalled, &parts[..1], &proof));
        assert!(!key(2).is_proof(Purpose::TcpCalled, &parts, &proof), "another key");
        assert!(!key(1).is_proof(Purpose::TcpCalled, &parts, &proof[..31]));
        assert!(!key(1).is_proof(Purpose::TcpCalled, &parts, &[]));
    }

    #[test]
    fn nonces_and_names_differ_and_a_key_is_not_printed() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
        assert_eq!(key(1).secret_name("ru0").len(), 32);
        assert_ne!(key(1).secret_name("ru0"), key(1).secret_name("ru1"));
        assert_ne!(key(1).secret_name("ru0"), key(2).secret_name("ru0"));
        assert_eq!(format!("{:?}", key(65)), "RunKey(..)");
    }

    proptest! {
        #[test]
        fn any_change_of_the_data_invalidates_a_proof(
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
