//! A thread that runs drivers.

use crate::handover::Handover;
use crate::sink::SinkError;
use crate::{Clock, telemetry};
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};
use std::num::NonZeroU64;

/// Time for which an idle worker polls before it sleeps. A wake-up costs some 10 to 30 microseconds between two cores
/// of the machines this was measured on, and under load work arrives within a few. But spinning takes the core from
/// other threads, one of which may be the one that it waits for.
const SPIN: Nanos = Nanos::from_micros(10);

/// Period over which a worker averages its times asleep and awake.
const RHYTHM: Nanos = Nanos::from_millis(2);

/// Timer slack of the kernel, which ends several sleeps at once. Its default of 50 microseconds is most of an event's
/// latency at a low rate.
const TIMER_SLACK: Option<NonZeroU64> = NonZeroU64::new(1);

/// Minimum number of idle rounds before a worker sleeps, however long they take: a round may cost system calls.
const FEWEST_IDLE_ROUNDS: u32 = 2;

/// The longest sleep. Nothing waits for it to end: it bounds the delay of a stop flag.
pub(crate) const LONGEST_SLEEP: Nanos = Nanos::from_millis(50);

/// Something with a duty cycle.
pub trait NodeDriver: Send {
    /// The node that this is.
    fn node(&self) -> NodeId;

    /// Runs one round: take what has arrived, work, send. Never blocks.
    fn work(&mut self, now: Timestamp) -> Progress;

    /// Sleeps until there may be something to do, at most for `timeout`. Drivers on one thread share a doorbell, so that
    /// waiting on one waits for all.
    fn wait(&mut self, timeout: Nanos);

    /// Publishes its metrics, if it has any. Called several times a second, also while there is nothing to do.
    fn publish(&mut self, _now: Timestamp) {}

    /// Ends in good order, after [`Progress::Finished`].
    ///
    /// # Errors
    /// Why the node did not do all of its work.
    fn finish(&mut self) -> Result<(), NodeError>;

    /// Returns what the next run in this node goes on with, if one follows. Called after [`Self::finish`].
    fn hand_over(self: Box<Self>) -> Option<Box<dyn Handover>> {
        None
    }
}

/// The end of the drivers of a thread.
#[derive(Default)]
pub struct Ended {
    /// Errors of the nodes, in the order of their ends.
    pub errors: Vec<NodeError>,
    /// Handovers to the next run, by node.
    pub handovers: Vec<(NodeId, Box<dyn Handover>)>,
}

impl Ended {
    fn take(&mut self, mut driver: Box<dyn NodeDriver>) {
        let node = driver.node();
        self.errors.extend(driver.finish().err());
        self.handovers.extend(driver.hand_over().map(|handover| (node, handover)));
    }
}

/// Result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There was something to do; there may be more.
    Busy,
    /// There was nothing to do, and will be nothing before this instant unless something arrives.
    Idle(Timestamp),
    /// The node's part in the run is over.
    Finished,
}

/// Reason why a node did not do all of its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// No message of the event manager.
    #[error(
        "{node} has not heard of the event manager for {silence}; is it running, and does its address match?"
    )]
    ManagerSilent {
        /// The node.
        node: NodeId,
        /// Duration.
        silence: Nanos,
    },
    /// The connection to the event manager is lost.
    #[error(
        "{node} has had no connection to the event manager for {absence}; has its process or its host died?"
    )]
    ManagerGone {
        /// The node.
        node: NodeId,
        /// Duration.
        absence: Nanos,
    },
    /// The event manager restarted and knows nothing of this run.
    #[error("{0}: the event manager restarted; start the run again")]
    ManagerRestarted(NodeId),
    /// The event manager gave this builder up, because it was silent or too slow to stop. Its unreported events were
    /// built elsewhere or dropped.
    #[error("{0} was given up by the event manager; its unreported events do not count")]
    Fenced(NodeId),
    /// The output failed.
    #[error("{node} could not write its output: {error}")]
    Output {
        /// The node.
        node: NodeId,
        /// Description of the error.
        error: SinkError,
    },
    /// A builder could not begin a session.
    #[error("{node} could not begin a session: {error}")]
    NoSession {
        /// The node.
        node: NodeId,
        /// Description of the error.
        error: String,
    },
    /// No builder unit, or no readout unit, was left.
    #[error(
        "the run was ended: for {limit} no {} unit was left; see the log for why they died, and raise `manager.silence_timeout_ms` if restarting them takes longer",
        word(*.role)
    )]
    Deserted {
        /// Builder or readout unit.
        role: Role,
        /// Time that the run has waited.
        limit: Nanos,
    },
    /// The event manager cannot know whether it is still the active one.
    #[error(
        "the event manager lost its standby and a majority of the nodes that vote which replica is active; see the log for why they ended"
    )]
    NoQuorum,
    /// The node and one that it needs speak no common version of the protocol.
    #[error("{node} left the run: {why}")]
    NoCommonVersion {
        /// The node.
        node: NodeId,
        /// Both nodes, their software and versions, and the remedy.
        why: String,
    },
    /// A program that feeds a source declined the start of the run.
    #[error("a program that feeds {0} declined the start of the run; its reason is in the log above")]
    StartDeclined(NodeId),
    /// The workers of a builder unit cannot load their filters.
    #[error(
        "the workers of {0} ended before they had loaded the filter; their output and exit status are in the log above"
    )]
    FilterNotLoaded(NodeId),
    /// The run never began: there is no builder unit, or no readout unit, or a requirement is not met.
    #[error("the run could not start: {} did not appear{}", list(.absent), reasons(.refused))]
    StartFailed {
        /// Nodes that did not appear.
        absent: Vec<NodeId>,
        /// Reasons for which some of them have no link with the event manager.
        refused: Vec<String>,
        /// Name of the requirement, if that is the reason.
        requirement: Option<String>,
    },
}

