//! Sequences: the controller starts the runs of a table, and gives way when a person takes over.

use super::commands::{COMMENT_CHARACTERS, check_name};
use super::current::Current;
use super::{Accepted, Controller, Event};
use crate::link::{Launch, RunResult};
use crate::lock;
use crate::request::{Command, Operator, Refusal, RefusalCode, Request, Role, RunSettings};
use crate::sequence::{
    Cut, NAME_CHARACTERS, PAST, PastSequence, REPEATS, ROWS, RowEnd, RowRecord, RowState, Sequence,
    SequenceAction, SequenceRequest, SequenceState, SequenceTable,
};
use sheaf_wire::Timestamp;
use std::sync::Arc;

impl SequenceRequest {
    /// Refuses what makes no sense in any state.
    fn check(&self) -> Result<(), Refusal> {
        let invalid = |text: String, remedy: &str| Err(Refusal::new(RefusalCode::Invalid, text, remedy));
        check_name(&self.request)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if self.name.is_empty() || self.name.len() > NAME_CHARACTERS || !self.name.bytes().all(is_plain) {
            let text = format!("{:?} is not the name of a sequence", self.name);
            return invalid(text, "give 1 to 64 letters, digits, `.`, `-` and `_`");
        }
        let rows = self.table.rows.len();
        if rows == 0 || rows > ROWS {
            let text = format!("the table has {rows} rows");
            return invalid(text, "give 1 to 10,000; several sequences can follow one another");
        }
        if self.table.rows.iter().any(|row| row.values.len() != self.table.columns.len()) {
            return invalid("a row has not one value for each column".to_owned(), "correct the table");
        }
        let is_long = |text: &String| text.chars().count() > COMMENT_CHARACTERS;
        if let Some(row) = self.table.rows.iter().position(|row| row.comment.as_ref().is_some_and(is_long)) {
            return invalid(
                format!("the comment of row {} has more than 1,000 characters", row + 1),
                "shorten it",
            );
        }
        if self.repeats > REPEATS {
            return invalid(format!("{} repetitions are too many", self.repeats), "give at most 100");
        }
        Ok(())
    }
}

fn refuse<T>(text: String, remedy: &str) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::State, text, remedy))
}

impl Controller {
    /// Begins a sequence. Its first row begins with [`handle_row`](Self::handle_row).
    ///
    /// # Errors
    /// If the request is not followed, and why. Nothing has changed then.
    pub fn handle_sequence(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        request: &SequenceRequest,
    ) -> Result<Accepted, Refusal> {
        request.check()?;
        if let Some(known) = self.sequence.as_ref().filter(|known| known.request().0 == request.request) {
            if known.request().1 != operator.name || known.name() != request.name {
                let text = format!("the request {} began the sequence {}", request.request, known.name());
                return refuse(text, "choose a new name for each request");
            }
            return Ok(Accepted { operation: known.id(), again: true });
        }
        lock::check(self.lock.as_ref(), now, operator)?;
        self.check_revision(request.revision)?;
        if let Some(other) = self.sequence.as_ref().filter(|known| known.state() != SequenceState::Ended) {
            let text = format!("the sequence {} has not ended", other.name());
            return refuse(text, "wait, or stop it: `sheaf ctl sequence stop`");
        }
        if let Some(run) = &self.run {
            return refuse(format!("{} is {}", run.name(), run.state().words()), "stop it first");
        }
        let of_name = |known: &&Arc<PastSequence>| known.name == request.name;
        let last = self.sequence.as_ref().map(|last| Arc::new(PastSequence::of(last)));
        let past = last.iter().chain(&self.past_sequences).find(of_name).filter(|_| request.resume).cloned();
        if request.resume && past.is_none() {
            let text = format!("no sequence {} is known that could be continued", request.name);
            return refuse(text, "start it without `resume`, or give the name that it had");
        }
        self.sequences += 1;
        let fresh = || vec![RowRecord::default(); request.table.rows.len()];
        let rows = past.map_or_else(fresh, |past| past.records(&request.table));
        let sequence = Sequence::new(self.sequences, &operator.name, request, rows);
        if let Some(last) = last {
            self.past_sequences.retain(|known| known.name != last.name);
            self.past_sequences.push_front(last);
            self.past_sequences.truncate(PAST);
        }
        let operation = sequence.id();
        self.sequence = Some(sequence);
        self.settle(now);
        Ok(Accepted { operation, again: false })
    }

