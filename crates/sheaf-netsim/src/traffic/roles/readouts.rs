//! Drives readout units and their sources.

use super::settings::{FIRST_EVENT, Settings};
use super::{Descriptor, RUN, Roles, timestamp};
use crate::traffic::Wake;
use crate::traffic::sizes::FragmentSizes;
use crate::units::Picos;
use sheaf_protocol::Identity;
use sheaf_protocol::ledger::NodeBooks;
use sheaf_protocol::readout::{ReadoutEvent, ReadoutUnit};
use sheaf_wire::message::{Body, EventRange, Message};
use sheaf_wire::{EventId, Fragment, NodeId, NumberMark, SessionId, SourceId, Timestamp};

/// A readout unit with its source.
#[derive(Debug)]
pub(super) struct ReadoutHost {
    node: NodeId,
    session: SessionId,
    /// Nothing while it is dead.
    unit: Option<ReadoutUnit<Descriptor>>,
    /// When it is to be woken.
    wake_at: Option<Timestamp>,
    /// The next event that the source has a fragment of.
    next_event: EventId,
    /// The source's fragments are requested up to this event.
    wanted: EventId,
    /// A fragment that found no room.
    held_back: Option<Fragment<Descriptor>>,
}

impl ReadoutHost {
    pub(super) fn new(settings: &Settings, index: u16) -> Self {
        let node = NodeId::readout(index);
        let mut host = Self {
            node,
            session: SessionId(0),
            unit: None,
            wake_at: None,
            next_event: FIRST_EVENT,
            wanted: FIRST_EVENT,
            held_back: None,
        };
        host.begin(settings, 0, Picos::ZERO);
        host
    }

    /// Begins a life, after `triggered` events.
    pub(super) fn begin(&mut self, settings: &Settings, triggered: u64, now: Picos) {
        if self.unit.is_some() {
            return;
        }
        self.session = SessionId(self.session.0 + 1);
        let me = Identity { node: self.node, run: RUN, session: self.session };
        self.unit = Some(ReadoutUnit::new(me, settings.readout(self.node.index), timestamp(now)));
        self.next_event = EventId(FIRST_EVENT.0 + triggered);
        self.wanted = self.wanted.max(self.next_event);
        self.held_back = None;
    }

    /// Stops; returns whether it was alive.
    pub(super) fn die(&mut self) -> bool {
        self.wake_at = None;
        self.unit.take().is_some()
    }

    pub(super) fn books(&self) -> NodeBooks {
        self.unit.as_ref().map(ReadoutUnit::books).unwrap_or_default()
    }

    /// Lets the source hand over requested fragments that find room.
    fn offer(&mut self, sizes: &FragmentSizes, now: Timestamp) {
        let Some(unit) = &mut self.unit else {
            return;
        };
        loop {
            let fragment = match self.held_back.take() {
                Some(fragment) => fragment,
                None if self.next_event < self.wanted => {
                    let event = self.next_event;
                    self.next_event = EventId(event.0 + 1);
                    let source = u32::from(self.node.index);
                    let payload = Descriptor { bytes: sizes.bytes(event.0, source) };
                    Fragment {
                        event,
                        source: SourceId(source),
                        time: now,
                        checksum: None,
                        processed: false,
                        mark: NumberMark::NONE,
                        payload,
                    }
                }
                None => return,
            };
            if let Err(fragment) = unit.handle_fragment(now, fragment) {
                self.held_back = Some(fragment);
                return;
            }
        }
    }
}

/// The first event after all that a message asks for, or sends to a builder.
fn end_of_request(message: &Message<Descriptor>) -> Option<EventId> {
    let end = |range: &EventRange| range.first.0.saturating_add(u64::from(range.count));
    let end = match &message.body {
        Body::FragmentRequest(ranges) => ranges.iter().map(end).max(),
        Body::PartRequest(request) => request.ranges.iter().map(end).max(),
        Body::WindowRequest(request) => {
            request.events.iter().map(|wanted| wanted.event.0.saturating_add(1)).max()
        }
        Body::Dispatch(destinations) => destinations.iter().map(|to| end(&to.events)).max(),
        _ => None,
    };
    end.map(EventId)
}

impl Roles {
    pub(super) fn arrive_at_readout(
        &mut self,
        index: usize,
        message: Message<Descriptor>,
        now: Picos,
        wake: &mut Wake,
    ) {
        let host = &mut self.readouts[index];
        host.wanted = host.wanted.max(end_of_request(&message).unwrap_or(FIRST_EVENT));
        host.offer(&self.sizes, timestamp(now));
        let Some(unit) = &mut host.unit else {
            return;
        };
        unit.handle_input(timestamp(now), message);
        // A release may have made room.
        host.offer(&self.sizes, timestamp(now));
        self.settle_readout(index, now, wake);
    }

    pub(super) fn wake_readout(&mut self, index: usize, planned: Timestamp, now: Picos, wake: &mut Wake) {
        let host = &mut self.readouts[index];
        if host.wake_at != Some(planned) {
            return;
        }
        host.wake_at = None;
        if let Some(unit) = &mut host.unit {
            unit.handle_timeout(timestamp(now));
            self.settle_readout(index, now, wake);
        }
    }

    /// Drains the unit, as its contract demands.
    pub(super) fn settle_readout(&mut self, index: usize, now: Picos, wake: &mut Wake) {
        let Self { readouts, post, agenda, .. } = self;
        let host = &mut readouts[index];
        let Some(unit) = &mut host.unit else {
            return;
        };
        while let Some(transmit) = unit.poll_transmit(timestamp(now)) {
            post.send(transmit, now, agenda, wake);
        }
        // Start and end of the run change nothing for a source that only gives what is requested.
        while let Some(event) = unit.poll_event() {
            if let ReadoutEvent::Shape { turning, epoch } = event {
                post.shape(host.node, turning, epoch, now, wake);
            }
        }
        agenda.wake_by(host.node, unit.poll_timeout(), &mut host.wake_at, now);
    }
}
