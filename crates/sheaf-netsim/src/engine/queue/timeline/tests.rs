use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn events_come_out_by_time_and_none_is_lost(
        steps in prop::collection::vec(prop::option::weighted(0.6, prop_oneof![Just(0u64), 0..40u64, 0..100_000u64]), 0..400),
    ) {
        let mut timeline = Timeline::default();
        let mut model: Vec<(u64, usize)> = Vec::new();
        let mut now = 0;
        let pops = steps.len();
        for (number, step) in steps.into_iter().chain(std::iter::repeat_n(None, pops)).enumerate() {
            if let Some(span) = step {
                timeline.push(Picos(now + span), number);
                model.push((now + span, number));
                continue;
            }
            let first = model.iter().map(|&(at, _)| at).min();
            prop_assert_eq!(timeline.next_at(), first.map_or(Picos::MAX, Picos));
            let popped = timeline.pop();
            prop_assert_eq!(popped.is_some(), first.is_some());
            if let (Some(number), Some(first)) = (popped, first) {
                now = first;
                let before = model.len();
                model.retain(|&entry| entry != (now, number));
                prop_assert_eq!(model.len() + 1, before, "an event of this instant");
            }
        }
        prop_assert!(model.is_empty());
    }

    #[test]
    fn events_planned_in_order_keep_it_also_within_an_instant(spans in prop::collection::vec(0..3u64, 1..100)) {
        let mut timeline = Timeline::default();
        let mut at = 0;
        for (number, span) in spans.iter().enumerate() {
            at += span;
            timeline.push(Picos(at), number);
        }
        let popped: Vec<_> = std::iter::from_fn(|| timeline.pop()).collect();
        prop_assert_eq!(popped, (0..spans.len()).collect::<Vec<_>>());
    }
}
