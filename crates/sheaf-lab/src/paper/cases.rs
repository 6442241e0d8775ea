//! The documents' measurements: the scenario that repeats each, and how its points are reduced.

use crate::result::PointResult;

/// A measurement.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) document: &'static str,
    /// Theirs, as a share of the line.
    pub(super) expected: Option<f64>,
    /// Ours at least.
    pub(super) asked: f64,
    /// A shipped scenario.
    pub(super) scenario: &'static str,
    /// Meaning of the figure.
    pub(super) about: &'static str,
    /// Reduces the points to the figure and a comment.
    pub(super) value: fn(&[PointResult]) -> (Option<f64>, String),
    /// Whether it runs without being named: cases that take minutes do not.
    pub(super) by_default: bool,
}

const UNIC: &str = "UNIC 2004";
const CMS: &str = "CMS 2000";

/// All of them, in the order of the table that they are asked for in.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "stream-1500",
        document: UNIC,
        expected: Some(116.0 / 125.0),
        asked: 0.97,
        scenario: "stream",
        about: "one to one over raw Ethernet, packets of 1500 bytes",
        value: with_ordinary_packets,
        by_default: true,
    },
    Case {
        name: "stream-9000",
        document: UNIC,
        expected: None,
        asked: 0.97,
        scenario: "stream",
        about: "one to one over raw Ethernet, packets of 9000 bytes",
        value: with_jumbo_packets,
        by_default: true,
    },
    Case {
        name: "two-rails",
        document: UNIC,
        expected: Some(230.0 / 250.0),
        asked: 0.97,
        scenario: "two-rails",
        about: "one to one over two rails of raw Ethernet, share of both lines",
        value: least_efficiency,
        by_default: true,
    },
    Case {
        name: "events-paced",
        document: CMS,
        expected: Some(0.83),
        asked: 0.95,
        scenario: "events-paced",
        about: "16x16, 2 kB, paced pull, over UDP and over raw Ethernet; theirs 52 kHz over gigabit Ethernet",
        value: without_loss,
        by_default: true,
    },
    Case {
        name: "events-barrel",
        document: CMS,
        expected: Some(0.88),
        asked: 0.95,
        scenario: "events-barrel",
        about: "16x16, 2 kB, barrel shifter; theirs 70 kHz over Myrinet",
        value: without_loss,
        by_default: true,
    },
    Case {
        name: "lognormal-datagrams",
        document: UNIC,
        expected: Some(115.0 / 125.0),
        asked: 0.95,
        scenario: "lognormal-datagrams",
        about: "31x31, log-normal sizes of 16 kB with an rms of 8 kB, over raw Ethernet",
        value: least_efficiency,
        by_default: true,
    },
    Case {
        name: "lognormal-tcp",
        document: UNIC,
        expected: Some(75.0 / 125.0),
        asked: 0.90,
        scenario: "lognormal-tcp",
        about: "31x31, log-normal sizes of 16 kB with an rms of 8 kB, over TCP",
        value: least_efficiency,
        by_default: true,
    },
    Case {
        name: "scaling",
        document: CMS,
        expected: None,
        asked: 0.97,
        scenario: "scaling",
        about: "throughput of a node from 1x1 to 31x31, the least over the greatest; theirs is flat as far as a plot shows",
        value: flatness,
        by_default: true,
    },
    Case {
        name: "push-incast",
        document: CMS,
        expected: None,
        asked: 1.0,
        scenario: "push-incast",
        about: "all sources to one builder at a time through outputs of 64 kB: share of events that are complete although \
                packets are lost; theirs lose up to 16 % point to point without flow control",
        value: recovered,
        by_default: true,
    },
    Case {
        name: "loss-1",
        document: "",
        expected: None,
        asked: 0.90,
        scenario: "loss-1",
        about: "throughput with 1 % of datagrams lost over that without loss, every byte compared",
        value: against_first,
        by_default: true,
    },
    Case {
        name: "loss-10",
        document: "",
        expected: None,
        asked: 0.70,
        scenario: "loss-10",
        about: "throughput with 10 % of datagrams lost over that without loss, every byte compared",
        value: against_first,
        by_default: true,
    },
    Case {
        name: "slow-builder",
        document: CMS,
        expected: Some(7.5 / 8.0),
        asked: 7.5 / 8.0,
        scenario: "slow-builder",
        about: "one of 8 builders at half its rate for a while: what all get then over what they got before",
        value: while_slow,
        by_default: true,
    },
    Case {
        name: "slow-builder-back",
        document: CMS,
        expected: Some(1.0),
        asked: 0.97,
        scenario: "slow-builder",
        about: "the same, after it is as fast as before again",
        value: after_slow,
        by_default: true,
    },
    Case {
        name: "barrel-cut",
        document: "",
        expected: None,
        asked: 0.97 * 7.0 / 8.0,
        scenario: "barrel-cut",
        about: "barrel shifter, one of 8 builders without its cable for a while: what all get then over what they got before",
        value: while_slow,
        by_default: true,
    },
    Case {
        name: "barrel-cut-back",
        document: "",
        expected: None,
        asked: 0.97,
        scenario: "barrel-cut",
        about: "the same, after the cable is mended",
        value: after_slow,
        by_default: true,
    },
    Case {
        name: "soak",
        document: CMS,
        expected: Some(0.90),
        asked: 0.95,
        scenario: "soak",
        about: "ten minutes at full load, books balanced, memory flat; theirs moved 1 TB",
        value: least_efficiency,
        by_default: false,
    },
];

