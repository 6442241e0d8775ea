//! Size of a switch's output buffer, measured from outside. A credit that the buffer holds loses no packet, a larger
//! one does. So the builders' credit is doubled until packets are lost, and the limit is then found by bisection.
//!
//! The 2000 demonstrators measured their switches in this way. Here the buffer is known, so that the method can be judged.

use crate::evidence::LimitedBy;
use crate::measure::{MeasureError, one};
use crate::result::PointResult;
use serde::Serialize;
use sheaf_config::{LabPoint, ShapingPolicy};
use sheaf_plot::{Align, Axis, Chart, Error, Mark, Notation, Point, Reference, Series, TextTable};
use sheaf_wire::ByteCount;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first credit that is tried, in bytes.
const FIRST_CREDIT: u64 = 8 << 10;
/// No output has more, or its loss begins elsewhere.
const LARGEST_CREDIT: u64 = 64 << 20;
/// When the credits without and with loss are as near as this, the search ends.
const NEAR: f64 = 1.06;

/// Result of one credit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Maximum number of bytes that each builder had requested and not received.
    pub credit_bytes: u64,
    /// Packets lost at outputs towards builders.
    pub port_drops: u64,
    /// The most that was seen waiting in an output, in bytes.
    pub port_backlog_bytes: u64,
    /// Payload built, as a fraction of the line's capacity.
    pub efficiency: f64,
    /// Resource that limited it.
    pub limited_by: Option<LimitedBy>,
    /// Whether every event was complete.
    pub is_whole: bool,
}

/// The findings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The scenario's name.
    pub name: String,
    /// Trials by credit.
    pub trials: Vec<Trial>,
    /// The largest credit with which nothing was lost, in bytes.
    pub lossless_credit_bytes: Option<u64>,
    /// The smallest credit with which packets were lost, in bytes.
    pub lossy_credit_bytes: Option<u64>,
    /// Estimated output buffer, in bytes of packets with their Ethernet heads: its content when all readout units
    /// answer at once at the credit where loss begins. `None` if no credit caused loss.
    pub estimate_bytes: Option<f64>,
    /// Credit that the scenario configures.
    pub configured_bytes: u64,
}

/// Reduces a result to the values for the search.
fn trial(credit: u64, result: &PointResult) -> Trial {
    Trial {
        credit_bytes: credit,
        port_drops: result.evidence.port_drops,
        port_backlog_bytes: result.evidence.port_backlog_bytes,
        efficiency: result.efficiency,
        limited_by: result.limited_by,
        is_whole: result.is_whole,
    }
}

/// Finds the output buffer of a scenario's switch, with the first of its points.
///
/// # Errors
/// If a network cannot be made.
pub fn find(
    name: &str,
    point: &LabPoint,
    program: &Path,
    stop: &AtomicBool,
    mut done: impl FnMut(usize),
) -> Result<Found, MeasureError> {
    let mut wire_per_payload = 1.0;
    let mut count = 0;
    let trials = search(|credit| {
        let mut point = point.clone();
        point.config.shaping.policy = ShapingPolicy::Paced;
        point.config.shaping.credit = ByteCount(credit);
        let result = one(&point, program, stop)?;
        // Without the gaps between packets: the buffer does not hold them.
        let gaps = f64::from(crate::plan::UNCOUNTED_BYTES) / result.evidence.packet_bytes.max(1.0);
        wire_per_payload = result.evidence.wire_bits_per_byte / 8.0 / (1.0 + gaps);
        count += 1;
        done(count);
        Ok::<_, MeasureError>((!stop.load(Ordering::Relaxed)).then(|| trial(credit, &result)))
    })?;
    let senders = f64::from(point.config.readout.count);
    Ok(found(name, trials, wire_per_payload, senders, point.lab.port_buffer.0))
}

