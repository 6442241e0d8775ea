//! Report of a run.

use crate::units::Picos;

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Which fidelity made it.
    pub fidelity: crate::scenario::Fidelity,
    /// The seed.
    pub seed: u64,
    /// Receiving ports over which throughput is averaged.
    pub ports: u32,
    /// Simulated time, with the warm-up.
    pub simulated: Picos,
    /// Duration of the warm-up, found by batch means.
    pub warm_up: Picos,
    /// Messages, over the whole run.
    pub messages: Counts,
    /// Bytes, over the whole run.
    pub bytes: Counts,
    /// Delivered bytes per second and receiving port, after the warm-up.
    pub throughput_per_port: f64,
    /// The same as a fraction of the port's rate.
    pub efficiency: f64,
    /// Half width of the 95 % interval of `efficiency`, from batch means.
    pub efficiency_error: f64,
    /// The efficiency that no network of this topology can exceed under this traffic, from closed formulas; 1 where
    /// nothing better is known.
    pub efficiency_bound: f64,
    /// `efficiency` of each receiving port.
    pub per_port: Vec<f64>,
    /// From hand-over to the last byte.
    pub message_latency: Option<Distribution>,
    /// Event-building traffic: from the first fragment's hand-over to the event's last byte.
    pub event_latency: Option<Distribution>,
    /// Event-building traffic: events.
    pub events: Option<EventCounts>,
    /// Buffers, by stage.
    pub occupancy: Vec<Occupancy>,
    /// Resources that the heads of messages waited for, largest share first.
    pub waiting: Vec<Waiting>,
    /// Efficiency in equal slices of the run, from the start: (end of the slice, efficiency).
    pub evolution: Vec<(Picos, f64)>,
    /// Links that lost messages.
    pub losses: Vec<Loss>,
    /// Self-checks, all of them, passed or not.
    pub checks: Vec<Check>,
}

impl Report {
    /// Returns whether closed formulas gave an exact result instead of only a bound.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.checks.iter().any(|check| check.name == EXACT)
    }
}

/// The name of the check that closed formulas put into a report where their result is exact.
pub const EXACT: &str = "exact by theory";

/// Counts of messages or bytes. `offered = delivered + lost + in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handed to the network.
    pub offered: u64,
    /// Arrived.
    pub delivered: u64,
    /// Lost by the network.
    pub lost: u64,
    /// Neither, when the run ended.
    pub in_flight: u64,
}

/// Events of event-building traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// All fragments arrived.
    pub complete: u64,
    /// At least one fragment was lost for good.
    pub incomplete: u64,
    /// Neither, when the run ended.
    pub in_flight: u64,
}

impl EventCounts {
    /// Events that have ended, with all their fragments or without.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.complete + self.incomplete
    }
}

/// Quantiles of times in picoseconds, to 3 significant digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: Picos,
    /// 99 %.
    pub p99: Picos,
    /// 99.9 %.
    pub p999: Picos,
    /// Largest.
    pub max: Picos,
}

/// Buffer use of one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    /// Which buffers: "inputs of layer 1".
    pub place: String,
    /// Mean over buffers and time, in bytes.
    pub mean_bytes: f64,
    /// Largest content of one buffer, in bytes.
    pub max_bytes: u64,
    /// Size of one buffer in bytes, where it has a bound.
    pub size_bytes: Option<u64>,
}

/// Time that heads of messages waited for one kind of thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Cause of the waiting: "output of layer 2, taken by another message".
    pub cause: String,
    /// Mean waiting messages over the measured time, per sender: 1 means that each sender always waits for this.
    pub share: f64,
}

/// Lost messages of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Place and cause: "buffer full at the output of layer 3".
    pub cause: String,
    /// Number of messages.
    pub messages: u64,
}

/// A self-check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name: "conservation".
    pub name: &'static str,
    /// Whether it held.
    pub pass: bool,
    /// The figures that it compared, in words.
    pub detail: String,
}
