//! Rounds of the event manager, as they come to the standby, and digests of what follows from them.

use crate::machine::Transmit;
use bytes::Bytes;
use sheaf_wire::checksum::crc32c_append;
use sheaf_wire::message::Input;
use sheaf_wire::{Nanos, Payload, Timestamp};
use std::collections::VecDeque;

/// A round of the active replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round<P> {
    /// Its time.
    pub now: Timestamp,
    /// Time for which the replica was held up before it.
    pub stall: Nanos,
    /// Its inputs, in order.
    pub inputs: Vec<Input<P>>,
}

/// Step that the standby repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<P> {
    /// The other replica is active already: what this one has done as the event manager is void, and it joins as a standby.
    Aside,
    /// A round of the active replica.
    Round(Round<P>),
    /// The state after the last round, with which a replica that joins begins.
    Snapshot(Bytes),
}

/// Digest of all messages that followed from rounds, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest(u32);

impl Digest {
    /// Adds a message. Its acknowledgement counts as well: it states what was received.
    pub(super) fn add<P: Payload>(&mut self, transmit: &Transmit<P>, buffer: &mut Vec<u8>) {
        buffer.clear();
        transmit.message.clone().encode(buffer, |_| {});
        self.0 = crc32c_append(crc32c_append(self.0, &transmit.to.to_code().to_le_bytes()), buffer);
    }

    pub(super) fn value(self) -> u32 {
        self.0
    }
}

/// Rounds that have arrived and are still to be repeated.
#[derive(Debug)]
pub(super) struct Replay<P> {
    /// Whether the replica is to forget what it has done.
    is_aside: bool,
    /// State with which the replica begins, if it joins.
    snapshot: Option<Bytes>,
    rounds: VecDeque<(Round<P>, Option<u32>)>,
    /// Digest that the round which was given last must lead to.
    expected: Option<u32>,
}

impl<P> Default for Replay<P> {
    fn default() -> Self {
        Self { is_aside: false, snapshot: None, rounds: VecDeque::new(), expected: None }
    }
}

impl<P> Replay<P> {
    /// Has the replica forget what it has done.
    pub(super) fn step_aside(&mut self) {
        *self = Self { is_aside: true, ..Self::default() };
    }

    /// Begins with a snapshot. What has come before it is void.
    pub(super) fn begin(&mut self, snapshot: Bytes) {
        *self = Self { is_aside: self.is_aside, snapshot: Some(snapshot), ..Self::default() };
    }

    /// Adds inputs. Those before the first round are ignored: every message begins with a round.
    pub(super) fn add(&mut self, inputs: Vec<Input<P>>) {
        for input in inputs {
            match input {
                Input::Round { now, stall } => {
                    self.rounds.push_back((Round { now, stall, inputs: Vec::new() }, None));
                }
                Input::Digest(digest) => {
                    if let Some((_, expected)) = self.rounds.back_mut() {
                        *expected = Some(digest);
                    }
                }
                input => {
                    if let Some((round, _)) = self.rounds.back_mut() {
                        round.inputs.push(input);
                    }
                }
            }
        }
    }

    /// Returns the next step. The one before it was repeated.
    pub(super) fn next(&mut self) -> Option<Step<P>> {
        if std::mem::take(&mut self.is_aside) {
            return Some(Step::Aside);
        }
        if let Some(snapshot) = self.snapshot.take() {
            return Some(Step::Snapshot(snapshot));
        }
        let (round, expected) = self.rounds.pop_front()?;
        self.expected = expected;
        Some(Step::Round(round))
    }

    /// Returns whether the round that was given last has led to another digest than at the active replica.
    pub(super) fn has_diverged(&mut self, digest: Digest) -> bool {
        self.expected.take().is_some_and(|expected| expected != digest.value())
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_aside && self.snapshot.is_none() && self.rounds.is_empty()
    }
}
