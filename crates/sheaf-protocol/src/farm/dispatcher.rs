//! The dispatcher: built events in, verdicts out, with any number of processors in between.

mod absence;

use super::{FarmCounts, Seat, Ticket, Word};
use crate::machine::{Deadline, Why};
use absence::Absence;
use sheaf_wire::{EventId, FilterFailure, Nanos, Timestamp};
use std::collections::VecDeque;

/// Configuration of a dispatcher. Memory: a slot of some 100 bytes for each of `events`, in addition to the events themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatcherConfig {
    /// Maximum number of events held: waiting, or at processors.
    pub events: u32,
    /// Maximum number of processors at a time.
    pub seats: u16,
    /// Maximum number of events at one processor, regardless of its requests.
    pub ahead: u32,
    /// Time limit for the next verdict of a processor that has events, and for the next request of one that has none. A
    /// processor that exceeds it is given up. `None`: no limit.
    pub time_limit: Option<Nanos>,
    /// Time limit for the first request of a processor, which loads its filter before. `None`: no limit.
    pub load_time_limit: Option<Nanos>,
    /// Number of retries of an event.
    pub retries: u16,
    /// Time for which events wait while there is no processor. `None`: without limit. While a processor loads its filter, they also wait
    /// for `load_time_limit`.
    pub patience: Option<Nanos>,
}

/// Reason why an event has no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quarantine {
    /// The filter failed in every attempt. Contains the last error.
    Failed(FilterFailure),
    /// The last processor that had the event ended in this way.
    Abandoned(Departure),
    /// There was no processor.
    Unattended,
}

impl std::fmt::Display for Quarantine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(why) => write!(f, "the filter failed: {why}"),
            Self::Abandoned(departure) => write!(f, "its processor {departure}"),
            Self::Unattended => f.write_str("there is no processor"),
        }
    }
}

/// Way in which a processor left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It left in an orderly way.
    Left,
    /// Its connection ended.
    Died,
    /// It sent nothing within the time limit although a message was due: it had events and sent no verdict,
    /// or had no events and sent no request.
    Silent,
    /// It sent an invalid message.
    Nonsense,
}

impl std::fmt::Display for Departure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Died => "died",
            Self::Silent => "was silent for too long",
            Self::Nonsense => "sent an invalid message",
        })
    }
}

/// An event for a processor. The event itself is [`Dispatcher::event`] of the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Give {
    /// Seat of the processor that gets it.
    pub seat: Seat,
    /// Ticket of this delivery, to be contained in the answer.
    pub ticket: Ticket,
}

/// Event for the driver of a dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatcherEvent<E, V> {
    /// An event has its verdict. Verdicts come in any order.
    Judged {
        /// Which.
        id: EventId,
        /// The event, as it was offered.
        event: E,
        /// Verdict of a processor.
        verdict: V,
    },
    /// An event has no verdict and will have none. It is to be stored unfiltered.
    Quarantined {
        /// Which.
        id: EventId,
        /// The event, as it was offered.
        event: E,
        /// Reason.
        why: Quarantine,
    },
    /// The dispatcher has ended a seat. The driver closes the connection. If it started the processor, it ends that and starts
    /// another.
    Ended {
        /// The seat.
        seat: Seat,
        /// [`Departure::Silent`] or [`Departure::Nonsense`].
        why: Departure,
        /// Oldest event of the processor, if any.
        event: Option<EventId>,
    },
}

/// An event between its offer and its verdict.
#[derive(Clone, Debug)]
struct Held<E> {
    id: EventId,
    event: E,
    /// Position in the order of the offers.
    number: u64,
    /// Number of processors that ended or failed with it.
    failures: u16,
    /// Processor that failed with it last.
    not_at: Option<Seat>,
    /// Seat of the processor that has it.
    at: Option<Seat>,
}

#[derive(Clone, Debug)]
struct HeldEvent<E> {
    /// Number of deliveries from this slot: the upper half of tickets.
    giving: u32,
    held: Option<Held<E>>,
}

