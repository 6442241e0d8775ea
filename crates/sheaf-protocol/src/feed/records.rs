//! The run records of one source at its readout unit, from the client to the event manager and the answers back.

use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::RunRecord;
use std::sync::Arc;

/// Run records of one source. The event manager is asked about one at a time. So at most two are held: one of which it is asked, and
/// one of a client that has taken the place of the client that sent the first.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceRecords {
    /// Number of the record of which the event manager is asked.
    asked: Option<u64>,
    /// The next one.
    waiting: Option<Arc<RunRecord>>,
    /// Number of the record to which the connected client waits for an answer.
    unanswered: Option<u64>,
    /// The answer for the client.
    due: Option<Recorded>,
}

impl SourceRecords {
    /// Returns whether a record must not follow now, because the client has sent another one that is not answered.
    pub(super) fn is_unanswered(&self, number: u64) -> bool {
        self.unanswered.is_some_and(|unanswered| unanswered != number)
    }

    /// Takes a record of the client. Returns it if the event manager is to be asked now.
    pub(super) fn take(&mut self, record: Arc<RunRecord>) -> Option<Arc<RunRecord>> {
        self.unanswered = Some(record.number);
        match self.asked {
            None => self.ask(record),
            Some(asked) if asked == record.number => None,
            Some(_) => {
                self.waiting = Some(record);
                None
            }
        }
    }

    fn ask(&mut self, record: Arc<RunRecord>) -> Option<Arc<RunRecord>> {
        self.asked = Some(record.number);
        Some(record)
    }

    /// Makes an answer due without a question to the event manager.
    pub(super) fn refuse(&mut self, answer: Recorded) {
        self.due = Some(answer);
    }

    /// Takes an answer of the event manager. Returns the next record of which it is to be asked.
    pub(super) fn handle_answer(&mut self, answer: Recorded) -> Option<Arc<RunRecord>> {
        if self.asked != Some(answer.number) {
            return None;
        }
        self.asked = None;
        if self.unanswered == Some(answer.number) {
            self.unanswered = None;
            self.due = Some(answer);
        }
        let next = self.waiting.take()?;
        self.ask(next)
    }

    /// Returns the answer that is to be sent to the client.
    pub(super) fn take_due(&mut self) -> Option<Recorded> {
        self.due.take()
    }

    /// Records that the client has gone. It sends what is not answered again.
    pub(super) fn handle_disconnection(&mut self) {
        *self = Self { asked: self.asked, ..Self::default() };
    }

    /// Returns whether the event manager has not answered.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }
}
