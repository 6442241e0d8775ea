//! The operation that lasts, and those that have ended.

use super::{Controller, Event};
use crate::limits::Limits;
use crate::operation::{End, Operation, Outcome};
use crate::request::{Command, Operator, Request};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// Most ended operations that are kept. A request that is repeated after so many others counts as a new one.
pub(super) const PAST: usize = 256;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    /// With its time limit, unless other means than giving up follow it.
    current: Option<(Operation, Option<Timestamp>)>,
    /// The newest last.
    past: VecDeque<Operation>,
}

impl Operations {
    pub(super) fn restore(
        current: Option<Operation>,
        past: Vec<Operation>,
        limits: &Limits,
        now: Timestamp,
    ) -> Self {
        let current = current.map(|operation| {
            let until = now + limits.of(operation.command);
            let operation = Operation { deadline_ms: until.as_millis(), ..operation };
            (operation.clone(), gives_up(operation.command).then_some(until))
        });
        Self { current, past: past.into() }
    }

    pub(super) fn current(&self) -> Option<&Operation> {
        self.current.as_ref().map(|(operation, _)| operation)
    }

    /// Returns the ended operations, the newest last.
    pub(super) fn past(&self) -> impl Iterator<Item = &Operation> {
        self.past.iter()
    }

    pub(super) fn last(&self) -> Option<&Operation> {
        self.past.back()
    }

    pub(super) fn find(&self, id: u64) -> Option<&Operation> {
        self.current().into_iter().chain(self.past.iter().rev()).find(|operation| operation.id == id)
    }

    pub(super) fn find_request(&self, name: &str) -> Option<&Operation> {
        let all = self.current().into_iter().chain(self.past.iter().rev());
        all.into_iter().find(|operation| operation.request == name)
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.current.as_ref().and_then(|(_, until)| *until)
    }

    /// Returns the operation whose time is over. It is still the current one.
    pub(super) fn take_late(&self, now: Timestamp) -> Option<Operation> {
        let (operation, until) = self.current.as_ref()?;
        until.is_some_and(|until| until <= now).then(|| operation.clone())
    }

    /// Sets when the next means is used, for people.
    pub(super) fn set_deadline(&mut self, until: Timestamp) {
        if let Some((operation, _)) = &mut self.current {
            operation.deadline_ms = until.as_millis();
        }
    }

    fn end(&mut self, now: Timestamp, result: Outcome, text: String) -> Option<Operation> {
        let (mut operation, _) = self.current.take()?;
        operation.end = Some(End { at_ms: now.as_millis(), result, text });
        self.past.push_back(operation.clone());
        if self.past.len() > PAST {
            self.past.pop_front();
        }
        Some(operation)
    }

    fn next_id(&self) -> u64 {
        let newest = self.current().into_iter().chain(self.last()).map(|operation| operation.id);
        newest.max().unwrap_or(0) + 1
    }
}

/// Commands that end a run are not given up: stronger means follow.
const fn gives_up(command: Command) -> bool {
    !matches!(command, Command::Stop | Command::Reset)
}

impl Limits {
    /// Returns the time until a command is given up, or stronger means are used.
    pub(super) const fn of(&self, command: Command) -> Nanos {
        match command {
            Command::Configure => self.configure,
            Command::Start | Command::Switch => self.start,
            Command::Pause | Command::Resume => self.pause,
            Command::Stop => self.drain,
            Command::Reset => self.kill,
        }
    }
}

impl Controller {
    /// Begins an operation; one that lasts is superseded. Returns its number.
    pub(super) fn begin_operation(&mut self, now: Timestamp, operator: &Operator, request: &Request) -> u64 {
        let id = self.operations.next_id();
        self.end_operation(
            now,
            Outcome::Superseded,
            format!("`{}` of {} followed", request.command, operator.name),
        );
        let until = now + self.limits.of(request.command);
        let operation = Operation {
            id,
            command: request.command,
            request: request.name.clone(),
            by: operator.name.clone(),
            began_ms: now.as_millis(),
            deadline_ms: until.as_millis(),
            end: None,
        };
        self.operations.current = Some((operation, gives_up(request.command).then_some(until)));
        id
    }

    /// Ends the operation that lasts, if one does.
    pub(super) fn end_operation(&mut self, now: Timestamp, result: Outcome, text: String) {
        if let Some(operation) = self.operations.end(now, result, text) {
            self.record_end(&operation);
            self.events.push_back(Event::Ended(operation));
        }
    }
}
