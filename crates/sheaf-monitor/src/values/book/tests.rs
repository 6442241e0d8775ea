//! States of values, and their numbers, from readings at given times.

use super::*;
use crate::values::ValueFile;
use proptest::prelude::*;
use std::path::PathBuf;

const NOW: u64 = 1_000_000;

fn declared(name: &str) -> DeclaredValue {
    DeclaredValue {
        name: name.into(),
        unit: Some("V".into()),
        stale: Duration::from_secs(5),
        ..DeclaredValue::default()
    }
}

fn from_file(name: &str) -> DeclaredValue {
    let file = ValueFile {
        path: PathBuf::from(format!("/run/{name}")),
        period: Duration::from_secs(1),
        is_live: false,
    };
    DeclaredValue { file: Some(file), ..declared(name) }
}

fn book(values: Vec<DeclaredValue>) -> ValueBook {
    let mut book = ValueBook::default();
    book.declare(NOW, 0, values);
    book
}

fn offer(name: &str, value: f64, age: u64) -> Offer<'_> {
    Offer { name, value: Some(value), age, by: Some("bridge") }
}

fn report(book: &ValueBook, now: u64) -> ValueReport {
    book.reports(now).remove(0)
}

#[test]
fn a_value_is_unknown_then_fresh_then_stale() {
    let mut book = book(vec![declared("hv")]);
    let at = |book: &ValueBook, now| {
        let report = report(book, now);
        (report.state, report.value, report.age_ms, report.missing_ms)
    };
    assert_eq!(at(&book, NOW + 3_000), (Freshness::Unknown, None, None, 3_000));
    assert_eq!(book.take_sent(NOW + 4_000, 0, offer("hv", 1500.0, 1_000)), Ok(()));
    assert_eq!(at(&book, NOW + 7_999), (Freshness::Fresh, Some(1500.0), Some(4_999), 0));
    assert_eq!(at(&book, NOW + 9_000), (Freshness::Stale, Some(1500.0), Some(6_000), 1_000));
    assert_eq!(report(&book, NOW + 9_000).fresh(), None, "a stale number is not the present one");
    let unknown = Offer { name: "hv", value: None, age: 0, by: None };
    assert_eq!(book.take_sent(NOW + 10_000, 0, unknown), Ok(()));
    assert_eq!(at(&book, NOW + 10_500), (Freshness::Unknown, None, None, 500));
}

#[test]
fn values_that_cannot_be_taken_are_counted_by_reason() {
    let mut book = book(vec![declared("hv"), from_file("temperature")]);
    assert_eq!(book.take_sent(NOW, 0, offer("hv", 1.0, 0)), Ok(()));
    for (offer, refusal) in [
        (offer("h", 1.0, 0), Refusal::Undeclared),
        (offer("temperature", 1.0, 0), Refusal::FromFile),
        (offer("hv", f64::NAN, 0), Refusal::NoNumber),
        (offer("hv", f64::INFINITY, 0), Refusal::NoNumber),
        (offer("hv", -1e308, 0), Refusal::NoNumber),
        (offer("hv", 2.0, 500), Refusal::Late),
    ] {
        assert_eq!(book.take_sent(NOW + 100, 0, offer), Err(refusal));
    }
    let counts: Vec<_> = book.refusals().into_iter().map(|(reason, count)| (reason.name(), count)).collect();
    assert_eq!(
        counts,
        [("undeclared", 1), ("from_file", 1), ("no_number", 3), ("late", 1), ("future", 0), ("invalid", 0)]
    );
    assert_eq!(book.reports(NOW + 100)[0].value, Some(1.0), "nothing of that is kept");
}

#[test]
fn an_hour_ahead_or_behind_does_not_make_a_value_fresh() {
    let mut book = book(vec![declared("hv")]);
    assert_eq!(book.take_sent(NOW, 0, offer("hv", 1.0, 60_000)), Ok(()));
    assert_eq!(report(&book, NOW).state, Freshness::Stale);
    // More than the clock has: it does not wrap.
    assert_eq!(book.take_sent(NOW, 0, offer("hv", 1.0, u64::MAX)), Err(Refusal::Late));
}

