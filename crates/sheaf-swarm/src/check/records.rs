//! Run records of programs: what is answered is kept, and every session that writes event files and was closed has all records
//! once, in the order of the event manager.

use super::Evidence;
use crate::options::{MAX_RECORD_BYTES, Options, RecordOptions};
use crate::violation::{Violation, violation};
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::{RecordAnswer, RecordKind, RunRecord};
use sheaf_wire::shift_record::latest;
use sheaf_wire::{NodeId, SessionId, SourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A record with the answer that its program received.
#[derive(Debug)]
pub(crate) struct Answered {
    /// Readout unit of the program.
    pub readout: NodeId,
    /// The record that the program had sent.
    pub record: RunRecord,
    /// The answer.
    pub answer: Recorded,
}

/// Records of one session that writes event files.
#[derive(Clone, Debug, Default)]
struct Written {
    numbers: Vec<u64>,
    is_closed: bool,
}

/// Run records in a run.
#[derive(Clone, Debug, Default)]
pub struct RecordLog {
    written: BTreeMap<(NodeId, SessionId), Written>,
    /// Numbers that were answered with "kept".
    kept: BTreeSet<u64>,
}

impl RecordLog {
    /// Records an answer at a program.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_answer(
        &mut self,
        setup: RecordOptions,
        answered: Answered,
        kept: &[Arc<RunRecord>],
    ) -> Result<(), Violation> {
        let Answered { readout, record, answer } = answered;
        let what = || format!("{readout}: record {} of source {}", answer.number, record.source);
        if answer.number != record.number {
            return Err(violation!("{} is answered, {} was sent", what(), record.number));
        }
        let is_too_large = record.content.len() as u64 > MAX_RECORD_BYTES;
        let is_common = setup.same_number && record.kind == RecordKind::Begin;
        let is_right = match answer.answer {
            RecordAnswer::Kept => !is_too_large,
            RecordAnswer::TooLarge => is_too_large,
            RecordAnswer::NumberTaken => {
                is_common && kept.iter().any(|it| it.number == record.number && **it != record)
            }
            RecordAnswer::TooLate => kept.iter().all(|it| it.number != record.number),
            RecordAnswer::NoRoom => false,
        };
        if !is_right {
            return Err(violation!("{} is answered with: {}", what(), answer.answer));
        }
        if answer.answer == RecordAnswer::Kept {
            if !kept.iter().any(|it| **it == record) {
                return Err(violation!(
                    "{} is not at the event manager, and its program knows that it is kept",
                    what()
                ));
            }
            self.kept.insert(record.number);
        }
        Ok(())
    }

    /// Records a record in the files of a session.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_stored(
        &mut self,
        writer: (NodeId, SessionId),
        record: &RunRecord,
    ) -> Result<(), Violation> {
        let written = self.written.entry(writer).or_default();
        let (node, session) = writer;
        if written.is_closed {
            return Err(violation!("record {} reaches {node}/{session}, which was closed", record.number));
        }
        written.numbers.push(record.number);
        Ok(())
    }

    /// Records that a session has received that it was given up. The event manager has closed it without further records.
    pub(crate) fn see_fenced(&mut self, writer: (NodeId, SessionId)) {
        self.written.entry(writer).or_default().is_closed = false;
    }

    /// Records that a session was closed: no record may follow.
    pub(crate) fn see_closed(&mut self, writer: (NodeId, SessionId)) {
        self.written.entry(writer).or_default().is_closed = true;
    }
}

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let records = evidence.manager.records();
    let numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
    for ((node, session), written) in &evidence.watch.records.written {
        let is_right = if written.is_closed {
            numbers == written.numbers
        } else {
            numbers.starts_with(&written.numbers)
        };
        if !is_right {
            let Written { numbers: has, is_closed } = written;
            violations.push(violation!(
                "{node}/{session} (closed: {is_closed}) has the records {has:?}, the event manager {numbers:?}"
            ));
        }
    }
    if evidence.manager.is_finished() {
        violations.extend(shifts_differ(evidence));
    }
    let lost = evidence.watch.records.kept.iter().find(|number| !numbers.contains(number));
    violations.extend(lost.map(|number| violation!("record {number} was kept, and is gone")));
    if nothing_interrupts(evidence.options) {
        let last = |record: &&Arc<RunRecord>| record.kind == RecordKind::End;
        let with: BTreeSet<SourceId> = records.iter().filter(last).map(|record| record.source).collect();
        let options = evidence.options;
        // The programs of optional sources may start after the end of the run.
        let is_awaited = |number: &u16| {
            options.feed.is_some_and(|feed| feed.feeds(*number)) && !options.is_optional(*number)
        };
        let awaited = (0..options.source_count()).filter(is_awaited);
        let without: Vec<u16> =
            awaited.filter(|number| !with.contains(&SourceId(u32::from(*number)))).collect();
        if !without.is_empty() {
            violations
                .push(violation!("the records at the end of the run lack those of the sources {without:?}"));
        }
    }
}

/// Returns the contradiction between the shifts that the event manager has found and what event files say about them.
fn shifts_differ(evidence: &Evidence<'_>) -> Option<Violation> {
    let (recorded, defects) = latest(evidence.manager.records().iter().map(|record| &**record));
    let told: Vec<_> = recorded.iter().map(|it| (it.source, it.first, it.shift, it.repaired_from)).collect();
    let found: Vec<_> = evidence
        .manager
        .shifts()
        .iter()
        .map(|it| (it.source, it.first, it.shift, it.repaired_from))
        .collect();
    (told != found || !defects.is_empty())
        .then(|| violation!("event files have the shifts {told:?}, the event manager {found:?}; {defects:?}"))
}

/// Returns whether each record at the end of the run must be kept: no program, node or link has a fault, and no time limit ends the
/// run.
fn nothing_interrupts(options: &Options) -> bool {
    let sends = options.feed.is_some_and(|feed| {
        let records = feed.records.is_some_and(|records| records.late && records.bytes <= MAX_RECORD_BYTES);
        records && !feed.declines && !feed.loses_end
    });
    let network = &options.network;
    let is_calm = ![network.loss, network.duplicate, network.reorder, network.clog]
        .iter()
        .any(|ratio| ratio.is_possible());
    sends && is_calm && options.faults.is_empty() && options.stops.is_empty()
}
