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

/// Steps that have arrived and are still to be repeated.
#[derive(Debug)]
pub(super) struct Replay<P> {
    /// Each with the digest that it must lead to, where that is known.
    steps: VecDeque<(Step<P>, Option<u32>)>,
    /// Digest that the step which was given last must lead to.
    expected: Option<u32>,
}

impl<P> Default for Replay<P> {
    fn default() -> Self {
        Self { steps: VecDeque::new(), expected: None }
    }
}

impl<P> Replay<P> {
    /// Has the replica forget what it has done.
    pub(super) fn step_aside(&mut self) {
        *self = Self { steps: [(Step::Aside, None)].into(), expected: None };
    }

    /// Begins with a snapshot. The rounds before it are void.
    pub(super) fn begin(&mut self, snapshot: Bytes) {
        self.steps.retain(|(step, _)| matches!(step, Step::Aside));
        self.steps.push_back((Step::Snapshot(snapshot), None));
        self.expected = None;
    }

    /// Adds inputs. Those before the first round are ignored: every message begins with a round.
    pub(super) fn add(&mut self, inputs: Vec<Input<P>>) {
        for input in inputs {
            match (input, self.steps.back_mut()) {
                (Input::Round { now, stall }, _) => {
                    let round = Round { now, stall, inputs: Vec::new() };
                    self.steps.push_back((Step::Round(round), None));
                }
                (Input::Digest(digest), Some((Step::Round(_), expected))) => *expected = Some(digest),
                (input, Some((Step::Round(round), _))) => round.inputs.push(input),
                _ => {}
            }
        }
    }

    /// Returns the next step. The one before it was repeated.
    pub(super) fn next(&mut self) -> Option<Step<P>> {
        let (step, expected) = self.steps.pop_front()?;
        self.expected = expected;
        Some(step)
    }

    /// Returns whether the round that was given last has led to another digest than at the active replica.
    pub(super) fn has_diverged(&mut self, digest: Digest) -> bool {
        self.expected.take().is_some_and(|expected| expected != digest.value())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
