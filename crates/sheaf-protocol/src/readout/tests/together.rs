//! Handling consecutive events together has the same outcome as handling them one by one.

use super::*;
use proptest::prelude::*;

/// Something that happens to a unit.
#[derive(Clone, Debug)]
enum Step {
    /// Fragments of a source: of how many events from which one on, how large, and which one of them is left out.
    Give { source: u32, first: u64, count: u64, bytes: usize, silent: u64 },
    /// A builder asks for events, and in which attempt.
    Ask { builder: u16, first: u64, count: u32, attempt: u16 },
    /// Events are released.
    Release { first: u64, count: u32, is_stored: bool },
    /// Time goes on.
    Wait { millis: u64 },
    /// A source ends.
    End { source: u32 },
    /// Answers that are ready are sent.
    Send,
}

fn step() -> impl Strategy<Value = Step> {
    // Of ids further apart than the window of slots is long at first, some want the same place.
    let first = prop_oneof![4 => 0..24_u64, 1 => 128..150_u64];
    let give = (0..3_u32, first.clone(), 1..9_u64, 0..60_usize, 0..40_u64);
    let give = give.prop_map(|(source, first, count, bytes, silent)| {
        // One of them is larger than a fragment may be.
        let bytes = if bytes == 59 { 1_001 } else { bytes };
        Step::Give { source, first, count, bytes, silent }
    });
    let ask = (0..2_u16, first.clone(), 1..9_u32, 1..3_u16);
    let ask = ask.prop_map(|(builder, first, count, attempt)| Step::Ask { builder, first, count, attempt });
    let release = (first, 1..9_u32, any::<bool>());
    let release = release.prop_map(|(first, count, is_stored)| Step::Release { first, count, is_stored });
    prop_oneof![
        20 => give,
        10 => ask,
        6 => release,
        2 => (0..150_u64).prop_map(|millis| Step::Wait { millis }),
        1 => (0..2_u32).prop_map(|source| Step::End { source }),
        10 => Just(Step::Send),
    ]
}

/// Does what the step says, with events together or one by one. What the unit has to say then, and what it refused.
fn take(
    unit: &mut ReadoutUnit<Size>,
    now: &mut Timestamp,
    step: &Step,
    together: bool,
) -> (Vec<(NodeId, SuperFragments<Size>)>, usize) {
    let pieces = |first: u64, count: u32| -> Vec<(u64, u32)> {
        if together {
            vec![(first, count)]
        } else {
            (first..).take(count as usize).map(|id| (id, 1)).collect()
        }
    };
    let mut taken = 0;
    match *step {
        Step::Give { source, first, count, bytes, silent } => {
            let events = (first..first + count).filter(|event| event % 9 != silent);
            let fragments: Vec<_> = events.map(|event| fragment(event, source, bytes)).collect();
            taken = if together {
                unit.handle_fragments(*now, &fragments)
            } else {
                let mut each = fragments.iter();
                each.position(|it| unit.handle_fragment(*now, it.clone()).is_err()).unwrap_or(fragments.len())
            };
        }
        Step::Ask { builder, first, count, attempt } => {
            let range = |(first, count)| EventRange { first: EventId(first), count, attempt };
            let ranges = pieces(first, count).into_iter().map(range).collect();
            let builder =
                Identity { node: NodeId::builder(builder), run: RunNumber(1), session: SessionId(1) };
            unit.handle_input(*now, builder.plain(Body::FragmentRequest(ranges)));
        }
        Step::Release { first, count, is_stored } => {
            let outcome = if is_stored { Outcome::Stored } else { Outcome::Dropped };
            let reason = (!is_stored).then_some(DropReason::EventDropped);
            for (first, count) in pieces(first, count) {
                release(unit, first, count, outcome, reason);
            }
        }
        Step::Wait { millis } => *now = Timestamp(now.0 + millis * 1_000_000),
        Step::End { source } => unit.handle_source_end(*now, SourceId(source)),
        Step::Send => return (answers(unit, *now), 0),
    }
    unit.handle_timeout(*now);
    (Vec::new(), taken)
}

proptest! {
    #[test]
    fn events_fare_alike_together_and_one_by_one(
        steps in prop::collection::vec(step(), 0..80), announce in any::<bool>(), orphans in any::<bool>(),
        message_events in 1..9_usize,
    ) {
        let make = || unit(|config| {
            (config.buffer_events, config.buffer, config.message_events) = (12, ByteCount(600), message_events);
            config.announce = if announce { Announce::All } else { Announce::Never };
            config.orphan_timeout = orphans.then_some(TIMEOUT);
        });
        let (mut together, mut single) = (make(), make());
        let (mut now, mut other_now) = (Timestamp(0), Timestamp(0));
        for step in steps.iter().chain([&Step::Send]) {
            let said = take(&mut together, &mut now, step, true);
            prop_assert_eq!(said, take(&mut single, &mut other_now, step, false));
            prop_assert_eq!(together.held(), single.held());
            prop_assert_eq!(together.books(), single.books());
            prop_assert_eq!(&together.reports, &single.reports);
            prop_assert_eq!(together.poll_timeout(), single.poll_timeout());
            prop_assert!(together.books().fragments.is_balanced());
        }
    }
}

/// Found by the property above: the second source has given some of the events that are asked for, and is followed from the first on that
/// it has not.
#[test]
fn a_source_that_has_given_some_of_the_requested_events_is_followed_from_the_next_on() {
    let steps = [
        Step::Give { source: 1, first: 4, count: 4, bytes: 0, silent: 9 },
        Step::Ask { builder: 0, first: 1, count: 8, attempt: 1 },
        Step::Ask { builder: 0, first: 13, count: 1, attempt: 1 },
        Step::Wait { millis: 33 },
        Step::Give { source: 1, first: 8, count: 1, bytes: 0, silent: 9 },
        Step::Wait { millis: 100 },
        Step::Send,
    ];
    let said = [true, false].map(|together| {
        let (mut unit, mut now) = (unit(|_| {}), Timestamp(0));
        steps.each_ref().map(|step| take(&mut unit, &mut now, step, together))
    });
    assert_eq!(said[0], said[1]);
}
