//! Explanation of a run that does not end: the waiting nodes and their reasons.

use super::Cluster;
use std::fmt::Write as _;

impl Cluster {
    /// Describes the state of every node: whether it has finished, its held events, and its next deadline.
    #[must_use]
    pub fn explain(&mut self) -> String {
        let mut text = String::new();
        let now = self.post.now;
        self.explain_manager(&mut text);
        for node in &mut self.readouts {
            let id = node.host.node;
            let Some(unit) = &mut node.unit else {
                let state = if node.host.is_gone { "gone for good" } else { "down" };
                writeln!(text, "  {id}: {state}").expect("a string takes every text");
                continue;
            };
            let (bytes, events) = unit.held();
            let finished = unit.is_finished();
            let deadline = unit
                .poll_timeout()
                .map_or_else(|| "nothing".into(), |deadline| format!("{} at {}", deadline.why, deadline.at));
            let ledger = unit.books().fragments;
            writeln!(
                text,
                "  {id}/{}: finished {finished}, holds {events} events, {bytes}, waits for {deadline}; {ledger:?}",
                node.host.session
            )
            .expect("a string takes every text");
        }
        for node in &mut self.builders {
            let (id, undecided) = (node.host.node, node.undecided());
            let Some(unit) = &mut node.unit else {
                let state = if node.host.is_gone { "gone for good" } else { "down" };
                writeln!(text, "  {id}: {state}").expect("a string takes every text");
                continue;
            };
            let (building, pending, bytes) = unit.held();
            let finished = unit.is_finished();
            let deadline = unit
                .poll_timeout()
                .map_or_else(|| "nothing".into(), |deadline| format!("{} at {}", deadline.why, deadline.at));
            writeln!(
                text,
                "  {id}/{}: finished {finished}, builds {building} events, {pending} wait for a decision \
                 ({undecided} with the disk), {bytes}, waits for {deadline}{}",
                node.host.session,
                node.farm.as_ref().map_or_else(String::new, |farm| format!("; {}", farm.explain())),
            )
            .expect("a string takes every text");
        }
        for node in &mut self.outputs {
            let (id, session) = (node.host.node, node.host.session);
            let state = match &mut node.unit {
                Some(unit) => {
                    let deadline = unit.poll_timeout().map(|deadline| (deadline.why, deadline.at));
                    format!(
                        "finished {}, holds {:?}, waits for {deadline:?}",
                        unit.is_finished(),
                        unit.held()
                    )
                }
                None => (if node.host.is_gone { "gone for good" } else { "down" }).to_owned(),
            };
            writeln!(text, "  {id}/{session}: {state}").expect("a string takes every text");
        }
        for source in &self.sources {
            if source.held_back.is_some() || !source.script.is_empty() {
                let held = source.held_back.as_ref().map(|fragment| fragment.event.0);
                writeln!(
                    text,
                    "  source {} of ru{}: {} fragments to send, held back {held:?}, scheduled {}",
                    source.id,
                    source.readout,
                    source.script.len(),
                    source.is_scheduled
                )
                .expect("a string takes every text");
            }
        }
        writeln!(text, "  now {now}").expect("a string takes every text");
        text
    }

    fn explain_manager(&mut self, text: &mut String) {
        let machine = &mut self.manager.machine;
        let deadline = machine
            .poll_timeout()
            .map_or_else(|| "nothing".into(), |deadline| format!("{} at {}", deadline.why, deadline.at));
        writeln!(
            text,
            "  evm: running {}, finished {}, waits for {deadline}; {:?}; committed {:?}",
            machine.is_running(),
            machine.is_finished(),
            machine.ledger(),
            machine.committed()
        )
        .expect("a string takes every text");
    }
}
