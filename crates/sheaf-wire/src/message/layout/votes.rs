//! Steps of ballots about the active replica of the event manager, and the answers of voters.

use super::layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// A step of a ballot, 24 bytes. In the steps 2, 3, 5 and 6 [`AcceptedBytes`] follow; then the voters.
    VoteBytes[24] {
        /// Offset 0: number of the ballot.
        ballot: U64,
        /// Offset 8: in a restoration the session of the voter that it is for, otherwise 0.
        session: U64,
        /// Offset 16: step.
        step: u8,
        /// Offset 17: bit 0: the ballot is a take-over that the active replica has not asked for. Other bits are zero.
        flags: u8,
        /// Offset 18: number of [`VoterBytes`].
        voters: U16,
        /// Offset 20: zero.
        reserved: U32,
    }
}

layout! {
    /// Answer of a voter, 32 bytes. In a promise [`AcceptedBytes`] follow; then the voters.
    VotedBytes[32] {
        /// Offset 0: number of the ballot that is answered.
        ballot: U64,
        /// Offset 8: session of the replica that is answered.
        session: U64,
        /// Offset 16: in a refusal the highest ballot that the voter has promised, otherwise 0.
        promised: U64,
        /// Offset 24: answer.
        vote: u8,
        /// Offset 25: bit 0: the voter hears the active replica. Other bits are zero.
        flags: u8,
        /// Offset 26: number of [`VoterBytes`].
        voters: U16,
        /// Offset 28: zero.
        reserved: U32,
    }
}

layout! {
    /// A configuration of the event manager, and the ballot by which it was accepted, 40 bytes.
    AcceptedBytes[40] {
        /// Offset 0: number of the ballot.
        ballot: U64,
        /// Offset 8: term of the configuration.
        term: U64,
        /// Offset 16: session of replica 0 if it is in sync, otherwise 0.
        in_sync_0: U64,
        /// Offset 24: session of replica 1 if it is in sync, otherwise 0.
        in_sync_1: U64,
        /// Offset 32: index of the active replica, which is in sync.
        active: U16,
        /// Offset 34: zero.
        reserved: [u8; 6],
    }
}

layout! {
    /// The latest session of a voter, 16 bytes.
    VoterBytes[16] {
        /// Offset 0: the voter's session.
        session: U64,
        /// Offset 8: node code of the voter.
        node: U32,
        /// Offset 12: zero.
        reserved: U32,
    }
}
