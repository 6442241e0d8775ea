//! Drives sources that give windows of their hits on request, as the driver of a node does.

use super::post::Happening;
use super::{Cluster, index_u16};
use crate::log::{FragmentFate, Line};
use crate::payload::SimPayload;
use crate::source::Planned;
use sheaf_protocol::readout::WindowOrder;
use sheaf_wire::message::Body;
use sheaf_wire::{
    EventId, Fragment, MissingReason, Nanos, NodeId, NumberMark, SessionId, SourceId, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Request of a source for an event.
type WindowAsk = (SourceId, EventId);

/// Sources of a readout unit that give on request, in one session of it.
#[derive(Debug, Default)]
pub(super) struct WindowSide {
    /// Requests whose hits are not together.
    waiting: BTreeSet<WindowAsk>,
    /// Events whose hits are together, for each source.
    due: BTreeMap<SourceId, VecDeque<EventId>>,
    /// Fragments that the unit refused for lack of room. They are offered again, also if their events have ended meanwhile.
    held_back: BTreeMap<SourceId, EventId>,
}

impl WindowSide {
    /// Returns the next event whose hits a source offers.
    fn next(&self, source: SourceId) -> Option<EventId> {
        let due = self.due.get(&source).and_then(|events| events.front());
        self.held_back.get(&source).or(due).copied()
    }

    /// Records whether the offered hits were taken.
    fn note_offered(&mut self, (source, event): WindowAsk, is_taken: bool) {
        let was_held_back = self.held_back.remove(&source).is_some();
        if !was_held_back && let Some(events) = self.due.get_mut(&source) {
            events.pop_front();
        }
        if !is_taken {
            self.held_back.insert(source, event);
        }
    }

    fn cancel(&mut self, event: EventId) {
        self.waiting.retain(|(_, other)| *other != event);
        self.due.values_mut().for_each(|events| events.retain(|other| *other != event));
    }
}

impl Cluster {
    /// Compares a request for windows with the triggers.
    pub(super) fn see_windows_requested(&mut self, to: NodeId, body: &Body<SimPayload>) {
        let Self { watch, options, .. } = self;
        if let Body::WindowRequest(request) = body
            && let Err(what) = watch.windows.see_request(options, request)
        {
            watch.fail(format!("{to}: {what}"));
        }
    }

    /// Passes the orders of a readout unit to its sources.
    pub(super) fn pass_window_orders(&mut self, index: usize) {
        let Self { post, readouts, watch, options, .. } = self;
        let node = &mut readouts[index];
        let (Some(unit), Some(setup)) = (&mut node.unit, options.windows) else { return };
        let (id, session) = (node.host.node, node.host.session);
        while let Some(order) = unit.poll_window() {
            let seen = match &order {
                WindowOrder::Give { event, sources, windows } => {
                    watch.windows.see_give(options, id, *event, sources, windows)
                }
                WindowOrder::Cancel(event) => {
                    watch.windows.see_cancelled(id, *event, watch.ended.contains_key(event))
                }
            };
            if let Err(what) = seen {
                watch.fail(format!("{id}: {what}"));
            }
            match order {
                WindowOrder::Give { event, sources, .. } => {
                    post.note(Line::Windows { node: id, event, sources: sources.len() as u64 });
                    for source in sources {
                        node.windows.waiting.insert((source, event));
                        let late = if post.dice.chance(setup.late) { setup.late_time } else { Nanos::ZERO };
                        let at = post.now + post.dice.exponential(setup.delay) + late;
                        post.plan(at, Happening::Windows(index, session, source, event));
                    }
                }
                WindowOrder::Cancel(event) => {
                    post.note(Line::Windows { node: id, event, sources: 0 });
                    node.windows.cancel(event);
                }
            }
        }
    }

    /// Handles a source that has looked for its hits of an event.
    pub(super) fn happen_windows(
        &mut self,
        index: usize,
        session: SessionId,
        source: SourceId,
        event: EventId,
    ) {
        let Self { post, readouts, watch, options, .. } = self;
        let node = &mut readouts[index];
        let (Some(unit), Some(setup)) = (&mut node.unit, options.windows) else { return };
        if node.host.session != session || !node.windows.waiting.remove(&(source, event)) {
            return;
        }
        let id = node.host.node;
        let reason = if watch.windows.is_off_timeline(options, event) {
            Some(MissingReason::WindowOffTimeline)
        } else {
            post.dice.chance(setup.expired).then_some(MissingReason::WindowExpired)
        };
        match reason {
            Some(reason) => {
                watch.windows.see_answer(post.now, id, (source, event), Some(reason));
                unit.handle_missing(source, event, reason);
                post.note(Line::Fragment { node: id, source, event, fate: FragmentFate::NotHad });
            }
            None => {
                node.windows.due.entry(source).or_default().push_back(event);
                self.offer_windows(index);
            }
        }
        self.settle_readout(index);
    }

    /// Offers the hits that are together to the readout unit, of each source until one is refused.
    pub(super) fn offer_windows(&mut self, index: usize) {
        self.pass_window_orders(index);
        if self.options.windows.is_none() || !self.readouts[index].takes_fragments() {
            return;
        }
        for number in self.readouts[index].sources() {
            let source = SourceId(u32::from(index_u16(number)));
            while let Some(event) = self.readouts[index].windows.next(source)
                && self.offer_window(index, (source, event))
            {}
        }
    }

    /// Offers the hits of an event. Returns whether the readout unit has taken them.
    fn offer_window(&mut self, index: usize, (source, event): WindowAsk) -> bool {
        let Self { post, readouts, watch, options, .. } = self;
        let node = &mut readouts[index];
        let Some(unit) = &mut node.unit else { return false };
        let payload = options.payload(event, source);
        let id = node.host.node;
        let held = unit.held().0;
        let taken = unit.handle_fragment(post.now, fragment((source, event), post.now, payload));
        node.windows.note_offered((source, event), taken.is_ok());
        if taken.is_err() {
            watch.note_held_back(post.now, options, id);
            post.note(Line::Fragment { node: id, source, event, fate: FragmentFate::HeldBack });
            return false;
        }
        let planned =
            Planned { event, origin: event, source, bytes: payload.length, trigger: 0, pause: Nanos::ZERO };
        watch.windows.see_answer(post.now, id, (source, event), None);
        watch.see_fragment(options, id, &planned, unit.held().0 > held);
        post.note(Line::Fragment { node: id, source, event, fate: FragmentFate::Taken });
        true
    }

    /// Checks that a readout unit that has closed has no answers left to wait for.
    pub(super) fn close_windows(&mut self, id: NodeId) {
        let Self { watch, .. } = self;
        if let Err(what) = watch.windows.see_closed(id, |event| watch.ended.contains_key(event)) {
            watch.fail(format!("{id}: {what}"));
        }
    }
}

fn fragment((source, event): WindowAsk, time: Timestamp, payload: SimPayload) -> Fragment<SimPayload> {
    let checksum = payload.checksum();
    Fragment { event, source, time, checksum, processed: false, mark: NumberMark::NONE, payload }
}
