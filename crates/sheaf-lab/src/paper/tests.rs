use super::*;
use crate::evidence::{Evidence, Interval};
use std::collections::BTreeSet;

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("there is no case {name}"))
}

fn point(efficiency: f64) -> PointResult {
    PointResult {
        efficiency,
        is_whole: true,
        events_built: 1000,
        limited_by: Some(LimitedBy::Network),
        evidence: Evidence { packet_bytes: 9014.0, wire_bits_per_byte: 8.2, ..Evidence::default() },
        run: serde_json::json!({ "events_incomplete": 0, "bytes": 1_000_000 }),
        ..PointResult::default()
    }
}

fn result(points: Vec<PointResult>) -> LabResult {
    LabResult { name: "x".into(), about: String::new(), sweeps: Vec::new(), points }
}

#[test]
fn every_case_has_a_scenario_that_ships_and_a_name_of_its_own() {
    let names: BTreeSet<&str> = names().collect();
    assert_eq!(names.len(), CASES.len());
    for case in CASES {
        assert!(library::find(case.scenario).is_some(), "{} needs the scenario {}", case.name, case.scenario);
        assert!(case.asked > 0.0 && case.asked <= 1.0);
    }
    assert!(!usual().contains(&"soak"), "ten minutes only for who asks for them");
}

#[test]
fn the_times_of_the_slow_builder_are_those_of_its_scenarios() {
    for (name, slow_to) in [("slow-builder", 0.5), ("barrel-cut", 0.0)] {
        let file = library::find(name).expect("it ships").parse(|_| {}).expect("it is understood");
        let measure = &file.points[0].measure;
        assert_eq!((measure.slow_from.as_secs_f64(), measure.slow_until.as_secs_f64()), cases::SLOW_S);
        let length = file.points[0].config.run.duration.map(|duration| duration.as_secs_f64());
        assert_eq!(length, Some(cases::SLOW_RUN_S));
        assert_eq!(measure.slow_to, slow_to);
        assert_eq!(file.points[0].config.builder.count, 8);
    }
}

#[test]
fn the_lesser_of_several_points_counts() {
    let figure = figure(case("two-rails"), &result(vec![point(0.99), point(0.96)]));
    assert_eq!(figure.value, Some(0.96));
    assert!(!figure.pass);
}

#[test]
fn ordinary_and_jumbo_packets_are_two_figures() {
    let of = |mtu_bytes, efficiency| PointResult { mtu_bytes, ..point(efficiency) };
    let both = result(vec![of(1500, 0.94), of(9000, 0.99)]);
    assert_eq!(figure(case("stream-1500"), &both).value, Some(0.94));
    assert_eq!(figure(case("stream-9000"), &both).value, Some(0.99));
}

#[test]
fn a_figure_needs_whole_events_without_errors() {
    let good = figure(case("two-rails"), &result(vec![point(0.98)]));
    assert!(good.pass, "{good:?}");
    let torn = PointResult { is_whole: false, ..point(0.98) };
    assert!(!figure(case("two-rails"), &result(vec![torn])).pass);
    let failed = PointResult { errors: vec!["it burns".into()], ..point(0.98) };
    let figure = figure(case("two-rails"), &result(vec![failed]));
    assert!(!figure.pass && figure.note.contains("it burns"), "{figure:?}");
}

#[test]
fn shaped_traffic_that_loses_a_packet_has_failed() {
    let lost = PointResult { evidence: Evidence { port_drops: 1, ..Evidence::default() }, ..point(0.99) };
    let figure = figure(case("events-paced"), &result(vec![lost]));
    assert!(figure.value.is_none() && !figure.pass && figure.note.contains("1 packets"), "{figure:?}");
}

#[test]
fn an_incast_that_loses_nothing_proves_nothing() {
    let nothing = figure(case("push-incast"), &result(vec![point(0.9)]));
    assert!(nothing.value.is_none() && !nothing.pass);
    let evidence =
        Evidence { port_drops: 30, packet_bytes: 9014.0, wire_bits_per_byte: 8.2, ..Evidence::default() };
    let lost = figure(case("push-incast"), &result(vec![PointResult { evidence, ..point(0.5) }]));
    assert_eq!(lost.value, Some(1.0));
    assert!(lost.pass && lost.note.contains("30 packets lost"), "{lost:?}");
}

#[test]
fn throughput_is_flat_when_the_least_is_near_the_greatest() {
    let figure = figure(case("scaling"), &result(vec![point(0.99), point(0.98), point(0.97)]));
    assert!(
        figure.value.is_some_and(|value| (value - 0.97 / 0.99).abs() < 1e-9) && figure.pass,
        "{figure:?}"
    );
}

#[test]
fn loss_is_compared_with_the_run_without() {
    let figure = figure(case("loss-10"), &result(vec![point(0.9), point(0.63)]));
    assert!(figure.value.is_some_and(|value| (value - 0.7).abs() < 1e-9), "{figure:?}");
    let alone = super::figure(case("loss-10"), &result(vec![point(0.9)]));
    assert_eq!(alone.value, None);
}

#[test]
fn a_slow_builder_is_judged_by_what_all_get_while_it_is_slow_and_after() {
    let interval = |half_seconds: u32| {
        let at_s = f64::from(half_seconds) / 2.0 + 0.25;
        let is_slow = at_s > cases::SLOW_S.0 && at_s < cases::SLOW_S.1;
        let first = if is_slow { 50.0 } else { 100.0 };
        Interval { at_s, builder_bits_per_second: vec![first, 100.0], port_drops: 0, resident_bytes: 0 }
    };
    let run = PointResult { intervals: (0..40).map(interval).collect(), ..point(0.9) };
    let value = |name| figure(case(name), &result(vec![run.clone()])).value;
    assert_eq!(value("slow-builder"), Some(0.75));
    assert_eq!(value("slow-builder-back"), Some(1.0));
}

#[test]
fn the_table_shows_theirs_asked_and_ours() {
    let text = describe(&[figure(case("two-rails"), &result(vec![point(0.98)]))]);
    for said in ["92.0 %", "97.0 %", "98.0 %", "reached", "1 of 1 figures reached"] {
        assert!(text.contains(said), "{said} in {text}");
    }
}