/// Doubles the credit until packets are lost, then halves the step. `try_one` gives `None` where the search is to end.
fn search<E>(mut try_one: impl FnMut(u64) -> Result<Option<Trial>, E>) -> Result<Vec<Trial>, E> {
    let mut trials: Vec<Trial> = Vec::new();
    let (mut lossless, mut lossy) = (None, None);
    let mut credit = FIRST_CREDIT;
    while let Some(trial) = try_one(credit)? {
        if trial.port_drops == 0 {
            lossless = Some(credit)
        } else {
            lossy = Some(credit)
        }
        trials.push(trial);
        credit = match (lossless, lossy) {
            (Some(low), Some(high)) if is_near(low, high) => break,
            (Some(low), Some(high)) => u64::midpoint(low, high),
            (Some(low), None) if low >= LARGEST_CREDIT => break,
            (Some(low), None) => low * 2,
            // Less than the first credit is less than a packet of the largest size.
            (None, _) => break,
        };
    }
    trials.sort_by_key(|trial| trial.credit_bytes);
    Ok(trials)
}

#[expect(clippy::cast_precision_loss, reason = "credits are far below 2^52")]
fn is_near(low: u64, high: u64) -> bool {
    high as f64 <= low as f64 * NEAR
}

#[expect(clippy::cast_precision_loss, reason = "credits are far below 2^52")]
fn found(name: &str, trials: Vec<Trial>, wire_per_payload: f64, senders: f64, configured: u64) -> Found {
    let lossy = trials.iter().filter(|trial| trial.port_drops > 0).map(|trial| trial.credit_bytes).min();
    let lossless = trials.iter().filter(|trial| trial.port_drops == 0).map(|trial| trial.credit_bytes).max();
    // While `senders` lines fill the output, one line empties it.
    let stands = 1.0 - 1.0 / senders.max(1.0);
    let estimate = lossy.map(|lossy| lossy as f64 * wire_per_payload * stands);
    Found {
        name: name.to_owned(),
        trials,
        lossless_credit_bytes: lossless,
        lossy_credit_bytes: lossy,
        estimate_bytes: estimate,
        configured_bytes: configured,
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = TextTable::new(&[Align::Right]);
        table.push(["credit", "of the line", "lost", "seen waiting", "limit", "whole"]);
        for trial in &self.trials {
            table.push([
                trial.credit_bytes.to_string(),
                format!("{:.1} %", 100.0 * trial.efficiency),
                trial.port_drops.to_string(),
                trial.port_backlog_bytes.to_string(),
                trial.limited_by.map_or("-", LimitedBy::word).to_owned(),
                if trial.is_whole { "yes".into() } else { "NO".into() },
            ]);
        }
        write!(f, "{table}")?;
        match self.estimate_bytes {
            Some(estimate) => writeln!(
                f,
                "\nloss begins between a credit of {} and {} bytes: the buffer of an output is about {estimate:.0} bytes; \
                 the scenario says {}",
                self.lossless_credit_bytes.unwrap_or(0),
                self.lossy_credit_bytes.unwrap_or(0),
                self.configured_bytes
            ),
            None => writeln!(f, "\nnothing was lost with any credit: something else limits the traffic"),
        }
    }
}

impl Found {
    /// Plots throughput and loss against the credit. `command` is printed below the plot.
    ///
    /// # Errors
    /// If a value is outside its axis.
    #[expect(clippy::cast_precision_loss, reason = "credits are far below 2^52")]
    pub fn picture(&self, command: &str) -> Result<String, Error> {
        let y = Axis::linear("payload built, of what the line can carry", "").written(Notation::Percent);
        let mut chart =
            Chart::new("An output buffer, found by credit", Axis::bytes("credit of a builder"), y);
        chart.subtitle.clone_from(&self.name);
        let curve = |lossy: bool| {
            let of_kind = self.trials.iter().filter(move |trial| (trial.port_drops > 0) == lossy);
            of_kind.map(|trial| Point::new(trial.credit_bytes as f64, trial.efficiency)).collect::<Vec<_>>()
        };
        chart.series.push(Series::line("nothing lost", curve(false)));
        chart.series.push(Series::line("packets lost", curve(true)));
        chart.series.retain(|series| !series.points.is_empty());
        if let Some(estimate) = self.estimate_bytes {
            chart.references.push(Reference { at: Mark::X(estimate), label: "estimate".into() });
        }
        let configured = self.configured_bytes as f64;
        chart.references.push(Reference { at: Mark::X(configured), label: "configured".into() });
        chart.caption = format!("virtual switch on one machine; {command}");
        chart.to_svg()
    }
}

#[cfg(test)]
mod tests;
