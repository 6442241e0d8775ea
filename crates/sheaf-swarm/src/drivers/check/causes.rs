//! Losses that the faults of a run explain. A fault explains losses of the node that it hit, from its time on.

use super::super::assembly::{DESERTION_TIMEOUT, MAX_ATTEMPTS, PEER_TIMEOUT};
use super::super::options::{DriverFault, DriverFaultKind, DriverOptions, FOR_GOOD, START, STOP_TIMEOUT};
use crate::dice::Ratio;
use crate::violation::{Violation, violation};
use sheaf_node::NodeError;
use sheaf_protocol::readout::Announce;
use sheaf_wire::{DropReason, MissingReason, MissingSource, Nanos, NodeId, Role, Timestamp};

/// Time after the end of a fault in which it may still cause losses, if no node is slow.
const AFTERMATH: Nanos = Nanos::from_secs(5);

/// The faults that hit a live node.
#[derive(Clone, Copy)]
pub(super) struct Causes<'a> {
    pub(super) options: &'a DriverOptions,
    pub(super) happened: &'a [DriverFault],
}

impl Causes<'_> {
    fn of<'a>(&'a self, is: impl Fn(&DriverFault) -> bool + 'a) -> impl Iterator<Item = &'a DriverFault> {
        self.happened.iter().filter(move |fault| is(fault))
    }

    fn kills(&self) -> impl Iterator<Item = &DriverFault> {
        self.of(DriverFault::is_death)
    }

    /// Returns the deaths of nodes that do not return during the run.
    pub(super) fn kills_for_good(&self) -> impl Iterator<Item = &DriverFault> {
        self.kills().filter(|fault| fault.kind.lasts() >= FOR_GOOD)
    }

    /// Returns the number of times that nodes of a role were killed, or frozen until they were given up.
    pub(super) fn killed(&self, role: Role) -> usize {
        self.kills().filter(|fault| fault.node.role == role).count()
    }

    /// Returns whether a node was killed.
    pub(super) fn was_killed(&self, node: NodeId) -> bool {
        self.kills().any(|fault| fault.node == node)
    }

    /// Returns the time by which slow nodes may delay the actions of others.
    pub(super) fn slowness(&self) -> Nanos {
        Nanos(self.of(DriverFault::is_slowness).map(|fault| fault.kind.lasts().0).sum::<u64>()) + AFTERMATH
    }

    /// Returns whether a source may be missing in an event that was written at `written`.
    pub(super) fn explain_missing(&self, missing: &MissingSource, written: Timestamp) -> bool {
        let index = missing.source.0 / u32::from(self.options.sources_per_readout);
        let killed = self.kills().any(|fault| {
            fault.node.role == Role::Readout && u32::from(fault.node.index) == index && fault.at <= written
        });
        match missing.reason {
            MissingReason::ReadoutRestarted | MissingReason::ReadoutSilent | MissingReason::ReadoutLost => {
                killed
            }
            _ => false,
        }
    }

    /// Returns whether the operator stopped the run.
    fn was_stopped(&self) -> bool {
        self.of(|fault| matches!(fault.kind, DriverFaultKind::Stop { .. })).next().is_some()
    }

    /// Returns whether the operator cut the run with a second stop.
    pub(super) fn was_cut(&self) -> bool {
        self.of(|fault| matches!(fault.kind, DriverFaultKind::Stop { again: Some(_) })).next().is_some()
    }

    /// Returns whether the operator stopped the run while all of it was suspended as it started. Then it ends without nodes that it has not
    /// heard of.
    fn was_stopped_at_start(&self) -> bool {
        let early = Nanos::from_millis(1);
        let is_early = |fault: &DriverFault| {
            matches!(fault.kind, DriverFaultKind::Suspend { .. }) && fault.at.since(START) < early
        };
        self.was_stopped() && self.of(is_early).next().is_some()
    }

    /// Returns the faults of disks that refused all writes for longer than the end of a run waits for events.
    pub(super) fn full_disks(&self) -> impl Iterator<Item = &DriverFault> {
        self.of(|fault| matches!(fault.kind, DriverFaultKind::DiskFails { lasts } if lasts >= STOP_TIMEOUT))
    }

    /// Returns violations: disks that were full at the last trigger and for which the end of the run waited, although there
    /// was room for all events.
    pub(super) fn waits_for_full_disks(&self, ended: Option<Timestamp>) -> impl Iterator<Item = Violation> {
        let options = self.options;
        // A supervisor is held back while the queue has only the room of triggers in flight.
        let is_clock = options.supervisor.is_none();
        let triggers = options.trigger_period.filter(|_| is_clock && options.room() >= options.events);
        let due =
            triggers.map(|period| START + Nanos(period.0 * options.events) + STOP_TIMEOUT + self.slowness());
        let stayed = move |fault: &&DriverFault| {
            due.is_some_and(|due| ended > Some(due) && due < fault.at + fault.kind.lasts())
        };
        self.full_disks()
            .filter(stayed)
            .map(|fault| violation!("the end of the run waited for the full disk of {}", fault.node))
    }

    /// Returns whether the process of the event manager was stopped for a time.
    pub(super) fn stopped_the_manager(&self) -> bool {
        let is_stop = |fault: &DriverFault| {
            let kind = matches!(fault.kind, DriverFaultKind::Freeze { .. } | DriverFaultKind::Suspend { .. });
            kind && fault.node == NodeId::MANAGER
        };
        self.of(is_stop).next().is_some()
    }

    /// Returns whether the trigger supervisor was dead or frozen for a time.
    pub(super) fn hits_the_supervisor(&self) -> bool {
        let is_hit = |fault: &DriverFault| {
            matches!(
                fault.kind,
                DriverFaultKind::SupervisorDies { .. } | DriverFaultKind::SupervisorFreezes { .. }
            )
        };
        self.of(is_hit).next().is_some()
    }

    /// Returns whether `count` events may be dropped for a reason.
    ///
    /// The event manager charges a builder unit's death to one event at most, and drops an event only when it was charged with
    /// [`MAX_ATTEMPTS`] of them.
    pub(super) fn explain_drop(&self, reason: DropReason, count: u64) -> bool {
        match reason {
            DropReason::BuilderLost => {
                count.saturating_mul(u64::from(MAX_ATTEMPTS)) <= self.killed(Role::Builder) as u64
            }
            DropReason::Stopped => {
                self.was_cut() || self.full_disks().next().is_some() || self.were_builders_absent()
            }
            DropReason::ContentMismatch => self.options.corrupt != Ratio::NEVER,
            _ => false,
        }
    }

    /// Returns whether a readout unit may drop fragments for a reason. `is_short` means that the run ended before its last
    /// trigger.
    pub(super) fn explain_fragments(&self, readout: NodeId, reason: DropReason, is_short: bool) -> bool {
        match reason {
            // Sources are ahead of the triggers.
            DropReason::NeverTriggered => is_short,
            // Fragments that its front ends send again belong to earlier events.
            DropReason::NotBuilt => self.was_killed(readout),
            // The first step may drop an event before the other units have read its fragments.
            DropReason::Late => {
                let is_dropped = self.explain_drop(DropReason::ContentMismatch, 1);
                self.was_killed(readout) || (self.options.steps.first > 0 && is_dropped)
            }
            DropReason::NotRequested => self.options.steps.first > 0 || self.was_killed(readout),
            DropReason::EventDropped => {
                let reasons = [DropReason::BuilderLost, DropReason::Stopped, DropReason::ContentMismatch];
                reasons.into_iter().any(|reason| self.explain_drop(reason, 1))
            }
            _ => false,
        }
    }

    /// Returns whether the run may end before its last trigger: it was stopped, readout units that announce events were
    /// killed, or all readout units or all builder units were absent at the same time for longer than the patience.
    pub(super) fn explain_early_end(&self) -> bool {
        let is_announced = self.options.announce != Announce::Never;
        // Triggers on their way are lost with their supervisor.
        let dies =
            self.of(|fault| matches!(fault.kind, DriverFaultKind::SupervisorDies { .. })).next().is_some();
        if self.was_stopped() || dies || (is_announced && self.killed(Role::Readout) > 0) {
            return true;
        }
        let readouts: Vec<_> = (0..self.options.readouts).map(NodeId::readout).collect();
        self.were_absent(&readouts, PEER_TIMEOUT) || self.were_builders_absent()
    }

    /// Returns whether all builder units were absent at the same time for as long as a run, or its end, waits for one.
    fn were_builders_absent(&self) -> bool {
        let builders: Vec<_> = (0..self.options.builders).map(NodeId::builder).collect();
        self.were_absent(&builders, STOP_TIMEOUT.min(DESERTION_TIMEOUT))
    }

    /// Returns whether all of these nodes were absent for this time at the same time. Slow nodes delay the return of others.
    fn were_absent(&self, nodes: &[NodeId], time: Nanos) -> bool {
        let slowness = self.slowness();
        let is_absent = |node: &NodeId, at: Timestamp| {
            self.kills().any(|fault| {
                let back = fault.at + fault.kind.lasts() + slowness;
                fault.node == *node && fault.at + time <= at && at <= back
            })
        };
        let mut candidates = self.kills().map(|fault| fault.at + time);
        candidates.any(|at| nodes.iter().all(|node| is_absent(node, at)))
    }

    /// Returns whether a replica of the event manager was cut off at this time.
    fn was_manager_cut_off(&self, at: Timestamp) -> bool {
        let is_cut = |fault: &DriverFault| match fault.kind {
            DriverFaultKind::Cut { peer, lasts, .. } => {
                let is_of_manager = fault.node.role == Role::Manager || peer.role == Role::Manager;
                is_of_manager && fault.at <= at && at <= fault.at + lasts
            }
            _ => false,
        };
        self.of(is_cut).next().is_some()
    }

    /// Returns whether a node may end with an error.
    pub(super) fn explain_error(
        &self,
        at: Timestamp,
        error: &NodeError,
        manager_ended: Option<Timestamp>,
    ) -> bool {
        match error {
            // It returned after the end of the run, or was blocked when the run was cut, which waits for no node.
            NodeError::ManagerSilent { node, .. } | NodeError::ManagerGone { node, .. } => {
                let is_over = manager_ended.is_some_and(|ended| ended <= at);
                let back = |fault: &DriverFault| fault.node == *node && fault.at + fault.kind.lasts() <= at;
                // It was frozen while its mirror acted, and the run has ended without it.
                let is_superseded = self.options.mirrors && matches!(node.role, Role::Readout | Role::Mirror);
                let was_cut = self.was_cut() || self.was_stopped_at_start();
                is_over && (was_cut || is_superseded || self.kills().any(back))
            }
            // A replica without the voters. The other one has ended the run.
            NodeError::NoQuorum => self.options.standby,
            // A replica that was started while it was cut off. The other one goes on, or has ended the run.
            NodeError::StartFailed { .. } => {
                let is_over = manager_ended.is_some_and(|ended| ended <= at);
                self.options.standby && (is_over || self.was_manager_cut_off(at))
            }
            // Events that it had not made durable do not count.
            NodeError::Output { node, .. } => {
                let slowness = self.slowness();
                self.of(|fault| matches!(fault.kind, DriverFaultKind::DiskFails { .. })).any(|fault| {
                    let end = fault.at + fault.kind.lasts() + slowness;
                    fault.node == *node && fault.at <= at && at <= end
                })
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepted events that no builder unit comes back for are dropped at the end of the run.
    #[test]
    fn only_the_absence_of_all_builders_for_longer_than_they_are_awaited_explains_stopped_events() {
        let options = DriverOptions { builders: 2, ..DriverOptions::default() };
        let kill = |second: u64, builder, lasts| DriverFault {
            at: Timestamp(second * 1_000_000_000),
            node: NodeId::builder(builder),
            kind: DriverFaultKind::Kill { back_after: Nanos::from_secs(lasts) },
        };
        let explains = |happened: &[DriverFault]| {
            let causes = Causes { options: &options, happened };
            (causes.explain_drop(DropReason::Stopped, 9), causes.explain_early_end())
        };
        assert_eq!(explains(&[kill(0, 0, 200), kill(50, 1, 100)]), (true, true));
        assert_eq!(explains(&[kill(0, 0, 200)]), (false, false), "the other takes its events");
        assert_eq!(explains(&[kill(0, 0, 200), kill(0, 1, 40)]), (false, false), "it is back in time");
        assert_eq!(explains(&[kill(0, 0, 90), kill(80, 1, 90)]), (false, false), "one after the other");
    }

    /// A death affects many events and is charged to one of them.
    #[test]
    fn three_deaths_explain_one_dropped_event_and_no_more() {
        let options = DriverOptions::default();
        let kill = |second: u64, builder| DriverFault {
            at: Timestamp(second * 1_000_000_000),
            node: NodeId::builder(builder),
            kind: DriverFaultKind::Kill { back_after: Nanos::from_secs(1) },
        };
        let happened: Vec<_> = (0..5).map(|death| kill(10 * death, 0)).collect();
        let explained = |deaths: usize| {
            let causes = Causes { options: &options, happened: &happened[..deaths] };
            (0..10).filter(|count| causes.explain_drop(DropReason::BuilderLost, *count)).max()
        };
        assert_eq!([0, 2, 3, 4, 5].map(explained), [0, 0, 1, 1, 1].map(Some));
    }
}
