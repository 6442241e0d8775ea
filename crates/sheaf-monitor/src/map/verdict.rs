//! Rows, columns and cells of the map that are in trouble, in words.

use super::{Condition, MapUnit, Pairs};
use serde::Serialize;
use std::time::Duration;

/// Wait from which on a pair is in trouble.
const LONG_S: f32 = 1.0;

/// A pair is in trouble only if its wait is this many times the median. Where all are slow, none is the reason.
const FACTOR: f32 = 3.0;

/// Time without payload, while others get some, after which a builder unit is in trouble.
const IDLE: Duration = Duration::from_secs(5);

/// Maximum number of troubles that are listed.
const LISTED: usize = 8;

/// A row, column or cell in trouble.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Trouble {
    /// Index of the readout unit; `None` for a column.
    pub(crate) readout: Option<usize>,
    /// Index of the builder unit; `None` for a row.
    pub(crate) builder: Option<usize>,
    /// For how long, in seconds, as far as it is known.
    pub(crate) seconds: Option<f32>,
    /// Description of the trouble, with the names of the units.
    pub(crate) text: String,
    /// Remedy, as an instruction.
    pub(crate) remedy: &'static str,
}

/// Returns what is in trouble: units that do not report, then waits, the longest first.
pub(super) fn troubles(pairs: &Pairs) -> Vec<Trouble> {
    let waits = Waits::of(pairs).troubles();
    let is_told = |trouble: &Trouble| {
        trouble.readout.is_some()
            && waits.iter().any(|wait| (wait.readout, wait.builder) == (trouble.readout, None))
    };
    let mut found = pairs.not_reporting();
    found.retain(|trouble| !is_told(trouble));
    found.extend(waits);
    found.extend(pairs.idle_builders());
    found.truncate(LISTED);
    found
}

/// Returns a sentence about the whole map.
pub(super) fn summary(pairs: &Pairs, troubles: &[Trouble]) -> String {
    if pairs.builders.is_empty() || pairs.readouts.is_empty() {
        return "no run has readout units and builder units yet".to_owned();
    }
    if pairs.builders.iter().all(|builder| builder.condition == Condition::Ended) {
        return "the run is over: no builder unit waits".to_owned();
    }
    if let Some(first) = troubles.first() {
        return first.text.clone();
    }
    let waits = pairs.waits.iter().enumerate().filter(|(_, wait)| !wait.is_nan());
    match waits.max_by(|one, other| one.1.total_cmp(other.1)) {
        None => "no builder unit has reported yet".to_owned(),
        Some((_, wait)) if *wait <= 0.0 => "no builder unit waits for a readout unit".to_owned(),
        Some((cell, wait)) => {
            let (readout, builder) = pairs.names(cell);
            format!("no wait is as long as 1 s; the longest: {builder} for {readout}, {}", shown_time(*wait))
        }
    }
}

/// Returns a time in a unit that suits its length.
pub(crate) fn shown_time(seconds: impl Into<f64>) -> String {
    let seconds = seconds.into();
    match 1000.0 * seconds {
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        _ => format!("{seconds:.1} s"),
    }
}

impl Pairs {
    fn knows(&self, builder: usize) -> bool {
        self.builders[builder].condition == Condition::Reporting
    }

    /// Returns the names of readout unit and builder unit.
    fn names(&self, cell: usize) -> (&str, &str) {
        let rows = self.readouts.len();
        (&self.readouts[cell % rows].name, &self.builders[cell / rows].name)
    }

