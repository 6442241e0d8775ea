use super::*;
use crate::sweep;
use crate::testing::{parse, report};

fn drawn(text: &str) -> Vec<Plot> {
    let file = parse(text);
    let simulate = |scenario: &Scenario| Ok::<_, String>(report(scenario.seed, 0.6));
    let outcomes = sweep::run(&file.points, 1, simulate, |_| ());
    plots(&SweepResult::new(file.name, file.about, &file.axes, outcomes)).unwrap()
}

fn kinds(plots: &[Plot]) -> Vec<&'static str> {
    plots.iter().map(|plot| plot.kind).collect()
}

#[test]
fn a_sweep_over_numbers_has_curves_over_them() {
    let text = "seed = [1, 2]\n[topology]\nkind = \"crossbar\"\nports = [4, 8, 16]\n[switching]\n\
                arbiter = [\"random\", \"round_robin\"]\n";
    let plots = drawn(text);
    assert_eq!(kinds(&plots), ["efficiency", "latency", "evolution", "buffers", "ports"]);
    assert!(plots[0].svg.contains("round robin"), "a curve for each arbiter");
    assert!(plots[0].svg.contains("ports"), "along the swept key");
}

#[test]
fn one_run_has_no_curve_over_a_sweep() {
    let plots = drawn("[topology]\nkind = \"crossbar\"\nports = 4\n");
    assert_eq!(kinds(&plots), ["latency", "evolution", "ports"]);
}

#[test]
fn a_fault_is_marked_in_the_picture_of_time() {
    let text = "[topology]\nkind = \"crossbar\"\nports = 4\n[[fault]]\nkind = \"slow_receiver\"\nendpoint = 1\n\
                factor = 0.5\nfrom_us = 100\nuntil_us = 200\n";
    let plots = drawn(text);
    assert!(plots[1].svg.contains("mended"));
}

#[test]
fn captions_come_from_the_names_of_keys() {
    assert_eq!(caption_of("switching.buffer_bytes"), ("buffer".to_owned(), "B"));
    assert_eq!(caption_of("traffic.window_events"), ("window events".to_owned(), ""));
    assert_eq!(caption_of("link.rate_gbps"), ("rate".to_owned(), "Gbit/s"));
}

#[test]
fn a_small_sample_has_no_thousandth_in_its_tail() {
    let latency = DistributionResult { count: 50, mean: 1e3, p50: 1e3, p99: 2e3, p999: 2e3, max: 2e3 };
    let fractions: Vec<f64> = tail(&latency).iter().map(|point| point.y).collect();
    assert_eq!(fractions, [0.5, 0.02]);
}
