//! Live time and dead time of a run, with the causes of dead time.
//!
//! The time of a run, from its start to the end of its triggers, is divided at the instants at which the gate opens and
//! shuts. The gate is shut while a trigger would be vetoed, whether or not one arrives. The fraction of random triggers that
//! are vetoed is therefore the fraction of dead time. Each change is booked at the time of its cause. For a trigger, this is
//! the time at which it happened, not the time of the call that passes it.

use serde::{Deserialize, Serialize};
use sheaf_wire::trigger_link::BusyCause;
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::collections::BTreeMap;
use std::fmt;

/// Reason why triggers are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeadTimeCause {
    /// No builder is connected.
    NoBuilder,
    /// A readout unit has never connected, so that no event can be built completely.
    NoReadout,
    /// Builders have no credit left: building or filtering is slower than the trigger.
    BuilderCredit,
    /// Builders have no credit left, and the output of at least one is behind: it fails, or is slower than the trigger.
    Output,
    /// Builders have credit that the event manager has not used: it was stalled, or is too slow.
    EventManager,
    /// No trigger supervisor is connected.
    NoSupervisor,
    /// The memory of a readout unit is nearly full.
    ReadoutMemory,
    /// The run is paused.
    Paused,
    /// The run waits for nodes that it requires.
    TooFewNodes,
    /// The event manager had ended, and its standby had not taken over yet.
    TakeOver,
}

impl DeadTimeCause {
    /// Every cause.
    pub const ALL: [Self; 10] = [
        Self::NoBuilder,
        Self::NoReadout,
        Self::BuilderCredit,
        Self::Output,
        Self::EventManager,
        Self::NoSupervisor,
        Self::ReadoutMemory,
        Self::Paused,
        Self::TooFewNodes,
        Self::TakeOver,
    ];

    /// Returns the cause with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// Returns the name in JSON and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoBuilder => "no_builder",
            Self::NoReadout => "no_readout",
            Self::BuilderCredit => "builder_credit",
            Self::Output => "output",
            Self::EventManager => "event_manager",
            Self::NoSupervisor => "no_supervisor",
            Self::ReadoutMemory => "readout_memory",
            Self::Paused => "paused",
            Self::TooFewNodes => "too_few_nodes",
            Self::TakeOver => "take_over",
        }
    }
}

impl fmt::Display for DeadTimeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBuilder => "no builder is connected",
            Self::NoReadout => "a readout unit is missing",
            Self::BuilderCredit => "builders have no credit left",
            Self::Output => "the output of builders is behind",
            Self::EventManager => "the event manager was stalled",
            Self::NoSupervisor => "no trigger supervisor is connected",
            Self::ReadoutMemory => "the memory of a readout unit is nearly full",
            Self::Paused => "the run is paused",
            Self::TooFewNodes => "nodes that the run requires are missing",
            Self::TakeOver => "the standby event manager was taking over",
        })
    }
}

impl From<BusyCause> for DeadTimeCause {
    fn from(cause: BusyCause) -> Self {
        match cause {
            BusyCause::NoBuilder => Self::NoBuilder,
            BusyCause::NoReadout => Self::NoReadout,
            BusyCause::BuilderCredit => Self::BuilderCredit,
            BusyCause::Output => Self::Output,
            BusyCause::EventManager => Self::EventManager,
            BusyCause::ReadoutMemory => Self::ReadoutMemory,
            BusyCause::Paused => Self::Paused,
            BusyCause::TooFewNodes => Self::TooFewNodes,
        }
    }
}

/// Reason for which triggers are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shut {
    pub(super) cause: DeadTimeCause,
    /// The node that causes it, if it is only one.
    pub(super) culprit: Option<NodeId>,
}

/// Live time and dead time of a run, and its vetoed triggers.
///
/// [`live`](Self::live) and [`time`](Self::time) together are [`run`](Self::run), to the nanosecond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadTime {
    /// Vetoed triggers, by cause. Causes that did not occur are absent.
    pub vetoed: BTreeMap<DeadTimeCause, u64>,
    /// Time in which triggers were not taken, by cause. Causes that did not occur are absent.
    pub time: BTreeMap<DeadTimeCause, Nanos>,
    /// Part of that time in which one node alone was the reason. If there were several, as when all builders are out of
    /// credit, the time has no culprit.
    pub culprits: BTreeMap<(DeadTimeCause, NodeId), Nanos>,
    /// Time in which triggers were taken.
    pub live: Nanos,
    course: Course,
    /// When the triggers end, if that is known: no later time is booked.
    ends_at: Option<Timestamp>,
}

/// Phase of a run as far as its time is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Course {
    #[default]
    Waiting,
    /// The gate has not changed `since` this time. It is shut for a cause, or open.
    Running {
        began: Timestamp,
        since: Timestamp,
        shut: Option<Shut>,
    },
    Over {
        began: Timestamp,
        ended: Timestamp,
    },
}