    /// Takes a command to the sequence. `row`, from 1, is the one to [skip](SequenceAction::Skip), as the operator has seen it; `None`: the
    /// present one. Repeating a command that has been followed has no effect.
    ///
    /// # Errors
    /// If the command is not followed, and why. Nothing has changed then.
    pub fn handle_sequence_action(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        (action, row): (SequenceAction, Option<u32>),
        revision: Option<u64>,
    ) -> Result<(), Refusal> {
        lock::check(self.lock.as_ref(), now, operator)?;
        self.check_revision(revision)?;
        let Some(sequence) = &mut self.sequence else {
            return refuse("there is no sequence".to_owned(), "start one: `sheaf ctl sequence start`");
        };
        let state = sequence.state();
        if matches!(state, SequenceState::Ended | SequenceState::Stopping) {
            if action == SequenceAction::Stop {
                return Ok(());
            }
            let word = if state == SequenceState::Ended { "has ended" } else { "is being stopped" };
            return refuse(format!("the sequence {} {word}", sequence.name()), "start another one");
        }
        match action {
            SequenceAction::Pause if state == SequenceState::Running => {
                let after = if sequence.attempt().is_some() { ", after the present run" } else { "" };
                sequence.pause(format!("{} paused it{after}", operator.name));
            }
            SequenceAction::Resume if state == SequenceState::Paused => {
                let launch = sequence.attempt().map(|attempt| attempt.launch);
                if let Some(run) = self.run.as_ref().filter(|run| Some(run.launch()) != launch) {
                    let text = format!("{} is {}, and not of the sequence", run.name(), run.state().words());
                    return refuse(text, "stop it first");
                }
                sequence.resume(&operator.name);
            }
            SequenceAction::Pause | SequenceAction::Resume => {}
            SequenceAction::Skip => self.skip_row(now, operator, row)?,
            SequenceAction::Stop => {
                sequence.stop(&operator.name);
                self.cut_row(now, operator, Cut::Stop);
            }
        }
        self.settle(now);
        Ok(())
    }

    fn skip_row(&mut self, now: Timestamp, operator: &Operator, row: Option<u32>) -> Result<(), Refusal> {
        let Some(sequence) = &mut self.sequence else { return Ok(()) };
        let present = sequence.attempt().map(|attempt| attempt.row).or_else(|| sequence.next_row());
        let wanted = row.and_then(|row| usize::try_from(row).ok()).map(|row| row.wrapping_sub(1));
        let known = wanted.and_then(|row| sequence.rows().get(row));
        if known.is_some_and(|record| record.state == RowState::Skipped) {
            return Ok(());
        }
        let Some(row) = present.filter(|present| wanted.is_none_or(|wanted| wanted == *present)) else {
            let text = row.map_or_else(
                || "no row is left to skip".to_owned(),
                |row| format!("row {row} is neither in progress nor the next one"),
            );
            return refuse(text, "look at the sequence again");
        };
        if sequence.attempt().is_some() {
            self.cut_row(now, operator, Cut::Skip);
        } else {
            sequence.skip(row);
        }
        Ok(())
    }

    /// Stops the run of the row in progress, if it is not being stopped.
    fn cut_row(&mut self, now: Timestamp, operator: &Operator, cut: Cut) {
        let launch = self.launch();
        let Some(attempt) = self.sequence.as_mut().and_then(|sequence| sequence.attempt_of(launch)) else {
            return;
        };
        attempt.cut = Some(cut);
        let via = match operator.via.as_deref() {
            Some(via) => format!("sequence, {via}"),
            None => "sequence".to_owned(),
        };
        let operator = &operator.clone().via(via);
        let name = format!("sequence launch {} stop", attempt.launch.0);
        if self.allows(Command::Stop, false).is_ok() {
            self.follow(now, operator, &request(Command::Stop, name, RunSettings::default()));
        }
    }

