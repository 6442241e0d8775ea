//! Room that a readout unit states, so that the event manager holds triggers back.

use super::*;
use proptest::prelude::*;
use sheaf_wire::message::{Exclusion, ReadoutStatus};

/// Acknowledges all messages, and returns the status that the unit sends then, if it sends one.
fn next_status(unit: &mut ReadoutUnit<Size>, now: Timestamp) -> Option<ReadoutStatus> {
    let header = Header {
        run: RunNumber(1),
        sender: NodeId::MANAGER,
        session: SessionId(1),
        sequence: 0,
        acknowledged: 1_000,
        acknowledged_session: SessionId(1),
        term: sheaf_wire::Term(0),
    };
    unit.handle_input(now, Message { header, body: Body::Acknowledge });
    sent_status(unit, now)
}

fn sent_status(unit: &mut ReadoutUnit<Size>, now: Timestamp) -> Option<ReadoutStatus> {
    let sent = std::iter::from_fn(|| unit.poll_transmit(now));
    let statuses = sent.filter_map(|transmit| match transmit.message.body {
        Body::ReadoutStatus(status) => Some(status),
        _ => None,
    });
    statuses.last()
}

fn room(status: Option<ReadoutStatus>) -> Option<(u64, u32)> {
    status.map(|status| (status.room_until.0, status.room_events))
}

#[test]
fn room_is_counted_in_events_of_the_largest_fragments_and_each_source_has_its_share() {
    let mut unit = unit(|config| config.room_from = Some(EventId(0)));
    // 50,000 bytes and 100 fragments for each source; 1,000 bytes count as 1,024.
    (0..10).for_each(|event| give(&mut unit, event, 0, 1_000));
    (0..20).for_each(|event| give(&mut unit, event, 1, 1));
    let until = 9 + (50_000 - 10_000) / 1_024;
    assert_eq!(room(sent_status(&mut unit, Timestamp(0))), Some((until, 50_000 / 1_024)));
    (10..60).for_each(|event| give(&mut unit, event, 1, 1));
    assert_eq!(room(next_status(&mut unit, Timestamp(0))), None, "the other source is the limit");
    let later = Timestamp(2_000_000_000);
    assert_eq!(room(next_status(&mut unit, later)), Some((until, 48)), "the regular one");
}

#[test]
fn a_status_is_early_when_room_has_grown_by_a_quarter_or_a_larger_fragment_shrinks_it() {
    let mut unit = unit(|config| (config.room_from, config.buffer) = (Some(EventId(0)), ByteCount(40_000)));
    let now = Timestamp(0);
    (0..80).for_each(|event| (0..2).for_each(|source| give(&mut unit, event, source, 1)));
    assert_eq!(room(sent_status(&mut unit, now)), Some((99, 100)));
    release(&mut unit, 0, 24, Outcome::Stored, None);
    assert_eq!(next_status(&mut unit, now), None);
    release(&mut unit, 24, 1, Outcome::Stored, None);
    assert_eq!(room(next_status(&mut unit, now)), Some((124, 100)));
    give(&mut unit, 80, 0, 1_000);
    // 55 fragments of one byte are held.
    let until = 80 + (20_000 - 1_055) / 1_024;
    assert_eq!(room(sent_status(&mut unit, now)), None, "one at a time is on its way");
    assert_eq!(room(next_status(&mut unit, now)), Some((until, 19)));
    give(&mut unit, 81, 0, 1_001);
    assert_eq!(next_status(&mut unit, now), None, "it counts as the same size");
}

