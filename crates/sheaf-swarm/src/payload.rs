//! Stand-in for the bytes of a fragment.

use crate::dice::mix;
use sheaf_wire::message::PayloadSource;
use sheaf_wire::{EventId, Payload, SourceId};
use std::collections::VecDeque;

/// A payload that identifies its fragment, with a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimPayload {
    /// Event that it belongs to.
    pub event: EventId,
    /// Source that sent it.
    pub source: SourceId,
    /// Number of bytes that it represents.
    pub length: u32,
    /// Checksum of the other fields and the run's seed.
    pub tag: u64,
}

impl SimPayload {
    /// Creates the payload of `source` for `event`.
    #[must_use]
    pub fn new(seed: u64, event: EventId, source: SourceId, length: u32) -> Self {
        let tag = mix(mix(mix(seed) ^ event.0) ^ (u64::from(source.0) << 32 | u64::from(length)));
        Self { event, source, length, tag }
    }

    /// Returns the payload that a preprocessor makes of it.
    #[must_use]
    pub(crate) fn remade(&self, seed: u64, length: u32) -> Self {
        Self::new(mix(seed ^ 0x9e00_0000), self.event, self.source, length)
    }

    /// Returns its checksum.
    #[must_use]
    pub(crate) fn sum(&self) -> u32 {
        u32::try_from(self.tag >> 32).unwrap_or_default()
    }

    /// Returns the checksum that the source sends with the fragment. Every other fragment has one.
    #[must_use]
    pub fn checksum(&self) -> Option<u32> {
        self.tag.is_multiple_of(2).then_some(self.sum())
    }
}

impl Payload for SimPayload {
    fn len(&self) -> usize {
        self.length as usize
    }
}

/// Payloads that pass through the codec. A decoder gets them in the order in which the encoder produced them, and only with the
/// lengths in the head.
#[derive(Debug, Default)]
pub struct PayloadQueue(pub VecDeque<SimPayload>);

impl PayloadSource<SimPayload> for PayloadQueue {
    fn total(&self) -> u64 {
        self.0.iter().map(|payload| u64::from(payload.length)).sum()
    }

    fn take(&mut self, bytes: usize) -> Option<SimPayload> {
        self.0.pop_front_if(|payload| payload.len() == bytes)
    }
}