    /// Returns units that do not report although the run is in progress. Readout units have their waits all the same.
    fn not_reporting(&self) -> Vec<Trouble> {
        let is_silent = |builder: &MapUnit| builder.condition == Condition::Silent;
        let in_progress = (0..self.builders.len()).any(|builder| self.knows(builder));
        if !in_progress && !self.builders.iter().any(is_silent) {
            return Vec::new();
        }
        let builders = self.builders.iter().enumerate().filter_map(|(index, builder)| {
            let (state, remedy) = absence(builder)?;
            let text = format!("builder unit {} {state}: nothing is known of its column", builder.name);
            Some(Trouble { readout: None, builder: Some(index), seconds: age(builder), text, remedy })
        });
        let readouts = self.readouts.iter().enumerate().filter_map(|(index, readout)| {
            let (state, remedy) = absence(readout)?;
            let text = format!("readout unit {} {state}", readout.name);
            Some(Trouble { readout: Some(index), builder: None, seconds: age(readout), text, remedy })
        });
        builders.chain(readouts).collect()
    }

    /// Returns builder units that wait for nothing and get nothing while others do.
    fn idle_builders(&self) -> Vec<Trouble> {
        let rows = self.readouts.len();
        if !self.rates.iter().any(|rate| *rate > 0.0) {
            return Vec::new();
        }
        let idle = |builder: usize| {
            let time_idle = self.idle[builder].filter(|idle| *idle >= IDLE)?;
            let column = &self.waits[builder * rows..(builder + 1) * rows];
            if column.iter().any(|wait| *wait > 0.0) {
                return None;
            }
            let seconds = time_idle.as_secs_f32();
            let text = format!(
                "builder unit {} has requested nothing for {}, while others get fragments",
                self.builders[builder].name,
                shown_time(seconds)
            );
            let remedy = "look whether its output or its filter holds it up (Nodes, Dead time): it asks for no more events than it has room for";
            Some(Trouble { readout: None, builder: Some(builder), seconds: Some(seconds), text, remedy })
        };
        (0..self.builders.len()).filter(|builder| self.knows(*builder)).filter_map(idle).collect()
    }
}

/// Returns the age of the values of a unit that is silent, in seconds.
#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn age(unit: &MapUnit) -> Option<f32> {
    unit.age_ms.map(|age| age as f32 / 1000.0)
}

/// Returns in words that a unit does not report any more, and what to do.
fn absence(unit: &MapUnit) -> Option<(String, &'static str)> {
    match unit.condition {
        Condition::Silent => {
            let state = format!("has not reported for {}", shown_time(age(unit).unwrap_or(0.0)));
            Some((state, "look at its host: its process is stopped, hangs or gets no processor time"))
        }
        Condition::Ended => {
            Some(("has ended".to_owned(), "read its log; it can be started again during the run"))
        }
        Condition::Absent | Condition::Reporting | Condition::Excluded => None,
    }
}

/// Waits that are long, and those of them that a trouble tells of.
struct Waits<'a> {
    pairs: &'a Pairs,
    /// Builder units that report.
    known: Vec<usize>,
    /// Lower median of all waits.
    median: f32,
    told: Vec<bool>,
}

impl<'a> Waits<'a> {
    fn of(pairs: &'a Pairs) -> Self {
        let known = (0..pairs.builders.len()).filter(|builder| pairs.knows(*builder)).collect();
        let mut waits: Vec<f32> = pairs.waits.iter().copied().filter(|wait| !wait.is_nan()).collect();
        let middle = waits.len().saturating_sub(1) / 2;
        let median =
            if waits.is_empty() { 0.0 } else { *waits.select_nth_unstable_by(middle, f32::total_cmp).1 };
        Self { pairs, known, median, told: vec![false; pairs.waits.len()] }
    }

    /// Returns what is slow, the longest waits first.
    fn troubles(mut self) -> Vec<Trouble> {
        let rows = self.pairs.readouts.len();
        let mut found: Vec<Trouble> = (0..rows).filter_map(|readout| self.slow_readout(readout)).collect();
        let others = rows - found.len();
        for builder in self.known.clone() {
            let cells = self.slow_cells(builder..=builder, 0..rows);
            if others > 1 && 2 * cells.len() > others {
                found.push(self.slow_builder(builder, &cells, others));
            } else {
                found.extend(cells.iter().map(|cell| self.slow_pair(*cell)));
            }
        }
        found.sort_by(|one, other| other.seconds.unwrap_or(0.0).total_cmp(&one.seconds.unwrap_or(0.0)));
        if found.is_empty() && rows > 1 && self.median >= LONG_S {
            found.push(self.slow_everywhere());
        }
        found
    }

