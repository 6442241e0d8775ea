//! Evidence whether the network was the limit of a run.

use crate::plan::{Network, NetworkKind, Plan, UNCOUNTED_BYTES};
use crate::sampler::Sample;
use serde::Serialize;
use sheaf_wire::Role;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Ports as busy as this are the limit, whatever else is scarce.
const FULL: f64 = 0.95;
/// Utilisation above which a value is impossible (full, plus the error of a sample): such samples were late, because no
/// processor was free.
const IMPOSSIBLE: f64 = 1.05;
/// Ports as busy as this are the limit where nothing else is.
const BUSY: f64 = 0.85;
/// With less than this share of its processors idle a machine may be the limit.
const IDLE: f64 = 0.05;
/// Fraction of the trigger time that is the start, in which connections find their pace.
const BEGINNING: f64 = 0.25;
/// Intervals with less than this share of the busiest one's traffic are the run's beginning and end.
const ACTIVE: f64 = 0.5;

/// The limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// Line rates or output buffers.
    Network,
    /// The processors of this machine: no result about a network.
    Cpu,
    /// Neither is seen to be: the protocol, its bounds, or a trigger rate.
    Undecided,
}

impl LimitedBy {
    /// Returns its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Cpu => "cpu",
            Self::Undecided => "undecided",
        }
    }
}

/// Observations while the traffic was on: without the first quarter of the run, and without the time after its last
/// trigger.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Duration of the observation.
    pub seconds: f64,
    /// Share of the processors' time that was idle.
    pub idle_share: f64,
    /// Share of the processors' time that the machine below gave to others.
    pub steal_share: f64,
    /// Share of the processors' time that the kernel spent on packets outside of any process.
    pub softirq_share: f64,
    /// Packets dropped because no processor took them in time.
    pub processor_drops: u64,
    /// Packets dropped at full output buffers of switches, over the whole run.
    pub port_drops: u64,
    /// The most that was seen waiting in an output buffer, in bytes.
    pub port_backlog_bytes: u64,
    /// Packets dropped in hosts, waiting for their cables, over the whole run.
    pub host_drops: u64,
    /// TCP segments that were sent again, over the whole run.
    pub retransmitted_segments: u64,
    /// Datagrams dropped because a socket's buffer was full, over the whole run.
    pub socket_drops: u64,
    /// Share of the line rate that the ports towards builders carried, heads and gaps counted: the mean over ports.
    pub line_use: f64,
    /// The same of the busiest port.
    pub line_use_peak: f64,
    /// Mean size of a packet towards builders, with its Ethernet head, in bytes: more than the largest packet plus 14
    /// bytes would be impossible on a cable.
    pub packet_bytes: f64,
    /// Bits on the wire towards builders for each byte that the run has built into events, from the run's start to its
    /// end: the greetings of the nodes come before.
    pub wire_bits_per_byte: f64,
}

impl Evidence {
    /// The limit of the run.
    #[must_use]
    pub fn limited_by(&self) -> LimitedBy {
        if self.line_use_peak > IMPOSSIBLE {
            LimitedBy::Cpu
        } else if self.line_use >= FULL {
            LimitedBy::Network
        } else if self.processor_drops > 0 || self.idle_share < IDLE {
            LimitedBy::Cpu
        } else if self.line_use >= BUSY || self.port_drops > 0 {
            LimitedBy::Network
        } else {
            LimitedBy::Undecided
        }
    }
}

/// Load of the ports towards builders between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its middle, from the first traffic, in seconds.
    pub at_s: f64,
    /// Bits per second on the wire towards each builder's host, all rails together.
    pub builder_bits_per_second: Vec<f64>,
    /// Packets dropped at output buffers in this time.
    pub port_drops: u64,
    /// Resident memory of all nodes together at its end, in bytes.
    pub resident_bytes: u64,
}

/// The ports towards the hosts of builders, with the line rate: network, switch, port, bits per second.
pub(crate) fn builder_ports(plan: &Plan) -> Vec<Vec<(NetworkKind, String, String)>> {
    let of_host = |(index, host): (usize, &crate::plan::Host)| {
        let is_builder = host.nodes.iter().any(|node| node.role == Role::Builder);
        let port = |network: &Network| {
            let switch = network.switches[network.leaf_of_host[index]].name.clone();
            (network.kind, switch, host.name.clone())
        };
        is_builder.then(|| plan.rails().map(port).collect())
    };
    plan.hosts.iter().enumerate().filter_map(of_host).collect()
}

/// Returns the bits on the wire of a port's packets.
#[expect(clippy::cast_precision_loss, reason = "counts of bytes are far below 2^52")]
fn wire_bits(sample: &Sample, ports: &[(NetworkKind, String, String)]) -> f64 {
    let of = |port| {
        sample.ports.get(port).map_or(0, |seen| seen.bytes + seen.packets * u64::from(UNCOUNTED_BYTES))
    };
    8.0 * ports.iter().map(of).sum::<u64>() as f64
}

fn drops(sample: &Sample) -> u64 {
    sample.ports.values().map(|port| port.drops).sum()
}

