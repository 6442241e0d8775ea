//! Rows, columns and cells of the map that are in trouble, in words.

use super::{Condition, MapUnit, Pairs};
use serde::Serialize;
use std::time::Duration;

/// Wait from which on a pair is in trouble.
const LONG_S: f32 = 1.0;

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
    /// What is the matter.
    pub(crate) text: String,
    /// What to do.
    pub(crate) remedy: &'static str,
}

/// Returns what is in trouble: units that do not report, then waits, the longest first.
pub(super) fn troubles(pairs: &Pairs) -> Vec<Trouble> {
    let (rows, mut is_told) = (pairs.readouts.len(), vec![false; pairs.waits.len()]);
    let known: Vec<usize> = (0..pairs.builders.len()).filter(|builder| pairs.knows(*builder)).collect();
    let mut waits = Vec::new();
    for readout in 0..rows {
        let slow: Vec<usize> =
            known.iter().copied().filter(|builder| pairs.is_slow(readout, *builder)).collect();
        if 2 * slow.len() > known.len() {
            let cells: Vec<usize> = slow.iter().map(|builder| builder * rows + readout).collect();
            cells.iter().for_each(|cell| is_told[*cell] = true);
            waits.push(pairs.slow_readout(readout, &cells, known.len()));
        }
    }
    let others = rows - waits.len();
    for builder in known {
        let cells: Vec<usize> = (0..rows)
            .filter(|readout| pairs.is_slow(*readout, builder))
            .map(|readout| builder * rows + readout)
            .filter(|cell| !is_told[*cell])
            .collect();
        if others > 1 && 2 * cells.len() > others {
            waits.push(pairs.slow_builder(builder, &cells, others));
        } else {
            waits.extend(cells.iter().map(|cell| pairs.slow_pair(*cell)));
        }
    }
    waits.sort_by(|one, other| other.seconds.unwrap_or(0.0).total_cmp(&one.seconds.unwrap_or(0.0)));
    let mut found = pairs.not_reporting();
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
            format!("no wait is as long as 1 s; the longest: {builder} for {readout}, {}", time(*wait))
        }
    }
}

/// Returns a time in a unit that suits its length.
fn time(seconds: f32) -> String {
    if seconds < 0.9995 { format!("{:.0} ms", 1000.0 * seconds) } else { format!("{seconds:.1} s") }
}

impl Pairs {
    fn knows(&self, builder: usize) -> bool {
        self.builders[builder].condition == Condition::Reporting
    }

    fn is_slow(&self, readout: usize, builder: usize) -> bool {
        self.waits[builder * self.readouts.len() + readout] >= LONG_S
    }

    /// Returns the names of readout unit and builder unit.
    fn names(&self, cell: usize) -> (&str, &str) {
        let rows = self.readouts.len();
        (&self.readouts[cell % rows].name, &self.builders[cell / rows].name)
    }

    fn longest(&self, cells: &[usize]) -> f32 {
        cells.iter().map(|cell| self.waits[*cell]).fold(0.0, f32::max)
    }

    fn slow_readout(&self, readout: usize, cells: &[usize], known: usize) -> Trouble {
        let MapUnit { name, condition, .. } = &self.readouts[readout];
        let oldest = self.longest(cells);
        let (waiting, wait) = (cells.len(), if cells.len() == 1 { "waits" } else { "wait" });
        let (remedy, state) = match condition {
            Condition::Silent | Condition::Ended | Condition::Absent => (
                "look at its host: its process is stopped, hangs, gets no processor time, or has ended",
                ", which does not report",
            ),
            Condition::Reporting | Condition::Excluded => (
                "look whether one of its sources is silent (Sources), then at its host and its network port; a full buffer (Nodes) can be a consequence of a row with longer waits",
                "",
            ),
        };
        let text = format!(
            "readout unit {name}{state}: {waiting} of {known} builder units {wait} for it, the oldest event for {}",
            time(oldest)
        );
        Trouble { readout: Some(readout), builder: None, seconds: Some(oldest), text, remedy }
    }

    fn slow_builder(&self, builder: usize, cells: &[usize], others: usize) -> Trouble {
        let oldest = self.longest(cells);
        let text = format!(
            "builder unit {}: it waits for {} of {others} readout units, the oldest event for {}",
            self.builders[builder].name,
            cells.len(),
            time(oldest)
        );
        let remedy = "look at its network port and the load of its host; if others are in order, stop it and start it again: its events are built elsewhere";
        Trouble { readout: None, builder: Some(builder), seconds: Some(oldest), text, remedy }
    }

    fn slow_pair(&self, cell: usize) -> Trouble {
        let (readout, builder) = self.names(cell);
        let oldest = self.waits[cell];
        let text = format!("{builder} alone waits for {readout}, the oldest event for {}", time(oldest));
        let rows = self.readouts.len();
        let remedy =
            "look at the connection between the two: cables, ports of switches, losses and retransmissions";
        Trouble {
            readout: Some(cell % rows),
            builder: Some(cell / rows),
            seconds: Some(oldest),
            text,
            remedy,
        }
    }

    /// Returns builder units of which nothing is known although the run is in progress.
    fn not_reporting(&self) -> Vec<Trouble> {
        if self.builders.iter().all(|builder| builder.condition != Condition::Reporting)
            && !self.is_any_silent()
        {
            return Vec::new();
        }
        let unknown = |(index, builder): (usize, &MapUnit)| {
            let (state, remedy) = match builder.condition {
                Condition::Silent => (
                    "does not report: nothing is known of its column",
                    "look at its host: its process is stopped, hangs or gets no processor time",
                ),
                Condition::Ended => (
                    "has ended: nothing is known of its column",
                    "read its log; it can be started again during the run",
                ),
                Condition::Absent | Condition::Reporting | Condition::Excluded => return None,
            };
            #[expect(clippy::cast_precision_loss, reason = "a time for people")]
            let seconds = builder.age_ms.map(|age| age as f32 / 1000.0);
            let since = seconds.map_or(String::new(), |seconds| format!(", since {}", time(seconds)));
            let text = format!("builder unit {} {state}{since}", builder.name);
            Some(Trouble { readout: None, builder: Some(index), seconds, text, remedy })
        };
        self.builders.iter().enumerate().filter_map(unknown).collect()
    }

    fn is_any_silent(&self) -> bool {
        self.builders.iter().any(|builder| builder.condition == Condition::Silent)
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
                time(seconds)
            );
            let remedy = "look whether its output or its filter holds it up (Nodes, Dead time): it asks for no more events than it has room for";
            Some(Trouble { readout: None, builder: Some(builder), seconds: Some(seconds), text, remedy })
        };
        (0..self.builders.len()).filter(|builder| self.knows(*builder)).filter_map(idle).collect()
    }
}
