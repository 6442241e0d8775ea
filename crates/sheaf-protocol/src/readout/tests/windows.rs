//! Requests for windows of time, of a unit whose source 1 gives its hits on request.

use super::*;
use crate::readout::WindowOrder;
use sheaf_wire::HitInterval;
use sheaf_wire::message::{EventWindow, WindowRequest};

fn windowed(change: impl FnOnce(&mut ReadoutConfig)) -> ReadoutUnit<Size> {
    let mut unit = unit(change);
    unit.answer_on_request(SourceId(1));
    unit
}

fn window(event: u64) -> HitInterval {
    HitInterval { from_ps: event * 100, until_ps: event * 100 + 10 }
}

fn ask(unit: &mut ReadoutUnit<Size>, builder: u16, events: &[(u64, u16)]) {
    let builder = Identity { node: NodeId::builder(builder), run: RunNumber(1), session: SessionId(1) };
    let event = |(event, attempt): &(u64, u16)| EventWindow {
        event: EventId(*event),
        attempt: *attempt,
        window: window(*event),
    };
    let events = events.iter().map(event).collect();
    let request = WindowRequest { part: 0, sources: Vec::new(), events };
    unit.handle_input(Timestamp(0), builder.plain(Body::WindowRequest(request)));
}

fn orders(unit: &mut ReadoutUnit<Size>) -> Vec<WindowOrder> {
    std::iter::from_fn(|| unit.poll_window()).collect()
}

fn give_order(event: u64) -> WindowOrder {
    WindowOrder::Give { event: EventId(event), sources: vec![SourceId(1)], windows: vec![window(event)] }
}

#[test]
fn a_source_is_asked_once_for_each_event_however_often_the_request_is_repeated() {
    let mut unit = windowed(|_| {});
    ask(&mut unit, 0, &[(7, 1), (9, 1)]);
    assert_eq!(orders(&mut unit), [give_order(7), give_order(9)]);
    // Repeated, and of another builder that has the event now.
    ask(&mut unit, 0, &[(7, 1)]);
    ask(&mut unit, 1, &[(7, 2)]);
    // An older attempt.
    ask(&mut unit, 0, &[(7, 1)]);
    assert_eq!(orders(&mut unit), []);
    // Windows may be complete in any order.
    for event in [9, 7] {
        give(&mut unit, event, 0, 10);
        give(&mut unit, event, 1, 20);
    }
    let answered: Vec<_> = answers(&mut unit, Timestamp(0))
        .iter()
        .map(|(builder, parts)| (builder.index, parts.entries[0].event.0, sources(parts)))
        .collect();
    assert_eq!(answered, [(0, 9, vec![0, 1]), (1, 7, vec![0, 1])]);
    assert_eq!(unit.books().counters.get(&Counter::OutOfOrder), Some(&1), "that of the other source");
    // Released events are not asked for.
    release(&mut unit, 7, 1, Outcome::Stored, None);
    ask(&mut unit, 1, &[(7, 2)]);
    assert_eq!(orders(&mut unit), []);
}

#[test]
fn a_source_that_gives_on_request_is_awaited_however_long_it_takes() {
    let mut unit = windowed(|_| {});
    from_manager(&mut unit, Body::Command(Command::Start));
    ask(&mut unit, 0, &[(1, 1), (2, 1)]);
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 2, 0, 10);
    // It has delivered a later event, and is neither behind nor silent.
    give(&mut unit, 2, 1, 10);
    for hour in 1..100 {
        unit.handle_timeout(Timestamp(hour * 3_600_000_000_000));
    }
    let answered = answers(&mut unit, Timestamp(0));
    assert_eq!(answered.len(), 1, "event 2: {answered:?}");
    unit.handle_missing(SourceId(1), EventId(1), MissingReason::WindowExpired);
    let answered = answers(&mut unit, Timestamp(0));
    assert_eq!(answered[0].1.missing[0].reason, MissingReason::WindowExpired);
}

#[test]
fn an_event_that_ends_before_is_cancelled_and_what_comes_then_is_not_a_loss() {
    let mut unit = windowed(|_| {});
    ask(&mut unit, 0, &[(1, 1), (2, 1), (3, 1)]);
    give(&mut unit, 1, 1, 10);
    assert_eq!(orders(&mut unit).len(), 3);
    release(&mut unit, 1, 2, Outcome::Dropped, Some(DropReason::Stopped));
    assert_eq!(orders(&mut unit), [WindowOrder::Cancel(EventId(2))], "event 1 has its fragment");
    give(&mut unit, 2, 1, 10);
    let dropped = ledger(&unit).dropped;
    assert_eq!(dropped.get(&DropReason::NotRequested), Some(&1), "{dropped:?}");
    assert_eq!(dropped.get(&DropReason::Late), None, "{dropped:?}");
}

#[test]
fn the_end_of_a_source_settles_its_windows() {
    let mut unit = windowed(|_| {});
    ask(&mut unit, 0, &[(1, 1)]);
    give(&mut unit, 1, 0, 10);
    unit.handle_source_end(Timestamp(0), SourceId(1));
    let answered = answers(&mut unit, Timestamp(0));
    assert_eq!(answered[0].1.missing[0].reason, MissingReason::SourceEnded);
}

/// Two units whose sources give in different orders would otherwise fill their buffers with different events, none of which gets complete.
#[test]
fn hits_that_were_requested_have_room_in_any_order() {
    let mut unit = windowed(|config| config.buffer_events = 2);
    let events: Vec<u64> = (1..=20).rev().collect();
    let wanted: Vec<(u64, u16)> = events.iter().map(|event| (*event, 1)).collect();
    ask(&mut unit, 0, &wanted);
    for event in events {
        give(&mut unit, event, 1, 10);
    }
    assert_eq!(unit.held(), (ByteCount(200), 20));
}
