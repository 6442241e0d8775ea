//! Mutual proof by the two sides of a connection that they have the key of the run, without a socket.
//!
//! Each side sends a nonce with its greeting. The called side proves itself with its answer, the caller with a further
//! message. Both proofs cover the same bytes: the caller's greeting and nonce, then the answer's. So both know that the
//! other has the key now, and has received exactly these bytes: node, run, session, version, rails.

use sheaf_key::{NONCE_BYTES, Nonce, PROOF_BYTES, Proof, Purpose, RunKey};
use sheaf_transport::Refusal;

/// The caller's bytes, until the answer arrives.
#[derive(Debug)]
pub(super) struct CallerWords {
    key: RunKey,
    said: Vec<u8>,
}

impl CallerWords {
    /// Returns the first bytes to send: the greeting, and the nonce behind it.
    pub(super) fn new(key: RunKey, greeting: &[u8], nonce: &Nonce) -> Self {
        Self { key, said: [greeting, nonce].concat() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.said
    }

    /// Checks the answer of the called side, including its proof; returns the proof to send.
    pub(super) fn verify(&self, answer: &[u8]) -> Result<Proof, Refusal> {
        let (answer, proof) = answer.split_last_chunk::<PROOF_BYTES>().ok_or(Refusal::Malformed)?;
        let words = [&self.said[..], answer];
        if !self.key.is_proof(Purpose::TcpCalled, &words, proof) {
            return Err(Refusal::WrongKey);
        }
        Ok(self.key.prove(Purpose::TcpCaller, &words))
    }
}

/// Bytes of both sides, until the caller has proven itself.
#[derive(Debug)]
pub(super) struct CalledWords {
    key: RunKey,
    call: Vec<u8>,
    answer: Vec<u8>,
}

impl CalledWords {
    /// Answers a call with a greeting.
    pub(super) fn new(key: RunKey, call: &[u8], greeting: &[u8], nonce: &Nonce) -> Self {
        Self { key, call: call.to_vec(), answer: [greeting, nonce].concat() }
    }

    /// Returns the bytes to send: the greeting, the nonce, the proof.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let proof = self.key.prove(Purpose::TcpCalled, &[&self.call, &self.answer]);
        [&self.answer[..], &proof].concat()
    }

    /// Takes the caller's proof.
    pub(super) fn verify(&self, proof: &[u8]) -> Result<(), Refusal> {
        let is_proof = self.key.is_proof(Purpose::TcpCaller, &[&self.call, &self.answer], proof);
        is_proof.then_some(()).ok_or(Refusal::WrongKey)
    }
}

/// Bytes that a key adds to a greeting: of a call, and of an answer.
pub(super) const CALL_BYTES: usize = NONCE_BYTES;
pub(super) const ANSWER_BYTES: usize = NONCE_BYTES + PROOF_BYTES;

/// A proof that may arrive a byte at a time.
#[derive(Debug, Default)]
pub(super) struct ProofBuffer {
    bytes: Proof,
    arrived: usize,
}

impl ProofBuffer {
    /// The room that is left.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.arrived..]
    }

    /// Takes note of `bytes` more; gives the proof when it is whole.
    pub(super) fn filled(&mut self, bytes: usize) -> Option<&Proof> {
        self.arrived += bytes;
        (self.arrived == PROOF_BYTES).then_some(&self.bytes)
    }
}
