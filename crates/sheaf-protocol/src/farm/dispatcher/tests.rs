//! Every row of the table in the module's documentation, and any order of all that can happen.

use super::*;
use crate::farm::Processor;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Farm = Dispatcher<&'static str, bool>;
type News = DispatcherEvent<&'static str, bool>;

const START: Timestamp = Timestamp(1_000);
const LIMIT: Nanos = Nanos::from_millis(10);
const LOAD_LIMIT: Nanos = Nanos::from_millis(200);
const PATIENCE: Nanos = Nanos::from_millis(50);

fn config() -> DispatcherConfig {
    DispatcherConfig {
        events: 8,
        seats: 4,
        ahead: 4,
        time_limit: Some(LIMIT),
        load_time_limit: Some(LOAD_LIMIT),
        retries: 1,
        patience: Some(PATIENCE),
    }
}

fn farm() -> Farm {
    Dispatcher::new(config(), START)
}

fn join(farm: &mut Farm, asks: u32) -> Seat {
    let seat = farm.join(START).expect("there is a seat");
    farm.handle_input(START, seat, Word::Ask(asks));
    seat
}

fn offer(farm: &mut Farm, events: std::ops::Range<u64>) {
    for id in events {
        farm.offer(EventId(id), "event").expect("there is room");
    }
}

fn gives(farm: &mut Farm, now: Timestamp) -> Vec<Give> {
    std::iter::from_fn(|| farm.poll_transmit(now)).collect()
}

fn news(farm: &mut Farm) -> Vec<News> {
    std::iter::from_fn(|| farm.poll_event()).collect()
}

fn judged(id: u64, verdict: bool) -> News {
    DispatcherEvent::Judged { id: EventId(id), event: "event", verdict }
}

fn quarantined(id: u64, why: Quarantine) -> News {
    DispatcherEvent::Quarantined { id: EventId(id), event: "event", why }
}

#[test]
fn processors_get_what_they_ask_for_in_turn_and_answer_in_any_order() {
    let mut farm = farm();
    let (first, second) = (join(&mut farm, 3), join(&mut farm, 1));
    offer(&mut farm, 0..6);
    let given = gives(&mut farm, START);
    let seats: Vec<_> = given.iter().map(|give| give.seat).collect();
    assert_eq!(seats, [first, second, first, first], "credit bounds what each has");
    assert_eq!(farm.held(), (6, 4));
    farm.handle_input(START, first, Word::Verdict(given[3].ticket, true));
    farm.handle_input(START, second, Word::Verdict(given[1].ticket, false));
    assert_eq!(news(&mut farm), [judged(3, true), judged(1, false)]);
    assert_eq!(gives(&mut farm, START), [], "a verdict is no question");
    farm.handle_input(START, second, Word::Ask(1));
    assert_eq!(gives(&mut farm, START).len(), 1);
}

#[test]
fn a_processor_that_asks_for_more_than_it_may_have_gets_it_bit_by_bit() {
    let mut farm = farm();
    let mut processor: Processor<&str, bool> = Processor::new(32);
    let Some(Word::Ask(asks)) = processor.poll_transmit() else { panic!("it asks first") };
    let seat = join(&mut farm, asks);
    offer(&mut farm, 0..8);
    let given = gives(&mut farm, START);
    assert_eq!(given.len(), 4, "as many as it may have at a time");
    farm.handle_input(START, seat, Word::Verdict(given[0].ticket, true));
    assert_eq!(gives(&mut farm, START).len(), 1, "and one more for each verdict");
}

#[test]
fn a_full_dispatcher_gives_the_event_back() {
    let mut farm = farm();
    offer(&mut farm, 0..8);
    assert_eq!(farm.offer(EventId(8), "too many"), Err("too many"));
    assert_eq!(farm.counts().offered, 8);
}

