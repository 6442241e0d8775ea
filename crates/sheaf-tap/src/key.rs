//! The key of a run at a door on the network: each side proves to the other that it has the key.
//!
//! The door begins with a nonce, the consumer answers with its own and a proof, and the door proves itself before its
//! welcome. Both proofs cover both nonces. Local sockets do not need this: the modes of their directories decide who
//! may join.

use sheaf_key::{NoRandomness, Nonce, Proof, Purpose, RunKey};
use sheaf_wire::tap;

/// The door's side, for one visitor.
#[derive(Debug)]
pub(crate) struct DoorProof {
    key: RunKey,
    nonce: Nonce,
}

impl DoorProof {
    /// Makes a nonce for a visitor.
    pub(crate) fn new(key: RunKey) -> Result<Self, NoRandomness> {
        Ok(Self { key, nonce: sheaf_key::nonce()? })
    }

    /// Returns the frame to begin with.
    pub(crate) fn challenge(&self) -> Vec<u8> {
        tap::emit_challenge(self.nonce)
    }

    /// Takes an answer. Returns the frame that proves this side, if the visitor has the key.
    pub(crate) fn verify(&self, nonce: &Nonce, proof: &Proof) -> Option<Vec<u8>> {
        let said: [&[u8]; 2] = [&self.nonce, nonce];
        self.key
            .is_proof(Purpose::Consumer, &said, proof)
            .then(|| tap::emit_proof(self.key.prove(Purpose::ConsumersDoor, &said)))
    }
}

/// The consumer's side, for one connection.
#[derive(Debug)]
pub(crate) struct ConsumerProof<'a> {
    key: &'a RunKey,
    said: [Nonce; 2],
}

impl<'a> ConsumerProof<'a> {
    /// Answers the nonce of a door.
    pub(crate) fn new(key: &'a RunKey, door: Nonce) -> Result<Self, NoRandomness> {
        Ok(Self { key, said: [door, sheaf_key::nonce()?] })
    }

    fn said(&self) -> [&[u8]; 2] {
        [&self.said[0], &self.said[1]]
    }

    /// Returns the frame that answers a challenge.
    pub(crate) fn answer(&self) -> Vec<u8> {
        tap::emit_answer(self.said[1], self.key.prove(Purpose::Consumer, &self.said()))
    }

    /// Returns whether the door has proven itself.
    pub(crate) fn verify(&self, proof: &Proof) -> bool {
        self.key.is_proof(Purpose::ConsumersDoor, &self.said(), proof)
    }
}
