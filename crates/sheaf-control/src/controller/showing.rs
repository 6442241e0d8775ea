//! The controller as people see it.

use super::Controller;
use super::current::Current;
use crate::lock::Lock;
use crate::operation::Operation;
use crate::request::{Command, RunSettings, SequenceRow};
use crate::sequence::Sequence;
use crate::view::{CommandView, Ends, LockView, NodeView, OperationView, SourceView, View};
use std::collections::BTreeSet;

impl Controller {
    /// Returns all of it as people see it.
    #[must_use]
    pub fn view(&self) -> View {
        let show = |operation| self.show_operation(operation);
        let run = self.run.as_ref();
        let ends = |run: &Current| {
            let RunSettings { events, duration_ms, sequence, .. } = run.settings();
            let of_row = sequence.as_ref().map(SequenceRow::ends);
            let (row_events, row_ms) = of_row.unwrap_or_default();
            Ends { events: events.or(row_events), duration_ms: duration_ms.or(row_ms) }
        };
        View {
            state: self.state(),
            target: self.target(),
            revision: self.revision,
            run: run.and_then(Current::number),
            by: run.map(|run| run.by().to_owned()),
            ends: run.map(ends),
            operation: self.operations.current().map(show),
            last: self.operations.last().map(show),
            last_run: self.last_run.clone(),
            lock: self.lock.as_ref().map(show_lock),
            faults: self.faults.iter().cloned().collect(),
            sources: self.show_sources(),
            nodes: self.show_nodes(),
            sequence: self.sequence.as_ref().map(Sequence::view),
            silences: self.silences.list().to_vec(),
            alarms_seen_ms: self.alarms_seen_ms,
            commands: Command::ALL.into_iter().map(|command| self.show_command(command)).collect(),
        }
    }

    /// Returns an operation as people see it.
    #[must_use]
    pub fn show_operation(&self, operation: &Operation) -> OperationView {
        let end = operation.end.as_ref();
        OperationView {
            id: operation.id,
            command: operation.command,
            by: operation.by.clone(),
            began_ms: operation.began_ms,
            deadline_ms: operation.deadline_ms,
            progress: if end.is_none() { self.progress() } else { None },
            ended_ms: end.map(|end| end.at_ms),
            result: end.map(|end| end.result),
            text: end.map(|end| end.text.clone()),
        }
    }

    /// Returns the sources that are to be excluded, or that the run excludes.
    fn show_sources(&self) -> Vec<SourceView> {
        let none = BTreeSet::new();
        let reported = self.run.as_ref().map_or(&none, |run| &run.report().exclusions.sources);
        let wanted = &self.exclusions.sources;
        let view = |source: &u32| SourceView {
            source: *source,
            included: !wanted.contains(source),
            excluded: reported.contains(source),
        };
        wanted.union(reported).map(view).collect()
    }

    /// Returns the nodes that are to be excluded, that the run excludes, that are being started again, or were to be and are not.
    fn show_nodes(&self) -> Vec<NodeView> {
        let none = BTreeSet::new();
        let reported = self.run.as_ref().map_or(&none, |run| &run.report().exclusions.nodes);
        let recovering = self.run.as_ref().map(Current::recovering).unwrap_or_default();
        let refused = self.run.as_ref().map(Current::all_not_recovered).unwrap_or_default();
        let wanted = &self.exclusions.nodes;
        let all = wanted.union(reported).map(String::as_str).chain(recovering.iter().copied());
        let all: BTreeSet<&str> = all.chain(refused.keys().copied()).collect();
        let view = |node: &str| NodeView {
            node: node.to_owned(),
            included: !wanted.contains(node),
            excluded: reported.contains(node),
            recovering: recovering.contains(node),
            not_recovered: refused.get(node).map(|why| (*why).to_owned()),
        };
        all.into_iter().map(view).collect()
    }

    fn show_command(&self, command: Command) -> CommandView {
        // A run that is stopping can be stopped now.
        let refusal = self.allows(command, true).err();
        CommandView { command, allowed: refusal.is_none(), why: refusal.map(|refusal| refusal.text) }
    }
}

fn show_lock(lock: &Lock) -> LockView {
    LockView { by: lock.by.clone(), until_ms: lock.until.as_millis() }
}
