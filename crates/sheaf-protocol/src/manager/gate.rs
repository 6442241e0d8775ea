//! Causes of dead time: why a trigger would be vetoed now, and which node is to blame.

use super::builders::BuilderState;
use super::config::Triggers;
use super::dead_time::{DeadTimeCause, Shut};
use super::{EventManager, LossAction};
use sheaf_wire::NodeId;
use sheaf_wire::trigger_link::{BusyCause, BusyReason};

impl<P: Clone> EventManager<P> {
    /// Returns the reason that a full queue would have now.
    #[must_use]
    pub fn busy_reason(&self) -> BusyReason {
        told(self.busy())
    }

    /// Returns the cause for which a trigger would be vetoed. `None` if it would be accepted.
    ///
    /// Free triggers follow credit: waiting for credit is their normal pace, and counts as dead time only if a node is
    /// missing or behind. Announced triggers are never refused, because readout units hold their sources back. External
    /// triggers are held back by the trigger supervisor, also during a pause.
    #[must_use]
    pub fn gate(&self) -> Option<DeadTimeCause> {
        self.shut().map(|shut| shut.cause)
    }

    pub(super) fn shut(&self) -> Option<Shut> {
        match self.config.triggers {
            Triggers::Driven | Triggers::Free if self.phase.is_paused() => {
                Some(self.blame(self.pause_cause()))
            }
            Triggers::Driven => self.flow.is_queue_full().then(|| self.busy()),
            Triggers::Free => {
                let cause = self.busy_cause();
                let is_pace = matches!(cause, DeadTimeCause::BuilderCredit | DeadTimeCause::EventManager);
                (!is_pace).then(|| self.blame(cause))
            }
            Triggers::External => self.held_back,
            Triggers::Announced => None,
        }
    }

    /// Returns the reason for the pause, in the form that is sent to a trigger supervisor. `None` if the run is not paused.
    #[must_use]
    pub fn pause_reason(&self) -> Option<BusyReason> {
        self.phase.is_paused().then(|| told(self.blame(self.pause_cause())))
    }

    /// Returns the cause of the dead time of a pause. An operator who has paused the run resumes it.
    fn pause_cause(&self) -> DeadTimeCause {
        if self.phase.is_paused_by_operator() { DeadTimeCause::Paused } else { DeadTimeCause::TooFewNodes }
    }

    /// Returns whether an event could be assigned to a builder.
    pub(super) fn has_credit(&self) -> bool {
        self.flow.builders().some_have_credit(|builder| self.peers.is_open(builder))
    }

    /// Returns the reason for which no event can be assigned, and the node that causes it if it is only one.
    pub(super) fn busy(&self) -> Shut {
        self.blame(self.busy_cause())
    }

    fn busy_cause(&self) -> DeadTimeCause {
        let builders = self.flow.builders();
        let has_any = |wanted: fn(&BuilderState) -> bool| {
            builders.iter().any(|(_, state)| builders.takes_events(state) && wanted(state))
        };
        if self.has_credit() {
            DeadTimeCause::EventManager
        } else if !has_any(|_| true) {
            DeadTimeCause::NoBuilder
        } else if !self.readouts.are_present(|node| self.excluded_nodes.has(node)) {
            DeadTimeCause::NoReadout
        } else if has_any(BuilderState::is_output_behind) {
            DeadTimeCause::Output
        } else {
            DeadTimeCause::BuilderCredit
        }
    }

    /// Returns a cause of dead time with the node that causes it, if it is only one.
    fn blame(&self, cause: DeadTimeCause) -> Shut {
        let culprit = match cause {
            DeadTimeCause::EventManager => Some(NodeId::MANAGER),
            DeadTimeCause::NoBuilder => self.flow.builders().the_only(|_| true),
            DeadTimeCause::NoReadout => self.readouts.the_only_absent(|node| self.excluded_nodes.has(node)),
            DeadTimeCause::Output => self.flow.builders().the_only(BuilderState::is_output_behind),
            DeadTimeCause::BuilderCredit => {
                let builders = self.flow.builders();
                builders.the_only(|state| builders.takes_events(state))
            }
            DeadTimeCause::TooFewNodes => self.requirements.the_only_missing(LossAction::Pause),
            DeadTimeCause::NoSupervisor
            | DeadTimeCause::ReadoutMemory
            | DeadTimeCause::Paused
            | DeadTimeCause::TakeOver => None,
        };
        Shut { cause, culprit }
    }
}

/// Returns a cause of dead time in the form that is sent to a trigger supervisor.
fn told(Shut { cause, culprit }: Shut) -> BusyReason {
    let cause = match cause {
        DeadTimeCause::NoBuilder => BusyCause::NoBuilder,
        DeadTimeCause::NoReadout => BusyCause::NoReadout,
        DeadTimeCause::BuilderCredit => BusyCause::BuilderCredit,
        DeadTimeCause::Output => BusyCause::Output,
        DeadTimeCause::ReadoutMemory => BusyCause::ReadoutMemory,
        DeadTimeCause::Paused => BusyCause::Paused,
        DeadTimeCause::TooFewNodes => BusyCause::TooFewNodes,
        DeadTimeCause::EventManager | DeadTimeCause::NoSupervisor | DeadTimeCause::TakeOver => {
            BusyCause::EventManager
        }
    };
    BusyReason { cause, culprit }
}
