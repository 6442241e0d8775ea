//! Tells the operator why a readout unit stands still.

use sheaf_protocol::readout::{Blockage, ReadoutUnit};
use sheaf_wire::{Nanos, NodeId, Span, Timestamp};

/// Time without progress after which it is reported.
const FIRST_REPORT: Nanos = Nanos::from_secs(10);

/// Pause between two reports.
const NEXT_REPORT: Nanos = Nanos::from_secs(300);

/// Watches a readout unit whose sources have no room. It is a standstill if nothing arrives and nothing ends.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// Number of fragments taken, and held events and bytes, when something last changed.
    seen: (u64, usize, u64),
    since: Timestamp,
    next_report: Nanos,
    taken: u64,
}

impl Standstill {
    /// Takes note of fragments that the unit has taken.
    pub(super) fn note_taken(&mut self, fragments: usize) {
        self.taken += fragments as u64;
    }

    /// Returns the report that is due at `now`, if the unit stands still.
    pub(super) fn report(&mut self, now: Timestamp, role: &ReadoutUnit<Span>) -> Option<String> {
        let (bytes, events) = role.held();
        let seen = (self.taken, events, bytes.0);
        if seen != self.seen || self.next_report == Nanos::ZERO {
            (self.seen, self.since, self.next_report) = (seen, now, FIRST_REPORT);
            return None;
        }
        let waited = now.since(self.since);
        if waited < self.next_report {
            return None;
        }
        self.next_report = waited + NEXT_REPORT;
        Some(text(role.identity().node, waited, &role.blockage()?))
    }
}

fn text(node: NodeId, waited: Nanos, blockage: &Blockage) -> String {
    let Blockage { source, event, held_fragments, held, awaited } = blockage;
    let wait = match awaited {
        Some((event, sources)) => {
            let noun = if sources.len() == 1 { "a fragment of source" } else { "fragments of sources" };
            let sources: Vec<String> = sources.iter().take(5).map(ToString::to_string).collect();
            format!("Event {event} waits for {noun} {}. ", sources.join(", "))
        }
        None => {
            "No event is requested: builder units have no credit, or the event manager gives them no events. "
                .to_owned()
        }
    };
    format!(
        "{node}: nothing has moved for {} s. Source {source} has no room for its fragment of event {event}: {held_fragments} fragments with {} bytes are \
         held of it. {wait}If event numbers of sources are far apart, raise `readout.buffer_bytes` and `readout.buffer_events`; with \
         `incomplete.policy = \"wait\"`, missing fragments are awaited without limit",
        waited.0 / 1_000_000_000,
        held.0
    )
}