/// The accounts of a [`DeadTime`] at one moment of the run.
#[derive(Clone, Copy, Debug)]
pub struct DeadTimeAt<'a> {
    booked: &'a DeadTime,
    /// Time that is not booked: the gate has not changed since.
    since_change: Nanos,
    shut: Option<Shut>,
}

impl DeadTimeAt<'_> {
    /// Returns the time in which triggers were taken.
    #[must_use]
    pub fn live(&self) -> Nanos {
        if self.shut.is_some() { self.booked.live } else { self.booked.live + self.since_change }
    }

    /// Returns the time in which triggers were not taken for this cause.
    #[must_use]
    pub fn time(&self, cause: DeadTimeCause) -> Nanos {
        let booked = self.booked.time.get(&cause).copied().unwrap_or(Nanos::ZERO);
        if self.shut.is_some_and(|shut| shut.cause == cause) { booked + self.since_change } else { booked }
    }

    /// Returns the part of that time in which `culprit` alone was the reason.
    #[must_use]
    pub fn time_of(&self, cause: DeadTimeCause, culprit: NodeId) -> Nanos {
        let booked = self.booked.culprits.get(&(cause, culprit)).copied().unwrap_or(Nanos::ZERO);
        let now = Shut { cause, culprit: Some(culprit) };
        if self.shut == Some(now) { booked + self.since_change } else { booked }
    }

    /// Returns the number of triggers vetoed for this cause.
    #[must_use]
    pub fn vetoed(&self, cause: DeadTimeCause) -> u64 {
        self.booked.vetoed.get(&cause).copied().unwrap_or(0)
    }

    /// Returns the cause for which triggers are not taken now, and the node that alone is the reason; `None` while they are taken.
    #[must_use]
    pub fn shut(&self) -> Option<(DeadTimeCause, Option<NodeId>)> {
        self.shut.map(|shut| (shut.cause, shut.culprit))
    }
}

impl DeadTime {
    /// Returns the time from the start of the run to the end of its triggers, as far as it has been booked. Zero before the
    /// start.
    #[must_use]
    pub fn run(&self) -> Nanos {
        match self.course {
            Course::Waiting => Nanos::ZERO,
            Course::Running { began, since, .. } => since.since(began),
            Course::Over { began, ended } => ended.since(began),
        }
    }