#[test]
fn the_events_of_a_dead_processor_are_tried_elsewhere_each_alone() {
    let mut farm = farm();
    let first = join(&mut farm, 3);
    offer(&mut farm, 0..3);
    assert_eq!(gives(&mut farm, START).len(), 3);
    let second = join(&mut farm, 4);
    farm.handle_end(START, first, Departure::Died);
    offer(&mut farm, 3..5);
    for id in 0..3 {
        let given = gives(&mut farm, START);
        assert_eq!(given.len(), 1, "event {id} is alone at its second processor");
        assert_eq!(given[0].seat, second);
        farm.handle_input(START, second, Word::Verdict(given[0].ticket, true));
        assert_eq!(news(&mut farm), [judged(id, true)]);
        farm.handle_input(START, second, Word::Ask(1));
    }
    assert_eq!(gives(&mut farm, START).len(), 2, "then the others come");
    let counts = farm.counts();
    assert_eq!((counts.died, counts.abandoned, counts.retried, counts.quarantined), (1, 3, 3, 0));
}

#[test]
fn an_event_that_kills_two_processors_is_quarantined_and_its_neighbours_are_not() {
    let mut farm = farm();
    let mut seat = join(&mut farm, 4);
    offer(&mut farm, 0..4);
    let mut quarantine = Vec::new();
    let mut stored = Vec::new();
    // The filter dies of event 2.
    for _ in 0..10 {
        let given = gives(&mut farm, START);
        let mut died = false;
        for give in given {
            let number = farm.slots[give.ticket.slot()].held.as_ref().map(|held| held.number);
            if number == Some(2) {
                farm.handle_end(START, seat, Departure::Died);
                seat = join(&mut farm, 4);
                died = true;
                break;
            }
            farm.handle_input(START, seat, Word::Verdict(give.ticket, true));
            farm.handle_input(START, seat, Word::Ask(1));
        }
        for event in news(&mut farm) {
            match event {
                DispatcherEvent::Judged { id, .. } => stored.push(id.0),
                DispatcherEvent::Quarantined { id, why, .. } => quarantine.push((id.0, why)),
                DispatcherEvent::Ended { .. } => panic!("nobody was ended"),
            }
        }
        if !died && stored.len() + quarantine.len() == 4 {
            break;
        }
    }
    stored.sort_unstable();
    assert_eq!(stored, [0, 1, 3]);
    assert_eq!(quarantine, [(2, Quarantine::Abandoned(Departure::Died))]);
}

#[test]
fn a_processor_that_gives_no_verdict_in_time_is_ended_and_its_words_count_no_more() {
    let mut farm = farm();
    let slow = join(&mut farm, 2);
    offer(&mut farm, 0..2);
    let given = gives(&mut farm, START);
    let deadline = farm.poll_timeout().expect("somebody is waited for");
    assert_eq!((deadline.at, deadline.why), (START + LIMIT, Why::Verdict(slow)));
    // Each verdict gives it time for the next.
    let later = START + Nanos::from_millis(9);
    farm.handle_input(later, slow, Word::Verdict(given[0].ticket, true));
    farm.handle_timeout(START + LIMIT);
    assert_eq!(news(&mut farm), [judged(0, true)]);
    farm.handle_timeout(later + LIMIT);
    let ended = DispatcherEvent::Ended { seat: slow, why: Departure::Silent, event: Some(EventId(1)) };
    assert_eq!(news(&mut farm), [ended]);
    farm.handle_input(later + LIMIT, slow, Word::Verdict(given[1].ticket, true));
    assert_eq!((news(&mut farm), farm.counts().stale_words), (vec![], 1));
    let fresh = join(&mut farm, 1);
    assert_ne!(fresh, slow, "a seat is not given twice");
    let again = gives(&mut farm, later + LIMIT);
    assert_eq!((again[0].seat, again[0].ticket == given[1].ticket), (fresh, false));
}