impl NodeError {
    /// Returns the error of a run whose start this node has declined.
    pub(crate) fn start_declined(node: NodeId) -> Self {
        if node.role == Role::Builder { Self::FilterNotLoaded(node) } else { Self::StartDeclined(node) }
    }
}

/// The name of a role in texts.
pub(crate) fn word(role: Role) -> &'static str {
    match role {
        Role::Manager => "event manager",
        Role::Readout => "readout",
        Role::Builder => "builder",
        Role::Output => "output",
        Role::Mirror => "mirror",
    }
}

/// Nodes with commas between them.
pub(crate) fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}

/// Reasons for which nodes were refused, as the end of a sentence.
pub fn reasons(refused: &[String]) -> String {
    refused.iter().map(|why| format!("; {why}")).collect()
}

/// Recent times of a worker asleep and awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rhythm {
    asleep: Nanos,
    awake: Nanos,
}

impl Rhythm {
    /// Takes note of a sleep, and of the work before it.
    fn note(&mut self, awake: Nanos, asleep: Nanos) {
        // One sleep counts at most as much as the length of the memory, so that a long one does not hide what follows
        // it.
        self.asleep = self.asleep + asleep.min(RHYTHM);
        self.awake = self.awake + awake.min(RHYTHM);
        while self.asleep + self.awake > RHYTHM {
            (self.asleep, self.awake) = (Nanos(self.asleep.0 / 2), Nanos(self.awake.0 / 2));
        }
    }

    /// Returns whether the worker mostly sleeps. The next message is then rarely within a spin, and the nodes that it
    /// passes on its way need the processor that a spin would take.
    fn is_calm(self) -> bool {
        self.asleep > self.awake
    }
}

/// From now on sleeps of this thread end when they are to end. Where that is not allowed they end later, and nothing else.
pub fn end_sleeps_in_time() {
    if let Err(error) = rustix::thread::set_current_timer_slack(TIMER_SLACK) {
        log::debug!("sleeps may end 50 us late: {error}");
    }
}

/// Runs drivers until all have finished.
pub fn run(mut drivers: Vec<Box<dyn NodeDriver>>, clock: Clock) -> Ended {
    end_sleeps_in_time();
    let mut ended = Ended::default();
    let mut rhythm = Rhythm::default();
    let mut woke_at = clock.now();
    let mut idle_rounds = 0;
    let mut idle_since = woke_at;
    let mut publish_at = woke_at;
    while !drivers.is_empty() {
        let now = clock.now();
        if now >= publish_at {
            drivers.iter_mut().for_each(|driver| driver.publish(now));
            publish_at = now + telemetry::PERIOD;
        }
        let mut busy = false;
        let mut until = now + LONGEST_SLEEP;
        let mut index = 0;
        while let Some(driver) = drivers.get_mut(index) {
            match driver.work(now) {
                Progress::Busy => busy = true,
                Progress::Idle(at) => until = until.min(at),
                Progress::Finished => {
                    ended.take(drivers.remove(index));
                    continue;
                }
            }
            index += 1;
        }
        if busy {
            idle_rounds = 0;
            continue;
        }
        if idle_rounds == 0 {
            idle_since = now;
        }
        idle_rounds += 1;
        let is_spun = rhythm.is_calm() || now.since(idle_since) >= SPIN;
        if idle_rounds > FEWEST_IDLE_ROUNDS
            && is_spun
            && let Some(driver) = drivers.first_mut()
        {
            let lies_down_at = clock.now();
            driver.wait(until.since(lies_down_at));
            let woken_at = clock.now();
            rhythm.note(idle_since.since(woke_at), woken_at.since(lies_down_at));
            woke_at = woken_at;
        } else {
            std::hint::spin_loop();
        }
    }
    ended
}

#[cfg(test)]
mod tests;