    /// Returns the time at which the triggers of the run ended.
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        match self.course {
            Course::Over { ended, .. } => Some(ended),
            Course::Waiting | Course::Running { .. } => None,
        }
    }

    /// Returns the dead time of all causes.
    #[must_use]
    pub fn dead(&self) -> Nanos {
        self.time.values().fold(Nanos::ZERO, |sum, time| sum + *time)
    }

    /// Returns the number of vetoed triggers of all causes.
    #[must_use]
    pub fn vetoed_total(&self) -> u64 {
        self.vetoed.values().sum()
    }

    /// Returns whether live time and dead time add up to the time of the run.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.live + self.dead() == self.run()
    }

    /// Begins the time of the run, with the gate open.
    pub(super) fn begin(&mut self, now: Timestamp) {
        if self.course == Course::Waiting {
            self.course = Course::Running { began: now, since: now, shut: None };
        }
    }

    /// Takes note of when the triggers end, as far as that is known. A host that is busy learns of credit and of other news after that time and before
    /// it has handed over the last triggers: such news does not make the run longer.
    pub(super) const fn expect_end(&mut self, at: Option<Timestamp>) {
        self.ends_at = at;
    }

    /// Returns the reason for which the gate is shut. `None` if it is open.
    pub(super) fn shut(&self) -> Option<Shut> {
        match self.course {
            Course::Running { shut, .. } => shut,
            Course::Waiting | Course::Over { .. } => None,
        }
    }

    /// Closes the gate for a cause, or opens it. Time that is booked stays booked: a change that is reported
    /// after a later one is booked at the time of the later one.
    pub(super) fn turn(&mut self, at: Timestamp, to: Option<Shut>) {
        if self.shut() != to {
            self.book(at);
            if let Course::Running { shut, .. } = &mut self.course {
                *shut = to;
            }
        }
    }

    /// Counts a trigger that arrived while the gate was shut.
    pub(super) fn veto(&mut self, at: Timestamp, shut: Shut) {
        *self.vetoed.entry(shut.cause).or_default() += 1;
        self.turn(at, Some(shut));
    }

    /// Counts triggers that the trigger supervisor held back.
    pub(super) fn add_vetoes(&mut self, cause: DeadTimeCause, triggers: u64) {
        if triggers > 0 {
            *self.vetoed.entry(cause).or_default() += triggers;
        }
    }

    /// Ends the time of the run at `at`. Later calls have no effect.
    pub(super) fn end(&mut self, at: Timestamp) {
        self.book(at);
        if let Course::Running { began, since, .. } = self.course {
            self.course = Course::Over { began, ended: since };
        }
    }

    /// Returns a copy in which the time up to `now` is booked.
    pub(super) fn up_to(&self, now: Timestamp) -> Self {
        let mut copy = self.clone();
        copy.book(now);
        copy
    }

    /// Returns these accounts with the time since the last change, up to `now`.
    pub(super) fn at(&self, now: Timestamp) -> DeadTimeAt<'_> {
        let (since_change, shut) = match self.course {
            Course::Running { since, shut, .. } => (self.within_run(now).since(since), shut),
            Course::Waiting | Course::Over { .. } => (Nanos::ZERO, None),
        };
        DeadTimeAt { booked: self, since_change, shut }
    }

    fn within_run(&self, at: Timestamp) -> Timestamp {
        self.ends_at.map_or(at, |end| at.min(end))
    }

    fn book(&mut self, at: Timestamp) {
        let at = self.within_run(at);
        let Course::Running { since, shut, .. } = &mut self.course else { return };
        let passed = at.since(*since);
        if passed == Nanos::ZERO {
            return;
        }
        *since = at;
        if let Some(Shut { cause, culprit: Some(node) }) = *shut {
            let time = self.culprits.entry((cause, node)).or_default();
            *time = *time + passed;
        }
        let time = match *shut {
            Some(Shut { cause, .. }) => self.time.entry(cause).or_default(),
            None => &mut self.live,
        };
        *time = *time + passed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The view of a running account is the account with the time up to then, whether the gate is open or shut, with a culprit or without.
    #[test]
    fn a_view_has_the_time_since_the_last_change() {
        let cause = DeadTimeCause::BuilderCredit;
        let builder = NodeId::builder(1);
        let mut account = DeadTime::default();
        let compare = |account: &DeadTime, now: u64| {
            let (view, booked) = (account.at(Timestamp(now)), account.up_to(Timestamp(now)));
            assert_eq!(view.live(), booked.live);
            for cause in DeadTimeCause::ALL {
                assert_eq!(view.time(cause), booked.time.get(&cause).copied().unwrap_or(Nanos::ZERO));
                let of_builder = booked.culprits.get(&(cause, builder)).copied();
                assert_eq!(view.time_of(cause, builder), of_builder.unwrap_or(Nanos::ZERO));
                assert_eq!(view.vetoed(cause), booked.vetoed.get(&cause).copied().unwrap_or(0));
            }
        };
        compare(&account, 5);
        account.begin(Timestamp(10));
        compare(&account, 25);
        account.turn(Timestamp(30), Some(Shut { cause, culprit: Some(builder) }));
        compare(&account, 33);
        assert_eq!(account.at(Timestamp(33)).shut(), Some((cause, Some(builder))));
        account.veto(Timestamp(40), Shut { cause, culprit: None });
        compare(&account, 47);
        account.turn(Timestamp(50), None);
        compare(&account, 50);
        account.end(Timestamp(60));
        compare(&account, 100);
    }

    #[test]
    fn news_after_the_end_of_the_triggers_does_not_make_the_run_longer() {
        let shut = Shut { cause: DeadTimeCause::BuilderCredit, culprit: None };
        let mut account = DeadTime::default();
        account.begin(Timestamp(10));
        account.expect_end(Some(Timestamp(50)));
        account.turn(Timestamp(40), Some(shut));
        // The host was busy: credit has come meanwhile, and a trigger of before is still to be handed over.
        account.turn(Timestamp(70), None);
        assert_eq!(account.at(Timestamp(70)).live(), Nanos(30));
        account.veto(Timestamp(48), shut);
        assert_eq!(account.at(Timestamp(80)).time(shut.cause), Nanos(10));
        account.end(Timestamp(50));
        assert_eq!((account.run(), account.live, account.dead()), (Nanos(40), Nanos(30), Nanos(10)));
        assert!(account.is_balanced());
    }

    #[test]
    fn a_pause_moves_the_end_of_the_triggers() {
        let shut = Shut { cause: DeadTimeCause::Paused, culprit: None };
        let mut account = DeadTime::default();
        account.begin(Timestamp(0));
        account.expect_end(Some(Timestamp(50)));
        account.turn(Timestamp(20), Some(shut));
        account.expect_end(None);
        account.turn(Timestamp(90), None);
        account.expect_end(Some(Timestamp(120)));
        account.end(Timestamp(120));
        assert_eq!((account.run(), account.live, account.dead()), (Nanos(120), Nanos(50), Nanos(70)));
    }
}
