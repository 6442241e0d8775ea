//! Accepted events on their way to output nodes, and the consumers that watch them.

use crate::sink::{EventSink, SinkError};
use bytes::Bytes;
use sheaf_protocol::builder::Decision;
use sheaf_protocol::output::{Sender, SenderEvent};
use sheaf_wire::{Event, Timestamp, Verdict};

/// The way to output nodes. Consumers see events where they leave the builder unit.
pub(crate) struct Forwarding {
    pub(crate) sender: Sender<Bytes>,
    watching: Box<dyn EventSink>,
}

impl Forwarding {
    pub(crate) fn new(sender: Sender<Bytes>, watching: Box<dyn EventSink>) -> Self {
        Self { sender, watching }
    }

    /// Takes an accepted event.
    pub(crate) fn take(&mut self, event: Event<Bytes>, verdict: Verdict) {
        if let Err(error) = self.watching.write(&event, &verdict) {
            log::debug!("event {} is not shown to consumers: {error}", event.id);
        }
        self.sender.handle_event(event, verdict);
    }

    /// Serves the consumers.
    pub(crate) fn tend(&mut self, now: Timestamp) {
        if let Err(error) = self.watching.end_batch(now) {
            log::debug!("consumers: {error}");
        }
    }

    /// The next event that is decided.
    pub(crate) fn poll(&mut self) -> Option<(Event<Bytes>, Decision)> {
        Some(match self.sender.poll_event()? {
            SenderEvent::Stored(event, place) => (event, Decision::StoredAt(place)),
            SenderEvent::LeftOut(event) => (event, Decision::Rejected),
        })
    }

    /// Events that are not decided.
    pub(crate) fn waiting(&self) -> usize {
        self.sender.held()
    }

    /// Returns whether no output node takes events now.
    pub(crate) fn is_held_up(&self) -> bool {
        self.sender.is_held_up()
    }

    /// When there is something to do, if nothing else happens.
    pub(crate) fn due(&mut self) -> Timestamp {
        let deadline = self.sender.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at);
        deadline.min(self.watching.due())
    }

    pub(crate) fn finish(&mut self) -> Result<(), SinkError> {
        self.watching.finish()
    }
}
