//! The disks: of each builder session's output, the first so many events that the event manager has booked as stored count,
//! of each output node's those at the places that it was told, and together they are every stored event exactly once.

use super::Evidence;
use super::numbers::check_origin;
use crate::filter::decide;
use crate::options::{Options, Processing};
use crate::payload::SimPayload;
use crate::violation::{Violation, violation};
use sheaf_protocol::builder::{Decision, IncompletePolicy};
use sheaf_wire::{Event, EventId, Fragment, NodeId, Outcome, SessionId};
use std::collections::BTreeMap;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    violations.extend(evidence.disks.faults_of_streams().into_iter().map(Violation::from));
    let mut found: BTreeMap<EventId, (NodeId, SessionId)> = BTreeMap::new();
    for ((node, session), committed) in evidence.manager.committed() {
        check_length(evidence, (node, session), committed, violations);
    }
    for (owner, places) in evidence.manager.kept() {
        check_length(evidence, *owner, places.end(), violations);
    }
    for ((node, session), event) in evidence.counting() {
        if let Some((other, of)) = found.insert(event.id, (node, session)) {
            violations.push(violation!("event {} counts in {other}/{of} and in {node}/{session}", event.id));
        }
        if let Err(what) = check_event(evidence.options, event) {
            violations.push(violation!("event {} on the disk of {node}/{session}: {what}", event.id));
        }
        check_against_ending(evidence, event, violations);
    }
    let stored = evidence.manager.ledger().stored;
    if found.len() as u64 != stored {
        violations.push(violation!("{} events count on disks, {stored} are booked as stored", found.len()));
    }
}

fn check_length(
    evidence: &Evidence<'_>,
    (node, session): (NodeId, SessionId),
    events: u64,
    violations: &mut Vec<Violation>,
) {
    let have = evidence.disks.output(node, session).len();
    if events > have as u64 {
        violations.push(violation!("events of {node}/{session} count up to {events}, its disk has {have}"));
    }
}

fn check_against_ending(evidence: &Evidence<'_>, event: &Event<SimPayload>, violations: &mut Vec<Violation>) {
    let Some(ending) = evidence.watch.ended.get(&event.id) else {
        violations.push(violation!("event {} counts on a disk and has not ended", event.id));
        return;
    };
    let fragments = event.fragments.len();
    if ending.outcome != Outcome::Stored
        || ending.fragments as usize != fragments
        || ending.incomplete != event.incomplete
    {
        violations.push(violation!(
            "event {} is booked as {ending:?}; on disk it has {fragments} fragments, incomplete {}",
            event.id,
            event.incomplete
        ));
    }
    let judged = !evidence.watch.quarantined.contains(&event.id);
    let route = evidence.disks.routing().route(event.id, evidence.options.tags(event.id));
    let unwanted = judged && (decide(evidence.options, event.id) != Decision::Stored || route.is_empty());
    if unwanted || evidence.options.is_rejected_early(event.id) {
        violations.push(violation!("event {} was not to be stored", event.id));
    }
}

/// Checks that an event has, in order, the right fragment or a reason for its absence for every source that belongs to it.
///
/// # Errors
/// Describes the first error.
pub fn check_event(options: &Options, event: &Event<SimPayload>) -> Result<(), Violation> {
    check_sources(options, event, |number| options.is_in_event(event.id, number))
}

/// Checks a part of an event in the same way.
///
/// # Errors
/// Describes the first error.
pub fn check_part(options: &Options, part: &Event<SimPayload>) -> Result<(), Violation> {
    let after = |is_after_region| {
        check_sources(options, part, |number| options.is_in_part(part.id, number, is_after_region))
    };
    after(false).or_else(|_| after(true))
}

/// Checks that a fragment is as sent by its source, or as processed by a preprocessor.
fn check_fragment(
    options: &Options,
    event: EventId,
    fragment: &Fragment<SimPayload>,
) -> Result<(), Violation> {
    let Fragment { source, processed, .. } = *fragment;
    let origin = check_origin(options, event, fragment)?;
    let raw = options.payload(origin, source);
    let (right, checksum) = if processed {
        let made = options.processed(origin, source);
        (made, raw.checksum().map(|_| made.sum()))
    } else {
        (raw, raw.checksum())
    };
    if fragment.event != event || fragment.payload != right {
        return Err(violation!("the fragment of source {source} is {fragment:?}, not {right:?}"));
    }
    if fragment.checksum != checksum {
        return Err(violation!("the checksum of source {source} changed"));
    }
    let Some(setup) = options.preprocessing else {
        return if processed {
            Err(violation!("a fragment of source {source} is marked as processed, and was not"))
        } else {
            Ok(())
        };
    };
    let is_made = setup.of(options.seed, event, source) == Processing::Made;
    // Other fragments of a worker that hangs are sent unprocessed.
    let may_be_raw = !is_made || setup.may_hang();
    if processed && !is_made || !processed && !may_be_raw {
        return Err(violation!("the fragment of source {source} is processed: {processed}"));
    }
    Ok(())
}

fn check_sources(
    options: &Options,
    event: &Event<SimPayload>,
    belongs: impl Fn(u16) -> bool,
) -> Result<(), Violation> {
    if !event.fragments.is_sorted_by(|a, b| a.source < b.source) {
        return Err("its fragments are not in order of their sources, each once".into());
    }
    if !event.missing.is_sorted_by(|a, b| a.source < b.source) {
        return Err("its missing sources are not in order, each once".into());
    }
    let (mut fragments, mut missing) = (event.fragments.iter().peekable(), event.missing.iter().peekable());
    let mut incomplete = false;
    for number in 0..options.source_count() {
        let here = fragments.next_if(|fragment| fragment.source.0 == u32::from(number));
        let gone = missing.next_if(|missing| missing.source.0 == u32::from(number));
        match (here, gone) {
            (Some(_), Some(gone)) => {
                return Err(violation!("source {number} is there and missing ({})", gone.reason));
            }
            (None, None) if !belongs(number) => {}
            (Some(_), None) | (None, Some(_)) if !belongs(number) => {
                return Err(violation!("source {number} does not belong to it"));
            }
            (None, None) => return Err(violation!("source {number} is neither there nor missing")),
            (None, Some(gone)) => incomplete |= gone.reason.is_loss() && !options.is_optional(number),
            (Some(fragment), None) => {
                check_fragment(options, event.id, fragment)?;
            }
        }
    }
    if let Some(fragment) = fragments.next() {
        return Err(violation!("it has a fragment of source {}, which does not exist", fragment.source));
    }
    if let Some(missing) = missing.next() {
        return Err(violation!("source {} is missing, which does not exist", missing.source));
    }
    if event.incomplete != incomplete {
        return Err(violation!("its mark incomplete is {}", event.incomplete));
    }
    if incomplete && options.policy == IncompletePolicy::Drop {
        return Err("it is incomplete, and the policy is to drop it".into());
    }
    Ok(())
}
