//! The byte layout of the messages by which both sides of a connection prove that they have the key of the run. Taps and
//! the trigger protocol put them into frames of their own; `sheaf_key::door` has the rules.

use crate::message::layout::layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// Challenge by the side that accepts the connection, 32 bytes.
    ChallengeBytes[32] {
        /// Offset 0: nonce of that side: unpredictable, new for each connection.
        nonce: [u8; 32],
    }
}

layout! {
    /// Answer to a challenge, 64 bytes.
    AnswerBytes[64] {
        /// Offset 0: nonce of the side that joins: unpredictable, new for each connection.
        nonce: [u8; 32],
        /// Offset 32: its proof that it has the key.
        proof: [u8; 32],
    }
}

layout! {
    /// Answer to a correct proof, 32 bytes.
    ProofBytes[32] {
        /// Offset 0: the proof of the side that accepts the connection.
        proof: [u8; 32],
    }
}
