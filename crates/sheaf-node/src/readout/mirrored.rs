//! A readout unit that has a mirror.

use super::ReadoutNode;
use crate::outbox::Prepared;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::mirror::{MirrorConfig, MirrorEvent, MirrorFragments, MirrorSender};
use sheaf_telemetry::log_as;
use sheaf_wire::message::{Body, Message, MirrorStep, UnitInput};
use sheaf_wire::{Nanos, NodeId, Role, Span, Timestamp};
use std::cell::RefCell;

/// The part of a readout unit that has a mirror.
pub(super) type Guard = MirrorSender<Span, Prepared>;

impl ReadoutNode {
    /// Has a mirror follow this unit, whose role was made at `now`.
    #[must_use]
    pub fn mirrored(mut self, config: MirrorConfig, now: Timestamp) -> Self {
        let mut guard = Guard::new(*self.role.identity(), config, now);
        // The mirror makes its role at the same time.
        guard.begin_round(now, Nanos::ZERO);
        guard.enter_round();
        guard.end_round(|| 0);
        self.guard = Some(Box::new(guard));
        self
    }

    /// Begins a round of the unit, which was held up before it for `stall`, and of its mirror.
    pub(super) fn begin_guarded(&mut self, now: Timestamp, mut stall: Nanos) {
        if let Some(guard) = &mut self.guard {
            let is_due = self.role.poll_timeout().is_some_and(|deadline| deadline.at <= now);
            stall = stall + guard.take_hold_up(now, stall, is_due);
            guard.begin_round(now, stall);
            if is_due {
                guard.enter_round();
            }
        }
        self.role.handle_stall(stall);
    }

    /// Returns a message that is for the role. The mirror has it as well.
    pub(super) fn admit(&mut self, now: Timestamp, message: Message<Span>) -> Option<Message<Span>> {
        let Some(guard) = &mut self.guard else {
            if matches!(message.body, Body::Mirror(MirrorStep::Superseded)) && self.stands_in {
                self.end_superseded();
            }
            // Another step was repeated, and has nobody to heed it any more.
            return (!matches!(message.body, Body::Mirror(_))).then_some(message);
        };
        let message = guard.handle_message(now, message)?;
        guard.take(|| UnitInput::Message(Box::new(message.clone())));
        Some(message)
    }

    /// Records the state of a link. Returns whether the role is to know it; the mirror does then.
    pub(super) fn admit_link(&mut self, now: Timestamp, node: NodeId, link: LinkStatus) -> bool {
        let Some(guard) = &mut self.guard else { return true };
        if node.role == Role::Mirror {
            guard.handle_link(now, link);
            return false;
        }
        guard.take(|| UnitInput::Link { node, up: link == LinkStatus::Up });
        true
    }

    /// Takes the messages of the role, which leave once the mirror has what led to them. Returns whether there were any.
    pub(super) fn transmit_guarded(&mut self, now: Timestamp) -> bool {
        let Self { role, outbox, parcels, guard: Some(guard), trace, .. } = self else { return false };
        let picks = RefCell::new(Vec::new());
        let pick = |builder| {
            let has_room = outbox.has_room(builder);
            picks.borrow_mut().extend(has_room.then_some(builder));
            has_room
        };
        let mut some = false;
        while let Some(transmit) = role.poll_transmit_if(now, pick) {
            some = true;
            if let Some(trace) = trace {
                trace.send(transmit.to.index, &transmit.message.body);
            }
            guard.hold(now, outbox.prepare(parcels, transmit));
        }
        let picks = picks.into_inner();
        if !picks.is_empty() {
            guard.take(|| UnitInput::Answers(picks));
        }
        some
    }

    /// Ends a round of the unit: sends what its mirror is to have, and what the mirror has confirmed. Returns whether there was anything.
    pub(super) fn end_guarded(&mut self, now: Timestamp) -> bool {
        let Self { role, outbox, parcels, guard: Some(guard), inputs, .. } = self else { return false };
        guard.end_round(|| role.digest());
        guard.handle_timeout(now);
        let mut some = false;
        while let Some(transmit) = guard.poll_transmit(now) {
            some = true;
            outbox.send_from(now, parcels, transmit);
        }
        while let Some(prepared) = guard.release() {
            some = true;
            outbox.send_prepared(now, prepared);
        }
        while let Some(MirrorFragments { source, payloads }) = guard.poll_confirmed() {
            some = true;
            inputs[usize::from(source)].note_confirmed(payloads.len());
            payloads.into_iter().for_each(|span| parcels.release(span));
        }
        self.heed_guard();
        some
    }

    fn heed_guard(&mut self) {
        let Some(guard) = &mut self.guard else { return };
        let (node, mut superseded) = (self.role.identity().node, false);
        while let Some(event) = guard.poll_event() {
            match event {
                MirrorEvent::Protected => {
                    let mirror = NodeId::mirror(node.index);
                    log_as!(MIRROR_READY, node = node, peer = mirror; "{node} has a mirror, {mirror}");
                }
                MirrorEvent::Superseded => superseded = true,
                // The event manager says so.
                MirrorEvent::Unprotected => {}
                MirrorEvent::TookOver | MirrorEvent::StruckOff | MirrorEvent::Diverged => {}
            }
        }
        if superseded {
            self.end_superseded();
        }
    }

    /// Ends the part of this node in the run, because another node acts in its place.
    fn end_superseded(&mut self) {
        let node = self.node_here();
        if !std::mem::replace(&mut self.is_superseded, true) {
            log_as!(UNIT_RETIRED, node = node; "{node} has no more part in the run: another node acts in its place");
        }
    }

    /// Returns whether the mirror is still to have the end of the run.
    pub(super) fn owes_mirror(&mut self, now: Timestamp) -> bool {
        let Some(guard) = &self.guard else { return false };
        let since = *self.over_since.get_or_insert(now);
        !guard.is_settled() && now.since(since) < crate::outbox::LINGER
    }
}
