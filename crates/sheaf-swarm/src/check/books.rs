//! Ledgers: each must be balanced with nothing in flight, and all must agree.

use super::Evidence;
use crate::options::TriggerOptions;
use crate::payload::SimPayload;
use crate::violation::{Violation, violation};
use sheaf_protocol::ledger::{Counter, Ledger};
use sheaf_wire::{Event, Outcome, Role};

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    triggers(evidence, violations);
    offered(evidence, violations);
    announced(evidence, violations);
    bytes(evidence, violations);
    sent(evidence, violations);
    readouts(evidence, violations);
    outputs(evidence, violations);
    credit(evidence, violations);
    if evidence.watch.faults.readout_crashes == 0 {
        fragments(evidence, violations);
    }
}

/// Checks the event manager: every trigger is in one bin, and the bins agree with the reported ends of events.
fn triggers(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let ledger = evidence.manager.ledger();
    closed("the event manager", &ledger, violations);
    let endings = &evidence.watch.ended;
    let count = |outcome| endings.values().filter(|ending| ending.outcome == outcome).count() as u64;
    let told = [
        ("stored", ledger.stored, count(Outcome::Stored)),
        ("rejected", ledger.rejected, count(Outcome::Rejected)),
        ("dropped", ledger.dropped_total(), count(Outcome::Dropped)),
        ("received", ledger.received, endings.len() as u64),
    ];
    for (name, booked, said) in told {
        if booked != said {
            violations
                .push(violation!("the event manager has booked {booked} events {name} and announced {said}"));
        }
    }
    let incomplete = endings.values().filter(|ending| ending.outcome == Outcome::Stored && ending.incomplete);
    let (incomplete, booked) = (incomplete.count() as u64, evidence.manager.stored().incomplete);
    if incomplete != booked {
        violations.push(violation!("{booked} incomplete events are booked, {incomplete} were announced"));
    }
}

/// Checks that every trigger offered during the run was accepted or vetoed, and booked accordingly.
fn offered(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let watch = evidence.watch;
    let vetoed = evidence.manager.dead_time(evidence.now).vetoed.values().sum::<u64>();
    if vetoed != watch.vetoes {
        violations.push(violation!("{} triggers were vetoed, {vetoed} vetoes are booked", watch.vetoes));
    }
    let accepted = evidence.manager.ledger().received;
    let is_driven = matches!(evidence.options.triggers, TriggerOptions::Driven { .. });
    if is_driven && accepted + vetoed != watch.offered {
        violations.push(violation!(
            "{} triggers were offered, {accepted} accepted, {vetoed} vetoed",
            watch.offered
        ));
    }
}

/// Checks that each event that sources announced was accepted, unless the run was stopped or a node lost its state.
fn announced(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let faults = evidence.watch.faults;
    if faults.stops
        + faults.requirement_stops
        + faults.readout_crashes
        + faults.absent_at_start
        + faults.failed_starts
        > 0
    {
        return;
    }
    if evidence.manager.shifts().iter().len() > 0 && evidence.options.stops_on_shift() {
        return;
    }
    // If the event manager receives nothing from any readout unit for the peer timeout, it considers the sources ended.
    if faults.freezes + faults.stalls + faults.links + evidence.network.clogged > 0 {
        return;
    }
    // The run ends without waiting for the sources of a readout unit that is excluded.
    if evidence.options.node_exclusions.iter().any(|exclusion| exclusion.node.role == Role::Readout) {
        return;
    }
    let ended = &evidence.watch.ended;
    let forgotten: Vec<_> =
        evidence.watch.announced.iter().filter(|event| !ended.contains_key(event)).collect();
    if !forgotten.is_empty() {
        violations.push(violation!("sources announced the events {forgotten:?}, which were never triggered"));
    }
}

