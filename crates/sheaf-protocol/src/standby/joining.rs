//! A replica that joins during the run: the snapshot of the event manager's state, and when the replica has it.

use bytes::{Bytes, BytesMut};
use sheaf_wire::message::Input;
use sheaf_wire::{Nanos, SessionId, Timestamp};
use std::collections::VecDeque;

/// Bytes of a piece of a snapshot.
const PIECE_BYTES: usize = 128 << 10;

/// Size of the largest snapshot that a replica takes.
const LARGEST_SNAPSHOT: usize = 1 << 30;

/// A replica that joins, as the active one sees it.
#[derive(Debug)]
pub(super) struct Invitation {
    /// Pieces to be sent. `None` until the driver has made the snapshot.
    pieces: Option<VecDeque<Bytes>>,
    /// Number of messages with inputs that the replica must have before it is in sync, once all pieces are sent.
    complete_at: Option<u64>,
    /// Number of such messages that it had at its last progress, and when that was.
    progress: (u64, Timestamp),
}

impl Invitation {
    /// Invites a replica that has `acknowledged` messages.
    pub(super) fn new(now: Timestamp, acknowledged: u64) -> Self {
        Self { pieces: None, complete_at: None, progress: (acknowledged, now) }
    }

    /// Returns whether the snapshot is still to be made.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.pieces.is_none()
    }

    /// Takes the snapshot. It has at least one piece.
    pub(super) fn give(&mut self, now: Timestamp, mut snapshot: Bytes) {
        let mut pieces = VecDeque::new();
        while snapshot.len() > PIECE_BYTES {
            pieces.push_back(snapshot.split_to(PIECE_BYTES));
        }
        pieces.push_back(snapshot);
        self.pieces = Some(pieces);
        self.progress.1 = now;
    }

    /// Returns the next piece, which goes into message `number`.
    pub(super) fn next_piece<P>(&mut self, manager: SessionId, number: u64) -> Option<Input<P>> {
        let pieces = self.pieces.as_mut()?;
        let bytes = pieces.pop_front()?;
        let is_last = pieces.is_empty();
        if is_last {
            self.complete_at = Some(number);
        }
        Some(Input::Snapshot { manager, is_last, bytes })
    }

    /// Returns whether pieces are left, before which no later input may be sent.
    pub(super) fn has_pieces(&self) -> bool {
        self.pieces.as_ref().is_none_or(|pieces| !pieces.is_empty())
    }

    /// Takes note of the messages that the replica has. Returns whether it has the whole snapshot.
    pub(super) fn note_progress(&mut self, now: Timestamp, acknowledged: u64) -> bool {
        if acknowledged > self.progress.0 {
            self.progress = (acknowledged, now);
        }
        self.complete_at.is_some_and(|number| number <= acknowledged)
    }

    /// Extends the time limit of the replica, because the active one was held up for `stall`.
    pub(super) fn extend(&mut self, now: Timestamp, stall: Nanos) {
        self.progress.1 = now.min(self.progress.1 + stall);
    }

    /// Returns when the replica has been without progress for too long.
    pub(super) fn late_at(&self, lag: Nanos) -> Timestamp {
        self.progress.1 + lag
    }
}

/// Pieces that have arrived at the replica that joins.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    bytes: BytesMut,
}

/// Refusal of a snapshot that is too large.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLarge;

impl Assembly {
    /// Adds a piece. Returns the snapshot after the last one.
    pub(super) fn add(&mut self, piece: &Bytes, is_last: bool) -> Result<Option<Bytes>, TooLarge> {
        if self.bytes.len() + piece.len() > LARGEST_SNAPSHOT {
            return Err(TooLarge);
        }
        self.bytes.extend_from_slice(piece);
        Ok(is_last.then(|| std::mem::take(&mut self.bytes).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_arrives_in_pieces_of_which_the_last_one_completes_it() {
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let snapshot: Bytes = (0..bytes).map(|at| (at % 251) as u8).collect();
            let mut invitation = Invitation::new(Timestamp(1), 5);
            assert!(invitation.wants_snapshot());
            assert!(invitation.next_piece::<()>(SessionId(1), 6).is_none());
            invitation.give(Timestamp(2), snapshot.clone());
            assert!(!invitation.wants_snapshot());
            let (mut assembly, mut number, mut arrived) = (Assembly::default(), 5, None);
            while let Some(Input::<()>::Snapshot { is_last, bytes, .. }) =
                invitation.next_piece(SessionId(1), number + 1)
            {
                number += 1;
                assert!(!invitation.note_progress(Timestamp(3), number - 1));
                arrived = assembly.add(&bytes, is_last).expect("it is not too large");
            }
            assert_eq!(arrived, Some(snapshot));
            assert!(invitation.note_progress(Timestamp(4), number));
        }
    }

    #[test]
    fn a_replica_is_late_only_if_it_makes_no_progress() {
        let mut invitation = Invitation::new(Timestamp(10), 5);
        invitation.give(Timestamp(20), Bytes::from_static(b"state"));
        assert_eq!(invitation.late_at(Nanos(100)), Timestamp(120));
        invitation.note_progress(Timestamp(50), 5);
        assert_eq!(invitation.late_at(Nanos(100)), Timestamp(120), "nothing has arrived");
        invitation.note_progress(Timestamp(50), 6);
        assert_eq!(invitation.late_at(Nanos(100)), Timestamp(150));
    }
}
