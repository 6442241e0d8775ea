//! Results of a scenario, as JSON and as text.

use crate::evidence::{Evidence, Interval, LimitedBy};
use serde::Serialize;
use sheaf_plot::TextTable;
use std::fmt::{self, Display};

/// Results of a scenario. `sheaf sim calibrate` reads them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabResult {
    /// The scenario's name.
    pub name: String,
    /// Purpose of the scenario.
    pub about: String,
    /// The swept keys.
    pub sweeps: Vec<String>,
    /// Its points.
    pub points: Vec<PointResult>,
}

/// A swept key and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The key with its table.
    pub key: String,
    /// The value as the file has it.
    pub value: String,
}

/// The result of one point: of several repetitions the one with the median throughput.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PointResult {
    /// The swept keys and their values.
    pub settings: Vec<Setting>,
    /// `tcp`, `udp`, `ethernet`.
    pub transport: String,
    /// Readout units.
    pub readouts: u16,
    /// Builder units.
    pub builders: u16,
    /// Data networks.
    pub rails: u16,
    /// The largest packet without its Ethernet head.
    pub mtu_bytes: u32,
    /// Bits per second of each cable.
    pub rate_bits_per_second: f64,
    /// Mean size of a fragment of a built event.
    pub size_bytes: f64,
    /// Payload bytes per second of all builders together, from the start of the run to the end of its last event.
    pub bytes_per_second: f64,
    /// Built events per second in the same time.
    pub events_per_second: f64,
    /// The same payload per second without the first quarter of the run, in which connections find their pace, and without the
    /// time after its last trigger, in which the last events end. From the bits at the ports, and how many of them made a
    /// byte of payload.
    pub steady_bytes_per_second: f64,
    /// Maximum rate of the cables to the builders: line rate x mtu / (mtu + 38), times the number of readout or builder
    /// units, whichever is smaller.
    pub line_bytes_per_second: f64,
    /// `steady_bytes_per_second` over `line_bytes_per_second`.
    pub efficiency: f64,
    /// `bytes_per_second` over `line_bytes_per_second`.
    pub efficiency_of_run: f64,
    /// Duration of data taking.
    pub seconds: f64,
    /// Events that were built.
    pub events_built: u64,
    /// Whether every event was complete, every checked byte correct, and the ledger balanced.
    pub is_whole: bool,
    /// The reasons why it is not whole.
    pub flaws: Vec<String>,
    /// Resource that limited it.
    pub limited_by: Option<LimitedBy>,
    /// Evidence for the limit.
    pub evidence: Evidence,
    /// Growth of the memory of all nodes together from the first third of the run to its end, in bytes.
    pub memory_growth_bytes: i64,
    /// The efficiency of each repetition.
    pub repeats: Vec<f64>,
    /// Load of the ports, by interval.
    pub intervals: Vec<Interval>,
    /// The output of the event manager.
    pub run: serde_json::Value,
    /// The problem.
    pub errors: Vec<String>,
}

impl PointResult {
    /// Returns whether it can be shown as the performance of a network: complete, without errors, and not limited by
    /// this machine.
    #[must_use]
    pub fn is_of_a_network(&self) -> bool {
        self.errors.is_empty() && self.limited_by.is_some_and(|limit| limit != LimitedBy::Cpu)
    }

    /// The value of a swept key.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.as_str())
    }

    /// A counter of the run.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.run["counters"][name].as_u64().unwrap_or(0)
    }
}

impl LabResult {
    /// Returns whether all points are valid: no errors, complete events, balanced ledgers.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.points.iter().all(|point| point.errors.is_empty() && point.is_whole)
    }
}

impl Display for LabResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n", self.name, self.about)?;
        let mut head: Vec<String> = self.sweeps.iter().map(|key| short(key).to_owned()).collect();
        let figures = [
            "system",
            "transport",
            "fragment",
            "MB/s",
            "events/s",
            "line",
            "ports",
            "lost",
            "idle",
            "steal",
            "limit",
            "whole",
        ];
        head.extend(figures.map(str::to_owned));
        let mut table = TextTable::with_text_columns(self.sweeps.len() + 2);
        table.push(head);
        self.points.iter().for_each(|point| table.push(self.row(point)));
        write!(f, "{table}")?;
        f.write_str(
            "\nline: payload of built events over what the cables could carry, without the run's beginning and end; \
             ports: how busy the ports towards builders were;\nlost: packets at full output buffers\n",
        )?;
        for (index, point) in self.points.iter().enumerate() {
            if point.limited_by == Some(LimitedBy::Cpu) {
                writeln!(
                    f,
                    "point {index} was limited by this machine's processors: no result about a network"
                )?;
            }
            for flaw in &point.flaws {
                writeln!(f, "point {index} is not whole: {flaw}")?;
            }
            for error in &point.errors {
                writeln!(f, "point {index}: {error}")?;
            }
        }
        Ok(())
    }
}

impl LabResult {
    fn row(&self, point: &PointResult) -> Vec<String> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut row: Vec<String> =
            self.sweeps.iter().map(|key| point.setting(key).unwrap_or("-").to_owned()).collect();
        let evidence = &point.evidence;
        row.extend([
            format!("{}x{}", point.readouts, point.builders),
            point.transport.clone(),
            format!("{:.0}", point.size_bytes),
            format!("{:.2}", point.steady_bytes_per_second / 1e6),
            format!("{:.0}", point.events_per_second),
            percent(point.efficiency),
            percent(evidence.line_use),
            evidence.port_drops.to_string(),
            percent(evidence.idle_share),
            percent(evidence.steal_share),
            point.limited_by.map_or("-", LimitedBy::word).to_owned(),
            if point.is_whole { "yes".into() } else { "NO".into() },
        ]);
        row
    }
}

/// The last part of a key.
fn short(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, name)| name)
}

#[cfg(test)]
mod tests;
