//! Sequences: operators begin them, direct them and take over, and what has really become of their rows is compared with what the controller
//! says.

use super::world::{PEACE, World};
use sheaf_control::link::Launch;
use sheaf_control::request::SequenceRow;
use sheaf_control::saved::Saved;
use sheaf_control::sequence::{Row, RowState, Rule, SequenceAction, SequenceRequest, SequenceState, Table};
use sheaf_control::view::State;
use sheaf_control::{Controller, Operator, Role, RunResult};
use sheaf_wire::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Time in which a sequence that nobody disturbs any more has ended, in milliseconds.
const TO_END: u64 = 20_000;

/// Time in which a row must have ended in peace; it is skipped then, because its process is one of the troubled times.
const ROW: u64 = 700;

/// Real ends of the runs of rows, by the number of the sequence and the row.
#[derive(Debug, Default)]
pub(super) struct Truth {
    rows: BTreeMap<Launch, (u64, u32)>,
    /// Launches that were good and complete.
    done: BTreeMap<(u64, u32), Vec<Launch>>,
}

impl Truth {
    /// Notes that the run of a row begins. What the controller has written down before must agree.
    pub(super) fn begin(&mut self, launch: Launch, row: &SequenceRow, disk: &Saved, seed: u64) {
        let sequence = disk.sequence.as_ref().expect("it is written down before");
        let view = sequence.view();
        assert_eq!((view.row, view.launch), (Some(row.row), Some(launch.0)), "seed {seed}");
        let before = &sequence.rows()[..usize::try_from(row.row - 1).unwrap_or(0)];
        let is_passed = |state| !matches!(state, RowState::Waiting | RowState::Running);
        assert!(before.iter().all(|row| is_passed(row.state)), "seed {seed}: {row} is not in order");
        let key = (view.id, row.row);
        assert!(!self.done.contains_key(&key), "seed {seed}: {row} is done and begins again");
        self.rows.insert(launch, key);
    }

    /// Notes the end of a launch.
    pub(super) fn end(&mut self, launch: Launch, result: Option<&RunResult>) {
        let is_done = result.is_some_and(|result| result.good && result.complete);
        if let Some(key) = self.rows.get(&launch).filter(|_| is_done) {
            let done = self.done.entry(*key).or_default();
            if !done.contains(&launch) {
                done.push(launch);
            }
        }
    }

    /// Compares the sequence with what has really happened. Rows that an earlier sequence has done have no attempt in this one.
    fn check(&self, controller: &Controller, seed: u64) {
        let Some(table) = controller.sequence_table() else { return };
        let id = table.sequence.id;
        for row in &table.rows {
            let runs = self.done.get(&(id, row.row)).map_or(0, Vec::len);
            assert!(runs <= 1, "seed {seed}: {runs} good runs of {row:?}");
            if row.state == RowState::Done {
                assert!(row.run.is_some(), "seed {seed}: {row:?}");
                let was_here = self.rows.values().any(|key| *key == (id, row.row));
                assert_eq!(runs, usize::from(was_here), "seed {seed}: {row:?}");
            } else {
                assert_eq!(runs, 0, "seed {seed}: {row:?} is done and not noted");
            }
        }
        let is_silent = matches!(table.sequence.state, SequenceState::Paused | SequenceState::Ended)
            && table.sequence.reason.is_none();
        assert!(!is_silent, "seed {seed}: no reason: {:?}", table.sequence);
    }
}

fn admin() -> Operator {
    Operator::new("carol", Role::Admin)
}

impl World {
    fn time(&self) -> Timestamp {
        Timestamp(self.now * 1_000_000)
    }

    /// The part of a driver: begins the next row, and takes it back where it cannot be written down.
    pub(super) fn begin_row(&mut self, now: Timestamp) {
        let is_due = self.controller.as_ref().is_some_and(Controller::is_row_due);
        if is_due && self.trouble && self.rng.one_in(5) {
            let mut controller = self.controller.clone();
            controller.as_mut().into_iter().for_each(|controller| controller.handle_row(now));
            self.reached.note("row not written");
        } else if is_due {
            self.call(|controller| controller.handle_row(now));
        }
    }