    /// Returns whether [`handle_row`](Self::handle_row) is to be called: the sequence goes on, and no run is in progress.
    #[must_use]
    pub fn is_row_due(&self) -> bool {
        let is_running =
            self.sequence.as_ref().is_some_and(|sequence| sequence.state() == SequenceState::Running);
        is_running && self.run.is_none()
    }

    /// Begins the next row, or ends a sequence that has none left. A driver that cannot write down the result must take it back.
    pub fn handle_row(&mut self, now: Timestamp) {
        if !self.is_row_due() {
            return;
        }
        let launch = Launch(self.launches + 1);
        let Some(sequence) = &mut self.sequence else { return };
        let via = format!("sequence {}", sequence.name());
        let operator = Operator::new(sequence.by(), Role::Operator).via(via);
        if let Err(refusal) = lock::check(self.lock.as_ref(), now, &operator) {
            sequence.pause(refusal.text);
        } else if let Some(row) = sequence.take_next_row() {
            let (name, settings) = sequence.begin_row(now, row, launch);
            self.follow(now, &operator, &request(Command::Start, name, settings));
        } else {
            sequence.complete();
        }
        self.settle(now);
    }

    /// Notes that an operator ends a run by hand: if it is of a sequence, that pauses.
    pub(super) fn note_taken_over(&mut self, operator: &Operator, command: Command) {
        if !matches!(command, Command::Stop | Command::Reset) {
            return;
        }
        let Some(run) = &self.run else { return };
        let name = run.name();
        let Some(sequence) = &mut self.sequence else { return };
        let Some(attempt) = sequence.attempt_of(Some(run.launch())) else { return };
        if attempt.cut.is_none() {
            attempt.cut = Some(Cut::ByHand);
            if sequence.state() != SequenceState::Stopping {
                sequence.pause(format!("{} gave `{command}` for {name}", operator.name));
            }
        }
    }

    /// Draws the conclusions of a run of a row that did not begin in time.
    pub(super) fn note_late(&mut self, now: Timestamp, command: Command, why: &str) {
        let launch = self.launch();
        let Some(sequence) = self.sequence.as_mut().filter(|_| command == Command::Start) else { return };
        let (rule, by) = (sequence.rule(), sequence.by().to_owned());
        let is_running = sequence.state() == SequenceState::Running;
        if sequence.attempt_of(launch).is_none_or(|attempt| attempt.cut.is_some()) {
            return;
        }
        if rule == crate::sequence::Rule::Pause {
            if is_running {
                sequence.pause(why.to_owned());
            }
        } else {
            let operator = Operator::new(by, Role::Operator);
            self.cut_row(now, &operator, Cut::Late(why.to_owned()));
        }
    }

    /// Tells the sequence how the run of its row has ended.
    pub(super) fn end_row(
        &mut self,
        now: Timestamp,
        run: &Current,
        (number, result): (Option<u32>, Option<&RunResult>),
        text: &str,
    ) {
        let Some(sequence) = &mut self.sequence else { return };
        if sequence.attempt_of(Some(run.launch())).is_none() {
            return;
        }
        let is_good = result.is_some_and(|result| result.good && result.begun);
        let is_complete = result.is_some_and(|result| result.complete);
        let text =
            if is_good && !is_complete { format!("{text}; it ended too early") } else { text.to_owned() };
        let triggers = result.map(|result| result.triggers);
        sequence.end_row(now, RowEnd { run: number, triggers, is_done: is_good && is_complete, text });
    }

    /// Returns the sequence that is in progress or ended last, with all of its rows.
    #[must_use]
    pub fn sequence_table(&self) -> Option<SequenceTable> {
        let run = self.run.as_ref().and_then(Current::number);
        self.sequence.as_ref().map(|sequence| sequence.table_view(run))
    }

    /// Returns the sequence that is in progress or ended last.
    #[must_use]
    pub fn sequence(&self) -> Option<&Sequence> {
        self.sequence.as_ref()
    }

    /// Moves what the sequence has told to the events.
    pub(super) fn collect_news(&mut self) {
        while let Some(news) = self.sequence.as_mut().and_then(Sequence::poll_news) {
            self.events.push_back(Event::Sequence(news));
        }
    }
}

fn request(command: Command, name: String, settings: RunSettings) -> Request {
    Request { command, name, settings, now: false, revision: None }
}