/// The intervals between samples, from the first traffic on.
pub(crate) fn intervals(plan: &Plan, samples: &[Sample]) -> Vec<Interval> {
    let ports = builder_ports(plan);
    let Some(start) = first_traffic(&ports, samples) else { return Vec::new() };
    let pairs = samples.windows(2).filter(|pair| pair[1].at > start);
    let interval = |pair: &[Sample]| {
        let seconds = (pair[1].at - pair[0].at).as_secs_f64().max(1e-9);
        let rate = |ports: &Vec<_>| (wire_bits(&pair[1], ports) - wire_bits(&pair[0], ports)) / seconds;
        let middle = (pair[0].at + pair[1].at) / 2;
        Interval {
            at_s: middle.saturating_sub(start).as_secs_f64(),
            builder_bits_per_second: ports.iter().map(rate).collect(),
            port_drops: drops(&pair[1]).saturating_sub(drops(&pair[0])),
            resident_bytes: pair[1].resident_bytes,
        }
    };
    pairs.map(interval).collect()
}

/// The last sample before ports towards builders carried more than the greetings of the nodes.
pub(crate) fn first_traffic(
    ports: &[Vec<(NetworkKind, String, String)>],
    samples: &[Sample],
) -> Option<Duration> {
    let active = active(ports, samples)?;
    Some(samples[*active.start()].at)
}

/// From which to which sample there was traffic.
fn active(ports: &[Vec<(NetworkKind, String, String)>], samples: &[Sample]) -> Option<RangeInclusive<usize>> {
    let total = |sample: &Sample| ports.iter().map(|ports| wire_bits(sample, ports)).sum::<f64>();
    let rate = |pair: &[Sample]| {
        (total(&pair[1]) - total(&pair[0])) / (pair[1].at - pair[0].at).as_secs_f64().max(1e-9)
    };
    let rates: Vec<f64> = samples.windows(2).map(rate).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let first = rates.iter().position(|rate| *rate >= ACTIVE * most)?;
    let last = rates.iter().rposition(|rate| *rate >= ACTIVE * most)?;
    Some(first..=last + 1)
}

/// When a run had triggers, on the sampler's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    /// Its start; `None` if the event manager does not report it.
    pub(crate) start: Option<Duration>,
    /// For how long there were triggers.
    pub(crate) triggered: Duration,
}

/// Returns the samples at the ends of the measured span, from those between which there was traffic.
fn counting(samples: &[Sample], active: &RangeInclusive<usize>, span: Span) -> (usize, usize) {
    let (first, last) = (*active.start(), *active.end());
    let start = span.start.unwrap_or(samples[first].at);
    let from = start + span.triggered.mul_f64(BEGINNING);
    // The first and the last interval may have begun or ended in the middle.
    let begin = (first + 1..last).find(|place| samples[*place].at >= from);
    let end = (first + 1..last).rfind(|place| samples[*place].at <= start + span.triggered);
    match begin.zip(end) {
        Some((begin, end)) if begin < end => (begin, end),
        // Of a short run nothing else is left.
        _ => (first, last),
    }
}

/// Observations of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observations<'a> {
    /// Complete samples, in the order of time.
    pub samples: &'a [Sample],
    /// Samples of ports only, taken at the beginning between the others.
    pub looks: &'a [Sample],
    /// Payload of built events.
    pub payload_bytes: u64,
    /// Packets lost in hosts.
    pub host_drops: u64,
}

/// Returns the evidence of a run.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn evidence(plan: &Plan, observations: &Observations<'_>, span: Span) -> Evidence {
    let Observations { samples, looks, payload_bytes, host_drops } = *observations;
    let ports = builder_ports(plan);
    let (Some(active), Some(end)) = (active(&ports, samples), samples.last()) else {
        return Evidence { host_drops, ..Evidence::default() };
    };
    let (first, last) = counting(samples, &active, span);
    let (before, after) = (&samples[first], &samples[last]);
    let seconds = (after.at - before.at).as_secs_f64().max(1e-9);
    let ticks = after.processors.total.saturating_sub(before.processors.total).max(1) as f64;
    let share = |of: fn(&Sample) -> u64| of(after).saturating_sub(of(before)) as f64 / ticks;
    let rate = plan.rails().filter_map(|network| network.shape).map(|shape| shape.rate_bps).sum::<f64>();
    let uses: Vec<f64> = ports
        .iter()
        .map(|ports| (wire_bits(after, ports) - wire_bits(before, ports)) / seconds / rate)
        .collect();
    let carried = |of: fn(&crate::counters::PortCounters) -> u64| {
        ports.iter().flatten().filter_map(|port| end.ports.get(port)).map(of).sum::<u64>() as f64
    };
    let backlog =
        samples.iter().flat_map(|sample| sample.ports.values()).map(|port| port.backlog_bytes).max();
    let total = |sample: &Sample| ports.iter().map(|ports| wire_bits(sample, ports)).sum::<f64>();
    // No event was built before the last sample for which that is certain.
    let before_start = |start| samples.iter().chain(looks).filter(move |sample| sample.at <= start);
    let greeted = span.start.and_then(|start| before_start(start).max_by_key(|sample| sample.at));
    Evidence {
        seconds,
        idle_share: share(|sample| sample.processors.idle),
        steal_share: share(|sample| sample.processors.steal),
        softirq_share: share(|sample| sample.processors.softirq),
        processor_drops: end.processor_drops.saturating_sub(samples[0].processor_drops),
        port_drops: drops(end),
        port_backlog_bytes: backlog.unwrap_or(0),
        host_drops,
        retransmitted_segments: end.retransmitted,
        socket_drops: end.socket_drops,
        line_use: uses.iter().sum::<f64>() / uses.len().max(1) as f64,
        line_use_peak: uses.iter().copied().fold(0.0, f64::max),
        packet_bytes: carried(|port| port.bytes) / carried(|port| port.packets).max(1.0),
        wire_bits_per_byte: (total(end) - greeted.map_or(0.0, total)) / (payload_bytes.max(1)) as f64,
    }
}

#[cfg(test)]
mod tests;
