use super::*;
use proptest::prelude::*;

const CONFIG: SliceConfig =
    SliceConfig { length: Picos(100), before: Picos(30), after: Picos(250), max_items: 1000, max_empty: 10 };

fn drain(slicer: &mut Slicer<usize>) -> Vec<Slice<usize>> {
    std::iter::from_fn(|| slicer.poll()).collect()
}

fn numbers(slices: &[Slice<usize>]) -> Vec<(u64, Vec<u64>)> {
    slices.iter().map(|slice| (slice.number, slice.items.iter().map(|(at, _)| at.0).collect())).collect()
}

#[test]
fn an_item_is_in_its_slice_and_in_overlapping_ones() {
    let mut slicer = Slicer::new(SliceConfig { after: Picos(20), ..CONFIG }).unwrap();
    slicer.push(Moment(110), 0);
    slicer.push(Moment(150), 1);
    slicer.push(Moment(190), 2);
    slicer.finish();
    let slices = numbers(&drain(&mut slicer));
    assert_eq!(slices, [(0, vec![110]), (1, vec![110, 150, 190]), (2, vec![190])]);
}

#[test]
fn a_slice_is_returned_once_no_item_can_follow_for_it() {
    let mut slicer = Slicer::new(SliceConfig { before: Picos(0), after: Picos(20), ..CONFIG }).unwrap();
    slicer.begin_with(1);
    slicer.push(Moment(150), 0);
    slicer.advance(Moment(219));
    assert!(slicer.poll().is_none());
    slicer.advance(Moment(220));
    assert_eq!(numbers(&drain(&mut slicer)), [(1, vec![150])]);
    slicer.advance(Moment(421));
    assert_eq!(numbers(&drain(&mut slicer)), [(2, vec![]), (3, vec![])], "nothing seen is an answer");
}

#[test]
fn a_long_silence_is_not_returned_slice_by_slice() {
    let mut slicer =
        Slicer::new(SliceConfig { before: Picos(0), after: Picos(0), max_empty: 2, ..CONFIG }).unwrap();
    slicer.push(Moment(50), 0);
    slicer.push(Moment(1_000_000_050), 1);
    slicer.finish();
    let given: Vec<_> = drain(&mut slicer).iter().map(|slice| slice.number).collect();
    assert_eq!(given, [0, 1, 2, 10_000_000]);
    let expected = SlicerStats { slices: 4, empty: 2, passed: 9_999_997, taken: 2, ..SlicerStats::default() };
    assert_eq!(slicer.stats(), expected);
}

#[test]
fn items_of_a_full_slice_are_dropped_and_counted() {
    let mut slicer =
        Slicer::new(SliceConfig { before: Picos(0), after: Picos(0), max_items: 2, ..CONFIG }).unwrap();
    (0..5).for_each(|number| slicer.push(Moment(number as u64), number));
    slicer.finish();
    assert_eq!(numbers(&drain(&mut slicer)), [(0, vec![0, 1])]);
    let expected =
        SlicerStats { slices: 1, taken: 2, left_out: 3, places_lacking: 3, ..SlicerStats::default() };
    assert_eq!(slicer.stats(), expected);
}

#[test]
fn an_item_that_is_in_another_slice_is_not_left_out() {
    let config = SliceConfig { before: Picos(0), after: Picos(20), max_items: 2, ..CONFIG };
    let mut slicer = Slicer::new(config).unwrap();
    for at in [50, 110, 115, 118, 119] {
        slicer.push(Moment(at), 0);
    }
    assert_eq!(slicer.waiting(), 3, "115 has a place in the second slice alone; 118 and 119 have none");
    slicer.finish();
    assert_eq!(numbers(&drain(&mut slicer)), [(0, vec![50, 110]), (1, vec![110, 115])]);
    let expected =
        SlicerStats { slices: 2, taken: 3, left_out: 2, places_lacking: 5, ..SlicerStats::default() };
    assert_eq!(slicer.stats(), expected);
    assert_eq!(slicer.waiting(), 0);
}

#[test]
fn a_late_item_is_in_the_slices_that_still_wait() {
    let mut slicer = Slicer::new(SliceConfig { before: Picos(0), after: Picos(20), ..CONFIG }).unwrap();
    for at in [50, 90, 130] {
        slicer.push(Moment(at), 0);
    }
    assert_eq!(numbers(&drain(&mut slicer)), [(0, vec![50, 90])]);
    for at in [60, 110, 120] {
        slicer.push(Moment(at), 0);
    }
    slicer.finish();
    assert_eq!(numbers(&drain(&mut slicer)), [(1, vec![110, 120, 130])], "in order");
    let expected = SlicerStats { slices: 2, taken: 5, late: 1, places_lacking: 2, ..SlicerStats::default() };
    assert_eq!(slicer.stats(), expected, "60 has no slice, and 110 lacks the first of its two");
}

#[test]
fn invalid_slices_are_refused() {
    let error = SliceConfig { length: Picos::ZERO, ..CONFIG }.check();
    assert_eq!(error, Err(SliceError::NoLength));
    assert!(matches!(SliceConfig { after: Picos(1600), ..CONFIG }.check(), Err(SliceError::Overlap { .. })));
}

proptest! {
    #[test]
    fn every_slice_has_exactly_the_items_in_it_and_its_overlaps(
        steps in prop::collection::vec((0..400_u64, any::<bool>()), 1..200),
        (before, after) in (0..300_u64, 0..300_u64),
    ) {
        let config = SliceConfig { before: Picos(before), after: Picos(after), max_empty: u64::MAX, ..CONFIG };
        let mut slicer = Slicer::new(config).unwrap();
        let (mut at, mut given, mut slices) = (10_000, Vec::new(), Vec::new());
        for (number, (step, is_item)) in steps.into_iter().enumerate() {
            at += step;
            if is_item {
                slicer.push(Moment(at), number);
                given.push(at);
            } else {
                slicer.advance(Moment(at));
            }
            slices.extend(drain(&mut slicer));
            let first_seen: u64 = slices.iter().map(|slice| slice.first_seen).sum();
            prop_assert_eq!(slicer.stats().taken, first_seen);
            prop_assert_eq!(first_seen + slicer.waiting(), given.len() as u64, "each item is in one place");
        }
        slicer.finish();
        slices.extend(drain(&mut slicer));
        for pair in slices.windows(2) {
            prop_assert_eq!(pair[1].number, pair[0].number + 1, "without a gap");
        }
        for (number, items) in numbers(&slices) {
            let (begin, end) = ((number * 100).saturating_sub(before), number * 100 + 100 + after);
            let expected: Vec<u64> = given.iter().copied().filter(|at| (begin..end).contains(at)).collect();
            prop_assert_eq!(items, expected);
        }
        let seen = |at: &&u64| !slices.iter().any(|slice| slice.number == *at / 100);
        prop_assert_eq!(given.iter().find(seen), None, "every item is in its own slice");
    }
}
