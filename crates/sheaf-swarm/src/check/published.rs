//! Numbers that nodes pass to their metrics, compared with their books: two ways to the same numbers.

use super::Evidence;
use crate::violation::{Violation, violation};
use sheaf_protocol::ledger::NodeBooks;
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_wire::message::Count;
use sheaf_wire::{Nanos, NodeId};

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    for unit in evidence.readouts.iter().flatten() {
        compare(unit.identity().node, unit.books(), |line| unit.each_count(line), violations);
    }
    for builder in evidence.builders.iter().flatten() {
        compare(builder.identity().node, builder.books(), |line| builder.each_count(line), violations);
    }
    for output in evidence.outputs.iter().flatten() {
        compare(output.identity().node, output.books(), |line| output.each_count(line), violations);
    }
    let manager = evidence.manager;
    compare(NodeId::MANAGER, manager.books(), |line| manager.each_count(line), violations);
    let triggers = NodeBooks { fragments: manager.ledger(), ..NodeBooks::default() };
    compare(NodeId::MANAGER, triggers, |line| manager.each_trigger_count(line), violations);
    dead_time(evidence, violations);
}

/// Compares books with the lines that `each` passes on.
fn compare(
    node: NodeId,
    mut books: NodeBooks,
    each: impl FnOnce(&mut dyn FnMut(Count)),
    violations: &mut Vec<Violation>,
) {
    let mut lines = Vec::new();
    each(&mut |line| lines.push(line));
    let mut passed_on = NodeBooks::from_counts(&lines);
    for books in [&mut books, &mut passed_on] {
        books.counters.retain(|_, value| *value > 0);
        books.fragments.dropped.retain(|_, value| *value > 0);
    }
    if books != passed_on {
        violations.push(violation!("{node} has the books {books:?} and passes on {passed_on:?}"));
    }
}

fn dead_time(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let books = evidence.manager.dead_time(evidence.now);
    let view = evidence.manager.dead_time_at(evidence.now);
    let of = |cause: DeadTimeCause| {
        let time = books.time.get(&cause).copied().unwrap_or(Nanos::ZERO);
        (time, books.vetoed.get(&cause).copied().unwrap_or(0))
    };
    let differs = |cause: &DeadTimeCause| of(*cause) != (view.time(*cause), view.vetoed(*cause));
    let culprit_differs =
        books.culprits.iter().any(|((cause, node), time)| view.time_of(*cause, *node) != *time);
    if view.live() != books.live || DeadTimeCause::ALL.iter().any(differs) || culprit_differs {
        violations.push(violation!("live and dead time are booked as {books:?} and passed on as {view:?}"));
    }
}