#[test]
fn a_single_large_fragment_does_not_take_the_room_for_the_rest_of_the_run() {
    let mut unit = unit(|config| (config.room_from, config.size_window) = (Some(EventId(0)), 20));
    let now = Timestamp(0);
    let give_and_release = |unit: &mut ReadoutUnit<Size>, event: u64, size: usize| {
        (0..2).for_each(|source| give(unit, event, source, size));
        release(unit, event, 1, Outcome::Stored, None);
    };
    give_and_release(&mut unit, 0, 1_000);
    let small = 50_000 / 1_024;
    assert_eq!(room(sent_status(&mut unit, now)), Some((small, small as u32)));
    // It may recur: it counts for at least a window.
    (1..20).for_each(|event| give_and_release(&mut unit, event, 1));
    let remembered = room(next_status(&mut unit, now));
    assert_eq!(remembered.map(|(_, events)| events), Some(small as u32));
    (20..42).for_each(|event| give_and_release(&mut unit, event, 1));
    let last = std::iter::from_fn(|| next_status(&mut unit, now)).last();
    let forgotten = room(last).map(|(_, events)| events);
    assert_eq!(forgotten, Some(100), "the number of fragments is the limit again");
}

#[test]
fn optional_and_ended_sources_and_those_that_miss_released_events_do_not_limit_the_room() {
    let mut unit = unit(|config| {
        config.room_from = Some(EventId(0));
        config.sources[1].optional = true;
    });
    (0..100).for_each(|event| give(&mut unit, event, 1, 1));
    assert_eq!(room(sent_status(&mut unit, Timestamp(0))), Some((99, 100)));
    // Source 0 is silent, and its events end without it.
    release(&mut unit, 0, 100, Outcome::Stored, None);
    assert_eq!(room(next_status(&mut unit, Timestamp(0))), Some((199, 100)));
    unit.handle_source_end(Timestamp(0), SourceId(0));
    assert_eq!(room(next_status(&mut unit, Timestamp(0))), Some((u64::MAX, u32::MAX)));
}

#[test]
fn a_source_that_returns_from_an_exclusion_has_the_room_that_was_stated() {
    let mut unit = unit(|config| {
        config.room_from = Some(EventId(0));
        config.sources[0].optional = true;
    });
    let order = |unit: &mut ReadoutUnit<Size>, excluded| {
        from_manager(unit, Body::Exclude(Exclusion { source: SourceId(1), excluded, event: EventId(0) }));
    };
    order(&mut unit, true);
    assert_eq!(room(sent_status(&mut unit, Timestamp(0))), Some((99, 100)), "as if it delivered all");
    // Its events end without it.
    release(&mut unit, 0, 50, Outcome::Stored, None);
    assert_eq!(room(next_status(&mut unit, Timestamp(0))), Some((149, 100)));
    order(&mut unit, false);
    for event in 50..150 {
        give(&mut unit, event, 1, 1);
    }
    assert_eq!(room(next_status(&mut unit, Timestamp(0))), Some((149, 100)));
}

#[test]
fn a_unit_whose_triggers_need_no_room_sends_no_early_status() {
    let mut unit = unit(|_| {});
    (0..80).for_each(|event| (0..2).for_each(|source| give(&mut unit, event, source, 1)));
    assert!(sent_status(&mut unit, Timestamp(0)).is_some());
    release(&mut unit, 0, 80, Outcome::Stored, None);
    assert_eq!(next_status(&mut unit, Timestamp(0)), None);
}

/// Lets time pass until this number of merge timeouts.
fn let_pass(unit: &mut ReadoutUnit<Size>, timeouts: u64) -> Timestamp {
    let at = |timeout: u64| Timestamp(timeout * TIMEOUT.0);
    (1..=timeouts).for_each(|timeout| unit.handle_timeout(at(timeout)));
    at(timeouts)
}

/// Gives event 1, and then fragments of source 1 from `first` on until its share is full.
fn with_a_full_share(first: u64, adjust: impl FnOnce(&mut ReadoutConfig)) -> ReadoutUnit<Size> {
    let mut unit = unit(|config| {
        (config.buffer_events, config.orphan_timeout) = (3, Some(Nanos(5 * TIMEOUT.0)));
        adjust(config);
    });
    ask(&mut unit, 0, 1, 1, 1);
    give(&mut unit, 1, 0, 10);
    (first..first + 3).for_each(|event| give(&mut unit, event, 1, 10));
    assert!(unit.handle_fragment(Timestamp(0), fragment(first + 3, 1, 10)).is_err());
    unit
}

