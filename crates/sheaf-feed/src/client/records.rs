//! Run records of a program: its configuration, values of slow control.

use super::{FeedError, LOOK, SourceClient};
use bytes::Bytes;
use sheaf_wire::ByteCount;
use sheaf_wire::feed::MAX_RECORD_MESSAGE_BYTES;
use sheaf_wire::run_record::{
    MAX_RECORD_NAME_BYTES, MAX_SENT_RECORD_BYTES, RecordAnswer, RecordKind, RunRecord,
};
use sheaf_wire::{Nanos, SourceId, Timestamp};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A run record to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRecord {
    /// Its kind, one of [`RecordKind::OF_PROGRAMS`].
    pub kind: RecordKind,
    /// Time of the record since 1970. `None`: now.
    pub time: Option<Timestamp>,
    /// Name or type of the content, such as the name of a file.
    pub name: String,
    /// The content.
    pub content: Bytes,
}

impl SourceClient {
    /// Sends a run record of the source with this index, and waits until the run has it. It is in every event file that is not
    /// closed yet, and found without reading events.
    ///
    /// A record is also taken before the run begins. After the end of the run, it is taken if [`late_records`] is set.
    ///
    /// [`late_records`]: super::ClientOptions::late_records
    ///
    /// # Errors
    /// If the record is too large or is refused, the run has ended, or the connection ends for longer than the patience.
    pub fn record(&mut self, source: usize, record: SourceRecord) -> Result<(), FeedError> {
        while !self.try_record(source, &record)? {
            self.wait(LOOK)?;
        }
        while !self.wait_recorded(source, LOOK)? {}
        Ok(())
    }

    /// Sends a run record, unless an earlier one of the source is not answered. Returns whether it was taken: this client then keeps it,
    /// and sends it again if the connection ends, until it is answered ([`Self::is_recording`]). The next call about records returns
    /// the error if it is refused.
    ///
    /// # Errors
    /// As [`Self::record`], or because an earlier record was refused.
    pub fn try_record(&mut self, source: usize, record: &SourceRecord) -> Result<bool, FeedError> {
        self.exchange()?;
        self.fail_if_unrecorded()?;
        self.check_record(record)?;
        if self.is_recording(source) {
            return Ok(false);
        }
        let SourceRecord { kind, time, name, content } = record.clone();
        let id = self.machine.sources()[source];
        let record = RunRecord::derived(id, kind, time.unwrap_or_else(now), name, content);
        self.records_in = self.run();
        self.machine.handle_record(source, Arc::new(record));
        self.exchange()?;
        Ok(true)
    }

    /// Waits until the run record of the source is answered, at most for `timeout`. Returns whether it is.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn wait_recorded(&mut self, source: usize, timeout: Duration) -> Result<bool, FeedError> {
        if self.is_recording(source) {
            self.wait(timeout)?;
        }
        let is_answered = !self.is_recording(source);
        if is_answered {
            self.fail_if_unrecorded()?;
        }
        Ok(is_answered)
    }

    /// Returns whether a run record of the source is not answered.
    #[must_use]
    pub fn is_recording(&self, source: usize) -> bool {
        self.machine.unanswered(source).is_some()
    }

    /// Takes the answer to a run record.
    pub(super) fn note_answer(&mut self, of: SourceId, answer: RecordAnswer) {
        if answer != RecordAnswer::Kept {
            self.unrecorded = Some((of, answer));
        }
        if !(0..self.machine.sources().len()).any(|source| self.is_recording(source)) {
            self.records_in = None;
        }
    }

    /// Reports a record that was refused, or that belongs to a run that has ended since.
    fn fail_if_unrecorded(&mut self) -> Result<(), FeedError> {
        if let Some((of, answer)) = self.unrecorded.take() {
            return Err(FeedError::NotRecorded { of, answer });
        }
        let Some(run) = self.records_in.take_if(|run| self.machine.run() != Some(*run)) else {
            return Ok(());
        };
        Err(FeedError::RunEnded(run))
    }

    fn check_record(&self, record: &SourceRecord) -> Result<(), FeedError> {
        if !record.kind.is_of_programs() {
            return Err(FeedError::RecordKind(record.kind));
        }
        let (name, content) = (record.name.len(), record.content.len());
        if name > MAX_RECORD_NAME_BYTES {
            return Err(FeedError::RecordName { length: name });
        }
        let longest = self.link.as_ref().map_or(usize::MAX, super::Link::longest);
        let heads = MAX_RECORD_MESSAGE_BYTES - MAX_SENT_RECORD_BYTES;
        let most = MAX_SENT_RECORD_BYTES.min(longest.saturating_sub(heads));
        if content > most {
            return Err(FeedError::RecordTooLarge {
                length: ByteCount(content as u64),
                most: ByteCount(most as u64),
            });
        }
        Ok(())
    }
}

fn now() -> Timestamp {
    Timestamp(Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).0)
}