#[test]
fn a_processor_that_has_nothing_and_asks_for_nothing_is_ended() {
    let mut farm = farm();
    // It has answered all that it was given, and hangs before its next question.
    let hangs = join(&mut farm, 1);
    offer(&mut farm, 0..2);
    let given = gives(&mut farm, START);
    let later = START + Nanos::from_millis(3);
    farm.handle_input(later, hangs, Word::Verdict(given[0].ticket, true));
    assert_eq!(news(&mut farm), [judged(0, true)]);
    assert!(gives(&mut farm, later).is_empty(), "it has not asked");
    let deadline = farm.poll_timeout().expect("it is waited for");
    assert_eq!((deadline.at, deadline.why), (later + LIMIT, Why::Question(hangs)));
    farm.handle_timeout(START + LIMIT);
    assert_eq!(news(&mut farm), []);
    farm.handle_timeout(later + LIMIT);
    assert_eq!(
        news(&mut farm),
        [DispatcherEvent::Ended { seat: hangs, why: Departure::Silent, event: None }]
    );
    let fresh = join(&mut farm, 2);
    assert_eq!(gives(&mut farm, later + LIMIT)[0].seat, fresh);
    assert_eq!((farm.counts().silent, farm.counts().retried), (1, 0), "no event is to blame");
}

#[test]
fn a_processor_that_has_asked_may_wait_for_any_time() {
    let mut farm = farm();
    join(&mut farm, 1);
    assert_eq!(farm.poll_timeout(), None);
    farm.handle_timeout(START + PATIENCE);
    assert_eq!((news(&mut farm), farm.present()), (vec![], 1));
}

#[test]
fn an_event_that_a_filter_fails_with_is_tried_elsewhere_then_quarantined_with_its_words() {
    let mut farm = farm();
    let seats = [join(&mut farm, 1), join(&mut farm, 1)];
    offer(&mut farm, 0..1);
    let first = gives(&mut farm, START)[0];
    farm.handle_input(START, first.seat, Word::Failed(first.ticket, FilterFailure::new("no calibration")));
    farm.handle_input(START, first.seat, Word::Ask(1));
    let second = gives(&mut farm, START)[0];
    assert_ne!(first.seat, second.seat, "another processor may do better");
    assert!(seats.contains(&second.seat));
    farm.handle_input(START, second.seat, Word::Failed(second.ticket, FilterFailure::new("still none")));
    assert_eq!(news(&mut farm), [quarantined(0, Quarantine::Failed(FilterFailure::new("still none")))]);
    assert_eq!(farm.present(), 2, "who fails in good order stays");
}

#[test]
fn the_only_processor_tries_its_own_failure_again() {
    let mut farm = farm();
    let seat = join(&mut farm, 1);
    offer(&mut farm, 0..1);
    let first = gives(&mut farm, START)[0];
    farm.handle_input(START, seat, Word::Failed(first.ticket, FilterFailure::new("once")));
    farm.handle_input(START, seat, Word::Ask(1));
    assert_eq!(gives(&mut farm, START).len(), 1);
}

#[test]
fn a_verdict_on_what_a_processor_does_not_have_ends_it() {
    let mut farm = farm();
    let (liar, other) = (join(&mut farm, 1), join(&mut farm, 1));
    offer(&mut farm, 0..2);
    let given = gives(&mut farm, START);
    farm.handle_input(START, liar, Word::Verdict(given[1].ticket, false));
    let ended = DispatcherEvent::Ended { seat: liar, why: Departure::Nonsense, event: Some(EventId(0)) };
    assert_eq!(news(&mut farm), [ended]);
    farm.handle_input(START, other, Word::Verdict(given[1].ticket, true));
    assert_eq!(news(&mut farm), [judged(1, true)], "the event that it lied about is unharmed");
}

#[test]
fn who_leaves_in_good_order_hands_its_events_on_without_blame() {
    let mut farm = farm();
    let leaving = join(&mut farm, 3);
    offer(&mut farm, 0..4);
    assert_eq!(gives(&mut farm, START).len(), 3);
    farm.handle_input(START, leaving, Word::Leave);
    let counts = farm.counts();
    assert_eq!((counts.returned, counts.retried, counts.left), (3, 0, 1));
    let next = join(&mut farm, 4);
    let given = gives(&mut farm, START);
    assert_eq!(given.len(), 4, "nothing is alone");
    let first = farm.slots[given[0].ticket.slot()].held.as_ref().map(|held| held.id);
    assert_eq!((given[0].seat, first), (next, Some(EventId(0))), "and their order is kept");
}

