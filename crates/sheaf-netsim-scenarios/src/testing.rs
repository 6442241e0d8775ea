//! Reports made by hand, for tests.

use crate::scenario::{Overrides, ScenarioFile};
use sheaf_netsim::Report;
use sheaf_netsim::report::{Check, Counts, Distribution, EventCounts, Loss, Occupancy, Waiting};
use sheaf_netsim::scenario::Fidelity;
use sheaf_netsim::units::Picos;
use std::path::Path;

/// A scenario that must be good.
pub(crate) fn parse(text: &str) -> ScenarioFile {
    ScenarioFile::parse(text, "test.toml", "test", Path::new(""), Overrides::default())
        .expect("a good scenario")
}

/// A report of an event builder with this efficiency.
pub(crate) fn report(seed: u64, efficiency: f64) -> Report {
    let distribution = |scale: u64| Distribution {
        count: 1000,
        mean: 2.5e6 * scale as f64,
        p50: Picos(2_000_000 * scale),
        p99: Picos(5_000_000 * scale),
        p999: Picos(7_000_000 * scale),
        max: Picos(9_000_000 * scale),
    };
    Report {
        fidelity: Fidelity::Message,
        seed,
        ports: 4,
        simulated: Picos::from_micros(500),
        warm_up: Picos::from_micros(50),
        messages: Counts { offered: 4000, delivered: 3990, lost: 2, in_flight: 8 },
        bytes: Counts { offered: 4_000_000, delivered: 3_990_000, lost: 2000, in_flight: 8000 },
        throughput_per_port: efficiency * 1.25e9,
        efficiency,
        efficiency_error: 0.002,
        efficiency_bound: 0.75,
        per_port: vec![efficiency; 4],
        message_latency: Some(distribution(1)),
        event_latency: Some(distribution(20)),
        events: Some(EventCounts { complete: 1000, incomplete: 1, in_flight: 4 }),
        occupancy: vec![Occupancy {
            place: "inputs of layer 1".into(),
            mean_bytes: 1234.5,
            max_bytes: 4096,
            size_bytes: Some(8192),
        }],
        waiting: vec![Waiting { cause: "output of layer 1, taken by another message".into(), share: 0.34 }],
        evolution: (1..=5).map(|slice| (Picos::from_micros(slice * 100), efficiency)).collect(),
        losses: vec![Loss { cause: "buffer full at the output of layer 1".into(), messages: 2 }],
        checks: vec![Check { name: "conservation", pass: true, detail: "4000 = 3990 + 2 + 8".into() }],
    }
}
