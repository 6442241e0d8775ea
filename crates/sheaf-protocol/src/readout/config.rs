//! Configuration of a readout unit.

use crate::channel::ChannelTimes;
use sheaf_wire::{ByteCount, EventId, Nanos, SourceId};

/// One source of a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// Number of the source.
    pub id: SourceId,
    /// Whether an event without this source is complete.
    pub optional: bool,
}

/// New event ids that a readout unit announces to the event manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// None: triggers come from elsewhere.
    Never,
    /// Those of this source.
    Source(SourceId),
    /// Those of all its sources, each once.
    All,
}

impl ReadoutConfig {
    /// [`Self::size_window`] of runs: some seconds of a source at 10 kHz. Sizes that recur less often are exceptions.
    pub const SIZE_WINDOW: u32 = 1 << 16;
}

/// Configuration of a readout unit. Memory: payload up to `buffer`, and the same amount again for events that builders
/// have requested (a source may hold one fragment in any case); bookkeeping of some 100 bytes per held fragment.
#[derive(Clone, Debug)]
pub struct ReadoutConfig {
    /// Sources of the unit.
    pub sources: Vec<SourceConfig>,
    /// Maximum payload held, divided evenly among the sources. Twice that including requested events.
    pub buffer: ByteCount,
    /// Maximum number of fragments held of one source. Twice that including requested events.
    pub buffer_events: usize,
    /// Maximum size of a fragment.
    pub max_fragment: ByteCount,
    /// Ids that the unit announces.
    pub announce: Announce,
    /// Timeout for silent sources after the request for an event. A source that sends lower ids is behind but not silent;
    /// the builder's timeout for the event bounds the wait for it.
    pub merge_timeout: Nanos,
    /// Maximum to which that timeout grows for a source whose measured delay, from request to fragment, is longer.
    pub longest_merge: Nanos,
    /// Whether to wait for required sources without limit instead.
    pub wait_for_required: bool,
    /// Time after which an orphan is dropped: a fragment whose event is not requested although later ones are. No limit
    /// if `None`. The time does not run while nothing is requested, so that back-pressure loses nothing.
    pub orphan_timeout: Option<Nanos>,
    /// Maximum payload of an answer (a single super-fragment may be larger).
    pub message_bytes: ByteCount,
    /// Maximum number of super-fragments in an answer.
    pub message_events: usize,
    /// Maximum number of events in a request message.
    pub request_events: usize,
    /// Maximum interval between status reports.
    pub heartbeat: Nanos,
    /// First event, if the room for further events is to be reported in time for the event manager to hold triggers back. `None`: it
    /// is reported with each regular status only.
    pub room_from: Option<EventId>,
    /// Number of fragments of a source after which the size of an earlier one may no longer count for the stated room; at least 1. The
    /// largest of the last one to two times as many counts.
    pub size_window: u32,
    /// Times of the channel to the event manager.
    pub channel: ChannelTimes,
}
