use super::*;
use proptest::prelude::*;
use sheaf_source::described::{ByteOrder, Width};
use sheaf_wire::{EventId, NumberMark, Timestamp, TriggerType};

fn field(bits: u32) -> ValuePlace {
    ValuePlace::Payload(Field::new(2, Width::of_bits(bits).expect("a width"), ByteOrder::Little))
}

fn event(fragments: Vec<Fragment<Bytes>>) -> Event<Bytes> {
    Event {
        id: EventId(1_000),
        time: Timestamp(0),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments,
        missing: Vec::new(),
    }
}

/// A fragment whose payload has a number after two other bytes.
fn fragment(source: u32, number: u64) -> Fragment<Bytes> {
    let payload = [&[9; 2][..], &number.to_le_bytes()].concat();
    Fragment {
        event: EventId(1_000),
        source: SourceId(source),
        time: Timestamp(number),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: payload.into(),
    }
}

fn check_of(place: ValuePlace, modulus: u64, tolerance: u64, reference: Option<u32>) -> NumberCheck {
    let values = (0..4).map(|source| SourceValue { source: SourceId(source), place, offset: 0 }).collect();
    let quantity = Quantity { modulus, tolerance };
    NumberCheck::new(vec![CheckedQuantity { quantity, reference: reference.map(SourceId), values }])
}

/// Sources that disagree, and by how much.
fn marked(check: &mut NumberCheck, values: &[(u32, u64)]) -> Vec<(u32, i64)> {
    let mut event = event(values.iter().map(|(source, value)| fragment(*source, *value)).collect());
    let some = check.check(&mut event);
    let difference = |fragment: &Fragment<Bytes>| Some((fragment.source.0, fragment.mark.difference()?));
    let marked: Vec<_> = event.fragments.iter().filter_map(difference).collect();
    assert_eq!(some, !marked.is_empty());
    let listed = check.disagreements().1.iter().map(|found| found.source.0);
    assert!(listed.eq(marked.iter().map(|(source, _)| *source)));
    marked
}

#[test]
fn fragments_that_disagree_with_most_are_marked_with_the_difference() {
    let mut check = check_of(field(32), 1 << 32, 0, None);
    assert_eq!(marked(&mut check, &[(0, 7), (1, 7), (2, 7)]), []);
    assert_eq!(marked(&mut check, &[(0, 8), (1, 7), (2, 7), (3, 5)]), [(0, 1), (3, -2)]);
    assert_eq!(marked(&mut check, &[(0, 0), (1, u64::from(u32::MAX)), (2, 0)]), [(1, -1)]);
    assert_eq!(check.disagreements().0, 3);
}

#[test]
fn of_two_sources_the_first_is_right_unless_another_is_the_reference() {
    assert_eq!(marked(&mut check_of(field(32), 1 << 32, 0, None), &[(1, 7), (3, 9)]), [(3, 2)]);
    let mut check = check_of(field(32), 1 << 32, 0, Some(3));
    assert_eq!(marked(&mut check, &[(1, 7), (2, 7), (3, 9)]), [(1, -2), (2, -2)]);
    assert_eq!(marked(&mut check, &[(0, 9), (1, 7), (2, 7)]), [(0, 2)], "the reference is missing");
}

#[test]
fn times_agree_within_their_tolerance_of_the_right_one() {
    let mut check = check_of(ValuePlace::Time, 0, 10, None);
    assert_eq!(marked(&mut check, &[(0, 100), (1, 110), (2, 90)]), []);
    assert_eq!(marked(&mut check, &[(0, 100), (1, 110), (2, 120)]), [], "110 agrees with both");
    assert_eq!(marked(&mut check, &[(0, 100), (1, 105), (2, 117)]), [(2, 17)]);
    let mut check = check_of(ValuePlace::Time, 0, 10, Some(2));
    assert_eq!(marked(&mut check, &[(0, 100), (1, 110), (2, 90)]), [(1, 20)]);
}

#[test]
fn each_source_may_have_its_value_elsewhere_and_with_an_offset() {
    let value = |source, place, offset| SourceValue { source: SourceId(source), place, offset };
    let values = vec![value(1, field(32), 0), value(2, field(8), -250), value(5, field(16), 3)];
    let quantity = Quantity { modulus: 200, tolerance: 0 };
    let mut check = NumberCheck::new(vec![CheckedQuantity { quantity, reference: None, values }]);
    // Source 3 is not checked; 2 counts 250 less, and 5 three more.
    assert_eq!(marked(&mut check, &[(1, 1_377), (2, 127), (3, 1), (5, 180)]), []);
    assert_eq!(marked(&mut check, &[(1, 1_377), (2, 127), (3, 1), (5, 379)]), [(5, -1)]);
}

#[test]
fn fragments_without_a_value_are_counted_and_nothing_else() {
    let mut check = check_of(field(32), 1 << 32, 0, None);
    let short = Fragment { payload: Bytes::from_static(b"12345"), ..fragment(1, 7) };
    let made = Fragment { processed: true, ..fragment(2, 9) };
    let mut event = event(vec![fragment(0, 7), short, made, fragment(3, 8)]);
    assert!(check.check(&mut event));
    assert_eq!(event.fragments.iter().filter(|fragment| fragment.mark.disagrees()).count(), 1);
    assert_eq!((check.take_unchecked(), check.take_unchecked()), (2, 0));
}

#[test]
fn without_quantities_nothing_is_compared() {
    let mut check = NumberCheck::default();
    assert_eq!(marked(&mut check, &[(0, 1), (1, 2)]), []);
    assert_eq!(check.disagreements().0, 0);
}

proptest! {
    /// The fast comparison lets pass exactly the events in which the slow one would mark nothing.
    #[test]
    fn exactly_the_values_away_from_the_right_one_are_marked(
        values in prop::collection::vec(0..40_u64, 1..5),
        tolerance in 0..8_u64,
        reference in prop::option::of(0..4_u32),
    ) {
        let mut check = check_of(field(16), 32, tolerance, reference);
        let pairs: Vec<(u32, u64)> = (0..).zip(values.iter().copied()).collect();
        let quantity = Quantity { modulus: 32, tolerance };
        let cut: Vec<u64> = values.iter().map(|value| value % 32).collect();
        let right = reference.and_then(|source| cut.get(source as usize).copied());
        let right = right.or_else(|| quantity.reference_of(&cut)).expect("there are values");
        let expected: Vec<(u32, i64)> = (0..)
            .zip(&cut)
            .filter(|(_, value)| !quantity.agrees(**value, right))
            .map(|(source, value)| (source, quantity.difference(*value, right)))
            .collect();
        prop_assert_eq!(marked(&mut check, &pairs), expected);
    }
}
