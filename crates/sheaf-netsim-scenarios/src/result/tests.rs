use super::*;
use crate::sweep;
use crate::testing::{parse, report};
use sheaf_netsim::Scenario;
use sheaf_netsim::scenario::Topology;

fn sweep_of(text: &str, simulate: impl Fn(&Scenario) -> Result<Report, String> + Sync) -> SweepResult {
    let file = parse(text);
    let outcomes = sweep::run(&file.points, 2, simulate, |_| ());
    SweepResult::new(file.name, file.about, &file.axes, outcomes)
}

fn ports(scenario: &Scenario) -> u32 {
    match scenario.topology {
        Topology::Crossbar { ports } => ports,
        _ => panic!("only crossbars here"),
    }
}

const TEXT: &str =
    "name = \"two sizes\"\nseed = [1, 2, 3]\n[topology]\nkind = \"crossbar\"\nports = [4, 16]\n";

#[expect(clippy::unnecessary_wraps, reason = "the shape of a simulation")]
fn simulate(scenario: &Scenario) -> Result<Report, String> {
    let base = if ports(scenario) == 4 { 0.65 } else { 0.60 };
    Ok(report(scenario.seed, base + 0.01 * (scenario.seed as f64 - 2.0)))
}

#[test]
fn seeds_are_averaged_and_other_sweeps_are_not() {
    let result = sweep_of(TEXT, simulate);
    assert_eq!((result.runs.len(), result.points.len()), (6, 2));
    let point = &result.points[1];
    assert_eq!(point.settings["topology.ports"], "16");
    assert!((point.efficiency - 0.60).abs() < 1e-12);
    assert!((point.efficiency_error - 0.01).abs() < 1e-12, "the standard deviation of 0.59, 0.60, 0.61");
}

#[test]
fn the_json_and_the_table_are_the_same_whatever_the_number_of_threads() {
    let file = parse(TEXT);
    let with = |threads| {
        let outcomes = sweep::run(&file.points, threads, simulate, |_| ());
        let result = SweepResult::new(file.name.clone(), file.about.clone(), &file.axes, outcomes);
        (serde_json::to_string_pretty(&result).unwrap(), result.to_string())
    };
    assert_eq!(with(1), with(7));
}

#[test]
fn a_table_has_a_row_for_each_point_and_says_what_its_error_is() {
    let text = sweep_of(TEXT, simulate).to_string();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows[0], "two sizes");
    assert!(rows[2].starts_with("ports  efficiency"), "{text}");
    assert!(rows[3].starts_with("4          0.6500  0.0100  0.7500  812 MB/s"), "{text}");
    assert!(text.contains("standard deviation between seeds"), "{text}");
}

#[test]
fn one_run_is_told_in_full() {
    let text = sweep_of("[topology]\nkind = \"crossbar\"\nports = 4\n", simulate).to_string();
    for expected in [
        "efficiency                0.6400  +- 0.0020 (95 %)",
        "messages                    4000  delivered 3990, lost 2, in flight 8",
        "events                      1000  complete; 1 incomplete, 4 in flight",
        "median; 99 % within 100 us, 99.9 % within 140 us, all within 180 us",
        "bytes, mean; at most 4096 of 8192: inputs of layer 1",
        "output of layer 1, taken by another message",
        "lost                           2  buffer full at the output of layer 1",
        "conservation: 4000 = 3990 + 2 + 8",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing:\n{text}");
    }
}

#[test]
fn what_failed_is_told_with_its_settings() {
    let result = sweep_of(TEXT, |scenario| match (ports(scenario), scenario.seed) {
        (4, 2) => Err("a cycle of waiting buffers".into()),
        (_, seed) => {
            let mut report = report(seed, 0.6);
            report.checks[0].pass = seed != 3;
            Ok(report)
        }
    });
    let text = result.to_string();
    assert_eq!((result.errors(), result.checks_hold()), (1, false));
    assert_eq!((result.points[0].runs, result.points[0].errors), (2, 1));
    assert!(
        text.contains("NOT SIMULATED: seed = 2, topology.ports = 4: a cycle of waiting buffers"),
        "{text}"
    );
    assert!(text.contains("CHECK FAILED: seed = 3, topology.ports = 16: conservation"), "{text}");
}

#[test]
fn json_has_every_figure_of_a_report() {
    let result = sweep_of("[topology]\nkind = \"crossbar\"\nports = 4\n", simulate);
    let json = serde_json::to_value(&result).unwrap();
    let report = &json["runs"][0]["report"];
    assert_eq!(report["message_latency_ns"]["p99"], 5000.0);
    assert_eq!(report["messages"]["delivered"], 3990);
    assert_eq!(report["per_port"].as_array().unwrap().len(), 4);
    assert_eq!(report["simulated_ns"], 500_000.0);
    assert_eq!(json["points"][0]["efficiency_error"], 0.002);
}
