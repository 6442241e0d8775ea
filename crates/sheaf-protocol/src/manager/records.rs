//! Run records: kept until the end of the run, and sent to every node that writes event files.
//!
//! A record is answered once it is here. A writer gets all records in each of its sessions, so that one that was started again has
//! them, too. Repeats are recognised by number.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use sheaf_wire::NodeId;
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::{RecordAnswer, RunRecord};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of records of a run.
pub(super) const MAX_RECORDS: usize = 1 << 16;

/// Maximum bytes of the records of a run, names included, because each event file has a copy of them.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// Number of records, and their bytes, that a writer may have without acknowledgement. One more is sent, so that none is too large.
const SENT_RECORDS: usize = 32;
const SENT_BYTES: usize = 2 << 20;

/// See the [module](self).
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Records {
    records: Vec<Arc<RunRecord>>,
    by_number: FxHashMap<u64, usize>,
    bytes: usize,
    /// Answers that are to be sent, by readout unit. Each unit has a bounded number of records without an answer.
    answers: BTreeMap<NodeId, VecDeque<Recorded>>,
    /// Number of records that were sent to each writer in its current session.
    sent: BTreeMap<NodeId, usize>,
    /// Writers that have not been sent all records.
    behind: BTreeSet<NodeId>,
    /// Whether a writer was closed, or the run: no further records are taken.
    is_closed: bool,
}

impl Records {
    /// Takes a record of a readout unit, and makes the answer due. Returns the answer.
    pub(super) fn take(&mut self, from: NodeId, record: Arc<RunRecord>) -> RecordAnswer {
        let (number, source) = (record.number, record.source);
        let answer = self.keep(record);
        self.answers.entry(from).or_default().push_back(Recorded { number, source, answer });
        answer
    }

    fn keep(&mut self, record: Arc<RunRecord>) -> RecordAnswer {
        if let Some(known) = self.by_number.get(&record.number) {
            let is_copy = self.records[*known] == record;
            return if is_copy { RecordAnswer::Kept } else { RecordAnswer::NumberTaken };
        }
        // A readout unit that was taken for lost may come back after writers were closed.
        if self.is_closed {
            return RecordAnswer::TooLate;
        }
        let bytes = self.bytes + record.name.len() + record.content.len();
        if self.records.len() >= MAX_RECORDS || bytes > MAX_BYTES {
            return RecordAnswer::NoRoom;
        }
        self.add(record);
        RecordAnswer::Kept
    }

    /// Takes a record of the event manager itself. Limits on records of programs do not concern it: those who call this bound the
    /// number of their records.
    pub(super) fn keep_own(&mut self, mut record: RunRecord) {
        debug_assert!(!self.is_closed, "writers are closed");
        while self.by_number.contains_key(&record.number) {
            record.number = record.number.wrapping_add(1);
        }
        self.add(Arc::new(record));
    }

    fn add(&mut self, record: Arc<RunRecord>) {
        self.bytes += record.name.len() + record.content.len();
        self.by_number.insert(record.number, self.records.len());
        self.records.push(record);
        self.behind.extend(self.sent.keys());
    }

    /// Returns whether no further records are taken.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the records so far, in the order in which they arrived.
    pub(super) fn all(&self) -> &[Arc<RunRecord>] {
        &self.records
    }

    /// Forgets the answers for a readout unit that has a new session. Its programs send again what is not answered.
    pub(super) fn meet_readout(&mut self, readout: NodeId) {
        self.answers.remove(&readout);
    }

    /// Begins a session of a writer.
    pub(super) fn meet_writer(&mut self, writer: NodeId) {
        self.sent.insert(writer, 0);
        if !self.records.is_empty() {
            self.behind.insert(writer);
        }
    }

    /// Returns the next answer, for a readout unit that takes messages.
    pub(super) fn next_answer(&mut self, is_open: impl Fn(NodeId) -> bool) -> Option<(NodeId, Recorded)> {
        let (readout, answers) = self.answers.iter_mut().find(|(readout, _)| is_open(**readout))?;
        let readout = *readout;
        let answer = answers.pop_front();
        if answers.is_empty() {
            self.answers.remove(&readout);
        }
        answer.map(|answer| (readout, answer))
    }

    /// Returns the writers that have not been sent all records.
    pub(super) fn behind(&self) -> impl Iterator<Item = NodeId> {
        self.behind.iter().copied()
    }

    /// Returns whether a writer has not been sent all records.
    pub(super) fn is_behind(&self, writer: NodeId) -> bool {
        self.behind.contains(&writer)
    }

    /// Takes no further records.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Closes a writer. Returns all records that were not sent to it, which go before the command: none may follow.
    pub(super) fn close_writer(&mut self, writer: NodeId) -> Vec<Arc<RunRecord>> {
        self.is_closed |= self.sent.contains_key(&writer);
        self.behind.remove(&writer);
        let Some(sent) = self.sent.get_mut(&writer) else { return Vec::new() };
        let rest = self.records[*sent..].to_vec();
        *sent = self.records.len();
        rest
    }

