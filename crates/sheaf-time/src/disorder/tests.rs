use super::*;
use proptest::prelude::*;

fn drain(disorder: &mut Disorder<usize>) -> Vec<(Moment, usize)> {
    std::iter::from_fn(|| disorder.pop()).collect()
}

#[test]
fn an_item_that_is_too_late_is_returned_and_counted() {
    let mut disorder = Disorder::new(Picos(10), 100);
    disorder.push(Moment(100), 0).unwrap();
    disorder.push(Moment(120), 1).unwrap();
    assert_eq!(drain(&mut disorder), [(Moment(100), 0)]);
    assert_eq!(disorder.push(Moment(99), 2), Err(2));
    disorder.push(Moment(110), 3).unwrap();
    disorder.finish();
    assert_eq!(drain(&mut disorder), [(Moment(110), 3), (Moment(120), 1)]);
    assert_eq!(disorder.stats(), DisorderStats { items: 4, unsorted: 2, late: 1, forced: 0 });
}

#[test]
fn a_time_marker_releases_items_without_a_new_one() {
    let mut disorder = Disorder::new(Picos(10), 100);
    disorder.push(Moment(100), 0).unwrap();
    assert!(disorder.pop().is_none());
    disorder.advance(Moment(110));
    assert_eq!(drain(&mut disorder), [(Moment(100), 0)]);
}

proptest! {
    #[test]
    fn disorder_within_the_tolerance_is_sorted_without_loss(
        steps in prop::collection::vec((0..50_u64, 0..=100_u64), 0..300),
    ) {
        let mut disorder = Disorder::new(Picos(100), usize::MAX);
        let (mut forward, mut given, mut got) = (1000, Vec::new(), Vec::new());
        for (number, (ahead, back)) in steps.into_iter().enumerate() {
            forward += ahead;
            let at = Moment(forward - back);
            given.push((at, number));
            disorder.push(at, number).unwrap();
            got.extend(drain(&mut disorder));
        }
        disorder.finish();
        got.extend(drain(&mut disorder));
        given.sort();
        prop_assert_eq!(got, given);
        prop_assert_eq!(disorder.stats().late, 0);
    }

    #[test]
    fn output_is_in_order_and_bounded_for_any_input(
        capacity in 1..20_usize,
        moments in prop::collection::vec(0..10_000_u64, 0..300),
    ) {
        let mut disorder = Disorder::new(Picos(500), capacity);
        let (mut before, mut out, mut late) = (Moment::ZERO, 0, 0);
        for (number, at) in moments.iter().enumerate() {
            let watermark = disorder.watermark();
            late += u64::from(disorder.push(Moment(*at), number).is_err());
            for (at, _) in drain(&mut disorder) {
                prop_assert!(at >= before && at >= watermark);
                before = at;
                out += 1;
            }
            prop_assert!(disorder.held() <= capacity);
            prop_assert!(disorder.watermark() >= before);
        }
        disorder.finish();
        out += drain(&mut disorder).len() as u64;
        prop_assert_eq!(out + late, moments.len() as u64);
        prop_assert_eq!(disorder.stats().late, late);
    }
}

#[test]
fn each_kind_of_disorder_is_counted_and_an_item_of_the_same_moment_is_in_order() {
    let mut disorder = Disorder::new(Picos(5), 2);
    for at in [10, 10, 8, 20] {
        assert_eq!(disorder.push(Moment(at), at), Ok(()));
    }
    let popped: Vec<_> = std::iter::from_fn(|| disorder.pop()).map(|(_, item)| item).collect();
    assert_eq!(popped, [8, 10, 10]);
    assert_eq!(disorder.push(Moment(15), 15), Ok(()), "as late as the tolerance");
    assert_eq!(
        disorder.push(Moment(14), 14),
        Err(14),
        "the watermark is 15, though nothing after 10 was returned"
    );
    for at in [21, 22, 23] {
        assert_eq!(disorder.push(Moment(at), at), Ok(()));
    }
    while disorder.pop().is_some() {}
    let DisorderStats { items, unsorted, late, forced } = disorder.stats();
    assert_eq!((items, unsorted, late, forced), (9, 3, 1, 2));
}