/// A processor that has joined.
#[derive(Clone, Debug)]
struct Member {
    seat: Seat,
    /// Number of events requested and not yet delivered.
    credit: u32,
    /// Number of events that it has.
    has: u32,
    /// Whether it has requested events. Until then it loads its filter.
    has_loaded: bool,
    /// Whether it has an event on its second attempt and gets no other.
    alone: bool,
    /// Whether it is in `ready`.
    queued: bool,
    /// Time from which a message of the processor is due.
    since: Timestamp,
}

impl Member {
    /// Returns the message that is due from the processor, if any: with events a verdict; without events, and
    /// without a pending request, a request. A processor with a pending request may be silent until it is
    /// given an event.
    fn owes(&self) -> Option<Why> {
        if self.has > 0 {
            return Some(Why::Verdict(self.seat));
        }
        (self.credit == 0).then_some(Why::Question(self.seat))
    }

    /// Returns the time at which the message that is due from the processor is late, if any is due and has a limit.
    fn late_at(&self, config: &DispatcherConfig) -> Option<Deadline> {
        let limit = if self.has_loaded { config.time_limit } else { config.load_time_limit };
        let (why, limit) = self.owes().zip(limit)?;
        Some(Deadline { at: self.since + limit, why })
    }

    /// Returns whether it can take another event, with at most `ahead` in total.
    fn wants_more(&self, ahead: u32) -> bool {
        self.credit > 0 && self.has < ahead && !self.alone
    }
}

/// See the [module of the farm](super) and the contract in the [crate documentation](crate). `E` is the driver's handle of
/// an event, `V` a verdict; the dispatcher inspects neither.
#[derive(Clone, Debug)]
pub struct Dispatcher<E, V> {
    config: DispatcherConfig,
    slots: Vec<HeldEvent<E>>,
    free: Vec<u32>,
    offers: u64,
    /// Slots of events on their first attempt, in order.
    waiting: VecDeque<u32>,
    /// Slots of events on a later attempt.
    suspects: VecDeque<u32>,
    members: Vec<Option<Member>>,
    lives: Vec<u32>,
    present: usize,
    /// Places of processors that can take an event, served in turn.
    ready: VecDeque<u16>,
    /// Place that gets no events, so that it becomes empty for a suspect.
    reserved: Option<u16>,
    absence: Absence,
    events: VecDeque<DispatcherEvent<E, V>>,
    counts: FarmCounts,
}

impl<E, V> Dispatcher<E, V> {
    /// Creates a dispatcher without events and processors.
    #[must_use]
    pub fn new(config: DispatcherConfig, now: Timestamp) -> Self {
        assert!(config.events > 0 && config.seats > 0 && config.ahead > 0, "a farm has room for something");
        Self {
            config,
            slots: Vec::new(),
            free: Vec::new(),
            offers: 0,
            waiting: VecDeque::new(),
            suspects: VecDeque::new(),
            members: Vec::new(),
            lives: Vec::new(),
            present: 0,
            ready: VecDeque::new(),
            reserved: None,
            absence: Absence::new(now),
            events: VecDeque::new(),
            counts: FarmCounts::default(),
        }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &DispatcherConfig {
        &self.config
    }

    /// Returns the current counts.
    #[must_use]
    pub fn counts(&self) -> FarmCounts {
        self.counts
    }

    /// Returns the number of events held, and the number of these at processors.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        let held = self.slots.len() - self.free.len();
        (held, held - self.waiting.len() - self.suspects.len())
    }

    /// Returns the number of processors that have joined.
    #[must_use]
    pub fn present(&self) -> usize {
        self.present
    }

    /// Returns whether a processor has loaded its filter: it has requested events.
    #[must_use]
    pub fn has_loaded(&self, seat: Seat) -> bool {
        self.member(seat).is_some_and(|member| member.has_loaded)
    }

