//! Words between a readout unit and the event manager: what it announces and how full it is, and what it is told to do.

use super::books::{Ending, Fragments};
use super::requests::Wanted;
use super::slots::Ended;
use super::{ReadoutEvent, ReadoutUnit};
use crate::event_range::EventIdRange;
use crate::ledger::Counter;
use crate::manager::DISPATCH_EVENTS;
use sheaf_shaping::SlotClock;
use sheaf_wire::message::{Body, Command, Destination, PARTS_NOT_ASKED, Release, Shape};
use sheaf_wire::{DropReason, EventId, Outcome, Payload, Timestamp};

impl<P: Payload> ReadoutUnit<P> {
    pub(super) fn fill_channel(&mut self, now: Timestamp) {
        let Self { channel, reports, inputs, slots, processing, .. } = self;
        if reports.is_status_due(now) && channel.awaits(|body| matches!(body, Body::ReadoutStatus(_))) {
            // An event manager that is slow would have to read them all before anything else.
            reports.skip_status(now);
            channel.acknowledge_now();
        }
        while channel.is_open()
            && let Some(body) = reports.next(now, || inputs.take_status(slots.len(), *processing))
        {
            channel.push(body);
        }
    }

    pub(super) fn handle_manager(&mut self, now: Timestamp, body: Body<P>) {
        match body {
            Body::Release(releases) => {
                for release in releases {
                    self.handle_release(release);
                }
            }
            Body::Command(Command::Start) => self.begin(now),
            Body::Command(Command::Join) => {
                self.joined_late = true;
                self.begin(now);
            }
            Body::Command(Command::Close) => self.close(),
            Body::Dispatch(destinations) => self.handle_dispatch(now, &destinations),
            Body::Shape(shape) => self.events.extend(self.shape_clock.note(now, shape)),
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

    fn handle_release(&mut self, release: Release) {
        let Release { first, count, outcome, reason, parts } = release;
        let events = EventIdRange::new(first, u64::from(count));
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
                    self.released.pass_by(EventIdRange::new(event, events));
                }
            }
            self.book(ending, alike);
        } else {
            // Of most of these events nothing was ever here.
            if is_built {
                self.released.pass_by(events);
            }
            for key in self.slots.keys_within(events) {
                self.end_event(key.event, ending);
            }
        }
        self.released.insert(events);
    }

    /// Sources send from now on. Builders may have asked already; their events' time begins here.
    fn begin(&mut self, now: Timestamp) {
        self.has_begun = true;
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
        self.reports.close();
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
            inputs.let_go(index, bytes);
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
    fn forget_asked(&mut self, events: EventIdRange, asked: &mut Fragments) -> u64 {
        let Self { slots, inputs, discarded, .. } = self;
        slots.end_asked(events, |index, payload| {
            let bytes = payload.len();
            inputs.let_go(index, bytes);
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

/// The event manager's clock, and when it last spoke on shaping by it.
#[derive(Debug, Default)]
pub(super) struct ShapeClock {
    slots: SlotClock,
    heard_at: Timestamp,
}

impl ShapeClock {
    /// Takes a word on shaping. Returns what the driver is to know, if the word is not older than one before.
    fn note(&mut self, now: Timestamp, shape: Shape) -> Option<ReadoutEvent> {
        self.slots.note(now, shape.clock);
        // What is repeated in the channel may be older than a tick that came outside it.
        if shape.clock < self.heard_at {
            return None;
        }
        self.heard_at = shape.clock;
        Some(ReadoutEvent::Shape { turning: shape.turning, epoch: self.slots.to_own(shape.epoch) })
    }
}
