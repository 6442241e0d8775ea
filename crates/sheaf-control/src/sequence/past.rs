//! Rows that earlier sequences have done, so that a sequence can go on where one of its name has ended.

use super::{RowRecord, RowState, Sequence, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most earlier sequences that are remembered.
pub(crate) const PAST: usize = 4;

/// Done rows of an ended sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastSequence {
    /// Name of the sequence.
    pub name: String,
    /// Settings and record of each row that was done.
    pub done: Vec<(BTreeMap<String, String>, RowRecord)>,
}

impl PastSequence {
    pub(crate) fn of(sequence: &Sequence) -> Self {
        let rows = sequence.rows().iter().enumerate();
        let done = rows.filter(|(_, record)| record.state == RowState::Done);
        let done = done.map(|(row, record)| (sequence.table().settings(row), record.clone())).collect();
        Self { name: sequence.name().to_owned(), done }
    }

    /// Returns the records of the rows of a table: each done row stands for one row with the same settings.
    pub(crate) fn records(&self, table: &Table) -> Vec<RowRecord> {
        let mut left: BTreeMap<_, Vec<&RowRecord>> = BTreeMap::new();
        for (settings, record) in self.done.iter().rev() {
            left.entry(settings).or_default().push(record);
        }
        let record = |row| left.get_mut(&table.settings(row)).and_then(Vec::pop).cloned();
        (0..table.rows.len()).map(record).map(Option::unwrap_or_default).collect()
    }
}
