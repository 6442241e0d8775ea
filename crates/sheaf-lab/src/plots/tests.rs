use super::*;
use crate::evidence::{Interval, LimitedBy};
use crate::result::Setting;

fn point(units: &str, transport: &str, efficiency: f64, limit: LimitedBy) -> PointResult {
    let setting = |key: &str, value: &str| Setting { key: key.into(), value: value.into() };
    PointResult {
        settings: vec![setting("lab.units", units), setting("transport.kind", transport)],
        transport: transport.into(),
        efficiency,
        limited_by: Some(limit),
        rate_bits_per_second: 1e8,
        rails: 1,
        ..PointResult::default()
    }
}

fn result(points: Vec<PointResult>) -> LabResult {
    let sweeps = vec!["lab.units".into(), "transport.kind".into()];
    LabResult { name: "scaling".into(), about: "flat".into(), sweeps, points }
}

#[test]
fn numbers_are_the_axis_and_words_make_the_curves() {
    let network = LimitedBy::Network;
    let found = result(vec![
        point("1", "tcp", 0.9, network),
        point("1", "udp", 0.8, network),
        point("4", "tcp", 0.91, network),
        point("4", "udp", 0.7, network),
    ]);
    let chart = efficiency(&found, "sheaf lab run scaling").expect("there is something to show");
    let curves: Vec<(&str, usize)> =
        chart.series.iter().map(|it| (it.name.as_str(), it.points.len())).collect();
    assert_eq!(curves, [("tcp", 2), ("udp", 2)]);
    assert!(chart.caption.contains("sheaf lab run scaling"));
    assert_eq!(pictures(&found, "x").expect("it can be drawn").len(), 1);
}

#[test]
fn systems_of_several_sizes_are_one_curve_where_their_size_is_the_axis() {
    let of = |units: &str, readouts| {
        let mut point = point(units, "udp", 0.95, LimitedBy::Network);
        point.settings.truncate(1);
        PointResult { readouts, builders: readouts, ..point }
    };
    let sweeps = vec!["lab.units".into()];
    let found = LabResult { sweeps, ..result(vec![of("1", 1), of("8", 8), of("31", 31)]) };
    let chart = efficiency(&found, "command").expect("there is something to show");
    let curves: Vec<(&str, usize)> =
        chart.series.iter().map(|it| (it.name.as_str(), it.points.len())).collect();
    assert_eq!(curves, [("udp", 3)]);
}

#[test]
fn what_the_processors_limited_is_left_out_and_counted() {
    let found = result(vec![
        point("1", "tcp", 0.9, LimitedBy::Network),
        point("4", "tcp", 0.91, LimitedBy::Network),
        point("8", "tcp", 0.3, LimitedBy::Cpu),
    ]);
    let chart = efficiency(&found, "command").expect("there is something to show");
    assert_eq!(chart.series[0].points.len(), 2);
    assert!(chart.caption.contains("1 of 3 points"), "{}", chart.caption);
    let only_cpu =
        result(vec![point("1", "tcp", 0.9, LimitedBy::Cpu), point("2", "tcp", 0.9, LimitedBy::Cpu)]);
    assert!(pictures(&only_cpu, "command").expect("nothing to draw").is_empty());
}

#[test]
fn the_evolution_shows_the_slowest_builder_beside_the_others() {
    let mut slow = point("2", "tcp", 0.9, LimitedBy::Network);
    slow.intervals = (0..5)
        .map(|second| Interval {
            at_s: f64::from(second),
            builder_bits_per_second: vec![1e8, 5e7],
            port_drops: 0,
            resident_bytes: 0,
        })
        .collect();
    let chart = evolution(&result(vec![slow]), "command").expect("there is something to show");
    let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["mean of all", "builder 1", "mean of the others"]);
    assert!((chart.series[2].points[0].y - 1e8).abs() < 1.0);
}
