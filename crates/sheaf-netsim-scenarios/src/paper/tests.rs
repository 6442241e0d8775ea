use super::*;
use crate::testing::report;

const ONE: &str = "[topology]\nkind = \"crossbar\"\nports = [4, 8, 16]\n";

fn case(expected: f64, tolerance: f64, measure: Measure) -> Case {
    Case { name: "a figure", document: "a document", expected, tolerance, measure, note: "", text: ONE }
}

/// 0.3, 0.4, 0.5 for the three points.
fn simulate() -> impl Fn(&Scenario) -> Result<Report, String> + Sync {
    |scenario| {
        let sheaf_netsim::scenario::Topology::Crossbar { ports } = scenario.topology else {
            return Err("only crossbars".into());
        };
        Ok(report(1, 0.1 + 0.1 * f64::from(ports.ilog2())))
    }
}

#[test]
fn every_scenario_is_good_and_every_name_is_its_own() {
    let mut names = std::collections::BTreeSet::new();
    for case in CASES {
        let file = ScenarioFile::parse(case.text, case.name, case.name, Path::new(""), Overrides::default());
        let file = file.unwrap_or_else(|errors| panic!("{}:\n{errors}", case.name));
        assert!(!file.points.is_empty());
        assert!(names.insert(case.name), "{} is there twice", case.name);
    }
    assert_eq!(runs(), CASES.iter().map(|case| points(case).len()).sum::<usize>());
}

#[test]
fn a_figure_agrees_within_its_tolerance_only() {
    let of = |expected, tolerance| {
        let cases = [case(expected, tolerance, Measure::Efficiency)];
        figures_of(&cases, 2, simulate(), |_| ())[0].clone()
    };
    assert!((of(0.4, 0.01).value.unwrap() - 0.4).abs() < 1e-12, "the mean of all runs");
    assert!(of(0.4, 0.01).pass && of(0.405, 0.01).pass);
    assert!(!of(0.42, 0.01).pass && !of(0.38, 0.01).pass);
}

#[test]
fn a_range_holds_the_documents_value_or_not() {
    let of = |expected| figures_of(&[case(expected, 0.0, Measure::Range)], 1, simulate(), |_| ())[0].clone();
    let figure = of(0.45);
    assert!(figure.pass);
    assert!((figure.low.unwrap() - 0.3).abs() < 1e-12 && (figure.high.unwrap() - 0.5).abs() < 1e-12);
    assert!(figure.note.starts_with("2 of 3 assumptions are below"), "{}", figure.note);
    assert!(!of(0.55).pass && !of(0.25).pass);
}

#[test]
fn a_figure_whose_run_fails_does_not_agree_and_says_why() {
    let fails = |_: &Scenario| Err::<Report, _>("no engine");
    let figures = figures_of(&[case(0.4, 1.0, Measure::Efficiency)], 1, fails, |_| ());
    assert_eq!((figures[0].pass, figures[0].value), (false, None));
    assert_eq!(figures[0].note, "not simulated: no engine");
    let failed_check = |_: &Scenario| {
        let mut report = report(1, 0.4);
        report.checks[0].pass = false;
        Ok::<_, String>(report)
    };
    let figures = figures_of(&[case(0.4, 1.0, Measure::Efficiency)], 1, failed_check, |_| ());
    assert!(!figures[0].pass && figures[0].note.contains("self-check conservation failed"));
    assert!(describe(&figures).contains("0 of 1 figures agree"));
}

#[test]
fn one_gap_is_found_that_fits_both_demonstrators() {
    let cases: Vec<Case> =
        CASES.iter().filter(|case| matches!(case.measure, Measure::Gap(_))).copied().collect();
    // Efficiencies that are those measured at a gap of 7 %.
    let simulate = |scenario: &Scenario| {
        let gap = scenario.endpoint.overhead.0 as f64 / 1e3 / cases::MESSAGE_NS;
        let at = match scenario.topology {
            sheaf_netsim::scenario::Topology::Delta { stages: 1, .. } => 0.69,
            _ => 0.51,
        };
        Ok::<_, String>(report(1, (at + 0.4 * (gap - 0.07)) / (1.0 + gap)))
    };
    let figures = figures_of(&cases, 1, simulate, |_| ());
    assert_eq!(figures.len(), 2);
    for (figure, measured) in figures.iter().zip([0.69, 0.51]) {
        assert!(figure.pass && (figure.value.unwrap() - measured).abs() < 1e-6, "{figure:?}");
        assert!(figure.note.starts_with("one idle gap of 7.0 %"), "{}", figure.note);
    }
}

#[test]
fn json_has_what_was_promised() {
    let figures = figures_of(&[case(0.4, 0.01, Measure::Efficiency)], 1, simulate(), |_| ());
    let json = serde_json::to_value(&figures).unwrap();
    for field in ["name", "document", "expected", "tolerance", "value", "pass"] {
        assert!(json[0].get(field).is_some(), "{field}");
    }
}
