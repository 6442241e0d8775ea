//! Challenge and response at a door: each side proves to the other that it has the key.
//!
//! The door begins with a nonce, the caller answers with its own and a proof, and the door proves itself. Both proofs cover
//! both nonces, the door's first.

use crate::{NoRandomness, Nonce, Proof, Purpose, RunKey, nonce};

/// Purposes of the two proofs of a kind of door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorPurposes {
    /// Purpose of the caller's proof.
    pub caller: Purpose,
    /// Purpose of the door's proof.
    pub door: Purpose,
}

impl DoorPurposes {
    /// The door of a builder unit for consumers.
    pub const CONSUMERS: Self = Self { caller: Purpose::Consumer, door: Purpose::ConsumersDoor };
    /// The door of an event manager for its trigger supervisor.
    pub const TRIGGERS: Self = Self { caller: Purpose::Supervisor, door: Purpose::TriggerDoor };
    /// The door of a hit spool for programs that ask for windows.
    pub const SPOOLS: Self = Self { caller: Purpose::SpoolRequester, door: Purpose::SpoolDoor };
}

/// The door's side of a meeting.
#[derive(Clone, Debug)]
pub struct DoorProof {
    key: RunKey,
    purposes: DoorPurposes,
    nonce: Nonce,
}

impl DoorProof {
    /// Makes the nonce of a meeting.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn new(key: RunKey, purposes: DoorPurposes) -> Result<Self, NoRandomness> {
        Ok(Self { key, purposes, nonce: nonce()? })
    }

    /// Returns the nonce that the door sends first.
    #[must_use]
    pub fn challenge(&self) -> Nonce {
        self.nonce
    }

    /// Takes an answer. Returns the proof of this side, if the caller has the key.
    #[must_use]
    pub fn verify(&self, nonce: &Nonce, proof: &Proof) -> Option<Proof> {
        let said: [&[u8]; 2] = [&self.nonce, nonce];
        let is_proven = self.key.is_proof(self.purposes.caller, &said, proof);
        is_proven.then(|| self.key.prove(self.purposes.door, &said))
    }
}

/// The caller's side of a meeting.
#[derive(Clone, Debug)]
pub struct CallerProof {
    key: RunKey,
    purposes: DoorPurposes,
    door: Nonce,
    own: Nonce,
}

impl CallerProof {
    /// Makes the answer to the nonce of a door.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn new(key: RunKey, purposes: DoorPurposes, door: Nonce) -> Result<Self, NoRandomness> {
        Ok(Self { key, purposes, door, own: nonce()? })
    }

    /// Returns the nonce and the proof that answer the door.
    #[must_use]
    pub fn answer(&self) -> (Nonce, Proof) {
        (self.own, self.key.prove(self.purposes.caller, &[&self.door, &self.own]))
    }

    /// Returns whether the door has the key.
    #[must_use]
    pub fn verify(&self, proof: &Proof) -> bool {
        self.key.is_proof(self.purposes.door, &[&self.door, &self.own], proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_prove_that_they_have_the_key_for_one_meeting_at_one_kind_of_door() {
        let (key, other) = (RunKey::new(&[1; 32]), RunKey::new(&[2; 32]));
        let door = DoorProof::new(key.clone(), DoorPurposes::TRIGGERS).unwrap();
        let caller = CallerProof::new(key.clone(), DoorPurposes::TRIGGERS, door.challenge()).unwrap();
        let (nonce, proof) = caller.answer();
        let own = door.verify(&nonce, &proof).expect("it has the key");
        assert!(caller.verify(&own));
        assert!(!caller.verify(&proof), "its own proof sent back");

        let next = DoorProof::new(key.clone(), DoorPurposes::TRIGGERS).unwrap();
        assert_eq!(next.verify(&nonce, &proof), None, "a recording");
        let stranger = CallerProof::new(other, DoorPurposes::TRIGGERS, door.challenge()).unwrap();
        assert_eq!(door.verify(&stranger.answer().0, &stranger.answer().1), None, "another key");
        let consumer = CallerProof::new(key, DoorPurposes::CONSUMERS, door.challenge()).unwrap();
        assert_eq!(door.verify(&consumer.answer().0, &consumer.answer().1), None, "another door");
    }
}
