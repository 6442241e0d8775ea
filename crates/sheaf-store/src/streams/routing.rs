//! Which streams take an event: a function of its id and its tags alone, so that every builder decides alike.

use crate::event_file::StreamName;
use sheaf_wire::mix::splitmix64;
use sheaf_wire::{EventId, Tags};

/// Which events a stream takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRule {
    /// The stream.
    pub name: StreamName,
    /// It takes events that have one of these tags. Without tags it takes all accepted events; and the stream
    /// `default`, which has none, those that no stream takes for a tag.
    pub tags: Tags,
    /// Prescale N: keeps one in N of these; at least 1.
    pub prescale: u32,
}

/// The streams that take an event, as places in the list of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route(u32);

impl Route {
    /// Returns whether no stream takes it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the stream with this index takes it.
    #[must_use]
    pub const fn has(self, place: usize) -> bool {
        place < Routing::MAX_STREAMS && self.0 >> place & 1 == 1
    }

    /// The places of the streams that take it, ascending.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..Routing::MAX_STREAMS).filter(move |place| self.has(*place))
    }

    pub(super) fn without(self, place: usize) -> Self {
        Self(self.0 & !(1 << place))
    }
}

/// The rules of all streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    rules: Vec<StreamRule>,
}

impl Routing {
    /// Maximum number of streams, including `default`.
    pub const MAX_STREAMS: usize = 32;

    /// The routing by these rules, and by one for the stream `default` where it is not among them.
    ///
    /// # Panics
    /// For more than [`Routing::MAX_STREAMS`] streams.
    #[must_use]
    pub fn new(mut rules: Vec<StreamRule>) -> Self {
        if !rules.iter().any(|rule| rule.name.is_default()) {
            rules.insert(0, StreamRule { name: StreamName::default(), tags: Tags::NONE, prescale: 1 });
        }
        assert!(rules.len() <= Self::MAX_STREAMS, "at most {} streams", Self::MAX_STREAMS);
        Self { rules }
    }

    /// The rules, in the order of the places of a [`Route`].
    #[must_use]
    pub fn rules(&self) -> &[StreamRule] {
        &self.rules
    }

    /// The streams that take an accepted event. None does where each that would is prescaled and it is not the turn of
    /// this event. An event that was not judged is never left out.
    #[must_use]
    pub fn route(&self, event: EventId, tags: Tags) -> Route {
        let is_tagged = |rule: &&StreamRule| !rule.tags.is_empty() && rule.tags.intersects(tags);
        let has_tagged = self.rules.iter().any(|rule| is_tagged(&rule));
        let takes = |rule: &StreamRule| {
            let wanted = match (rule.name.is_default(), rule.tags.is_empty()) {
                (true, _) => !has_tagged,
                (false, true) => true,
                (false, false) => is_tagged(&rule),
            };
            wanted && (tags.intersects(Tags::QUARANTINED) || is_turn(event, rule.prescale))
        };
        let places = self.rules.iter().enumerate().filter(|(_, rule)| takes(rule));
        Route(places.fold(0, |route, (place, _)| route | 1 << place))
    }
}

/// Returns whether a prescaled stream takes the event. The decision hashes the bits of its id, so that anything
/// periodic in the ids (builders, trigger types) is sampled evenly.
fn is_turn(event: EventId, prescale: u32) -> bool {
    prescale <= 1 || splitmix64(event.0).is_multiple_of(u64::from(prescale))
}
