//! A sequence: runs from a table, one after the other.
//!
//! | module | holds |
//! |---|---|
//! | `course` | the state of a sequence, and what follows from the end of a run |
//! | `past` | rows that earlier sequences have done |
//! | `view` | a sequence as people see it |
//!
//! A row is done when a run with its settings has ended by its own conditions and was good. A row that a person has interfered with, by
//! stopping its run, is not; the sequence then pauses, because somebody has taken over.

mod course;
mod past;
mod view;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub(crate) use course::{Cut, RowEnd};
pub use course::{RowRecord, RowState, Sequence, SequenceState};
pub(crate) use past::PAST;
pub use past::PastSequence;
pub use view::{RowView, SequenceTable, SequenceView};

/// Most rows of a table.
pub const ROWS: usize = 10_000;

/// Most characters of the name of a sequence.
pub const NAME_CHARACTERS: usize = 64;

/// Most repetitions of a row that fails.
pub const REPEATS: u32 = 100;

/// A table of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Keys of the configuration, one for each column.
    pub columns: Vec<String>,
    /// The runs, in order.
    pub rows: Vec<Row>,
}

/// A run of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Values in the order of the columns. An empty one leaves the setting as the configuration has it.
    pub values: Vec<String>,
    /// Comment for the record of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Table {
    /// Returns the settings of a row: the keys with a value, and these.
    #[must_use]
    pub fn settings(&self, row: usize) -> BTreeMap<String, String> {
        let values = self.rows.get(row).map_or(&[][..], |row| &row.values);
        let pairs = self.columns.iter().zip(values).filter(|(_, value)| !value.is_empty());
        pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// Reaction to the run of a row that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The sequence pauses, until a person resumes it.
    #[default]
    Pause,
    /// The next row follows.
    Continue,
    /// The row is repeated, up to a number of times; then the sequence pauses.
    Repeat,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::Pause, Self::Continue, Self::Repeat];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Continue => "continue",
            Self::Repeat => "repeat",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request to begin a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceRequest {
    /// Name of this request, chosen by the client. The same name again is the same request, and has no second effect.
    pub request: String,
    /// Name of the sequence, for records: 1 to 64 letters, digits, `.`, `-` and `_`.
    pub name: String,
    /// The runs.
    pub table: Arc<Table>,
    /// Reaction to the run of a row that fails.
    pub rule: Rule,
    /// Repetitions of a row that fails, for [`Rule::Repeat`].
    pub repeats: u32,
    /// Whether rows count as done that an earlier sequence of this name has done.
    pub resume: bool,
    /// Revision of the state that the operator has seen; `None`: any.
    pub revision: Option<u64>,
}

/// A command to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceAction {
    /// Begin no other row. A run in progress goes on to its end.
    Pause,
    /// Begin the next row, or repeat the one that failed.
    Resume,
    /// Leave out a row; a run of it is stopped.
    Skip,
    /// End the sequence; a run in progress is stopped.
    Stop,
}

impl SequenceAction {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Skip => "skip",
            Self::Stop => "stop",
        }
    }
}

/// Something about a sequence, for the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceNews {
    /// Name of the sequence.
    pub name: String,
    /// Event: `row begins`, `row done`, `row failed`, `row not done`, `row skipped`, `paused` or `ended`.
    pub what: &'static str,
    /// Details in words.
    pub text: String,
}

/// Shared values in JSON: as if they were not shared.
pub(crate) mod shared {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(from).map(Arc::new)
    }
}

/// Lists of shared values in JSON.
pub(crate) mod shared_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(list: &[Arc<T>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(Arc::as_ref))
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Arc<T>>, D::Error> {
        Ok(Vec::<T>::deserialize(from)?.into_iter().map(Arc::new).collect())
    }
}