    /// Returns whether another event may be offered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.slots.len() - self.free.len() < self.config.events as usize
    }

    /// Returns the event that was delivered with this ticket, while it is held.
    #[must_use]
    pub fn event(&self, ticket: Ticket) -> Option<&E> {
        let slot = self.slots.get(ticket.slot())?;
        slot.held.as_ref().filter(|_| slot.giving == ticket.giving()).map(|held| &held.event)
    }

    /// Takes a built event.
    ///
    /// # Errors
    /// Returns the event if there is no room.
    pub fn offer(&mut self, id: EventId, event: E) -> Result<(), E> {
        if !self.has_room() {
            return Err(event);
        }
        let held = Held { id, event, number: self.offers, failures: 0, not_at: None, at: None };
        self.offers += 1;
        self.counts.offered += 1;
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize].held = Some(held);
            slot
        } else {
            self.slots.push(HeldEvent { giving: 0, held: Some(held) });
            u32::try_from(self.slots.len() - 1).expect("`events` is a u32")
        };
        self.waiting.push_back(slot);
        Ok(())
    }

    /// Adds a processor. It gets no events before it requests some. Returns `None` if there is no free seat.
    pub fn join(&mut self, now: Timestamp) -> Option<Seat> {
        if self.present >= usize::from(self.config.seats) {
            self.counts.refused += 1;
            return None;
        }
        let place = self.members.iter().position(Option::is_none).unwrap_or_else(|| {
            self.members.push(None);
            self.lives.push(0);
            self.members.len() - 1
        });
        let seat = Seat { place: place_u16(place), life: self.lives[place] };
        self.lives[place] = self.lives[place].wrapping_add(1);
        self.members[place] = Some(Member {
            seat,
            credit: 0,
            has: 0,
            has_loaded: false,
            alone: false,
            queued: false,
            since: now,
        });
        self.present += 1;
        self.absence.note_joined(now);
        self.counts.joined += 1;
        Some(seat)
    }

    /// Records the end of a processor's connection. Does nothing if its seat has ended already.
    pub fn handle_end(&mut self, now: Timestamp, seat: Seat, departure: Departure) {
        if self.member(seat).is_some() {
            self.vacate(now, seat, departure);
        }
    }

    /// Handles a message of a processor.
    pub fn handle_input(&mut self, now: Timestamp, seat: Seat, word: Word<V>) {
        if self.member(seat).is_none() {
            self.counts.stale_words += 1;
            return;
        }
        match word {
            Word::Ask(events) => self.handle_ask(seat, events),
            Word::Verdict(ticket, verdict) => match self.take_back(now, seat, ticket) {
                Some(held) => {
                    self.counts.judged += 1;
                    self.release(ticket);
                    let Held { id, event, .. } = held;
                    self.events.push_back(DispatcherEvent::Judged { id, event, verdict });
                }
                None => self.end(now, seat, Departure::Nonsense),
            },
            Word::Failed(ticket, why) => match self.take_back(now, seat, ticket) {
                Some(held) => {
                    self.counts.failed += 1;
                    self.fail(ticket, held, Some(seat), Quarantine::Failed(why));
                }
                None => self.end(now, seat, Departure::Nonsense),
            },
            Word::Leave => drop(self.vacate(now, seat, Departure::Left)),
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for place in 0..self.members.len() {
            let is_late = |it: &&Member| it.late_at(&self.config).is_some_and(|deadline| deadline.at <= now);
            let late = self.members[place].as_ref().filter(is_late);
            if let Some(seat) = late.map(|member| member.seat) {
                self.end(now, seat, Departure::Silent);
            }
        }
        if self.unattended_at().is_some_and(|at| at <= now) {
            while let Some(slot) = self.waiting.pop_front().or_else(|| self.suspects.pop_front()) {
                let held = self.slots[slot as usize].held.take().expect("what waits is held");
                self.free.push(slot);
                self.counts.unattended += 1;
                self.quarantine(held, Quarantine::Unattended);
            }
            // A processor that loads its filter may have been reserved for one of them.
            self.unreserve();
        }
    }

    /// Returns when to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let late = self.members.iter().flatten().filter_map(|member| member.late_at(&self.config));
        let late = late.min_by_key(|deadline| deadline.at);
        let some_wait = !(self.waiting.is_empty() && self.suspects.is_empty());
        let patience =
            self.unattended_at().filter(|_| some_wait).map(|at| Deadline { at, why: Why::NoProcessor });
        Deadline::earliest(late, patience)
    }

    /// Returns the next delivery of an event to a processor.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Give> {
        if let Some(give) = self.give_suspect(now) {
            return Some(give);
        }
        while !self.waiting.is_empty() {
            let place = self.ready.pop_front()?;
            let Some(member) = self.members[usize::from(place)].as_mut() else { continue };
            if !member.queued {
                continue;
            }
            member.queued = false;
            if !member.wants_more(self.config.ahead) || self.reserved == Some(place) {
                continue;
            }
            let slot = self.waiting.pop_front()?;
            let give = self.give(now, place, slot);
            self.make_ready(place);
            return Some(give);
        }
        None
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<DispatcherEvent<E, V>> {
        self.events.pop_front()
    }

    fn member(&self, seat: Seat) -> Option<&Member> {
        self.members.get(usize::from(seat.place))?.as_ref().filter(|member| member.seat == seat)
    }

    /// Adds a request for events. Events beyond `ahead` are delivered later, as verdicts arrive, without another request.
    fn handle_ask(&mut self, seat: Seat, events: u32) {
        if let Some(member) = &mut self.members[usize::from(seat.place)] {
            member.credit = member.credit.saturating_add(events);
            if !std::mem::replace(&mut member.has_loaded, true) {
                self.absence.note_loaded();
            }
        }
        self.make_ready(seat.place);
    }

    fn make_ready(&mut self, place: u16) {
        let ahead = self.config.ahead;
        let Some(member) = &mut self.members[usize::from(place)] else { return };
        if member.wants_more(ahead) && !member.queued && self.reserved != Some(place) {
            member.queued = true;
            self.ready.push_back(place);
        }
    }

    fn give(&mut self, now: Timestamp, place: u16, slot: u32) -> Give {
        let member = self.members[usize::from(place)].as_mut().expect("only members are given events");
        if member.has == 0 {
            member.since = now;
        }
        member.has += 1;
        member.credit -= 1;
        let seat = member.seat;
        let entry = &mut self.slots[slot as usize];
        entry.giving = entry.giving.wrapping_add(1);
        entry.held.as_mut().expect("what waits is held").at = Some(seat);
        self.counts.given += 1;
        Give { seat, ticket: Ticket::new(slot, entry.giving) }
    }

    /// Delivers the first suspect to a processor without events, or reserves one for it.
    fn give_suspect(&mut self, now: Timestamp) -> Option<Give> {
        let slot = *self.suspects.front()?;
        let not_at = self.slots[slot as usize].held.as_ref().and_then(|held| held.not_at);
        let others = self.members.iter().flatten().any(|member| Some(member.seat) != not_at);
        let may = |member: &&Member| !member.alone && (!others || Some(member.seat) != not_at);
        let empty = self.members.iter().flatten().filter(may).find(|it| it.has == 0 && it.credit > 0);
        if let Some(place) = empty.map(|member| member.seat.place) {
            self.suspects.pop_front();
            self.unreserve();
            let give = self.give(now, place, slot);
            if let Some(member) = &mut self.members[usize::from(place)] {
                member.alone = true;
            }
            return Some(give);
        }
        let reserved = self.reserved.and_then(|place| self.members[usize::from(place)].as_ref());
        if reserved.is_none_or(|member| !may(&member)) {
            self.unreserve();
            self.reserved = self.members.iter().flatten().find(may).map(|member| member.seat.place);
        }
        None
    }

    fn unreserve(&mut self) {
        if let Some(place) = self.reserved.take() {
            self.make_ready(place);
        }
    }

    /// Takes the event of a ticket out of its slot if this processor has it. The slot stays occupied.
    fn take_back(&mut self, now: Timestamp, seat: Seat, ticket: Ticket) -> Option<Held<E>> {
        let slot = self.slots.get_mut(ticket.slot())?;
        if slot.giving != ticket.giving() || slot.held.as_ref()?.at != Some(seat) {
            return None;
        }
        let held = slot.held.take();
        let member = self.members[usize::from(seat.place)].as_mut()?;
        member.has -= 1;
        member.since = now;
        member.alone = false;
        self.make_ready(seat.place);
        held
    }

    #[expect(clippy::cast_possible_truncation, reason = "slots are counted by a u32")]
    fn release(&mut self, ticket: Ticket) {
        self.free.push(ticket.slot() as u32);
    }

    /// Records a failed attempt of an event.
    #[expect(clippy::cast_possible_truncation, reason = "slots are counted by a u32")]
    fn fail(&mut self, ticket: Ticket, mut held: Held<E>, not_at: Option<Seat>, why: Quarantine) {
        held.failures = held.failures.saturating_add(1);
        if held.failures > self.config.retries {
            self.release(ticket);
            self.quarantine(held, why);
            return;
        }
        self.counts.retried += 1;
        held.at = None;
        held.not_at = not_at;
        let slot = ticket.slot();
        self.slots[slot].held = Some(held);
        self.suspects.push_back(slot as u32);
    }

    fn quarantine(&mut self, held: Held<E>, why: Quarantine) {
        self.counts.quarantined += 1;
        let Held { id, event, .. } = held;
        self.events.push_back(DispatcherEvent::Quarantined { id, event, why });
    }

    /// Ends a seat on the dispatcher's initiative.
    fn end(&mut self, now: Timestamp, seat: Seat, why: Departure) {
        let first = self.vacate(now, seat, why);
        self.events.push_back(DispatcherEvent::Ended { seat, why, event: first });
    }

    /// Frees a seat and requeues the events of its processor. Returns the oldest of these.
    fn vacate(&mut self, now: Timestamp, seat: Seat, departure: Departure) -> Option<EventId> {
        let place = usize::from(seat.place);
        let had_loaded = self.members[place].take().is_some_and(|member| member.has_loaded);
        self.present -= 1;
        self.absence.note_ended(now, had_loaded, self.present);
        if self.reserved == Some(seat.place) {
            self.reserved = None;
        }
        match departure {
            Departure::Left => self.counts.left += 1,
            Departure::Died => self.counts.died += 1,
            Departure::Silent => self.counts.silent += 1,
            Departure::Nonsense => self.counts.nonsense += 1,
        }
        let mut had: Vec<(u64, u32)> = Vec::new();
        for (slot, entry) in self.slots.iter().enumerate() {
            if let Some(held) = entry.held.as_ref().filter(|held| held.at == Some(seat)) {
                had.push((held.number, u32::try_from(slot).expect("slots are counted by a u32")));
            }
        }
        had.sort_unstable();
        let first = had.first().and_then(|(_, slot)| self.slots[*slot as usize].held.as_ref());
        let first = first.map(|held| held.id);
        if departure == Departure::Left {
            self.counts.returned += had.len() as u64;
            for (_, slot) in had.into_iter().rev() {
                if let Some(held) = &mut self.slots[slot as usize].held {
                    held.at = None;
                    let queue = if held.failures == 0 { &mut self.waiting } else { &mut self.suspects };
                    queue.push_front(slot);
                }
            }
            return first;
        }
        self.counts.abandoned += had.len() as u64;
        for (_, slot) in had {
            let entry = &mut self.slots[slot as usize];
            let ticket = Ticket::new(slot, entry.giving);
            if let Some(held) = entry.held.take() {
                self.fail(ticket, held, None, Quarantine::Abandoned(departure));
            }
        }
        first
    }

    /// Returns when the events that wait are no longer to wait for a processor, unless one is able to judge before.
    fn unattended_at(&self) -> Option<Timestamp> {
        self.absence.ends_at(self.config.patience?, self.config.load_time_limit)
    }
}

fn place_u16(place: usize) -> u16 {
    u16::try_from(place).expect("`seats` is a u16")
}

#[cfg(test)]
mod tests;
