//! Properties of histograms, of the store and of the record.

use super::*;
use proptest::prelude::*;

fn line(name: &str, contents: &[f64]) -> Histogram {
    let bins = u32::try_from(contents.len() - 2).unwrap();
    let weight: f64 = contents.iter().sum();
    Histogram {
        name: name.to_owned(),
        kind: HistogramKind::Line,
        title: String::new(),
        axes: vec![Axis { bins, low: 0.0, high: f64::from(bins), title: String::new() }],
        value_title: String::new(),
        source: None,
        entries: weight as u64,
        nan: 0,
        contents: contents.to_vec(),
        squares: Vec::new(),
        sums: Vec::new(),
        sums2: Vec::new(),
        moments: vec![weight, 2.0 * weight, 5.0 * weight],
    }
}

fn publication(session: &str, sequence: u64, histograms: Vec<Histogram>) -> Publication {
    Publication { session: session.to_owned(), sequence, is_final: false, histograms }
}

fn any_histogram() -> impl Strategy<Value = Histogram> {
    let of_kind = |(kind, columns, rows, weighted, seed): (u32, u32, u32, bool, u32)| {
        let axis = |bins| Axis { bins, low: -1.5, high: 2.25, title: "mV".to_owned() };
        let kind = [HistogramKind::Line, HistogramKind::Map, HistogramKind::Profile][kind as usize];
        let axes =
            if kind == HistogramKind::Map { vec![axis(columns), axis(rows)] } else { vec![axis(columns)] };
        let cells: usize = axes.iter().map(Axis::cells).product();
        let list = |of: u32| -> Vec<f64> {
            (0..cells as u32).map(|cell| f64::from((cell * 7_919 + seed * of) % 101)).collect()
        };
        let when = |condition: bool, of: u32| if condition { list(of) } else { Vec::new() };
        let is_profile = kind == HistogramKind::Profile;
        Histogram {
            name: "any".to_owned(),
            kind,
            title: "T".to_owned(),
            value_title: String::new(),
            source: Some(3),
            entries: u64::from(seed),
            nan: u64::from(seed % 3),
            contents: list(3),
            squares: when(weighted, 5),
            sums: when(is_profile, 11),
            sums2: when(is_profile, 13),
            moments: vec![f64::from(seed); if kind == HistogramKind::Map { 5 } else { 3 }],
            axes,
        }
    };
    (0..3_u32, 1..9_u32, 1..6_u32, any::<bool>(), 1..1_000_u32).prop_map(of_kind)
}

