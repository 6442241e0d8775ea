//! Nothing is lost however long a run is.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_event_is_in_the_interval_in_which_it_ended(
        steps in prop::collection::vec((0..4_u16, 0..20_000_000_000_u64, 0..9_u64), 1..200),
    ) {
        let mut evolution = Evolution::default();
        let begun = Timestamp(77);
        evolution.begin(begun);
        let (mut now, mut ends) = (begun, Vec::new());
        for (builder, step, count) in steps {
            now += Nanos(step);
            evolution.note(now, builder, count);
            ends.extend((0..count).map(|_| (builder, now.since(begun).0)));
        }
        let events = evolution.events();
        prop_assert!(events.iter().all(|counts| counts.len() == events[0].len() && counts.len() <= 240));
        for (builder, counts) in events.iter().enumerate() {
            for (place, count) in counts.iter().enumerate() {
                let from = place as u64 * evolution.interval().0;
                let within = |(at, end): &(u16, u64)| {
                    usize::from(*at) == builder && (from..from + evolution.interval().0).contains(end)
                };
                prop_assert_eq!(*count, ends.iter().filter(|end| within(end)).count() as u64);
            }
        }
    }
}

#[test]
fn before_the_run_has_begun_nothing_is_noted() {
    let mut evolution = Evolution::default();
    evolution.note(Timestamp(5), 1, 1);
    assert_eq!(evolution.events(), Vec::<Vec<u64>>::new());
}
