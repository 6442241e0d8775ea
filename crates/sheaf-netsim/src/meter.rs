//! Measurement during a run, and its results.
//!
//! The length of a run need not be known: time is cut into slices, and whenever there are too many the slices are joined
//! in pairs. So a run of any length ends with some hundred slices of equal length and a bounded memory. Warm-up, error
//! and evolution come from the slices.
//!
//! | module | holds |
//! |---|---|
//! | `slices` | sums in equal slices of time |
//! | `steady` | warm-up and error by batch means |

mod slices;
mod steady;

use crate::report::{Counts, Distribution, Loss, Occupancy, Waiting};
use crate::traffic::Message;
use crate::units::{Picos, Rate};
use hdrhistogram::Histogram;
use slices::Slices;
pub use steady::{Steady, steady};

/// Slices of the throughput of all ports together.
const FINE: usize = 512;
/// Slices of each port and of each cause of waiting: 128 bytes for each.
const COARSE: usize = 16;
/// Maximum number of points in time in a report.
const POINTS: usize = 64;

/// A cause of waiting or loss, or a kind of buffer, in the order of the names that a meter was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause(pub u16);

/// Names of the quantities that a meter distinguishes.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Resources that heads of messages may wait for.
    pub waiting: Vec<String>,
    /// Places and causes of losses.
    pub losses: Vec<String>,
    /// Kinds of buffers: the name, how many there are, and the size of one in bytes where it has a bound.
    pub buffers: Vec<(String, u32, Option<u64>)>,
}

/// Measures one run. Engines call it as things happen: `now` never goes back.
#[derive(Clone, Debug)]
pub struct Meter {
    receives: Vec<bool>,
    ports: u32,
    senders: u32,
    rate: Rate,
    offered: (u64, u64),
    delivered: (u64, u64),
    lost: (u64, u64),
    total: Slices,
    by_port: Slices,
    latency: Latency,
    waiting: Slices,
    losses: Vec<u64>,
    buffers: Vec<Level>,
    names: Names,
    end: Picos,
}

/// Final measurements of a meter: the measured fields of a [`Report`](crate::Report).
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Receiving ports.
    pub ports: u32,
    /// Simulated time.
    pub simulated: Picos,
    /// Duration of the warm-up.
    pub warm_up: Picos,
    /// Messages.
    pub messages: Counts,
    /// Bytes.
    pub bytes: Counts,
    /// Bytes per second and receiving port after the warm-up.
    pub throughput_per_port: f64,
    /// The same as a fraction of the rate.
    pub efficiency: f64,
    /// Half width of its 95 % interval.
    pub efficiency_error: f64,
    /// Efficiency of each receiving port.
    pub per_port: Vec<f64>,
    /// From hand-over to the last byte.
    pub message_latency: Option<Distribution>,
    /// Buffers.
    pub occupancy: Vec<Occupancy>,
    /// Waiting times by resource, largest share first.
    pub waiting: Vec<Waiting>,
    /// Efficiency in equal slices.
    pub evolution: Vec<(Picos, f64)>,
    /// Losses by place.
    pub losses: Vec<Loss>,
}

impl Meter {
    /// Makes a meter for a network with `senders` senders, whose endpoint *i* receives if `receives[i]` is true, at
    /// `rate` per port.
    #[must_use]
    pub fn new(receives: Vec<bool>, senders: u32, rate: Rate, names: Names) -> Self {
        let count = receives.iter().filter(|&&receives| receives).count();
        Self {
            ports: u32::try_from(count).expect("a network bounds its endpoints"),
            senders,
            rate,
            offered: (0, 0),
            delivered: (0, 0),
            lost: (0, 0),
            total: Slices::new(FINE, 1),
            by_port: Slices::new(COARSE, receives.len()),
            latency: Latency::new(),
            waiting: Slices::new(COARSE, names.waiting.len()),
            losses: vec![0; names.losses.len()],
            buffers: vec![Level::default(); names.buffers.len()],
            names,
            receives,
            end: Picos::ZERO,
        }
    }