    /// Returns the cells of these builder units and readout units that are slow and of which nothing has been told.
    fn slow_cells(
        &self,
        builders: impl IntoIterator<Item = usize>,
        readouts: std::ops::Range<usize>,
    ) -> Vec<usize> {
        let rows = self.pairs.readouts.len();
        let cells =
            builders.into_iter().flat_map(|builder| readouts.clone().map(move |row| builder * rows + row));
        cells.filter(|cell| self.is_slow(*cell) && !self.told[*cell]).collect()
    }

    fn is_slow(&self, cell: usize) -> bool {
        let rows = self.pairs.readouts.len();
        // One row has nothing to be compared with, and a unit that does not report is a reason.
        let is_plain = rows > 1 && absence(&self.pairs.readouts[cell % rows]).is_none();
        let limit = if is_plain { LONG_S.max(FACTOR * self.median) } else { LONG_S };
        self.pairs.waits[cell] >= limit
    }

    fn longest(&self, cells: &[usize]) -> f32 {
        cells.iter().map(|cell| self.pairs.waits[*cell]).fold(0.0, f32::max)
    }

    /// Returns a row for which more than half of the builder units wait.
    fn slow_readout(&mut self, readout: usize) -> Option<Trouble> {
        let cells = self.slow_cells(self.known.iter().copied(), readout..readout + 1);
        if 2 * cells.len() <= self.known.len() {
            return None;
        }
        cells.iter().for_each(|cell| self.told[*cell] = true);
        let unit = &self.pairs.readouts[readout];
        let oldest = self.longest(&cells);
        let verb = if cells.len() == 1 { "waits" } else { "wait" };
        let state = absence(unit).map_or(String::new(), |(state, _)| format!(", which {state}"));
        let text = format!(
            "readout unit {}{state}: {} of {} builder units {verb} for it, the oldest event for {}",
            unit.name,
            cells.len(),
            self.known.len(),
            shown_time(oldest)
        );
        let remedy =
            "look whether one of its sources is silent (Sources), then at its host and its network port";
        let remedy = absence(unit).map_or(remedy, |(_, remedy)| remedy);
        Some(Trouble { readout: Some(readout), builder: None, seconds: Some(oldest), text, remedy })
    }

    fn slow_builder(&self, builder: usize, cells: &[usize], others: usize) -> Trouble {
        let oldest = self.longest(cells);
        let text = format!(
            "builder unit {}: it waits for {} of {others} readout units, the oldest event for {}",
            self.pairs.builders[builder].name,
            cells.len(),
            shown_time(oldest)
        );
        let remedy = "look at its network port and the load of its host; it can be stopped and started again: its events are built elsewhere";
        Trouble { readout: None, builder: Some(builder), seconds: Some(oldest), text, remedy }
    }

    fn slow_pair(&self, cell: usize) -> Trouble {
        let (rows, oldest) = (self.pairs.readouts.len(), self.pairs.waits[cell]);
        let (readout, builder) = self.pairs.names(cell);
        let text =
            format!("one pair: {builder} waits for {readout}, the oldest event for {}", shown_time(oldest));
        let remedy = "look at the connection between the two: cables, ports of switches, losses";
        Trouble {
            readout: Some(cell % rows),
            builder: Some(cell / rows),
            seconds: Some(oldest),
            text,
            remedy,
        }
    }

    fn slow_everywhere(&self) -> Trouble {
        let most = self.pairs.waits.iter().copied().fold(0.0, f32::max);
        let text = format!(
            "half of all pairs wait for {} or longer, up to {}, and no readout unit, builder unit or pair stands out",
            shown_time(self.median),
            shown_time(most)
        );
        let remedy = "look at what all have in common: the network, processor time, and sources that events wait for (Sources, Dead time)";
        Trouble { readout: None, builder: None, seconds: Some(most), text, remedy }
    }
}