fn shared(histogram: &Histogram, factor: f64) -> Histogram {
    let mut share = histogram.clone();
    share.contents.iter_mut().for_each(|value| *value *= factor);
    share.entries += factor as u64;
    share
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(128))]

    #[test]
    fn a_record_is_read_as_it_was_written(histogram in any_histogram()) {
        prop_assert_eq!(histogram.check(), Ok(()));
        let mut store = HistogramStore::new(9, StoreLimits::default());
        store.take("one", publication("a", 1, vec![histogram.clone()]), 5).unwrap();
        let record = store.record(7, true);
        prop_assert_eq!(&record.histograms[0].histogram, &histogram);
        prop_assert_eq!(HistogramRecord::parse(&record.to_bytes()), Ok(record));
    }

    #[test]
    fn a_publication_is_read_as_it_was_written(histogram in any_histogram(), sequence in any::<u64>()) {
        let sent = publication("0a", sequence, vec![histogram]);
        prop_assert_eq!(Publication::parse(&serde_json::to_vec(&sent).unwrap()), Ok(sent));
    }

    /// Whatever the order of publishers, and whoever has ended: the histogram of the run is the sum of the newest snapshots.
    #[test]
    fn a_histogram_is_the_sum_of_its_publishers(
        histogram in any_histogram(),
        steps in prop::collection::vec((0..4_usize, 1..30_u64, any::<bool>()), 1..40),
    ) {
        let mut store = HistogramStore::new(1, StoreLimits::default());
        let mut newest: [Option<(u64, Histogram, bool)>; 4] = [const { None }; 4];
        for (at, (who, sequence, is_final)) in steps.into_iter().enumerate() {
            let session = ["a", "b", "c", "d"][who];
            let snapshot = shared(&histogram, (sequence + at as u64) as f64);
            let is_new = newest[who].as_ref().is_none_or(|(known, ..)| sequence > *known);
            let has_ended = newest[who].as_ref().is_some_and(|(.., ended)| *ended);
            let sent = Publication { is_final: is_final && is_new, ..publication(session, sequence, vec![snapshot.clone()]) };
            let receipt = store.take("p", sent, at as u64);
            match (has_ended, is_new) {
                (true, true) => prop_assert_eq!(receipt.unwrap_err().reason, RefusalReason::SessionEnded),
                (_, false) => prop_assert_eq!(receipt.unwrap(), Receipt { stale: 1, ..Receipt::default() }),
                (false, true) => {
                    prop_assert_eq!(receipt.unwrap(), Receipt { taken: 1, ..Receipt::default() });
                    newest[who] = Some((sequence, snapshot, is_final));
                }
            }
        }
        let mut shares = newest.iter().flatten();
        let mut sum = shares.next().unwrap().1.clone();
        shares.for_each(|(_, share, _)| sum.add(share));
        let record = store.record(0, true);
        prop_assert_eq!(&record.histograms[0].histogram, &sum);
        let active = newest.iter().flatten().filter(|(.., ended)| !ended).count();
        prop_assert_eq!(record.publishers.len(), active);
        let former = usize::from(newest.iter().flatten().any(|(.., ended)| *ended));
        prop_assert_eq!(record.histograms[0].publishers, active + former);
        let of_one = |histogram: &Histogram| histogram.bytes();
        prop_assert_eq!(store.bytes(), (active + former) as u64 * of_one(&histogram), "bytes are those of the shares");
    }

    #[test]
    fn the_sum_of_a_sketch_is_that_of_the_bins(histogram in any_histogram(), most in 1..7_u32) {
        let sketch = Sketch::of(&histogram, most, Some(&histogram));
        prop_assert!(sketch.columns <= most && sketch.rows <= most);
        prop_assert_eq!(sketch.values.len() as u32, sketch.columns * sketch.rows);
        if histogram.kind != HistogramKind::Profile {
            let drawn: f64 = sketch.values.iter().flatten().sum();
            let record = RecordedHistogram { histogram: histogram.clone(), publishers: 1, updated_ms: 0 };
            let all: f64 = histogram.contents.iter().sum();
            prop_assert_eq!(drawn + HistogramSummary::of(&record).outside, all);
        }
        if histogram.kind == HistogramKind::Line {
            let gap = |(one, other): (&Option<f64>, &Option<f64>)| (one.unwrap_or_default() - other.unwrap_or_default()).abs();
            prop_assert!(sketch.values.iter().zip(&sketch.reference).map(gap).all(|gap| gap < 1e-3), "{:?}", sketch);
        }
    }

    #[test]
    fn a_histogram_does_not_differ_from_itself_at_any_scale(histogram in any_histogram(), factor in 1..9_u32) {
        let mut large = shared(&histogram, f64::from(factor));
        large.squares.clear();
        let mut small = histogram;
        small.squares.clear();
        (small.entries, large.entries) = (100, 100);
        if small.kind != HistogramKind::Profile && small.contents.iter().sum::<f64>() > 0.0 {
            let found = compare(&small, &large).unwrap();
            prop_assert!(found.chi2 < 1e-6 && found.kolmogorov.unwrap() < 1e-9 && !found.differs, "{:?}", found);
        }
    }
}

#[test]
fn what_is_over_a_limit_is_refused_by_name_and_counted() {
    let limits = StoreLimits { histograms: 2, publishers: 2, bytes: 2_000 };
    let mut store = HistogramStore::new(1, limits);
    let small = |name: &str| line(name, &[0.0; 5]);
    let all = vec![small("a"), small("b"), small("c"), small("bad name")];
    let receipt = store.take("p", publication("a", 1, all), 1).unwrap();
    assert_eq!(receipt.taken, 2);
    let reasons: Vec<_> = receipt.refused.iter().map(|refusal| refusal.reason).collect();
    assert_eq!(reasons, [RefusalReason::TooManyHistograms, RefusalReason::Invalid]);
    assert!(receipt.refused[0].text.contains("`c`"), "{}", receipt.refused[0]);
    let large = Histogram { name: "a".to_owned(), ..line("a", &[0.0; 300]) };
    let reason = |receipt: Receipt| receipt.refused[0].reason;
    assert_eq!(
        reason(store.take("q", publication("b", 1, vec![large]), 1).unwrap()),
        RefusalReason::OtherBins
    );
    let mut store = HistogramStore::new(1, limits);
    let large = line("large", &[0.0; 300]);
    let receipt = store.take("q", publication("b", 1, vec![large]), 1).unwrap();
    assert_eq!(reason(receipt), RefusalReason::TooManyBytes);
    store.take("q", publication("c", 1, Vec::new()), 1).unwrap();
    let refusal = store.take("q", publication("d", 1, Vec::new()), 1).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::TooManyPublishers);
    let record = store.record(1, false);
    assert_eq!(record.refused.values().sum::<u64>(), 2);
    // The place of one that has ended is free.
    store.take("q", Publication { is_final: true, ..publication("c", 2, Vec::new()) }, 1).unwrap();
    assert!(store.take("q", publication("d", 1, Vec::new()), 1).is_ok());
}