#[test]
fn a_file_that_hangs_or_is_damaged_has_a_reason_and_its_value_goes_stale() {
    let mut book = book(vec![from_file("temperature")]);
    book.begin_reading(NOW, "temperature");
    book.end_reading(NOW, "temperature", Some(Ok((20.0, 0))));
    book.begin_reading(NOW + 1_000, "temperature");
    assert_eq!(report(&book, NOW + 2_000).problem, None);
    let hangs = report(&book, NOW + 6_000);
    assert_eq!((hangs.state, hangs.value), (Freshness::Stale, Some(20.0)));
    assert!(hangs.problem.unwrap().contains("taken 5 s"));
    book.end_reading(NOW + 7_000, "temperature", Some(Err("the file is empty".into())));
    assert_eq!(report(&book, NOW + 7_000).problem.as_deref(), Some("the file is empty"));
    book.end_reading(NOW + 8_000, "temperature", Some(Ok((21.0, 0))));
    assert_eq!((report(&book, NOW + 8_000).problem, report(&book, NOW + 8_000).fresh()), (None, Some(21.0)));
}

#[test]
fn a_run_has_the_numbers_from_its_beginning_to_its_end() {
    let mut book = book(vec![declared("hv"), declared("never")]);
    book.take_sent(NOW, 0, offer("hv", 1500.0, 0)).unwrap();
    book.begin_run(NOW + 1_000);
    book.take_sent(NOW + 2_000, 0, offer("hv", 1400.0, 0)).unwrap();
    book.take_sent(NOW + 3_000, 0, offer("hv", 1600.0, 0)).unwrap();
    let values = book.end_run(NOW + 10_000);
    let RunValue { extremes, mean, readings, unknown, .. } = &values[0];
    assert_eq!(*extremes, Some([1500.0, 1600.0, 1400.0, 1600.0]), "first, last, minimum, maximum");
    assert_eq!(*mean, Some((1500.0 + 1400.0 + 5.0 * 1600.0) / 7.0));
    assert_eq!((*readings, *unknown), (2, Duration::from_secs(2)));
    assert_eq!((values[1].extremes, values[1].unknown), (None, Duration::from_secs(9)));
    assert_eq!(book.end_run(NOW + 11_000), [], "there is no run");
}

#[test]
fn a_new_configuration_keeps_what_is_known_of_values_that_stay() {
    let mut book = book(vec![declared("hv"), declared("old")]);
    book.take_sent(NOW, 0, offer("hv", 1500.0, 0)).unwrap();
    let narrower = DeclaredValue {
        limits: ValueLimits { warning_above: Some(1400.0), ..ValueLimits::default() },
        ..declared("hv")
    };
    book.declare(NOW + 100, 0, vec![narrower, declared("new")]);
    let reports = book.reports(NOW + 100);
    let names: Vec<_> = reports.iter().map(|report| (&*report.name, report.fresh())).collect();
    assert_eq!(names, [("hv", Some(1500.0)), ("new", None)]);
    assert_eq!(reports[0].level, Some(Level::Warning));
    book.declare(NOW + 200, 0, vec![from_file("hv")]);
    assert_eq!(report(&book, NOW + 200).state, Freshness::Unknown, "it comes from elsewhere now");
}

#[test]
fn limits_are_judged_with_the_more_severe_one_first() {
    let limits = ValueLimits {
        warning_below: Some(10.0),
        warning_above: Some(20.0),
        error_below: Some(5.0),
        error_above: Some(25.0),
    };
    let judged: Vec<_> = [4.9, 5.0, 10.0, 20.0, 20.1, 26.0].map(|value| limits.judge(value)).into();
    assert_eq!(
        judged,
        [
            (Level::Error, Some((true, 5.0))),
            (Level::Warning, Some((true, 10.0))),
            (Level::Good, None),
            (Level::Good, None),
            (Level::Warning, Some((false, 20.0))),
            (Level::Error, Some((false, 25.0))),
        ]
    );
}