#[test]
fn events_wait_for_a_processor_only_for_so_long() {
    let mut farm = farm();
    offer(&mut farm, 0..2);
    let deadline = farm.poll_timeout().expect("patience ends");
    assert_eq!((deadline.at, deadline.why), (START + PATIENCE, Why::NoProcessor));
    farm.handle_timeout(deadline.at);
    assert_eq!(
        news(&mut farm),
        [quarantined(0, Quarantine::Unattended), quarantined(1, Quarantine::Unattended)]
    );
    let mut patient = Farm::new(DispatcherConfig { patience: None, ..config() }, START);
    offer(&mut patient, 0..2);
    assert_eq!(patient.poll_timeout(), None);
    patient.handle_timeout(Timestamp::MAX);
    assert_eq!(news(&mut patient), []);
}

#[test]
fn a_processor_has_a_time_limit_of_its_own_to_load_its_filter() {
    let mut farm = farm();
    let loading = farm.join(START).expect("there is a seat");
    offer(&mut farm, 0..1);
    assert!(!farm.has_loaded(loading));
    let deadline = farm.poll_timeout().expect("it is waited for");
    assert_eq!((deadline.at, deadline.why), (START + LOAD_LIMIT, Why::Question(loading)));
    let later = START + LIMIT + PATIENCE;
    farm.handle_timeout(later);
    assert_eq!(news(&mut farm), [], "the event waits for it");
    farm.handle_input(later, loading, Word::Ask(1));
    assert!(farm.has_loaded(loading));
    assert_eq!(gives(&mut farm, later).len(), 1);
    let hangs = farm.join(later).expect("there is a seat");
    farm.handle_timeout(later + LIMIT);
    let _ = news(&mut farm);
    farm.handle_timeout(later + LOAD_LIMIT);
    assert_eq!(
        news(&mut farm),
        [DispatcherEvent::Ended { seat: hangs, why: Departure::Silent, event: None }]
    );
}

#[test]
fn processors_that_end_while_they_load_keep_events_waiting_only_for_so_long() {
    let mut farm = farm();
    offer(&mut farm, 0..1);
    let step = Nanos(PATIENCE.0 / 5);
    let mut now = START;
    for _ in 0..4 {
        now += step;
        let seat = farm.join(now).expect("there is a seat");
        now += step;
        farm.handle_timeout(now);
        farm.handle_end(now, seat, Departure::Died);
    }
    assert_eq!(news(&mut farm), [], "nobody was there for four fifths of the patience");
    farm.handle_timeout(now + step);
    assert_eq!(news(&mut farm), [quarantined(0, Quarantine::Unattended)]);
}

#[test]
fn events_do_not_wait_for_ever_while_others_load() {
    let mut farm = farm();
    offer(&mut farm, 0..1);
    let mut seat = farm.join(START).expect("there is a seat");
    let end = START + PATIENCE + LOAD_LIMIT;
    let mut now = START;
    while now + LIMIT < end {
        // The next one begins before the last one ends: there is always a processor.
        now += LIMIT;
        let next = farm.join(now).expect("there is a seat");
        farm.handle_end(now, seat, Departure::Died);
        farm.handle_timeout(now);
        assert_eq!(news(&mut farm), []);
        seat = next;
    }
    farm.handle_timeout(end);
    assert_eq!(news(&mut farm), [quarantined(0, Quarantine::Unattended)]);
    farm.handle_input(end, seat, Word::Ask(1));
    offer(&mut farm, 1..2);
    assert_eq!(gives(&mut farm, end).len(), 1, "it judges what follows");
}

/// A processor that loads its filter was reserved for an event that then was given up.
#[test]
fn a_processor_that_was_reserved_for_an_event_that_is_given_up_gets_others() {
    let mut farm = farm();
    let first = join(&mut farm, 1);
    offer(&mut farm, 0..1);
    assert_eq!(gives(&mut farm, START).len(), 1);
    farm.handle_end(START, first, Departure::Died);
    let loading = farm.join(START).expect("there is a seat");
    assert!(gives(&mut farm, START).is_empty(), "it has not asked");
    let end = START + PATIENCE + LOAD_LIMIT;
    farm.handle_timeout(end);
    let left = news(&mut farm);
    assert!(left.contains(&quarantined(0, Quarantine::Unattended)), "{left:?}");
    let next = if farm.has_loaded(loading) { loading } else { join(&mut farm, 1) };
    offer(&mut farm, 1..2);
    let given = gives(&mut farm, end);
    assert_eq!(given.iter().map(|give| give.seat).collect::<Vec<_>>(), [next]);
}

