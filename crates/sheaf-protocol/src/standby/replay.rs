//! Rounds of the event manager, as they come to the standby, and digests of what follows from them.

use crate::machine::Transmit;
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
    rounds: VecDeque<(Round<P>, Option<u32>)>,
    /// Digest that the round which was given last must lead to.
    expected: Option<u32>,
}

impl<P> Default for Replay<P> {
    fn default() -> Self {
        Self { rounds: VecDeque::new(), expected: None }
    }
}

impl<P> Replay<P> {
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

    /// Returns the next round. The one before it was repeated.
    pub(super) fn next(&mut self) -> Option<Round<P>> {
        let (round, expected) = self.rounds.pop_front()?;
        self.expected = expected;
        Some(round)
    }

    /// Returns whether the round that was given last has led to another digest than at the active replica.
    pub(super) fn has_diverged(&mut self, digest: Digest) -> bool {
        self.expected.take().is_some_and(|expected| expected != digest.value())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }
}
