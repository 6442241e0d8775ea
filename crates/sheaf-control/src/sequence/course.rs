//! The course of a sequence: which row follows, and what follows from the end of a run.

use super::{Rule, SequenceNews, SequenceRequest, Table, shared};
use crate::link::Launch;
use crate::request::{RunSettings, SequenceRow};
use serde::{Deserialize, Serialize};
use sheaf_wire::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that fail one after the other before a sequence pauses that otherwise goes on: a broken system must not use up a table.
const FAILURES: u32 = 10;

/// State of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceState {
    /// Row follows row.
    Running,
    /// No row begins. A run in progress goes on.
    Paused,
    /// It ends with the run in progress, which is being stopped.
    Stopping,
    /// It is over.
    Ended,
}

/// State of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    /// It has not begun, or is to be repeated.
    #[default]
    Waiting,
    /// Its run is in progress.
    Running,
    /// It has a good run that ended by its own conditions.
    Done,
    /// Its run was not good, or ended too early.
    Failed,
    /// An operator has left it out.
    Skipped,
}

/// State of a row, and its latest run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowRecord {
    /// Its state.
    pub state: RowState,
    /// Runs that were started for it.
    #[serde(default)]
    pub attempts: u32,
    /// Number of the latest run, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// Accepted triggers of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggers: Option<u64>,
    /// Time from start to end of that run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Its end in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The run of a row, in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// Index of the row.
    pub(crate) row: usize,
    pub(crate) launch: Launch,
    pub(crate) began_ms: u64,
    /// Why it is being stopped, if it is.
    pub(crate) cut: Option<Cut>,
}

/// Why the run of a row is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cut {
    /// An operator has stopped the run itself.
    ByHand,
    /// The row is left out.
    Skip,
    /// The sequence is ended.
    Stop,
    /// The run has not begun in time; what it waited for.
    Late(String),
}

/// The end of the run of a row.
pub(crate) struct RowEnd {
    pub(crate) run: Option<u32>,
    pub(crate) triggers: Option<u64>,
    /// Whether it was good, and ended by its own conditions.
    pub(crate) is_done: bool,
    pub(crate) text: String,
}

/// A sequence: its table, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    id: u64,
    /// Name of the request that began it, and who sent it.
    request: (String, String),
    name: String,
    by: String,
    #[serde(with = "shared")]
    table: Arc<Table>,
    rule: Rule,
    repeats: u32,
    state: SequenceState,
    reason: Option<String>,
    rows: Vec<RowRecord>,
    attempt: Option<Attempt>,
    /// Row that has failed and is repeated when the sequence is resumed.
    retry: Option<usize>,
    /// Failures one after the other: of the row that is repeated, or of rows.
    failures: u32,
    #[serde(skip)]
    news: VecDeque<SequenceNews>,
}

impl Sequence {
    /// Begins a sequence whose rows have these records, one for each.
    pub(crate) fn new(id: u64, by: &str, request: &SequenceRequest, rows: Vec<RowRecord>) -> Self {
        Self {
            id,
            request: (request.request.clone(), by.to_owned()),
            name: request.name.clone(),
            by: by.to_owned(),
            table: request.table.clone(),
            rule: request.rule,
            repeats: request.repeats,
            state: SequenceState::Running,
            reason: None,
            rows,
            attempt: None,
            retry: None,
            failures: 0,
            news: VecDeque::new(),
        }
    }

