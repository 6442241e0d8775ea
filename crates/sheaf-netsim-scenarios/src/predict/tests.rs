use super::*;
use crate::testing::report;

fn plan() -> Plan {
    Plan {
        readouts: 20,
        builders: 12,
        size_bytes: 2048,
        rms_bytes: 0.0,
        overhead_ns: Interval { value: 500.0, low: 400.0, high: 600.0 },
        rate_bytes_per_second: Interval::exact(1.25e9),
        link: Rate::from_gigabits(10),
        shape: Shape::Pull,
        network: None,
        leaf_ports: 8,
        spines: None,
        buffer_bytes: 1 << 20,
        routes: Routes::DestinationDigit,
        seeds: 2,
        messages_per_sender: 10,
    }
}

/// A network that knows nothing but its arbiter and its hosts.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a simulation")]
fn simulate(scenario: &Scenario) -> Result<Report, String> {
    let arbiter = match scenario.arbiter {
        Arbiter::Random => 0.5,
        Arbiter::RoundRobin => 0.4,
        _ => 0.6,
    };
    let overhead = scenario.endpoint.overhead.0 as f64;
    Ok(report(scenario.seed, arbiter * (1.0 - (overhead - 500e3) / 500e3 * 0.05)))
}

#[test]
fn every_combination_is_run_and_the_band_holds_them() {
    let prediction = predict(&plan(), 2, simulate, |_| ()).unwrap();
    assert_eq!(prediction.efficiency, Band { median: 0.5, low: 0.4, high: 0.6, runs: 2 * 3 * 2 * 2 });
    let events = prediction.events_per_second.median;
    assert!((events - 0.5 * 1.25e9 * 12.0 / (20.0 * 2048.0)).abs() < 1e-6, "{events}");
}

#[test]
fn what_moves_the_result_most_is_told_first() {
    let prediction = predict(&plan(), 1, simulate, |_| ()).unwrap();
    let order: Vec<&str> = prediction.sensitivity.iter().map(|known| known.unknown.as_str()).collect();
    assert_eq!(order[..2], ["arbiter", "overhead per message"]);
    assert!((prediction.sensitivity[0].swing - 0.4).abs() < 1e-9, "0.4 to 0.6 of 0.5");
    assert!(prediction.sensitivity[1].swing > 0.01);
    assert!(prediction.sensitivity[2].swing.abs() < 1e-9, "this network does not know about {}", order[2]);
    assert!(!order.contains(&"rate of a host"), "what is known exactly is no unknown");
}

#[test]
fn a_message_takes_the_time_that_was_measured() {
    let mut plan = plan();
    plan.rate_bytes_per_second = Interval::exact(0.625e9);
    // 2048 bytes take 3276.8 ns at the host's rate and 1638.4 ns on the link: the host waits for the difference.
    assert_eq!(plan.overhead(500.0, 0.625e9), Picos(2_138_400));
    assert_eq!(plan.overhead(0.0, 1e12), Picos::ZERO, "no host is faster than its link");
}

#[test]
fn few_hosts_share_a_switch_and_many_get_leaves_and_spines() {
    let mut plan = plan();
    assert_eq!(
        plan.topology().unwrap(),
        (Topology::FoldedClos { leaves: 4, ports: 8, spines: 8, uplinks: 1, uplink_rate: None }, 32)
    );
    plan.leaf_ports = 32;
    assert_eq!(plan.topology().unwrap(), (Topology::Crossbar { ports: 32 }, 32));
    plan.readouts = 70_000;
    assert!(plan.topology().unwrap_err().to_string().contains("do not fit"));
}

#[test]
fn the_same_prediction_whatever_the_number_of_threads() {
    let with = |threads| predict(&plan(), threads, simulate, |_| ()).unwrap();
    assert_eq!(with(1), with(5));
    assert_eq!(with(1).to_string(), with(5).to_string());
}

#[test]
fn runs_that_fail_are_told_and_leave_the_band_to_the_others() {
    let fails = |scenario: &Scenario| match scenario.arbiter {
        Arbiter::Random => Err("a deadlock".to_owned()),
        _ => simulate(scenario),
    };
    let prediction = predict(&plan(), 2, fails, |_| ()).unwrap();
    assert_eq!((prediction.efficiency.runs, prediction.errors.len()), (16, 1));
    assert!(prediction.to_string().contains("NOT SIMULATED: a deadlock"));
    let error = predict(&plan(), 1, |_| Err::<Report, _>("no"), |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "no run could be simulated; the first says: no");
}
