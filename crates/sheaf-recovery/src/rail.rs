//! Datagrams in flight on one rail.

use super::MAX_FLIGHT;
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// A datagram is taken for lost when one arrived that was sent so many after it: rails keep the order nearly.
const OVERTAKEN: u64 = 3;

/// Assumed round trip before one was measured.
const FIRST_ROUND_TRIP: Nanos = Nanos::from_millis(10);

/// A pause between probes is doubled with each, but not beyond this, unless round trips take that long: a network that loses
/// most of everything is still probed often enough to go on. With a loss of 70 % each way, 9 % of the probes are answered. Of
/// the 200 probes in the 20 s after which a peer counts as dead, all fail once in 150 million times.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(100);

/// A part of a message, in a datagram or to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The message's number.
    pub(super) message: u64,
    pub(super) offset: u32,
    pub(super) bytes: u32,
}

/// A datagram that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Timestamp,
    /// Bytes of the flight that it takes.
    bytes: u32,
    /// Number of its pieces in the rail's list.
    pieces: u32,
    /// Not received yet, and not given up.
    is_flying: bool,
}

/// End of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Received,
    GivenUp,
}

/// Datagrams of a rail that a report has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Number of datagrams given up.
    pub(super) given_up: u64,
    /// Age of the youngest datagram that was received, without the time for which the report waited.
    pub(super) age: Option<Nanos>,
}

/// One rail, as the sender sees it.
#[derive(Clone, Debug)]
pub(super) struct Rail {
    /// Whether datagrams of full size reach the peer, as far as is known.
    pub(super) is_proven: bool,
    /// The number of the first datagram in `sent`.
    first: u64,
    sent: VecDeque<Sent>,
    /// The peer has spoken of all numbers below this.
    reported: u64,
    /// The pieces of all datagrams in `sent`, one after another.
    pieces: VecDeque<Piece>,
    /// Bytes of datagrams that fly.
    in_flight: u64,
    flying: usize,
    /// When a datagram was last reported received.
    progress_at: Timestamp,
    /// Number of probes since.
    probes: u32,
    probed_at: Timestamp,
    /// Whether it is to be asked for a report although there is nothing to send.
    pub(super) ping: bool,
    round_trip: Nanos,
    variation: Nanos,
}