fn least_efficiency(points: &[PointResult]) -> (Option<f64>, String) {
    let least = points.iter().map(|point| point.efficiency).reduce(f64::min);
    let each: Vec<String> = points
        .iter()
        .map(|point| {
            format!(
                "{} {}x{} mtu {}: {:.2} MB/s, {:.0} events/s, {} lost at ports",
                point.transport,
                point.readouts,
                point.builders,
                point.mtu_bytes,
                point.steady_bytes_per_second / 1e6,
                point.events_per_second,
                point.evidence.port_drops
            )
        })
        .collect();
    (least, each.join("; "))
}

fn with_ordinary_packets(points: &[PointResult]) -> (Option<f64>, String) {
    of_mtu(points, 1_500)
}

fn with_jumbo_packets(points: &[PointResult]) -> (Option<f64>, String) {
    of_mtu(points, 9_000)
}

fn of_mtu(points: &[PointResult], mtu_bytes: u32) -> (Option<f64>, String) {
    let of_mtu: Vec<PointResult> =
        points.iter().filter(|point| point.mtu_bytes == mtu_bytes).cloned().collect();
    least_efficiency(&of_mtu)
}

/// Shaped traffic fills no buffer: a packet that is lost is a failure.
fn without_loss(points: &[PointResult]) -> (Option<f64>, String) {
    let (value, note) = least_efficiency(points);
    let lost: u64 = points.iter().map(|point| point.evidence.port_drops).sum();
    if lost > 0 {
        (None, format!("{note}; {lost} packets were lost at outputs, none should be"))
    } else {
        (value, note)
    }
}

/// Throughput of a node, the least over the greatest.
fn flatness(points: &[PointResult]) -> (Option<f64>, String) {
    let least = points.iter().map(|point| point.efficiency).reduce(f64::min);
    let most = points.iter().map(|point| point.efficiency).reduce(f64::max);
    let each: Vec<String> =
        points.iter().map(|point| format!("{} {:.3}", point.readouts, point.efficiency)).collect();
    (least.zip(most).map(|(least, most)| least / most), format!("of the line: {}", each.join(", ")))
}

/// Share of events that are complete, where packets were lost.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn recovered(points: &[PointResult]) -> (Option<f64>, String) {
    let lost: u64 = points.iter().map(|point| point.evidence.port_drops).sum();
    if lost == 0 {
        return (None, "no packet was lost: nothing to recover from".into());
    }
    let built: u64 = points.iter().map(|point| point.events_built).sum();
    let incomplete: u64 = points.iter().filter_map(|point| point.run["events_incomplete"].as_u64()).sum();
    let sent: u64 = points.iter().map(sent_packets).sum();
    let share = 100.0 * lost as f64 / (lost + sent).max(1) as f64;
    let value = (built > 0).then(|| (built - incomplete.min(built)) as f64 / built as f64);
    let of_line = points.first().map_or(0.0, |point| point.efficiency);
    (
        value,
        format!(
            "{built} events, {lost} packets lost at outputs ({share:.1} %), {:.1} % of the line",
            100.0 * of_line
        ),
    )
}

/// Packets that reached builders.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of packets")]
fn sent_packets(point: &PointResult) -> u64 {
    let bytes = point.run["bytes"].as_f64().unwrap_or(0.0) * point.evidence.wire_bits_per_byte / 8.0;
    (bytes / (point.evidence.packet_bytes + f64::from(crate::plan::UNCOUNTED_BYTES))).round() as u64
}

/// The last point's throughput over the first's.
fn against_first(points: &[PointResult]) -> (Option<f64>, String) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return (None, String::new()) };
    let value = (points.len() > 1 && first.efficiency > 0.0).then(|| last.efficiency / first.efficiency);
    (
        value,
        format!(
            "{:.1} % of the line without loss, {:.1} % with",
            100.0 * first.efficiency,
            100.0 * last.efficiency
        ),
    )
}

/// The sum over builders in a part of a run: from where to where, in seconds since the first traffic.
#[expect(clippy::cast_precision_loss, reason = "counts of intervals are small")]
fn mean_between(point: &PointResult, from: f64, until: f64) -> Option<f64> {
    let inside = point.intervals.iter().filter(|interval| interval.at_s >= from && interval.at_s <= until);
    let sums: Vec<f64> = inside.map(|interval| interval.builder_bits_per_second.iter().sum()).collect();
    (!sums.is_empty()).then(|| sums.iter().sum::<f64>() / sums.len() as f64)
}

/// When the scenarios `slow-builder` and `barrel-cut` slow their builder and stop to; a test compares it with the files.
pub(super) const SLOW_S: (f64, f64) = (6.0, 14.0);

/// Time given to traffic to settle after a change, in seconds.
const SETTLE_S: f64 = 1.0;

/// Duration of these runs, in seconds; a test compares it with the files.
pub(super) const SLOW_RUN_S: f64 = 20.0;

fn before_slow(point: &PointResult) -> Option<f64> {
    mean_between(point, SETTLE_S, SLOW_S.0 - SETTLE_S / 2.0)
}

fn while_slow(points: &[PointResult]) -> (Option<f64>, String) {
    let value = points.first().and_then(|point| {
        let slow = mean_between(point, SLOW_S.0 + SETTLE_S, SLOW_S.1 - SETTLE_S / 2.0)?;
        Some(slow / before_slow(point)?)
    });
    (value, "bits at the ports towards builders".into())
}

fn after_slow(points: &[PointResult]) -> (Option<f64>, String) {
    let value = points.first().and_then(|point| {
        let after = mean_between(point, SLOW_S.1 + SETTLE_S, SLOW_RUN_S - SETTLE_S)?;
        Some(after / before_slow(point)?)
    });
    (value, "bits at the ports towards builders".into())
}