    /// `message` was handed to the network.
    #[inline]
    pub fn offered(&mut self, message: &Message) {
        self.offered.0 += 1;
        self.offered.1 += u64::from(message.bytes);
    }

    /// The last byte of `message` has arrived.
    #[inline]
    pub fn delivered(&mut self, message: &Message, now: Picos) {
        let bytes = u64::from(message.bytes);
        self.delivered.0 += 1;
        self.delivered.1 += bytes;
        if self.receives[message.destination.index()] {
            self.total.add(0, bytes, now);
            self.by_port.add(message.destination.index(), bytes, now);
        }
        self.latency.add(now.since(message.born), now);
    }

    /// `message` was lost, because of `cause`.
    pub fn lost(&mut self, message: &Message, cause: Cause) {
        self.lost.0 += 1;
        self.lost.1 += u64::from(message.bytes);
        self.losses[usize::from(cause.0)] += 1;
    }

    /// Records that the head of a message has waited for `cause` since `from`, and no longer does.
    #[inline]
    pub fn waited(&mut self, cause: Cause, from: Picos, now: Picos) {
        self.waiting.add(usize::from(cause.0), now.since(from).0, now);
    }

    /// `bytes` came into a buffer of `kind`, which now holds `content`.
    #[inline]
    pub fn filled(&mut self, kind: Cause, bytes: u64, content: u64, now: Picos) {
        let level = &mut self.buffers[usize::from(kind.0)];
        level.until(now);
        level.bytes += bytes;
        level.max = level.max.max(content);
    }

    /// `bytes` left a buffer of `kind`.
    #[inline]
    pub fn drained(&mut self, kind: Cause, bytes: u64, now: Picos) {
        let level = &mut self.buffers[usize::from(kind.0)];
        level.until(now);
        level.bytes -= bytes;
    }

    /// Returns the number of messages that have arrived.
    #[must_use]
    #[inline]
    pub fn delivered_messages(&self) -> u64 {
        self.delivered.0
    }

    /// Returns the number of messages that have arrived or were lost.
    #[must_use]
    #[inline]
    pub fn ended_messages(&self) -> u64 {
        self.delivered.0 + self.lost.0
    }

    /// Messages that were handed to the network and have neither arrived nor been lost.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.offered.0 - self.delivered.0 - self.lost.0
    }

    /// The run ends at `now`.
    #[must_use]
    pub fn finish(mut self, now: Picos) -> Measured {
        self.end = now;
        for level in &mut self.buffers {
            level.until(now);
        }
        let throughput = self.total.rates(0, now);
        let steady = steady(&throughput);
        let warm_up = Picos(self.total.width().saturating_mul(steady.cut as u64)).min(now);
        let rate_of_all = self.rate.bytes_per_second() * f64::from(self.ports);
        let share = |bytes_per_second: f64| ratio(bytes_per_second, rate_of_all);
        Measured {
            ports: self.ports,
            simulated: now,
            warm_up,
            messages: counts(self.offered.0, self.delivered.0, self.lost.0),
            bytes: counts(self.offered.1, self.delivered.1, self.lost.1),
            throughput_per_port: ratio(steady.mean, f64::from(self.ports)),
            efficiency: share(steady.mean),
            efficiency_error: share(steady.half_width),
            per_port: self.per_port(warm_up),
            message_latency: self.latency.distribution(warm_up),
            occupancy: self.occupancy(),
            waiting: self.waiting(warm_up),
            evolution: self.evolution(&throughput, share),
            losses: self
                .names
                .losses
                .iter()
                .zip(&self.losses)
                .filter(|&(_, &messages)| messages > 0)
                .map(|(cause, &messages)| Loss { cause: cause.clone(), messages })
                .collect(),
        }
    }

    fn per_port(&self, warm_up: Picos) -> Vec<f64> {
        let receiving = self.receives.iter().enumerate().filter(|&(_, &receives)| receives);
        let rate = self.rate.bytes_per_second();
        receiving.map(|(port, _)| ratio(self.by_port.rate_since(port, warm_up, self.end), rate)).collect()
    }

    fn occupancy(&self) -> Vec<Occupancy> {
        let of = |((place, count, size), level): (&(String, u32, Option<u64>), &Level)| Occupancy {
            place: place.clone(),
            mean_bytes: ratio(ratio(float(level.integral), float(self.end.0.into())), f64::from(*count)),
            max_bytes: level.max,
            size_bytes: *size,
        };
        self.names.buffers.iter().zip(&self.buffers).map(of).collect()
    }

    fn waiting(&self, warm_up: Picos) -> Vec<Waiting> {
        let mut waiting: Vec<Waiting> = (0..)
            .zip(&self.names.waiting)
            .map(|(column, cause)| {
                // A rate per second of a sum of picoseconds is a number of waiting messages times 10^12.
                let waiting = self.waiting.rate_since(column, warm_up, self.end) * 1e-12;
                Waiting { cause: cause.clone(), share: ratio(waiting, f64::from(self.senders)) }
            })
            .filter(|waiting| waiting.share > 0.0)
            .collect();
        waiting.sort_by(|a, b| b.share.total_cmp(&a.share));
        waiting
    }

    fn evolution(&self, throughput: &[f64], share: impl Fn(f64) -> f64) -> Vec<(Picos, f64)> {
        let group = throughput.len().div_ceil(POINTS).max(1);
        let groups = throughput.chunks_exact(group).zip(1_u64..);
        groups
            .map(|(slices, number)| {
                let end = self.total.width().saturating_mul(number * group as u64);
                (Picos(end), share(slices.iter().sum::<f64>() / float(group as u128)))
            })
            .collect()
    }
}

