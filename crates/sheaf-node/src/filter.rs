//! Which built events are wanted.

use bytes::Bytes;
use sheaf_wire::Event;

/// Judges built events.
pub trait Filter: Send {
    /// Whether the event is to be stored.
    fn accept(&mut self, event: &Event<Bytes>) -> bool;

    /// What it counted, by name. An event that is judged again, by another builder, counts again.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Wants every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Filter for AcceptAll {
    fn accept(&mut self, _event: &Event<Bytes>) -> bool {
        true
    }
}

/// Wants one event of so many, by event id: the same events whichever builder sees them.
#[derive(Clone, Copy, Debug)]
pub struct Prescale {
    /// One of so many; at least 1.
    pub factor: u32,
}

impl Filter for Prescale {
    fn accept(&mut self, event: &Event<Bytes>) -> bool {
        event.id.0.is_multiple_of(u64::from(self.factor.max(1)))
    }
}
