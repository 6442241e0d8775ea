use super::*;
use crate::testing::event;
use proptest::prelude::*;
use sheaf_wire::{MissingSource, NumberMark};

proptest! {
    #[test]
    fn a_filter_sees_what_was_built_at_the_place_where_it_is(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        missing in 0_u32..4,
        id: u64, time: u64, trigger: u16, incomplete: bool,
        marks in prop::collection::vec((-3_i64..3, -3_i64..3), 8),
    ) {
        let mut built = event(id, &payloads);
        built.time = Timestamp(time);
        built.trigger_type = TriggerType(trigger);
        built.incomplete = incomplete;
        for (fragment, (moved, difference)) in built.fragments.iter_mut().zip(marks) {
            fragment.mark = NumberMark::renumbered(moved);
            if difference != 0 {
                fragment.mark = fragment.mark.disagreeing(difference);
            }
        }
        let absent = |source| MissingSource { source: SourceId(100 + source), reason: MissingReason::ALL[0] };
        built.missing = (0..missing).map(absent).collect();
        let mut scratch = Scratch::default();
        let borrowed = scratch.event(&built);
        let view = borrowed.view();
        prop_assert_eq!(view.id(), built.id);
        prop_assert_eq!(view.time(), built.time);
        prop_assert_eq!(view.trigger_type(), built.trigger_type);
        prop_assert_eq!(view.is_incomplete(), incomplete);
        prop_assert_eq!(view.fragments().len(), built.fragments.len());
        for (seen, fragment) in view.fragments().zip(&built.fragments) {
            prop_assert_eq!(seen.source(), fragment.source);
            prop_assert_eq!(seen.time(), fragment.time);
            prop_assert_eq!(seen.payload(), &fragment.payload[..]);
            let mark = fragment.mark;
            prop_assert_eq!((seen.disagrees(), seen.is_renumbered()), (mark.disagrees(), mark.is_renumbered()));
            prop_assert_eq!((seen.difference(), seen.moved_by()), (mark.difference(), mark.shift()));
            if !fragment.payload.is_empty() {
                prop_assert_eq!(seen.payload().as_ptr(), fragment.payload.as_ptr(), "nothing is copied");
            }
        }
        let seen: Vec<_> = view.missing().collect();
        let expected: Vec<_> = built.missing.iter().map(|it| (it.source, Some(it.reason))).collect();
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn the_memory_of_an_event_is_used_again_for_the_next() {
    let mut scratch = Scratch::default();
    let many = event(1, &vec![vec![1_u8; 8]; 16]);
    let first = scratch.event(&many).event.fragments;
    let few = event(2, &[vec![2_u8; 8]]);
    let borrowed = scratch.event(&few);
    assert_eq!(borrowed.event.fragments, first);
    assert_eq!(borrowed.view().fragments().len(), 1);
}
