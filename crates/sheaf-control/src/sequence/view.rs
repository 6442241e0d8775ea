//! A sequence as people see it.

use super::{RowState, Rule, Sequence, SequenceState};
use serde::Serialize;
use std::collections::BTreeMap;

/// A sequence in a few numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SequenceView {
    /// Number of the sequence, which grows with each.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Who has started or resumed it.
    pub by: String,
    /// Its state.
    pub state: SequenceState,
    /// Why it is paused, or how it ended.
    pub reason: Option<String>,
    /// Reaction to the run of a row that fails.
    pub on_failure: Rule,
    /// Number of the row in progress, or of the next one, from 1; `None` if there is none.
    pub row: Option<u32>,
    /// Launch of the run in progress.
    pub launch: Option<u64>,
    /// When the run in progress was started, in milliseconds since 1970.
    pub row_began_ms: Option<u64>,
    /// Number of rows.
    pub rows: u32,
    /// Rows that are done.
    pub done: u32,
    /// Rows that have failed.
    pub failed: u32,
    /// Rows that are left out.
    pub skipped: u32,
    /// Mean time of a row that is done, in milliseconds; `None` before the first.
    pub mean_ms: Option<u64>,
}

/// A sequence with all of its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SequenceTable {
    /// The sequence.
    pub sequence: SequenceView,
    /// Its rows, in order.
    pub rows: Vec<RowView>,
}

/// A row, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowView {
    /// Number of the row, from 1.
    pub row: u32,
    /// Its settings, by key.
    pub values: BTreeMap<String, String>,
    /// Comment for the record of its run.
    pub comment: Option<String>,
    /// Its state.
    pub state: RowState,
    /// Number of the latest run, if it had one.
    pub run: Option<u32>,
    /// Accepted triggers of that run, once it has ended.
    pub triggers: Option<u64>,
    /// Runs that were started for it.
    pub attempts: u32,
    /// Time from start to end of the latest run, in milliseconds.
    pub took_ms: Option<u64>,
    /// End of the latest run in words.
    pub text: Option<String>,
}

impl Sequence {
    /// Returns the sequence in a few numbers.
    #[must_use]
    pub fn view(&self) -> SequenceView {
        let count = |state| number(self.rows().iter().filter(|row| row.state == state).count());
        let took = || self.rows().iter().filter(|row| row.state == RowState::Done);
        let times = took().filter_map(|row| row.took_ms);
        let (sum, timed) = times.fold((0_u64, 0_u64), |(sum, timed), ms| (sum.saturating_add(ms), timed + 1));
        let attempt = self.attempt();
        let is_over = self.state() == SequenceState::Ended;
        let row = attempt.map(|attempt| attempt.row).or_else(|| self.next_row().filter(|_| !is_over));
        SequenceView {
            id: self.id(),
            name: self.name().to_owned(),
            by: self.by().to_owned(),
            state: self.state(),
            reason: self.reason().map(str::to_owned),
            on_failure: self.rule(),
            row: row.map(|row| number(row + 1)),
            launch: attempt.map(|attempt| attempt.launch.0),
            row_began_ms: attempt.map(|attempt| attempt.began_ms),
            rows: number(self.rows().len()),
            done: count(RowState::Done),
            failed: count(RowState::Failed),
            skipped: count(RowState::Skipped),
            mean_ms: sum.checked_div(timed),
        }
    }

    /// Returns the sequence with all of its rows. `run` is the number of the run in progress.
    #[must_use]
    pub fn table_view(&self, run: Option<u32>) -> SequenceTable {
        let present = self.attempt().map(|attempt| attempt.row);
        let view = |(row, record): (usize, &super::RowRecord)| RowView {
            row: number(row + 1),
            values: self.table().settings(row),
            comment: self.table().rows[row].comment.clone(),
            state: record.state,
            run: if present == Some(row) { run } else { record.run },
            triggers: record.triggers,
            attempts: record.attempts,
            took_ms: record.took_ms,
            text: record.text.clone(),
        };
        SequenceTable { sequence: self.view(), rows: self.rows().iter().enumerate().map(view).collect() }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
