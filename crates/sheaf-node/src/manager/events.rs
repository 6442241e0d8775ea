//! Events of the role, for the report of the run and for the operator.

use super::ManagerNode;
use crate::worker::{NodeError, list, word};
use sheaf_protocol::manager::ManagerEvent;
use sheaf_protocol::numbering::Shift;
use sheaf_telemetry::log_as;
use sheaf_wire::{EventId, NodeId, Role, Timestamp};

fn log_node_excluded(node: NodeId, excluded: bool, from: EventId) {
    let what = match (node.role, excluded) {
        (Role::Builder, true) => {
            format!("{node} is excluded: it gets no further events, and completes those that it has")
        }
        (Role::Builder, false) => format!("{node} is included again, and gets events"),
        (_, true) => {
            format!("{node} is excluded from event {from} on: events are complete without its sources")
        }
        (_, false) => format!("{node} is included again from event {from} on"),
    };
    match excluded {
        true => log_as!(NODE_EXCLUDED, node = NodeId::MANAGER, event = from, peer = node; "{what}"),
        false => log_as!(NODE_INCLUDED, node = NodeId::MANAGER, event = from, peer = node; "{what}"),
    }
}

/// Logs that a source is off, or that it is renumbered.
fn log_shift(Shift { source, first, shift, repaired_from, .. }: &Shift, is_repaired: bool) {
    if is_repaired {
        let from = repaired_from.unwrap_or(*first);
        log_as!(
            SOURCE_RENUMBERED, node = NodeId::MANAGER, event = from, source = source;
            "source {source}, off by {shift:+} from event {first} on, is renumbered from event {from} on"
        );
    } else {
        log_as!(
            SOURCE_SHIFTED, node = NodeId::MANAGER, event = first, source = source;
            "source {source} is off by {shift:+} from event {first} on: {}",
            explain_shift(*shift)
        );
    }
}

/// Returns the fault of a source that is off by so many events.
fn explain_shift(shift: i64) -> String {
    let noun = if shift.unsigned_abs() == 1 { "trigger" } else { "triggers" };
    let count = shift.unsigned_abs();
    if shift > 0 {
        format!("it has missed {count} {noun}")
    } else {
        format!("it has counted {count} {noun} too many")
    }
}