#[test]
fn another_process_gets_each_reading_once_and_only_the_present_one_of_those_before_it() {
    let mut controller = book(vec![declared("hv"), from_file("temperature")]);
    let unix = 1_780_000_000_000;
    controller.take_sent(NOW, unix, offer("hv", 1.0, 0)).unwrap();
    controller.take_sent(NOW + 1_000, unix + 1_000, offer("hv", 2.0, 0)).unwrap();
    let mut run = book(vec![declared("hv")]);
    run.begin_run(NOW);
    let mut seen = run.follow(NOW + 1_500, unix + 1_500, (0, &controller.sent().1));
    assert_eq!((report(&run, NOW + 1_500).value, report(&run, NOW + 1_500).age_ms), (Some(2.0), Some(500)));
    for value in 3..=6_u32 {
        controller.take_sent(NOW + 2_000, unix + 2_000, offer("hv", value.into(), 0)).unwrap();
    }
    for _ in 0..2 {
        seen = run.follow(NOW + 2_100, unix + 2_100, (seen, &controller.sent().1));
    }
    // The next controller goes on with the numbers; one that knows nothing begins anew.
    let mut next = book(vec![declared("hv")]);
    next.follow(NOW + 2_200, unix + 2_200, (0, &controller.sent().1));
    next.take_sent(NOW + 2_300, unix + 2_300, offer("hv", 7.0, 0)).unwrap();
    seen = run.follow(NOW + 2_400, unix + 2_400, (seen, &next.sent().1));
    let mut anew = book(vec![declared("hv")]);
    anew.take_sent(NOW + 2_500, unix + 2_500, offer("hv", 8.0, 0)).unwrap();
    run.follow(NOW + 2_600, unix + 2_600, (seen, &anew.sent().1));
    let values = run.end_run(NOW + 3_000);
    assert_eq!(values[0].extremes, Some([2.0, 8.0, 2.0, 8.0]));
    assert_eq!(values[0].readings, 7, "2 to 8");
}

#[test]
fn numbers_over_time_have_gaps_where_a_value_is_not_fresh() {
    let mut book = book(vec![declared("hv")]);
    for row in 0..400 {
        let now = NOW + row * 100;
        if row < 100 {
            book.take_sent(now, 0, offer("hv", 7.0, 0)).unwrap();
        }
        book.add_row(now, row);
    }
    let trend = book.reports_with_trends(NOW + 40_000)[0].trend.clone();
    assert_eq!(trend, [Some(7.0), Some(7.0), None, None]);
    assert!(book.history("hv", 1_000).unwrap().is_some());
    assert_eq!(book.history("hv", 7), Some(None));
    assert_eq!(book.history("no", 1_000), None);
    book.declare(NOW + 40_000, 40_000, vec![declared("hv"), declared("late")]);
    book.add_row(NOW + 40_000, 400);
    assert_eq!(book.history("late", 100).unwrap().unwrap().len(), 32 + 4, "it begins when it is declared");
}

proptest! {
    /// A value is fresh only if a reading came that is younger than its limit, whatever else has come.
    #[test]
    fn only_a_young_reading_is_fresh(
        offers in proptest::collection::vec((0_u64..4_000, any::<f64>(), 0_u64..20_000), 0..30),
        wait in 0_u64..8_000,
    ) {
        let mut book = book(vec![declared("hv")]);
        let (mut now, mut newest) = (NOW, None);
        for (pause, value, age) in offers {
            now += pause;
            if book.take_sent(now, now, offer("hv", value, age)).is_ok() {
                newest = Some((now - age, value));
            }
        }
        now += wait;
        let fresh = newest.filter(|(at, _)| now - at < 5_000).map(|(_, value)| value);
        prop_assert_eq!(report(&book, now).fresh(), fresh);
        prop_assert!(book.sent().1.values().all(|readings| readings.len() <= RECENT));
    }
}