    /// Returns whether what was read from a disk makes sense, with the launch of the run that there is.
    pub(crate) fn is_consistent(&self, launch: Option<Launch>) -> bool {
        let rows = self.rows.len();
        let is_row = |row: &usize| *row < rows;
        rows == self.table.rows.len()
            && self.retry.iter().all(is_row)
            && self.attempt.iter().all(|attempt| is_row(&attempt.row) && launch == Some(attempt.launch))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn request(&self) -> (&str, &str) {
        (&self.request.0, &self.request.1)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn by(&self) -> &str {
        &self.by
    }

    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> SequenceState {
        self.state
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns what became of each row, in order.
    #[must_use]
    pub fn rows(&self) -> &[RowRecord] {
        &self.rows
    }

    pub(crate) fn attempt(&self) -> Option<&Attempt> {
        self.attempt.as_ref()
    }

    pub(crate) fn attempt_of(&mut self, launch: Option<Launch>) -> Option<&mut Attempt> {
        self.attempt.as_mut().filter(|attempt| launch == Some(attempt.launch))
    }

    pub(crate) fn poll_news(&mut self) -> Option<SequenceNews> {
        self.news.pop_front()
    }

    /// Returns the row that follows: the one to repeat, or the first that waits.
    pub(crate) fn next_row(&self) -> Option<usize> {
        self.retry.or_else(|| self.rows.iter().position(|row| row.state == RowState::Waiting))
    }

    /// Begins the run of a row. Returns the name of the request that starts it, which no other attempt has, and the settings of the run.
    pub(crate) fn begin_row(&mut self, now: Timestamp, row: usize, launch: Launch) -> (String, RunSettings) {
        let record = &mut self.rows[row];
        *record = RowRecord {
            state: RowState::Running,
            attempts: record.attempts.saturating_add(1),
            ..RowRecord::default()
        };
        let attempts = record.attempts;
        self.attempt = Some(Attempt { row, launch, began_ms: now.as_millis(), cut: None });
        let number = u32::try_from(row + 1).unwrap_or(u32::MAX);
        let of_row = SequenceRow { name: self.name.clone(), row: number, values: self.table.settings(row) };
        let again = if attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
        self.tell("row begins", format!("{of_row}{again}"));
        let name = format!("sequence {} row {number} attempt {attempts}", self.id);
        let comment = self.table.rows[row].comment.clone();
        (name, RunSettings { comment, sequence: Some(of_row), ..RunSettings::default() })
    }

    /// Takes the end of the run of the row in progress.
    pub(crate) fn end_row(&mut self, now: Timestamp, end: RowEnd) {
        let Some(Attempt { row, began_ms, cut, .. }) = self.attempt.take() else { return };
        let RowEnd { run, triggers, is_done, text } = end;
        let took_ms = Some(now.as_millis().saturating_sub(began_ms));
        let attempts = self.rows[row].attempts;
        let state = match (is_done, &cut) {
            (true, _) => RowState::Done,
            (false, Some(Cut::Skip)) => RowState::Skipped,
            (false, Some(Cut::ByHand | Cut::Stop)) => RowState::Waiting,
            (false, None | Some(Cut::Late(_))) => RowState::Failed,
        };
        self.rows[row] = RowRecord { state, attempts, run, triggers, took_ms, text: Some(text.clone()) };
        let what = match state {
            RowState::Done => "row done",
            RowState::Skipped => "row skipped",
            RowState::Failed => "row failed",
            RowState::Waiting | RowState::Running => "row not done",
        };
        let text = match cut {
            Some(Cut::Late(why)) => format!("{text}; {why}"),
            _ => text,
        };
        self.tell(what, format!("{} row {}: {text}", self.name, row + 1));
        if state == RowState::Failed {
            self.fail(row, &text);
        } else {
            self.failures = 0;
        }
        if self.state == SequenceState::Stopping {
            self.end(format!("{} stopped it", self.by));
        }
    }

    /// Applies the rule to a row that has failed.
    fn fail(&mut self, row: usize, text: &str) {
        self.failures += 1;
        match self.rule {
            Rule::Repeat if self.failures <= self.repeats => self.rows[row].state = RowState::Waiting,
            Rule::Continue if self.failures < FAILURES => {}
            rule => {
                self.retry = Some(row);
                let many = match rule {
                    Rule::Pause => String::new(),
                    Rule::Repeat => format!(" {} times, the last time", self.failures),
                    Rule::Continue => format!(" as {FAILURES} rows one after the other"),
                };
                if self.state == SequenceState::Running {
                    self.pause(format!("row {} has failed{many}: {text}", row + 1));
                }
            }
        }
    }

    pub(crate) fn pause(&mut self, reason: String) {
        self.state = SequenceState::Paused;
        self.tell("paused", format!("{}: {reason}", self.name));
        self.reason = Some(reason);
    }

    /// Goes on. Runs that begin now are started by this operator.
    pub(crate) fn resume(&mut self, by: &str) {
        self.state = SequenceState::Running;
        by.clone_into(&mut self.by);
        self.reason = None;
        self.failures = 0;
    }

    /// Leaves out a row that has no run.
    pub(crate) fn skip(&mut self, row: usize) {
        self.rows[row].state = RowState::Skipped;
        self.retry.take_if(|retry| *retry == row);
        self.failures = 0;
        self.tell("row skipped", format!("{} row {}", self.name, row + 1));
    }

    /// Forgets that a row is to be repeated, because it begins.
    pub(crate) fn take_next_row(&mut self) -> Option<usize> {
        let row = self.next_row();
        self.retry = None;
        row
    }

    pub(crate) fn stop(&mut self, by: &str) {
        by.clone_into(&mut self.by);
        if self.attempt.is_some() {
            self.state = SequenceState::Stopping;
            self.reason = Some(format!("{by} stops it"));
        } else {
            self.end(format!("{by} stopped it"));
        }
    }

    /// Ends it, because no row is left.
    pub(crate) fn complete(&mut self) {
        let view = self.view();
        let mut text = format!("{} of {} rows are done", view.done, view.rows);
        for (count, what) in [(view.failed, "failed"), (view.skipped, "skipped")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        self.end(text);
    }

    fn end(&mut self, reason: String) {
        self.state = SequenceState::Ended;
        self.retry = None;
        self.tell("ended", format!("{}: {reason}", self.name));
        self.reason = Some(reason);
    }

    fn tell(&mut self, what: &'static str, text: String) {
        self.news.push_back(SequenceNews { name: self.name.clone(), what, text });
    }
}
