//! Units that go on although a builder unit's line or a source's share is full.

use super::*;
use crate::readout::Blockage;

/// Returns the answers that the unit makes while only some builder units have room.
fn answers_if(unit: &mut ReadoutUnit<Size>, has_room: impl Fn(u16) -> bool) -> Vec<(NodeId, EventId)> {
    let mut answers = Vec::new();
    while let Some(transmit) = unit.poll_transmit_if(Timestamp(0), &has_room) {
        if let Body::SuperFragments(answer) = transmit.message.body {
            answers.extend(answer.entries.iter().map(|entry| (transmit.to, entry.event)));
        }
    }
    answers
}

fn give_all(unit: &mut ReadoutUnit<Size>, event: u64) {
    (0..2).for_each(|source| give(unit, event, source, 1));
}

#[test]
fn an_event_that_waits_for_a_full_line_is_answered_once() {
    let mut unit = unit(|_| {});
    for event in 1..=2 {
        give_all(&mut unit, event);
        for _ in 0..10 {
            ask(&mut unit, 0, event, 1, 1);
            assert_eq!(answers_if(&mut unit, |_| false), []);
        }
    }
    release(&mut unit, 1, 1, Outcome::Stored, None);
    let all = answers_if(&mut unit, |_| true);
    assert_eq!(all, [(NodeId::builder(0), EventId(2))], "event 1 has ended, and event 2 is wanted once");
}

#[test]
fn a_full_line_holds_up_no_other_builder_unit() {
    let mut unit = unit(|_| {});
    (1..=4).for_each(|event| give_all(&mut unit, event));
    ask(&mut unit, 0, 1, 2, 1);
    ask(&mut unit, 1, 3, 2, 1);
    let sent = answers_if(&mut unit, |builder| builder == 1);
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [NodeId::builder(1)]);
    assert_eq!(answers_if(&mut unit, |_| true)[0].0, NodeId::builder(0));
}

/// Two units with such sources would otherwise wait for each other: each is full of fragments that the other one lacks.
#[test]
fn the_first_requested_event_has_room_beyond_all_bounds() {
    let mut unit = unit(|config| config.buffer_events = 1);
    ask(&mut unit, 0, 8, 5, 1);
    for event in [11, 12] {
        give(&mut unit, event, 1, 1);
    }
    let refused = |unit: &mut ReadoutUnit<Size>, event| {
        unit.handle_fragment(Timestamp(0), fragment(event, 1, 1)).is_err()
    };
    assert!(refused(&mut unit, 9) && refused(&mut unit, 10), "two shares are full");
    give(&mut unit, 8, 1, 1);
    assert!(refused(&mut unit, 9));
    release(&mut unit, 8, 1, Outcome::Stored, None);
    give(&mut unit, 9, 1, 1);
}

#[test]
fn data_that_wait_for_room_behind_a_lost_fragment_are_not_waited_for_without_limit() {
    let mut unit = unit(|config| config.buffer_events = 1);
    unit.wait_for_source(SourceId(1));
    give(&mut unit, 9, 0, 1);
    ask(&mut unit, 0, 9, 1, 1);
    give(&mut unit, 5, 1, 1);
    // The source has lost event 9, and its next fragment has no room: event 5 is not requested.
    assert!(unit.handle_fragment(Timestamp(0), fragment(12, 1, 1)).is_err());
    let limit = config().longest_merge;
    let mut now = Timestamp(0);
    while now + TIMEOUT < Timestamp(0) + limit {
        now += TIMEOUT;
        unit.handle_timeout(now);
        assert_eq!(answers(&mut unit, now), [], "the builder units may be slow");
    }
    now += Nanos(2 * TIMEOUT.0);
    unit.handle_timeout(now);
    assert_eq!(answers(&mut unit, now)[0].1.missing[0].source, SourceId(1));
}

#[test]
fn a_blockage_names_the_source_without_room_and_what_is_awaited() {
    let mut unit = unit(|config| config.buffer_events = 2);
    assert_eq!(unit.blockage(), None);
    for event in [1, 2] {
        give(&mut unit, event, 0, 10);
    }
    unit.handle_fragment(Timestamp(0), fragment(3, 0, 10)).expect_err("two at most");
    let of_source = Blockage {
        source: SourceId(0),
        event: EventId(3),
        held_fragments: 2,
        held: ByteCount(20),
        awaited: None,
    };
    assert_eq!(unit.blockage(), Some(of_source.clone()));
    ask(&mut unit, 0, 1, 2, 1);
    let awaited = Some((EventId(1), vec![SourceId(1)]));
    assert_eq!(unit.blockage(), Some(Blockage { awaited, ..of_source }));
    give(&mut unit, 1, 1, 10);
    release(&mut unit, 1, 1, Outcome::Stored, None);
    give(&mut unit, 3, 0, 10);
    assert_eq!(unit.blockage(), None);
}
