//! The simulated disks: the events that each builder session has stored, in order, and their streams.
//!
//! A session's output corresponds to a real builder's event files. Only its first events count, as many as the event manager has
//! booked as stored; later ones were assigned to another builder. Of an output node's session, those events count whose places
//! were reported to the event manager. An event has the same number in all of its streams.

use crate::dice::mix;
use crate::payload::SimPayload;
use sheaf_store::streams::{Routing, StreamRule};
use sheaf_wire::{Event, EventId, NodeId, SessionId, Tags};
use std::collections::BTreeMap;

/// The output of one session.
#[derive(Clone, Debug, Default)]
struct Output {
    events: Vec<Event<SimPayload>>,
    tags: Vec<Tags>,
    /// Numbers of the events in each stream, as written.
    streams: Vec<Vec<u64>>,
}

/// The disks of all builders and output nodes.
#[derive(Clone, Debug)]
pub struct Disks {
    routing: Routing,
    sessions: BTreeMap<(NodeId, SessionId), Output>,
    written: u64,
}

impl Disks {
    /// Creates empty disks with these streams.
    #[must_use]
    pub fn new(routing: Routing) -> Self {
        Self { routing, sessions: BTreeMap::new(), written: 0 }
    }

    /// Rules that assign events to streams.
    #[must_use]
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Appends an event with these tags to a session's output, to each of its streams.
    pub fn write(&mut self, node: NodeId, session: SessionId, event: Event<SimPayload>, tags: Tags) {
        self.written += 1;
        let output = self.sessions.entry((node, session)).or_default();
        output.streams.resize(self.routing.rules().len(), Vec::new());
        for place in self.routing.route(event.id, tags).places() {
            output.streams[place].push(output.events.len() as u64);
        }
        output.events.push(event);
        output.tags.push(tags);
    }

    /// Removes the last event of a session from one of its streams, to test the checker.
    pub(crate) fn forget_last(&mut self, node: NodeId, session: SessionId) {
        let output = self.sessions.entry((node, session)).or_default();
        let last = output.events.len() as u64;
        let stream = output.streams.iter_mut().find(|stream| stream.last().is_some_and(|it| it + 1 == last));
        stream.and_then(Vec::pop);
    }

    /// Returns the output of a session.
    #[must_use]
    pub fn output(&self, node: NodeId, session: SessionId) -> &[Event<SimPayload>] {
        self.sessions.get(&(node, session)).map_or(&[], |output| &output.events)
    }

    /// Truncates a session's output to its first `events` events, as a crash does.
    pub fn cut(&mut self, node: NodeId, session: SessionId, events: u64) {
        if let Some(output) = self.sessions.get_mut(&(node, session)) {
            let most = usize::try_from(events).unwrap_or(usize::MAX);
            output.events.truncate(most);
            output.tags.truncate(most);
            output.streams.iter_mut().for_each(|stream| stream.retain(|number| *number < events));
        }
    }

    /// Returns the sessions that have stored events.
    pub fn sessions(&self) -> impl Iterator<Item = (NodeId, SessionId)> {
        self.sessions.keys().copied()
    }

    /// Returns the number of events written, whether or not they count.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns whether a stream takes an event, according to the documentation.
    fn takes(&self, place: usize, event: EventId, tags: Tags) -> bool {
        let rules = self.routing.rules();
        let is_of = |rule: &StreamRule| (rule.tags.0 & tags.0) != 0;
        let rule = &rules[place];
        let wanted = if rule.name.is_default() {
            !rules.iter().any(is_of)
        } else {
            rule.tags == Tags::NONE || is_of(rule)
        };
        let is_its_turn = mix(event.0).is_multiple_of(u64::from(rule.prescale.max(1)));
        wanted && (is_its_turn || tags.contains(Tags::QUARANTINED))
    }

    /// Returns the errors in the streams of all sessions: each stream has the events of its rule, each once, in the order of writing.
    #[must_use]
    pub fn faults_of_streams(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for ((node, session), output) in &self.sessions {
            for (place, rule) in self.routing.rules().iter().enumerate() {
                let numbered = (0..).zip(output.events.iter().zip(&output.tags));
                let takes = |event: &Event<SimPayload>, tags: &Tags| self.takes(place, event.id, *tags);
                let wanted =
                    numbered.filter(|(_, (event, tags))| takes(event, tags)).map(|(number, _)| number);
                let wanted: Vec<u64> = wanted.collect();
                let has = output.streams.get(place).map_or(&[][..], Vec::as_slice);
                if wanted != has {
                    let name = &rule.name;
                    faults.push(format!(
                        "stream {name} of {node}/{session} has the events {has:?}, and should have {wanted:?}"
                    ));
                }
            }
        }
        faults
    }
}