#[test]
fn seats_are_bounded() {
    let mut farm = farm();
    for _ in 0..4 {
        join(&mut farm, 1);
    }
    assert_eq!(farm.join(START), None);
    assert_eq!(farm.counts().refused, 1);
}

#[test]
fn a_processor_asks_for_half_of_what_it_may_have_at_a_time() {
    let mut processor: Processor<u32, bool> = Processor::new(4);
    assert_eq!(words(&mut processor), [Word::Ask(4)]);
    for number in 0..4 {
        assert!(processor.handle_input(Ticket(number), 7));
    }
    assert!(!processor.handle_input(Ticket(9), 7), "nobody asked for this one");
    processor.handle_answer(Ticket(0), Ok(true));
    assert_eq!(words(&mut processor), [Word::Verdict(Ticket(0), true)]);
    processor.handle_answer(Ticket(1), Err(FilterFailure::new("broken")));
    assert_eq!(words(&mut processor), [Word::Failed(Ticket(1), FilterFailure::new("broken")), Word::Ask(2)]);
}

#[test]
fn a_processor_that_is_stopped_answers_what_it_has_and_leaves() {
    let mut processor: Processor<u32, bool> = Processor::new(2);
    let _ = words(&mut processor);
    processor.handle_input(Ticket(1), 7);
    processor.handle_stop();
    assert_eq!(words(&mut processor), []);
    processor.handle_answer(Ticket(1), Ok(true));
    assert_eq!(words(&mut processor), [Word::Verdict(Ticket(1), true), Word::Leave]);
    assert!(processor.is_closed());
}

fn words(processor: &mut Processor<u32, bool>) -> Vec<Word<bool>> {
    std::iter::from_fn(|| processor.poll_transmit()).collect()
}

/// Something that happens to a farm.
#[derive(Clone, Debug)]
enum Happening {
    Offer,
    Join,
    Ask(usize, u32),
    Answer(usize, usize, bool),
    Fail(usize, usize),
    Leave(usize),
    Die(usize),
    Lie(usize, u64),
    Pass(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => Just(Happening::Offer),
        2 => Just(Happening::Join),
        6 => (0..6_usize, 1..9_u32).prop_map(|(who, events)| Happening::Ask(who, events)),
        8 => (0..6_usize, 0..4_usize, any::<bool>()).prop_map(|(who, which, says)| Happening::Answer(who, which, says)),
        1 => (0..6_usize, 0..4_usize).prop_map(|(who, which)| Happening::Fail(who, which)),
        1 => (0..6_usize).prop_map(Happening::Leave),
        1 => (0..6_usize).prop_map(Happening::Die),
        1 => (0..6_usize, any::<u64>()).prop_map(|(who, what)| Happening::Lie(who, what)),
        2 => (0..8_000_000_u64).prop_map(Happening::Pass),
    ]
}

/// A farm and what its processors have, living or dead: the dead go on talking.
struct Model {
    farm: Dispatcher<u64, bool>,
    now: Timestamp,
    seats: Vec<(Seat, VecDeque<Ticket>, bool)>,
    offered: u64,
    ended: BTreeMap<u64, bool>,
}

impl Model {
    fn happen(&mut self, happening: Happening) {
        let now = self.now;
        match happening {
            Happening::Offer => {
                let taken = self.farm.offer(EventId(self.offered), self.offered).is_ok();
                self.offered += u64::from(taken);
            }
            Happening::Join => {
                if let Some(seat) = self.farm.join(now) {
                    self.seats.push((seat, VecDeque::new(), true));
                }
            }
            Happening::Ask(who, events) => self.says(who, |_| Some(Word::Ask(events))),
            Happening::Answer(who, which, says) => {
                self.says(who, |has| Some(Word::Verdict(take(has, which)?, says)));
            }
            Happening::Fail(who, which) => {
                self.says(who, |has| Some(Word::Failed(take(has, which)?, FilterFailure::new("broken"))));
            }
            Happening::Leave(who) => self.says(who, |_| Some(Word::Leave)),
            Happening::Lie(who, what) => self.says(who, |_| Some(Word::Verdict(Ticket(what), true))),
            Happening::Die(who) => {
                let count = self.seats.len();
                if let Some((seat, ..)) = self.seats.get_mut(who % count.max(1)) {
                    self.farm.handle_end(now, *seat, Departure::Died);
                }
            }
            Happening::Pass(nanos) => {
                self.now = Timestamp(now.0 + nanos);
                self.farm.handle_timeout(self.now);
            }
        }
        self.settle();
    }