impl ManagerNode {
    pub(super) fn take_events(&mut self, now: Timestamp) {
        while let Some(event) = self.role.poll_event() {
            match event {
                ManagerEvent::Ended(ended) => {
                    if let Some(trace) = &mut self.trace {
                        trace.ended(&ended);
                    }
                    self.report.end_events(now, &ended);
                }
                ManagerEvent::Started { absent } => {
                    if !absent.is_empty() {
                        log_as!(NODES_ABSENT, node = NodeId::MANAGER; "the run starts without {}", list(&absent));
                    }
                    self.begin(now, absent);
                }
                ManagerEvent::StartDeclined { node } => {
                    self.failed = Some(NodeError::start_declined(node));
                }
                ManagerEvent::StartFailed { absent, requirement } => {
                    let requirement = requirement.map(|index| self.requirement(index).to_owned());
                    let reason = |node: &NodeId| self.outbox.reason_against(*node).map(str::to_owned);
                    let refused = absent.iter().filter_map(reason).collect();
                    self.failed = Some(NodeError::StartFailed { absent, refused, requirement });
                }
                ManagerEvent::RequirementUnmet { requirement, missing } => {
                    self.note_unmet(now, requirement, &missing);
                }
                ManagerEvent::RequirementMet { requirement } => {
                    log_as!(
                        REQUIREMENT_MET, node = NodeId::MANAGER;
                        "requirement {} is met again", self.requirement(requirement)
                    );
                    self.pauses.follow(now, self.role.is_paused());
                }
                ManagerEvent::BuilderLost { builder, session, committed, reassigned } => {
                    log_as!(
                        BUILDER_LOST, node = NodeId::MANAGER, peer = builder;
                        "{builder} (session {session:x}) is lost: {committed} of its events are stored, \
                         {reassigned} go to others",
                        session = session.0
                    );
                    self.report.lost_builders += 1;
                }
                ManagerEvent::Deserted { role, limit } => {
                    log_as!(
                        NO_UNIT_LEFT, node = NodeId::MANAGER;
                        "no {} unit is left: the run takes no triggers, and ends in {limit} unless one is restarted",
                        word(role)
                    );
                }
                ManagerEvent::GivenUp { role, limit } => {
                    self.failed = Some(NodeError::Deserted { role, limit });
                }
                ManagerEvent::ReadoutRestarted { readout } => {
                    log_as!(
                        READOUT_RESTARTED, node = NodeId::MANAGER, peer = readout;
                        "{readout} restarted; the fragments that it held are lost"
                    );
                    self.report.restarted_readouts += 1;
                }
                ManagerEvent::MirrorTookOver { readout } => self.note_mirror(readout, true),
                ManagerEvent::MirrorLost { readout } => self.note_mirror(readout, false),
                ManagerEvent::OutputRestarted { output } => {
                    log_as!(
                        OUTPUT_RESTARTED, node = NodeId::MANAGER, peer = output;
                        "{output} restarted; events that it had not stored are stored elsewhere or by its new session"
                    );
                    self.report.restarted_outputs += 1;
                }
                ManagerEvent::ShiftFound(shift) => log_shift(&shift, false),
                ManagerEvent::ShiftRepaired(shift) => log_shift(&shift, true),
                ManagerEvent::SourceExcluded { source, first } => {
                    log_as!(
                        SOURCE_EXCLUDED, node = NodeId::MANAGER, event = first, source = source;
                        "source {source} is excluded from event {first} on: events are complete without it"
                    );
                }
                ManagerEvent::SourceIncluded { source, first } => {
                    log_as!(
                        SOURCE_INCLUDED, node = NodeId::MANAGER, event = first, source = source;
                        "source {source} is included again from event {first} on"
                    );
                }
                ManagerEvent::NodeExcluded { node, excluded, from } => {
                    log_node_excluded(node, excluded, from)
                }
                ManagerEvent::Reported { node, books } => {
                    self.report.nodes.insert(node, *books);
                }
                ManagerEvent::Closed => self.gauges.set_phase("closed"),
            }
        }
    }

    /// Notes whether the mirror of a readout unit acts for it, or the unit goes on without.
    fn note_mirror(&mut self, readout: NodeId, acts: bool) {
        let mirror = NodeId::mirror(readout.index);
        if acts {
            log_as!(
                MIRROR_TOOK_OVER, node = NodeId::MANAGER, peer = readout;
                "{mirror} acts for {readout}, which is not heard any more: nothing that it held is lost"
            );
            self.report.mirrored.push(readout);
        } else {
            log_as!(
                UNIT_UNPROTECTED, node = NodeId::MANAGER, peer = readout;
                "{readout} goes on without {mirror}, which has ended, is unreachable or too slow"
            );
            self.report.lost_mirrors += 1;
        }
    }

    fn requirement(&self, index: usize) -> &str {
        self.role.requirement_name(index).unwrap_or_default()
    }

    /// Says that too many nodes are missing, and what follows.
    fn note_unmet(&mut self, now: Timestamp, requirement: usize, missing: &[NodeId]) {
        let name = self.requirement(requirement).to_owned();
        let why = format!("requirement {name} is not met without {}", list(missing));
        let then = if !self.role.is_running() {
            self.report.ended_by_requirement = Some(why.clone());
            "the run ends"
        } else if self.role.is_paused() {
            "the run takes no triggers until enough nodes are back"
        } else {
            "the run goes on"
        };
        log_as!(REQUIREMENT_UNMET, node = NodeId::MANAGER; "{why}: {then}");
        *self.report.unmet_requirements.entry(name).or_default() += 1;
        self.pauses.follow(now, self.role.is_paused());
    }
}