    /// An operator begins a sequence, or gives a command to the one that there is.
    pub(super) fn direct_sequence(&mut self) {
        let (operator, at) = (self.operator(), self.time());
        if self.rng.one_in(3) {
            let name = format!("scan {}", self.rng.below(12));
            let request = self.table_of(&name);
            let continues = request.resume;
            match self.call(|controller| controller.handle_sequence(at, &operator, &request)) {
                Some(Ok(accepted)) if accepted.again => self.reached.note("sequence repeated"),
                Some(Ok(_)) => {
                    self.log.push(format!("{} begins {request:?}", self.now));
                    self.reached.note("sequence begun");
                    if continues {
                        self.reached.note("sequence continued");
                    }
                    let again = self.call(|controller| controller.handle_sequence(at, &operator, &request));
                    if let Some(again) = again {
                        assert!(again.is_ok_and(|accepted| accepted.again), "seed {}", self.seed);
                        self.reached.note("sequence repeated");
                    }
                }
                _ => {}
            }
            return;
        }
        let actions =
            [SequenceAction::Pause, SequenceAction::Resume, SequenceAction::Skip, SequenceAction::Stop];
        // A sequence that is resumed more often goes farther.
        let action = actions[usize::try_from(self.rng.below(12)).unwrap_or(0).min(11) % 12 % 4];
        let action = if self.rng.one_in(2) { SequenceAction::Resume } else { action };
        let row = self.rng.one_in(2).then(|| 1 + u32::try_from(self.rng.below(3)).unwrap_or(0));
        self.log.push(format!("{} {action:?} {row:?}", self.now));
        self.call(|controller| controller.handle_sequence_action(at, &operator, (action, row), None).is_ok());
        self.compare();
    }

    fn table_of(&mut self, request: &str) -> SequenceRequest {
        // The same name stands for the same table.
        let number = request.bytes().map(u32::from).sum::<u32>();
        let values = (0..=number % 4).map(|row| Row { values: vec![(row / 2).to_string()], comment: None });
        SequenceRequest {
            request: format!("{request} {}", self.now / 300),
            name: format!("s{}", number % 2),
            table: Arc::new(Table { columns: vec!["filter.busy_us".into()], rows: values.collect() }),
            rule: Rule::ALL[usize::try_from(number / 2 % 3).unwrap_or(0)],
            repeats: 2,
            resume: number % 5 < 2,
            revision: None,
        }
    }

    pub(super) fn compare(&self) {
        if let Some(controller) = &self.controller {
            self.truth.check(controller, self.seed);
        }
    }

    /// A sequence that is left alone and resumed comes to its end, whatever has happened before.
    pub(super) fn finish_sequence(&mut self) {
        let end = self.now + TO_END;
        let mut began = (None, self.now);
        loop {
            self.step();
            self.compare();
            let Some(view) = self.controller.as_ref().map(Controller::view) else { continue };
            let Some(sequence) = view.sequence else { return };
            let state = sequence.state;
            if state == SequenceState::Ended {
                return;
            }
            assert!(self.now < end, "seed {}: {sequence:?} does not end: {:#?}", self.seed, self.log);
            if began.0 != Some((sequence.row, sequence.launch)) {
                began = (Some((sequence.row, sequence.launch)), self.now);
            }
            let at = self.time();
            self.call(|controller| controller.handle_lock(at, &admin(), true).is_ok());
            if sequence.launch.is_none() && view.state != State::Idle && state == SequenceState::Paused {
                self.ask(sheaf_control::Command::Reset, &format!("make room {}", self.now), false);
            }
            let action = match state {
                _ if sequence.launch.is_some() && self.now > began.1 + ROW => SequenceAction::Skip,
                SequenceState::Paused => SequenceAction::Resume,
                _ => continue,
            };
            self.call(|controller| {
                controller.handle_sequence_action(at, &admin(), (action, None), None).is_ok()
            });
        }
    }

    /// A system that has come to rest takes a table from start to end.
    pub(super) fn scan_again(&mut self) {
        self.ask(sheaf_control::Command::Stop, &format!("make room for a scan {}", self.seed), false);
        for _ in 0..PEACE {
            self.step();
        }
        let (request, at) = (self.table_of(&format!("last scan {}", self.seed)), self.time());
        let request = SequenceRequest { resume: false, ..request };
        self.call(|controller| controller.handle_lock(at, &admin(), true).is_ok());
        let answer = self.call(|controller| controller.handle_sequence(at, &admin(), &request));
        assert!(answer.is_some_and(|answer| answer.is_ok()), "seed {}: {:#?}", self.seed, self.log);
        self.finish_sequence();
        let table = self.controller.as_ref().and_then(Controller::sequence_table).expect("it is kept");
        let is_done = table.rows.iter().all(|row| row.state == RowState::Done && row.attempts == 1);
        assert!(is_done, "seed {}: {table:#?}: {:#?}", self.seed, self.log);
    }
}