    fn says(&mut self, who: usize, word: impl FnOnce(&mut VecDeque<Ticket>) -> Option<Word<bool>>) {
        let count = self.seats.len();
        if let Some((seat, has, _)) = self.seats.get_mut(who % count.max(1))
            && let Some(word) = word(has)
        {
            self.farm.handle_input(self.now, *seat, word);
        }
    }

    fn settle(&mut self) {
        while let Some(event) = self.farm.poll_event() {
            let (event, quarantined) = match event {
                DispatcherEvent::Judged { event, .. } => (event, false),
                DispatcherEvent::Quarantined { event, .. } => (event, true),
                DispatcherEvent::Ended { seat, .. } => {
                    assert!(self.farm.member(seat).is_none());
                    continue;
                }
            };
            assert_eq!(self.ended.insert(event, quarantined), None, "event {event} left twice");
        }
        while let Some(give) = self.farm.poll_transmit(self.now) {
            assert!(self.farm.event(give.ticket).is_some());
            let (_, has, _) = self.seats.iter_mut().find(|(seat, ..)| *seat == give.seat).expect("a seat");
            has.push_back(give.ticket);
        }
        self.check();
    }

    fn check(&self) {
        let (counts, (held, out)) = (self.farm.counts(), self.farm.held());
        assert!(held <= 8);
        assert_eq!(counts.offered, counts.judged + counts.quarantined + held as u64);
        let ended = counts.judged + counts.failed + counts.abandoned + counts.returned;
        assert_eq!(counts.given, ended + out as u64);
        assert_eq!(
            self.ended.values().filter(|quarantined| **quarantined).count() as u64,
            counts.quarantined
        );
        let members: Vec<_> = self.farm.members.iter().flatten().collect();
        assert_eq!(members.iter().map(|member| member.has as usize).sum::<usize>(), out);
        for member in &members {
            assert!(member.has <= 4 && (!member.alone || member.has == 1));
        }
        let deadline = self.farm.poll_timeout();
        assert!(deadline.is_some() || out == 0 || members.is_empty());
    }

    /// From here on nothing fails: everything must leave.
    fn finish(mut self) {
        for (seat, ..) in &self.seats {
            self.farm.handle_end(self.now, *seat, Departure::Left);
        }
        let seat = self.farm.join(self.now).expect("all seats are free");
        let mut left: BTreeSet<Ticket> = BTreeSet::new();
        self.seats = vec![(seat, VecDeque::new(), true)];
        for _ in 0..64 {
            self.farm.handle_input(self.now, seat, Word::Ask(1));
            self.settle();
            let has: Vec<_> = self.seats[0].1.drain(..).collect();
            for ticket in has {
                assert!(left.insert(ticket), "{ticket} was given twice");
                self.farm.handle_input(self.now, seat, Word::Verdict(ticket, true));
            }
        }
        self.settle();
        assert_eq!(self.farm.held(), (0, 0));
        assert_eq!(self.ended.len() as u64, self.offered, "every event left once");
    }
}

fn take(has: &mut VecDeque<Ticket>, which: usize) -> Option<Ticket> {
    let which = which % has.len().max(1);
    has.remove(which)
}

proptest! {
    #[test]
    fn every_event_leaves_once_whatever_processors_do(happenings in prop::collection::vec(happening(), 0..200)) {
        let farm = Dispatcher::new(config(), START);
        let mut model =
            Model { farm, now: START, seats: Vec::new(), offered: 0, ended: BTreeMap::new() };
        for happening in happenings {
            model.happen(happening);
        }
        model.finish();
    }
}
