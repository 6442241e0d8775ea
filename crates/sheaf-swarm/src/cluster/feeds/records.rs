//! Run records of programs: one of a source at a time, and the next one after the answer.

use super::id_of;
use crate::check::records::Answered;
use crate::cluster::Cluster;
use crate::cluster::post::Happening;
use crate::cluster::turns::ProgramTurn;
use crate::dice::mix;
use crate::options::RecordOptions;
use bytes::Bytes;
use sheaf_protocol::feed::Client;
use sheaf_wire::feed::Phase;
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::{RecordKind, RunRecord};
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::sync::Arc;

/// Run records of one source at its program.
#[derive(Clone, Debug, Default)]
pub(in crate::cluster) struct Recorder {
    /// Number of records with an answer.
    answered: u64,
    /// Whether the time of the next record is planned.
    is_planned: bool,
    /// Whether the record of the end of the run has an answer.
    end_answered: bool,
    /// Time of the last record, or of the connection through which it was sent again.
    sent_at: Timestamp,
}

/// Time in which a record is answered after it was sent and the last fault has passed, at the latest.
const ANSWERED_AFTER: Nanos = Nanos::from_secs(5);

impl Recorder {
    /// Returns the record that follows those with an answer.
    fn next(&self, setup: RecordOptions, source: usize) -> RunRecord {
        let kind = if self.answered == 0 { RecordKind::Begin } else { RecordKind::SlowControl };
        record(setup, source, kind, self.answered)
    }

    /// Records that the program has a new connection, through which it sends again what is not answered.
    pub(super) fn note_connection(&mut self, now: Timestamp) {
        self.sent_at = now;
    }

    /// Forgets all, as a program that is started again does.
    pub(super) fn forget(&mut self) {
        (self.answered, self.end_answered) = (0, false);
    }
}

/// Returns a record of a source. A program that makes it again makes the same one.
fn record(setup: RecordOptions, source: usize, kind: RecordKind, place: u64) -> RunRecord {
    let bytes = usize::try_from(setup.bytes).unwrap_or(0);
    let content: Vec<u8> = (0..bytes).map(|at| mix(at as u64 + place).to_le_bytes()[0]).collect();
    let time = Timestamp(place);
    let mut record = RunRecord::derived(id_of(source), kind, time, "state".into(), Bytes::from(content));
    if setup.same_number && kind != RecordKind::End && place == 0 {
        record.number = 1;
    }
    record
}

impl Cluster {
    /// Lets a program make records: during the run each after a while, and at its end one at once.
    pub(super) fn plan_records(&mut self, index: usize) {
        let Some(setup) = self.options.run_records() else { return };
        let phase =
            self.programs.all[index].client.as_ref().filter(|client| client.is_welcomed()).map(Client::phase);
        let Some(phase) = phase else { return };
        for place in 0..self.programs.all[index].recorders.len() {
            let program = &mut self.programs.all[index];
            let recorder = &mut program.recorders[place];
            if phase == Phase::Ended {
                if setup.late {
                    self.make_last(index, place, setup);
                }
            } else if !recorder.is_planned && recorder.answered < setup.count {
                recorder.is_planned = true;
                let at = self.post.now + self.post.dice.exponential(setup.pause);
                self.post.plan(at, Happening::Program(index, ProgramTurn::Record(place)));
            }
        }
        let program = &self.programs.all[index];
        let is_done = program.recorders.iter().all(|recorder| recorder.end_answered);
        if phase == Phase::Ended && setup.late && is_done && program.connection.is_some() {
            self.leave(index, false);
        }
    }

    /// Makes the next record of a source during the run.
    pub(super) fn make_record(&mut self, index: usize, place: usize) {
        let Some(setup) = self.options.run_records() else { return };
        let program = &mut self.programs.all[index];
        let recorder = &mut program.recorders[place];
        recorder.is_planned = false;
        let Some(client) = &mut program.client else { return };
        let may_send =
            client.is_welcomed() && client.phase() != Phase::Ended && client.unanswered(place).is_none();
        if may_send && recorder.answered < setup.count {
            let record = recorder.next(setup, program.sources[place]);
            client.handle_record(place, Arc::new(record));
            recorder.sent_at = self.post.now;
            self.send_control(index);
        }
    }

    /// Makes the record of the end of the run, if an earlier one of the source has its answer.
    fn make_last(&mut self, index: usize, place: usize, setup: RecordOptions) {
        let program = &mut self.programs.all[index];
        let Some(client) = &mut program.client else { return };
        if client.unanswered(place).is_none() && !program.recorders[place].end_answered {
            let record = record(setup, program.sources[place], RecordKind::End, 0);
            client.handle_record(place, Arc::new(record));
            program.recorders[place].sent_at = self.post.now;
        }
    }

    /// Checks at the end of the run that no record has waited for its answer for long.
    pub(in crate::cluster) fn check_unanswered(&mut self) {
        let now = self.post.now;
        let is_long = |since: Timestamp| since + ANSWERED_AFTER <= now;
        if !is_long(self.options.faults_until) {
            return;
        }
        for (index, program) in self.programs.all.iter().enumerate() {
            let here = program.client.as_ref().filter(|client| client.is_welcomed());
            let Some(client) = here.filter(|_| is_long(program.stalled_until)) else { continue };
            for (place, recorder) in program.recorders.iter().enumerate() {
                if let Some(number) = client.unanswered(place)
                    && is_long(recorder.sent_at)
                {
                    let since = recorder.sent_at;
                    self.watch
                        .fail(format!("program {index}: record {number} has had no answer since {since}"));
                }
            }
        }
    }

    /// Handles the answer to a record.
    pub(super) fn handle_recorded(&mut self, index: usize, answer: Recorded) {
        let Some(setup) = self.options.run_records() else { return };
        let program = &mut self.programs.all[index];
        let Some(place) = program.sources.iter().position(|source| id_of(*source) == answer.source) else {
            return;
        };
        let (source, recorder) = (program.sources[place], &mut program.recorders[place]);
        let last = record(setup, source, RecordKind::End, 0);
        let asked = if answer.number == last.number {
            recorder.end_answered = true;
            last
        } else {
            let answered = recorder.next(setup, source);
            recorder.answered += 1;
            answered
        };
        let answered =
            Answered { readout: NodeId::readout(super::index_u16(program.readout)), record: asked, answer };
        let kept = self.manager.machine.records();
        if let Err(what) = self.watch.records.see_answer(setup, answered, kept) {
            self.watch.fail(format!("program {index}: {what}"));
        }
    }
}
