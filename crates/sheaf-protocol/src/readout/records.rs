//! Run records of programs, from the readout unit to the event manager, and the end of the run while further ones may come.

use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{Nanos, SourceId, Timestamp};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of records for which the event manager is asked at a time. The others wait here; their number is limited by that of
/// the sources, because each has one record at a time.
const MAX_ASKED: usize = 4;

/// Time for which a readout unit that closes waits for programs that have sent records and have not left.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Records {
    queued: VecDeque<Arc<RunRecord>>,
    /// Sources and numbers of the records that were sent and not answered. Two sources may have chosen the same number.
    asked: BTreeSet<(SourceId, u64)>,
    /// Whether a program may send further ones.
    more: bool,
    /// Time until which the end of the run waits for them, once it has begun.
    until: Option<Timestamp>,
    is_reported: bool,
}

impl Records {
    pub(super) fn push(&mut self, record: Arc<RunRecord>) {
        self.queued.push_back(record);
    }

    pub(super) fn note_more(&mut self, more: bool) {
        self.more = more;
    }

    /// Returns the next record that is to be sent.
    pub(super) fn next(&mut self) -> Option<Arc<RunRecord>> {
        if self.asked.len() >= MAX_ASKED {
            return None;
        }
        let record = self.queued.pop_front()?;
        self.asked.insert((record.source, record.number));
        Some(record)
    }

    /// Takes an answer. Returns whether the record was asked about.
    pub(super) fn handle_answer(&mut self, answer: &Recorded) -> bool {
        self.asked.remove(&(answer.source, answer.number))
    }

    /// Begins the end of the run.
    pub(super) fn close(&mut self, now: Timestamp) {
        self.until = Some(now + PATIENCE);
    }

    /// Returns whether the end of the run waits for records.
    fn waits(&self, now: Timestamp, until: Timestamp) -> bool {
        let some = self.more || !self.queued.is_empty() || !self.asked.is_empty();
        some && now < until
    }

    /// Returns, once, whether the run has ended at this unit and nothing more is awaited.
    pub(super) fn is_report_due(&mut self, now: Timestamp) -> bool {
        let Some(until) = self.until else { return false };
        !self.waits(now, until) && !std::mem::replace(&mut self.is_reported, true)
    }

    /// Returns whether the report was sent.
    pub(super) fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Returns when the wait ends.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        self.until.filter(|_| !self.is_reported)
    }
}