    /// Returns the next record for a writer, which has not acknowledged these.
    pub(super) fn next<'a>(
        &mut self,
        writer: NodeId,
        unsettled: impl Iterator<Item = &'a Arc<RunRecord>>,
    ) -> Option<Arc<RunRecord>> {
        let (records, bytes) =
            unsettled.fold((0, 0), |(records, bytes), record| (records + 1, bytes + record.content.len()));
        let sent = self.sent.get_mut(&writer)?;
        if records >= SENT_RECORDS || bytes >= SENT_BYTES {
            return None;
        }
        let record = self.records.get(*sent).cloned()?;
        *sent += 1;
        if *sent == self.records.len() {
            self.behind.remove(&writer);
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::run_record::RecordKind;
    use sheaf_wire::{SourceId, Timestamp};

    const READOUT: NodeId = NodeId::readout(0);

    fn record(number: u64, bytes: usize) -> Arc<RunRecord> {
        let (kind, content) = (RecordKind::SlowControl, vec![0; bytes].into());
        let (source, time) = (SourceId(1), Timestamp(number));
        RunRecord { number, source, kind, time, name: String::new(), content }.into()
    }

    #[test]
    fn repeats_are_kept_once_and_another_record_with_the_number_is_refused() {
        let mut records = Records::default();
        assert_eq!(records.take(READOUT, record(1, 5)), RecordAnswer::Kept);
        assert_eq!(records.take(READOUT, record(1, 5)), RecordAnswer::Kept);
        assert_eq!(records.take(READOUT, record(1, 6)), RecordAnswer::NumberTaken);
        assert_eq!(records.all(), [record(1, 5)]);
        let answers: Vec<_> = std::iter::from_fn(|| records.next_answer(|_| true)).collect();
        assert_eq!(answers.len(), 3, "each is answered");
    }

    #[test]
    fn the_records_of_a_run_are_bounded_in_bytes_and_number() {
        let mut records = Records::default();
        let most = MAX_BYTES as u64 >> 20;
        for number in 0..most {
            assert_eq!(records.take(READOUT, record(number, 1 << 20)), RecordAnswer::Kept);
        }
        assert_eq!(records.take(READOUT, record(most, 1)), RecordAnswer::NoRoom);
        assert_eq!(records.take(READOUT, record(most, 0)), RecordAnswer::Kept);
        assert_eq!(records.take(READOUT, record(0, 1 << 20)), RecordAnswer::Kept, "a repeat");
        let mut records = Records::default();
        for number in 0..MAX_RECORDS as u64 {
            assert_eq!(records.take(READOUT, record(number, 0)), RecordAnswer::Kept);
        }
        assert_eq!(records.take(READOUT, record(u64::MAX, 0)), RecordAnswer::NoRoom);
    }

    #[test]
    fn a_writer_that_is_closed_early_gets_the_rest_and_later_records_are_not_taken() {
        let mut records = Records::default();
        let writer = NodeId::builder(0);
        records.meet_writer(writer);
        for number in 0..2 {
            records.take(READOUT, record(number, 1));
        }
        assert_eq!(records.next(writer, std::iter::empty()), Some(record(0, 1)));
        assert!(records.close_writer(NodeId::builder(1)).is_empty(), "it has never been there");
        assert_eq!(records.take(READOUT, record(2, 1)), RecordAnswer::Kept);
        assert_eq!(records.close_writer(writer), [record(1, 1), record(2, 1)]);
        assert!(!records.is_behind(writer));
        assert_eq!(records.next(writer, std::iter::empty()), None);
        assert_eq!(records.take(READOUT, record(3, 1)), RecordAnswer::TooLate);
        assert_eq!(records.take(READOUT, record(0, 1)), RecordAnswer::Kept, "a repeat");
    }

    #[test]
    fn a_run_that_is_over_takes_no_records_and_answers_repeats() {
        let mut records = Records::default();
        records.take(READOUT, record(0, 1));
        records.close();
        assert_eq!(records.take(READOUT, record(0, 1)), RecordAnswer::Kept, "a repeat");
        assert_eq!(records.take(READOUT, record(0, 2)), RecordAnswer::NumberTaken);
        assert_eq!(records.take(READOUT, record(1, 1)), RecordAnswer::TooLate);
        assert_eq!(records.all(), [record(0, 1)]);
    }

    #[test]
    fn each_session_of_a_writer_gets_all_records_within_what_it_acknowledges() {
        let mut records = Records::default();
        let writer = NodeId::builder(0);
        records.meet_writer(writer);
        assert!(!records.is_behind(writer));
        for number in 0..3 {
            records.take(READOUT, record(number, SENT_BYTES / 2));
        }
        let mut sent = Vec::new();
        while let Some(record) = records.next(writer, sent.iter()) {
            sent.push(record);
        }
        assert_eq!(sent, [record(0, SENT_BYTES / 2), record(1, SENT_BYTES / 2)]);
        assert!(records.is_behind(writer));
        assert_eq!(records.next(writer, std::iter::empty()), Some(record(2, SENT_BYTES / 2)));
        assert!(!records.is_behind(writer));
        records.meet_writer(writer);
        assert!(records.is_behind(writer));
        let again = (0..3).map(|_| records.next(writer, std::iter::empty()).unwrap().number);
        assert_eq!(again.collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(records.next(writer, std::iter::empty()), None);
    }
}