/// Checks that the payload of stored events agrees between the event manager's books, the reports of their ends, and the disks.
fn bytes(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let of_event = |event: &Event<SimPayload>| -> u64 {
        event.fragments.iter().map(|fragment| u64::from(fragment.payload.length)).sum()
    };
    let on_disks = evidence.counting().iter().map(|(_, event)| of_event(event)).sum::<u64>();
    let (booked, told) = (evidence.manager.stored().bytes.0, evidence.watch.stored_bytes.0);
    if booked != on_disks || told != on_disks {
        violations.push(violation!(
            "stored events have {on_disks} B on disks; {booked} B are booked, {told} B were announced"
        ));
    }
}

/// Checks that each readout unit has booked the payload that it sent.
fn sent(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    for (unit, sent) in evidence.readouts.iter().zip(&evidence.sent) {
        let Some(unit) = unit else { continue };
        let booked = unit.books().counters.get(&Counter::SentBytes).copied().unwrap_or(0);
        if booked != *sent {
            let node = unit.identity().node;
            violations.push(violation!("{node} has sent {sent} B of payload, and booked {booked} B"));
        }
    }
}

/// Checks that each readout unit is balanced, empty, and agrees with its report to the event manager.
fn readouts(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    for unit in evidence.readouts.iter().flatten() {
        let node = unit.identity().node;
        let ledger = unit.books().fragments;
        closed(&node.to_string(), &ledger, violations);
        if let Some(reported) = evidence.watch.reported.get(&node)
            && *reported != ledger
        {
            violations.push(violation!("{node} has reported {reported:?} and has {ledger:?}"));
        }
        if !evidence.watch.reported.contains_key(&node) {
            violations.push(violation!("{node} has finished, and its books are not with the event manager"));
        }
    }
}

/// Checks that each output node has reported.
fn outputs(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let nodes = evidence.outputs.iter().flatten().map(|unit| unit.identity().node);
    for node in nodes.filter(|node| !evidence.watch.reported.contains_key(node)) {
        violations.push(violation!("{node} has finished, and its books are not with the event manager"));
    }
}

/// Checks that a builder's credit equals its capacity when all events have ended.
fn credit(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let bounds = &evidence.options.bounds;
    for unit in evidence.builders.iter().flatten() {
        let node = unit.identity().node;
        let Some((slots, bytes)) = evidence.manager.credit(node.index) else { continue };
        // Credit of events returned for lack of memory is granted when another event ends.
        let is_whole = slots == u64::from(bounds.slots);
        if slots > u64::from(bounds.slots) || bytes > bounds.memory || (is_whole && bytes != bounds.memory) {
            violations.push(violation!(
                "{node} has {} slots and {}; the event manager has credit for {slots} events and {bytes}",
                bounds.slots,
                bounds.memory
            ));
        }
    }
}

fn closed(who: &str, ledger: &Ledger, violations: &mut Vec<Violation>) {
    if !ledger.is_balanced() || ledger.in_flight != 0 {
        violations.push(violation!("the books of {who} are not closed: {ledger:?}"));
    }
}

/// Checks that the number of fragments agrees everywhere, if no readout unit lost its state.
fn fragments(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let books = evidence.fragment_books();
    let of = |outcome| {
        let events = evidence.watch.ended.values().filter(|ending| ending.outcome == outcome);
        events.map(|ending| u64::from(ending.fragments)).sum::<u64>()
    };
    let stored = evidence.manager.stored().fragments;
    let pairs = [
        ("fragments stored at readout units", books.stored, "in the event manager's stored events", stored),
        ("fragments in stored events", of(Outcome::Stored), "by the event manager's count", stored),
        (
            "fragments stored at readout units",
            books.stored,
            "in counting events on disks",
            on_disks(evidence),
        ),
        ("fragments rejected at readout units", books.rejected, "in rejected events", of(Outcome::Rejected)),
        ("fragments received", books.received, "given by sources", evidence.watch.taken),
    ];
    for (left, left_value, right, right_value) in pairs {
        if left_value != right_value {
            violations.push(violation!("{left}: {left_value}; {right}: {right_value}"));
        }
    }
}

fn on_disks(evidence: &Evidence<'_>) -> u64 {
    evidence.counting().iter().map(|(_, event)| event.fragments.len() as u64).sum()
}
