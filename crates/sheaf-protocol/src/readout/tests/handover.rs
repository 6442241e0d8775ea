//! A run that hands over to another one in the same unit.

use super::*;
use proptest::prelude::*;

fn hand_over(unit: &mut ReadoutUnit<Size>, first: u64) -> Vec<Fragment<Size>> {
    command(unit, Command::HandOver { first: EventId(first) });
    assert_eq!(unit.poll_event(), Some(ReadoutEvent::Closed));
    assert!(unit.hands_over());
    unit.take_held()
}

#[test]
fn fragments_of_the_next_run_are_held_for_it_and_are_not_in_the_books_of_this_one() {
    let mut unit = unit(|_| {});
    for (event, source) in [(1, 0), (1, 1), (2, 0), (4, 1), (3, 0), (3, 1)] {
        give(&mut unit, event, source, 10);
    }
    ask(&mut unit, 0, 1, 1, 1);
    release(&mut unit, 1, 1, Outcome::Stored, None);
    let held = hand_over(&mut unit, 3);
    assert_eq!(held, [fragment(3, 0, 10), fragment(3, 1, 10), fragment(4, 1, 10)], "in the order of events");
    // The event before the boundary was not triggered: its fragment is of this run.
    let dropped = BTreeMap::from([(DropReason::NeverTriggered, 1)]);
    assert_eq!(ledger(&unit), Ledger { received: 3, stored: 2, dropped, ..Ledger::default() });
    assert_eq!(unit.held(), (ByteCount(0), 0));
    assert!(unit.handle_fragment(Timestamp(0), fragment(5, 0, 1)).is_err(), "it waits for the next run");
}

#[test]
fn a_run_that_is_not_followed_hands_nothing_over() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    command(&mut unit, Command::Close);
    assert!(!unit.hands_over() && unit.take_held().is_empty());
    // The command that comes first counts.
    command(&mut unit, Command::HandOver { first: EventId(1) });
    assert!(!unit.hands_over() && unit.take_held().is_empty());
}

#[test]
fn fragments_of_the_run_before_that_arrive_late_are_dropped_and_not_waited_for() {
    let mut unit = unit(|_| {});
    unit.begin_with(EventId(3));
    give(&mut unit, 2, 0, 10);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::Late, 1)]));
    give(&mut unit, 3, 0, 10);
    assert_eq!(unit.held(), (ByteCount(10), 1));
}

/// It answers behind its announcements, even if an earlier status is not acknowledged.
#[test]
fn a_unit_that_is_told_to_divide_the_runs_announces_its_events_before_it_says_so() {
    let mut unit = unit(|config| config.announce = Announce::All);
    while unit.poll_transmit(Timestamp(0)).is_some() {}
    give(&mut unit, 3, 0, 10);
    give(&mut unit, 4, 1, 10);
    command(&mut unit, Command::Divide);
    let mut said = Vec::new();
    while let Some(transmit) = unit.poll_transmit(Timestamp(0)) {
        match transmit.message.body {
            Body::Announce(events) => said.extend(events.iter().map(|announced| announced.event.0)),
            Body::ReadoutStatus(status) => said.push(if status.has_divided { 100 } else { 0 }),
            _ => {}
        }
    }
    assert_eq!(said, [3, 4, 100]);
    // The next run announces what this one hands over.
    let held = hand_over(&mut unit, 4);
    let mut next = started(unstarted(|config| config.announce = Announce::All));
    next.begin_with(EventId(4));
    held.into_iter()
        .for_each(|fragment| next.handle_fragment(Timestamp(0), fragment).expect("there is room"));
    let announced = std::iter::from_fn(|| next.poll_transmit(Timestamp(0))).find_map(|transmit| {
        if let Body::Announce(events) = transmit.message.body { Some(events) } else { None }
    });
    assert_eq!(announced.expect("the run is open")[0].event, EventId(4));
}

proptest! {
    /// Whatever a unit has had when it closes, each fragment is in the books of exactly one of the two runs.
    #[test]
    fn each_fragment_is_in_one_run(
        given in prop::collection::vec((1_u64..20, 0_u32..2, 1_usize..20), 0..60),
        stored in 0_u64..10,
        first in 1_u64..20,
    ) {
        let mut unit = unit(|config| config.buffer = ByteCount(1 << 20));
        for (event, source, bytes) in &given {
            give(&mut unit, *event, *source, *bytes);
        }
        let stored = stored.min(first - 1);
        if let Ok(count) = u32::try_from(stored)
            && count > 0
        {
            ask(&mut unit, 0, 1, count, 1);
            release(&mut unit, 1, count, Outcome::Stored, None);
        }
        let held = hand_over(&mut unit, first);
        prop_assert!(held.iter().all(|fragment| fragment.event >= EventId(first)));
        prop_assert!(held.is_sorted_by_key(|fragment| fragment.event));
        let before = ledger(&unit);
        let mut next = started(unstarted(|config| config.buffer = ByteCount(1 << 20)));
        next.begin_with(EventId(first));
        for fragment in held {
            next.handle_fragment(Timestamp(0), fragment).expect("there is room");
        }
        prop_assert_eq!(before.received + ledger(&next).received, given.len() as u64);
        prop_assert_eq!(ledger(&next).dropped_total(), 0);
        prop_assert_eq!(before.in_flight, 0);
    }
}
