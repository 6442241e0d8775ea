//! Configuration of a readout unit.

use crate::channel::ChannelTimes;
use sheaf_wire::{ByteCount, Nanos, SourceId};

/// One source of a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// Its number.
    pub id: SourceId,
    /// Whether an event without it is complete all the same.
    pub optional: bool,
}

/// Which new event ids a readout unit announces to the event manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// None: triggers come from elsewhere.
    Never,
    /// Those of this source.
    Source(SourceId),
    /// Those of all its sources, each once.
    All,
}

/// Configuration of a readout unit. Memory: payload up to `buffer`, and up to as much again for events that builders
/// have requested (a source may hold one fragment in any case); bookkeeping of some 100 bytes a held fragment.
#[derive(Clone, Debug)]
pub struct ReadoutConfig {
    /// The sources that it reads.
    pub sources: Vec<SourceConfig>,
    /// Maximum payload held, divided evenly among the sources. Twice that including requested events.
    pub buffer: ByteCount,
    /// Maximum number of fragments held of one source. Twice that including requested events.
    pub buffer_events: usize,
    /// The largest fragment that it takes.
    pub max_fragment: ByteCount,
    /// Which ids it announces.
    pub announce: Announce,
    /// Time for which it waits for silent sources after the request for an event. A source that sends lower ids is
    /// behind but not silent; the builder's timeout for the event bounds the wait for it.
    pub merge_timeout: Nanos,
    /// Time to which that grows for a source that is measured to take longer from the request of an event to its fragment.
    pub longest_merge: Nanos,
    /// Whether it waits for required sources without limit instead.
    pub wait_for_required: bool,
    /// Time after which an orphan is dropped: a fragment whose event is not requested although later ones are. No limit
    /// if `None`. The time does not run while nothing is requested, so that back-pressure loses nothing.
    pub orphan_timeout: Option<Nanos>,
    /// It answers with messages of at most this much payload (one super-fragment may be larger).
    pub message_bytes: ByteCount,
    /// It answers with at most this many super-fragments a message.
    pub message_events: usize,
    /// It takes at most this many events in one request message.
    pub request_events: usize,
    /// It reports its state at least this often.
    pub heartbeat: Nanos,
    /// Times of the channel to the event manager.
    pub channel: ChannelTimes,
}
