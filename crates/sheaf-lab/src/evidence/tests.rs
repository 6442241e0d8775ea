use super::*;
use crate::counters::{PortCounters, ProcessorTimes};
use sheaf_config::LabFile;

/// The runs here have no start time; they had triggers for four seconds.
const RUN: Span = Span { start: None, triggered: Duration::from_secs(4) };

/// One readout unit and one builder unit behind ports of 8 Mbit/s: 1000 bytes a millisecond.
fn plan() -> Plan {
    let text = "[lab]\nunits = 1\nmtu_bytes = 1500\nrate_mbps = 8\n";
    let file = LabFile::parse(text, "lab.toml", "lab", |_| {}).unwrap_or_else(|errors| panic!("{errors}"));
    crate::measure::plan(&file.points[0])
}

/// Samples each second, of a port that has sent `packets` packets of 976 bytes (1000 on the wire) up to then, while the
/// processors had `idle` idle ticks of 100.
fn samples(packets: &[u64], idle: u64) -> Vec<Sample> {
    let port = (NetworkKind::Rail(0), "r0".to_owned(), "bu0".to_owned());
    let sample = |(second, packets): (u64, &u64)| Sample {
        at: Duration::from_secs(second),
        ports: [(
            port.clone(),
            PortCounters { bytes: packets * 976, packets: *packets, ..PortCounters::default() },
        )]
        .into(),
        processors: ProcessorTimes { total: 100 * second, idle: idle * second, ..ProcessorTimes::default() },
        ..Sample::default()
    };
    (0..).zip(packets).map(sample).collect()
}

fn evidence_of(samples: &[Sample], payload_bytes: u64) -> Evidence {
    evidence(&plan(), &Observations { samples, looks: &[], payload_bytes, host_drops: 0 }, RUN)
}

#[test]
fn a_port_is_full_when_packets_with_their_gaps_fill_its_rate() {
    let seen = samples(&[0, 10, 1010, 2010, 3010, 4010, 4020], 50);
    let evidence = evidence_of(&seen, 4_020_000);
    assert!((evidence.line_use - 1.0).abs() < 1e-9, "{evidence:?}");
    assert!(
        (evidence.seconds - 2.0).abs() < 1e-9,
        "neither the greetings nor the silence at the end: {evidence:?}"
    );
    assert!((evidence.wire_bits_per_byte - 8.0).abs() < 1e-9, "{evidence:?}");
    assert!((evidence.packet_bytes - 976.0).abs() < 1e-9, "{evidence:?}");
    assert_eq!(evidence.limited_by(), LimitedBy::Network);
}

#[test]
fn a_machine_without_idle_processors_is_the_limit_unless_the_ports_are_full() {
    let half = evidence_of(&samples(&[0, 500, 1000, 1500, 2000, 2500], 1), 2_500_000);
    assert_eq!(half.limited_by(), LimitedBy::Cpu, "{half:?}");
    let full = evidence_of(&samples(&[0, 1000, 2000, 3000, 4000, 5000], 1), 5_000_000);
    assert_eq!(full.limited_by(), LimitedBy::Network, "{full:?}");
}

#[test]
fn packets_that_no_processor_took_make_the_machine_the_limit() {
    let mut seen = samples(&[0, 900, 1800, 2700, 3600, 4500], 50);
    assert_eq!(evidence_of(&seen, 1).limited_by(), LimitedBy::Network);
    seen[5].processor_drops = 1;
    assert_eq!(evidence_of(&seen, 1).limited_by(), LimitedBy::Cpu);
}

#[test]
fn half_empty_ports_and_idle_processors_say_nothing_until_a_buffer_overflows() {
    let mut seen = samples(&[0, 500, 1000, 1500, 2000, 2500], 50);
    assert_eq!(evidence_of(&seen, 1).limited_by(), LimitedBy::Undecided);
    for port in seen[5].ports.values_mut() {
        port.drops = 1;
    }
    assert_eq!(evidence_of(&seen, 1).limited_by(), LimitedBy::Network);
}

#[test]
fn a_run_without_traffic_has_no_evidence_and_no_verdict_for_the_network() {
    let nothing = {
        let samples = samples(&[0, 0, 0], 50);
        let seen = Observations { samples: &samples, looks: &[], payload_bytes: 0, host_drops: 3 };
        evidence(&plan(), &seen, RUN)
    };
    assert_eq!((nothing.seconds, nothing.host_drops), (0.0, 3));
    assert_ne!(nothing.limited_by(), LimitedBy::Network);
    assert!(intervals(&plan(), &samples(&[0, 0, 0], 50)).is_empty());
    assert!(intervals(&plan(), &[]).is_empty());
}

#[test]
fn intervals_begin_with_the_traffic() {
    let intervals = intervals(&plan(), &samples(&[0, 0, 1000, 1500], 50));
    let seen: Vec<(f64, f64)> = intervals.iter().map(|it| (it.at_s, it.builder_bits_per_second[0])).collect();
    assert_eq!(seen, [(0.5, 8e6), (1.5, 4e6)]);
}

#[test]
fn a_port_that_seems_busier_than_it_can_be_was_not_sampled_in_time() {
    let late = evidence_of(&samples(&[0, 1200, 2400, 3600, 4800, 6000], 50), 1);
    assert_eq!(late.limited_by(), LimitedBy::Cpu, "{late:?}");
}

#[test]
fn what_nodes_said_before_the_run_is_not_counted_as_its_heads() {
    // A thousand packets of greetings until the run begins at 1.2 s, then as many for 976,000 bytes of payload each second.
    let seen = samples(&[0, 1000, 2000, 3000, 4000, 5000, 6000], 50);
    let span = Span { start: Some(Duration::from_millis(1200)), triggered: Duration::from_secs(4) };
    let observations = Observations { samples: &seen, looks: &[], payload_bytes: 5 * 976_000, host_drops: 0 };
    let evidence = evidence(&plan(), &observations, span);
    assert!((evidence.wire_bits_per_byte - 8.0 * 1000.0 / 976.0).abs() < 1e-9, "{evidence:?}");
    // Closer sampling shows that half a thousand more belong to them.
    let port = seen[0].ports.keys().next().expect("it has one").clone();
    let looked = PortCounters { bytes: 1500 * 976, packets: 1500, ..PortCounters::default() };
    let look =
        Sample { at: Duration::from_millis(1100), ports: [(port, looked)].into(), ..Sample::default() };
    let closer = Observations { looks: &[look], payload_bytes: 9 * 488_000, ..observations };
    let closer = super::evidence(&plan(), &closer, span);
    assert!((closer.wire_bits_per_byte - 8.0 * 1000.0 / 976.0).abs() < 1e-9, "{closer:?}");
    // From a quarter of the run on, 2.2 s, to its last trigger, 5.2 s; samples are taken each second.
    assert!((evidence.seconds - 2.0).abs() < 1e-9, "{evidence:?}");
}