/// The content of all buffers of one kind.
#[derive(Clone, Debug, Default)]
struct Level {
    bytes: u64,
    max: u64,
    since: Picos,
    /// Bytes times picoseconds.
    integral: u128,
}

impl Level {
    fn until(&mut self, now: Picos) {
        self.integral += u128::from(self.bytes) * u128::from(now.since(self.since).0);
        self.since = now;
    }
}

/// Latencies of the last half of the run at least: where the time of the last half began is only known at the end, so
/// the values are kept in two parts that are joined or thrown away as the run becomes longer.
#[derive(Clone, Debug)]
struct Latency {
    /// Values from half of `boundary` to `boundary`.
    older: Histogram<u64>,
    /// Values since.
    newer: Histogram<u64>,
    /// A power of two.
    boundary: Picos,
}

impl Latency {
    fn new() -> Self {
        let empty = || Histogram::new(3).expect("three significant digits are among those that exist");
        Self { older: empty(), newer: empty(), boundary: Picos::ZERO }
    }

    #[inline]
    fn add(&mut self, value: Picos, now: Picos) {
        if now.0 >= self.boundary.0.saturating_mul(2) {
            self.turn(now);
        }
        self.newer.record(value.0).expect("the histogram grows with its values");
    }

    /// The boundary moves to the last power of two.
    #[cold]
    fn turn(&mut self, now: Picos) {
        let boundary = Picos(1 << (u64::BITS - 1 - now.0.max(1).leading_zeros()));
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.reset();
        if boundary.0 > self.boundary.0.saturating_mul(2) {
            self.older.reset();
        }
        self.boundary = boundary;
    }

    fn distribution(&self, warm_up: Picos) -> Option<Distribution> {
        let mut values = self.newer.clone();
        if warm_up < self.boundary || values.is_empty() {
            values += &self.older;
        }
        distribution(&values)
    }
}

/// Quantiles of a histogram of picoseconds; `None` for an empty one.
#[must_use]
pub fn distribution(values: &Histogram<u64>) -> Option<Distribution> {
    (!values.is_empty()).then(|| Distribution {
        count: values.len(),
        mean: values.mean(),
        p50: Picos(values.value_at_quantile(0.5)),
        p99: Picos(values.value_at_quantile(0.99)),
        p999: Picos(values.value_at_quantile(0.999)),
        max: Picos(values.max()),
    })
}

fn counts(offered: u64, delivered: u64, lost: u64) -> Counts {
    Counts { offered, delivered, lost, in_flight: offered - delivered - lost }
}

/// Zero where there is nothing to divide by.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "reports quote a few digits")]
fn float(value: u128) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests;