#[test]
fn defects_are_refused() {
    let good = line("a", &[1.0; 6]);
    assert_eq!(good.check(), Ok(()));
    let broken = |change: fn(&mut Histogram)| {
        let mut histogram = good.clone();
        change(&mut histogram);
        histogram.check().unwrap_err()
    };
    assert!(matches!(broken(|it| it.contents[0] = f64::NAN), HistogramError::Value("contents")));
    assert!(matches!(broken(|it| it.squares = vec![1.0]), HistogramError::Length { list: "squares", .. }));
    assert!(matches!(broken(|it| it.sums = vec![1.0; 6]), HistogramError::Length { list: "sums", .. }));
    assert!(matches!(broken(|it| it.axes[0].high = 0.0), HistogramError::Range));
    assert!(matches!(broken(|it| it.axes[0].bins = 0), HistogramError::Range));
    assert!(matches!(broken(|it| it.axes[0].bins = u32::MAX), HistogramError::Bins(_)));
    assert!(matches!(broken(|it| it.axes.clear()), HistogramError::Axes { .. }));
    assert!(matches!(broken(|it| it.name = "../a".to_owned()), HistogramError::Name));
    assert!(matches!(broken(|it| it.title = "x".repeat(129)), HistogramError::Title));
}

/// Values of `scipy.stats.chi2_contingency` without correction, of the formula for weights in NumPy with `scipy.stats.chi2.sf`, and of
/// `abs(cumsum(a / sum(a) - b / sum(b))).max()` (SciPy 1.17.1).
#[test]
fn comparisons_are_those_of_scipy() {
    let mut one = line("a", &[3.0, 10.0, 40.0, 80.0, 42.0, 12.0, 1.0]);
    let mut other = line("a", &[5.0, 30.0, 66.0, 70.0, 21.0, 6.0, 2.0]);
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-9;
    let found = compare(&one, &other).unwrap();
    assert!(found.ndf == 6 && near(found.chi2, 26.531_602_769_971_894), "{found:?}");
    assert!(near(found.probability, 0.000_177_184_926_827_931_9), "{found:?}");
    assert!(near(found.kolmogorov.unwrap(), 0.223_085_106_382_978_74), "{found:?}");
    one.squares = vec![1.0, 12.0, 50.0, 90.0, 44.0, 20.0, 1.0];
    other.squares = vec![6.0, 31.0, 80.0, 70.0, 30.0, 6.0, 4.0];
    let found = compare(&one, &other).unwrap();
    assert!(found.ndf == 6 && near(found.chi2, 23.017_481_736_911_822), "{found:?}");
    assert!(near(found.probability, 0.000_790_644_606_452_124_5), "{found:?}");
}

#[test]
fn a_dead_channel_and_a_shift_are_marked_and_fluctuations_are_not() {
    let flat = |dead: u32, scale: f64| -> Vec<f64> {
        (0..66)
            .map(
                |cell| {
                    if cell == 0 || cell == 65 || cell == dead { 0.0 } else { scale + f64::from(cell % 3) }
                },
            )
            .collect()
    };
    let reference = line("a", &flat(99, 1_000.0));
    let alike = compare(&line("a", &flat(99, 400.0)), &reference).unwrap();
    assert!(!alike.differs && alike.probability > 0.5, "{alike:?}");
    let dead = compare(&line("a", &flat(20, 400.0)), &reference).unwrap();
    assert!(dead.differs, "{dead:?}");
    assert_eq!(compare(&line("a", &[1.0; 9]), &reference), Err(HistogramDifference::OtherBins));
    assert_eq!(compare(&line("a", &flat(99, 0.0)), &line("a", &[0.0; 66])), Err(HistogramDifference::TooFew));
}