impl Rail {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            is_proven: false,
            first: 0,
            sent: VecDeque::new(),
            reported: 0,
            pieces: VecDeque::new(),
            in_flight: 0,
            flying: 0,
            progress_at: now,
            probes: 0,
            probed_at: now,
            ping: false,
            round_trip: FIRST_ROUND_TRIP,
            variation: Nanos(FIRST_ROUND_TRIP.0 / 2),
        }
    }

    /// The number of the next datagram.
    pub(super) fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Returns the distance from the oldest number that may still arrive to the next one.
    pub(super) fn behind(&self) -> u16 {
        u16::try_from(self.sent.len()).unwrap_or(u16::MAX)
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn is_idle(&self) -> bool {
        self.flying == 0
    }

    pub(super) fn probes(&self) -> u32 {
        self.probes
    }

    pub(super) fn progress_at(&self) -> Timestamp {
        self.progress_at
    }

    pub(super) fn has_room(&self) -> bool {
        self.sent.len() < MAX_FLIGHT
    }

    /// Begins anew after the rail was away.
    pub(super) fn prove(&mut self, now: Timestamp) {
        self.is_proven = true;
        self.probes = 0;
        self.progress_at = now;
        self.ping = false;
    }

    /// Takes note of a datagram that is sent now, with these pieces.
    pub(super) fn send(&mut self, now: Timestamp, bytes: u32, pieces: &[Piece]) {
        self.ping = false;
        self.in_flight += u64::from(bytes);
        self.flying += 1;
        self.pieces.extend(pieces);
        self.sent.push_back(Sent { at: now, bytes, pieces: pieces.len() as u32, is_flying: true });
    }

    /// Applies the peer's report about this rail: all numbers below `end` arrived, except those for which `is_missing`
    /// returns true. Calls `ended` for each piece of each datagram that ends by the report.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        end: u64,
        waited: Nanos,
        mut is_missing: impl FnMut(u64) -> bool,
        mut ended: impl FnMut(Ending, Piece),
    ) -> Settled {
        let (mut given_up, mut youngest) = (0, None);
        let patience = self.overtaking();
        self.reported = self.reported.max(end);
        let mut piece = 0;
        for place in 0..usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX) {
            let Some(sent) = self.sent.get_mut(place) else { break };
            let of_it = piece..piece + sent.pieces as usize;
            piece = of_it.end;
            if !sent.is_flying {
                continue;
            }
            let number = self.first + place as u64;
            let ending = if !is_missing(number) {
                youngest = Some(sent.at);
                Ending::Received
            } else if number + OVERTAKEN < end || now.since(sent.at) > patience {
                given_up += 1;
                Ending::GivenUp
            } else {
                continue;
            };
            sent.is_flying = false;
            self.in_flight -= u64::from(sent.bytes);
            self.flying -= 1;
            self.pieces.range(of_it).for_each(|piece| ended(ending, *piece));
        }
        if youngest.is_some() {
            self.progress_at = now;
            self.probes = 0;
        }
        self.forget();
        let age = youngest.map(|at| Nanos(now.since(at).0.saturating_sub(waited.0)));
        Settled { given_up, age }
    }

    /// Returns the time by which a datagram may arrive after a later one.
    fn overtaking(&self) -> Nanos {
        Nanos(self.round_trip.0 + self.round_trip.0 / 4) + self.variation
    }

    /// When the oldest datagram is to be given up that was reported missing, with too few later ones to be sure at once.
    pub(super) fn overdue_at(&self) -> Option<Timestamp> {
        // At the front is the oldest that flies.
        let oldest = self.sent.front().filter(|_| self.first < self.reported)?;
        Some(oldest.at + self.overtaking() + Nanos(1))
    }

    /// Gives up the datagram that has been under way for longest.
    pub(super) fn give_up_oldest(&mut self, mut ended: impl FnMut(Piece)) -> u64 {
        let mut piece = 0;
        for sent in &mut self.sent {
            let of_it = piece..piece + sent.pieces as usize;
            piece = of_it.end;
            if sent.is_flying {
                sent.is_flying = false;
                self.in_flight -= u64::from(sent.bytes);
                self.flying -= 1;
                self.pieces.range(of_it).for_each(|piece| ended(*piece));
                self.forget();
                return 1;
            }
        }
        0
    }

    /// Gives up all.
    pub(super) fn give_up_all(&mut self, mut ended: impl FnMut(Piece)) -> u64 {
        let mut given_up = 0;
        while self.flying > 0 {
            given_up += self.give_up_oldest(&mut ended);
        }
        given_up
    }

    /// Forgets what has ended at the front.
    fn forget(&mut self) {
        while let Some(sent) = self.sent.front().filter(|sent| !sent.is_flying) {
            self.pieces.drain(..sent.pieces as usize);
            self.sent.pop_front();
            self.first += 1;
        }
    }

    /// Takes a measured round trip into account.
    pub(super) fn measure(&mut self, sample: Nanos) {
        let off = sample.0.abs_diff(self.round_trip.0);
        self.variation = Nanos((3 * self.variation.0 + off) / 4);
        self.round_trip = Nanos((7 * self.round_trip.0 + sample.0) / 8);
    }

    /// For how long what was sent may stay without a report.
    fn patience(&self, report_after: Nanos, least: Nanos) -> Nanos {
        let expected = Nanos(2 * self.round_trip.0 + 4 * self.variation.0) + report_after;
        let patience = expected.0.max(least.0);
        Nanos((patience << self.probes.min(16)).min(LONGEST_PAUSE.0.max(patience)))
    }

    /// When the rail is to be probed, if nothing is heard before.
    pub(super) fn probe_at(&self, report_after: Nanos, least: Nanos) -> Option<Timestamp> {
        let oldest = self.sent.iter().find(|sent| sent.is_flying)?.at;
        let since = oldest.max(self.progress_at).max(self.probed_at);
        Some(since + self.patience(report_after, least))
    }

    /// Takes note of a probe.
    pub(super) fn probe(&mut self, now: Timestamp) {
        self.probes += 1;
        self.probed_at = now;
    }
}
