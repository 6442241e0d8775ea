use super::*;

fn point(limit: LimitedBy, whole: bool) -> PointResult {
    PointResult {
        settings: vec![Setting { key: "lab.units".into(), value: "4".into() }],
        transport: "tcp".into(),
        readouts: 4,
        builders: 4,
        size_bytes: 2048.0,
        bytes_per_second: 4e7,
        limited_by: Some(limit),
        is_whole: whole,
        ..PointResult::default()
    }
}

fn result(points: Vec<PointResult>) -> LabResult {
    LabResult { name: "n".into(), about: "what it shows".into(), sweeps: vec!["lab.units".into()], points }
}

#[test]
fn a_run_that_the_processors_limited_is_said_to_be_none_of_a_network() {
    let text = result(vec![point(LimitedBy::Network, true), point(LimitedBy::Cpu, true)]).to_string();
    assert!(text.contains("point 1 was limited by this machine's processors"), "{text}");
    assert!(!text.contains("point 0 was"), "{text}");
    assert!(!point(LimitedBy::Cpu, true).is_of_a_network());
    assert!(point(LimitedBy::Undecided, true).is_of_a_network());
}

#[test]
fn an_event_that_is_not_whole_makes_a_result_bad_and_is_seen_in_the_table() {
    assert!(result(vec![point(LimitedBy::Network, true)]).is_good());
    let bad = result(vec![point(LimitedBy::Network, false)]);
    assert!(!bad.is_good());
    assert!(bad.to_string().contains("NO"), "{bad}");
}

#[test]
fn the_json_has_what_a_calibration_reads() {
    let json = serde_json::to_value(result(vec![point(LimitedBy::Network, true)])).expect("it is JSON");
    let first = &json["points"][0];
    assert_eq!(first["size_bytes"], 2048.0);
    assert_eq!(first["bytes_per_second"], 4e7);
    assert_eq!((&first["readouts"], &first["builders"]), (&4.into(), &4.into()));
    assert_eq!(first["limited_by"], "network");
}