#[test]
fn a_source_reaches_the_events_behind_wrong_numbers_that_have_filled_its_share() {
    const FAR: u64 = 1 << 40;
    for waits in [true, false] {
        let mut unit = with_a_full_share(FAR, |config| config.wait_for_required = waits);
        let now = let_pass(&mut unit, 8);
        assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::UnknownEvent, 3)]));
        assert_eq!(unit.handle_fragment(now, fragment(FAR + 3, 1, 10)), Ok(()));
        assert_eq!(unit.handle_fragment(now, fragment(1, 1, 10)), Ok(()));
        let answers = answers(&mut unit, now);
        let given = if waits { vec![0, 1] } else { vec![0] };
        assert_eq!(sources(&answers[0].1), given, "without limit: {waits}");
    }
}

/// The event waits without limit, so its time is long over when the source is held back.
#[test]
fn wrong_numbers_that_fill_the_share_of_a_source_late_do_not_block_it_either() {
    const FAR: u64 = 1 << 40;
    let mut unit = unit(|config| {
        (config.buffer_events, config.orphan_timeout) = (1, Some(Nanos(5 * TIMEOUT.0)));
        config.wait_for_required = true;
    });
    ask(&mut unit, 0, 1, 1, 1);
    let late = let_pass(&mut unit, 3);
    assert_eq!(unit.handle_fragment(late, fragment(FAR, 1, 10)), Ok(()));
    assert!(unit.handle_fragment(late, fragment(FAR + 1, 1, 10)).is_err());
    let now = let_pass(&mut unit, 12);
    assert_eq!(unit.handle_fragment(now, fragment(FAR + 1, 1, 10)), Ok(()));
    assert_eq!(unit.handle_fragment(now, fragment(1, 1, 10)), Ok(()));
}

#[test]
fn fragments_of_events_to_come_are_kept_while_an_earlier_event_waits_for_one_that_was_lost() {
    for waits in [true, false] {
        let mut unit = with_a_full_share(2, |config| config.wait_for_required = waits);
        let now = let_pass(&mut unit, 50);
        assert!(ledger(&unit).dropped.is_empty(), "builders may be slow to ask for them");
        assert_eq!(answers(&mut unit, now).len(), usize::from(!waits));
    }
}

proptest! {
    /// A status holds, whatever was delivered and released before.
    #[test]
    fn stated_room_is_there_whatever_happens_after_the_status(
        share in 1..40_usize, sizes in prop::collection::vec(1..=1_000_usize, 1..20),
        before in prop::collection::vec((0..2_u32, any::<bool>()), 0..200),
        after in prop::collection::vec(any::<bool>(), 1..200),
    ) {
        let mut unit = unit(|config| {
            config.buffer = ByteCount(2_000 * share as u64);
            config.buffer_events = 3 * share;
        });
        let size = |event: u64| sizes[event as usize % sizes.len()];
        // All sizes occur before the status.
        let first = sizes.len() as u64;
        for event in 0..first {
            for source in 0..2 {
                give(&mut unit, event, source, size(event));
            }
            release(&mut unit, event, 1, Outcome::Stored, None);
        }
        let (mut next, mut released) = ([first; 2], first);
        for (source, releases) in before {
            let event = next[source as usize];
            if unit.handle_fragment(Timestamp(0), fragment(event, source, size(event))).is_ok() {
                next[source as usize] += 1;
            }
            if releases && released < next[0].min(next[1]) {
                release(&mut unit, released, 1, Outcome::Stored, None);
                released += 1;
            }
        }
        let status = sent_status(&mut unit, Timestamp(0)).expect("the first one");
        prop_assert!(status.room_until.0 + 1 >= released + u64::from(status.room_events.min(1)));
        for turn in after.iter().cycle() {
            let Some(source) = (0..2).find(|source| next[*source] <= status.room_until.0) else { break };
            let source = if *turn && next[1] <= status.room_until.0 { 1 } else { source };
            let event = next[source];
            let taken = unit.handle_fragment(Timestamp(0), fragment(event, source as u32, size(event)));
            prop_assert!(taken.is_ok(), "event {event} of {status:?}");
            next[source] += 1;
        }
    }
}
