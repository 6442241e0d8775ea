//! Words between a readout unit and the event manager: what it announces and how full it is, and what it is told to do.

use super::books::{Ending, Fragments};
use super::requests::Wanted;
use super::slots::Ended;
use super::stretch::Stretch;
use super::{Announce, Input, ReadoutEvent, ReadoutUnit};
use crate::ledger::Counter;
use crate::manager::DISPATCH_EVENTS;
use sheaf_wire::message::{Body, Command, Destination, PARTS_NOT_ASKED, ReadoutStatus, Release, Shape};
use sheaf_wire::{DropReason, EventId, Outcome, Payload, Timestamp};

impl<P: Payload> ReadoutUnit<P> {
    pub(super) fn fill_channel(&mut self, now: Timestamp) {
        while !self.announcements.is_empty() && self.channel.is_open() {
            let count = self.announcements.len().min(self.config.request_events);
            self.channel.push(Body::Announce(self.announcements.drain(..count).collect()));
        }
        if !self.closed && self.status_at <= now && self.channel.is_open() && self.announcements.is_empty() {
            self.status_at = now + self.config.heartbeat;
            let status = self.status();
            self.refused_since_status = false;
            self.channel.push(Body::ReadoutStatus(status));
        }
    }

    fn status(&self) -> ReadoutStatus {
        let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let (held, events) = self.held();
        // Where one source makes the triggers, the end of the others says nothing: they may be held back for ever by
        // fragments that nothing will ask for.
        let makes_events = |input: &&Input| match self.config.announce {
            Announce::Never | Announce::All => true,
            Announce::Source(reference) => input.id == reference,
        };
        ReadoutStatus {
            sources: count(self.inputs.iter().filter(makes_events).count()),
            sources_ended: count(self.inputs.iter().filter(makes_events).filter(|input| input.ended).count()),
            buffered_events: count(events),
            buffered: held,
            busy: self.refused_since_status,
        }
    }

    pub(super) fn handle_manager(&mut self, now: Timestamp, body: Body<P>) {
        match body {
            Body::Release(releases) => {
                for release in releases {
                    self.handle_release(release);
                }
            }
            Body::Command(Command::Start) => self.events.push_back(ReadoutEvent::Started),
            Body::Command(Command::Join) => self.join(now),
            Body::Command(Command::Close) => self.close(),
            Body::Dispatch(destinations) => self.handle_dispatch(now, &destinations),
            Body::Shape(shape) => self.handle_shape(now, shape),
            _ => self.books.count(Counter::UnexpectedMessages),
        }
    }

    /// Events that go to a builder unasked: as if it had asked, and at most as many as the event manager says at a time.
    fn handle_dispatch(&mut self, now: Timestamp, destinations: &[Destination]) {
        let mut left = DISPATCH_EVENTS;
        for Destination { events, builder } in destinations {
            let Some(rest) = left.checked_sub(u64::from(events.count)) else {
                self.books.count(Counter::UnexpectedMessages);
                return;
            };
            left = rest;
            self.handle_range(now, *builder, events, u64::MAX, Wanted::All);
        }
    }

    fn handle_shape(&mut self, now: Timestamp, shape: Shape) {
        self.slot_clock.note(now, shape.clock);
        // What is repeated in the channel may be older than a tick that came outside it.
        if shape.clock >= self.shaped_at {
            self.shaped_at = shape.clock;
            let epoch = self.slot_clock.to_own(shape.epoch);
            self.events.push_back(ReadoutEvent::Shape { turning: shape.turning, epoch });
        }
    }

    fn handle_release(&mut self, release: Release) {
        let Release { first, count, outcome, reason, parts } = release;
        let events = Stretch::new(first, u64::from(count));
        let ending = Ending { outcome, reason, parts };
        let is_built = matches!(outcome, Outcome::Stored | Outcome::Rejected);
        if self.slots.is_short(count) {
            let mut alike = Alike::default();
            let mut rest = events;
            while let Some(event) = rest.first() {
                let regular = self.forget_asked(rest, &mut alike.asked);
                let (is_all_asked, events) = match regular {
                    0 => (self.forget(event, ending, &mut alike).is_some_and(|it| it.is_all_asked), 1),
                    count => (true, count),
                };
                rest.take(events);
                if is_built && (parts == PARTS_NOT_ASKED || !is_all_asked) {
                    self.passed_by.insert_range(event, u32::try_from(events).unwrap_or(u32::MAX));
                }
            }
            self.book(ending, alike);
        } else {
            // Of most of these events nothing was ever here.
            if is_built {
                self.passed_by.insert_range(first, count);
            }
            for key in self.slots.keys_where(|slot| events.has(slot.event)) {
                self.end_event(key.event, ending);
            }
        }
        self.released.insert_range(first, count);
        self.highest_released = self.highest_released.max(events.last());
    }

    /// The run was under way before this unit came. Builders may have asked already, and their events' time may be over
    /// without effect: they get it anew.
    fn join(&mut self, now: Timestamp) {
        self.joined_late = true;
        self.events.push_back(ReadoutEvent::Started);
        for key in self.slots.asked_keys() {
            self.wait_for_sources(now, key.event, self.slots.found(key).part());
        }
    }

    fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        for key in self.slots.all_keys() {
            self.end_event(key.event, Ending::dropped(DropReason::NeverTriggered));
        }
        self.channel.push(Body::Report(self.books().to_counts()));
        self.events.push_back(ReadoutEvent::Closed);
    }

    /// Books what is held of an event, and forgets it.
    pub(super) fn end_event(&mut self, event: EventId, ending: Ending) {
        let mut alike = Alike::default();
        self.forget(event, ending, &mut alike);
        self.book(ending, alike);
    }

    /// Forgets an event that has ended. What is held of it is added to what is alike, or else booked.
    #[inline]
    fn forget(&mut self, event: EventId, ending: Ending, alike: &mut Alike) -> Option<Ended> {
        let Self { slots, inputs, books, discarded, .. } = self;
        slots.end(event, |index, part, payload| {
            let bytes = payload.len();
            inputs[index].let_go(bytes);
            match part {
                Some(0) => alike.asked.add(bytes),
                None => alike.unasked.add(bytes),
                Some(_) => books.end(ending, part, Fragments::one(bytes)),
            }
            if P::IS_COUNTED_ELSEWHERE {
                discarded.push(payload);
            }
        })
    }

    /// The same for the first of these events, as long as they were asked for as a whole. Returns how many.
    #[inline]
    fn forget_asked(&mut self, events: Stretch, asked: &mut Fragments) -> u64 {
        let Self { slots, inputs, discarded, .. } = self;
        slots.end_asked(events, |index, payload| {
            let bytes = payload.len();
            inputs[index].let_go(bytes);
            asked.add(bytes);
            if P::IS_COUNTED_ELSEWHERE {
                discarded.push(payload);
            }
        })
    }

    fn book(&mut self, ending: Ending, alike: Alike) {
        self.books.end(ending, Some(0), alike.asked);
        self.books.end(ending, None, alike.unasked);
    }
}

/// Fragments of events that ended alike, which are booked together: those of events that were asked for as a whole, and those
/// that nobody asked for.
#[derive(Default)]
struct Alike {
    asked: Fragments,
    unasked: Fragments,
}
