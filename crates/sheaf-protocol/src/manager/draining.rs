//! The end of a run: events in flight finish, as long as there is progress or a node works on them.
//!
//! An accepted event is not given up because a filter or a disk is slow. So the limit
//! ([`ManagerConfig::stop_timeout`](super::ManagerConfig::stop_timeout)) runs only while no event ends *and* no living
//! builder unit with events reports work on them ([`Work`]), nor a living readout unit reports that it processes fragments. Each
//! status that says so restarts the limit. Calls that never return are not covered by this rule: farms and preprocessing have limits
//! of their own, and a second stop cuts the run.
//!
//! The limit counts only time in which the event manager was awake: a driver reports the rest
//! ([`handle_stall`](EventManager::handle_stall)).

use super::builders::BuilderState;
use super::{EventManager, Phase};
use sheaf_wire::message::{Body, Command, Work};
use sheaf_wire::{DropReason, Nanos, NodeId, Timestamp};

/// Number of heartbeat intervals within which a node that is not frozen sends a message.
pub(super) const QUIET_HEARTBEATS: u64 = 4;

/// A node that the end of the run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The builder unit.
    pub builder: NodeId,
    /// Its work. [`Work::None`] while events are still being gathered, or their output fails.
    pub work: Work,
    /// Number of its events.
    pub events: usize,
    /// Time at which it last ended an event, or received its first one.
    pub since: Timestamp,
}

impl<P: Clone> EventManager<P> {
    /// Returns the builder unit for which the end of the run has waited longest. `None` unless the run is draining and a
    /// builder unit has events.
    #[must_use]
    pub fn awaited(&self) -> Option<Awaited> {
        if !matches!(self.phase.get(), Phase::Draining { .. }) {
            return None;
        }
        let having = self.flow.builders().iter().filter(|(_, state)| state.outstanding() > 0);
        let (builder, state) = having.min_by_key(|(_, state)| state.moved_at())?;
        let (work, events, since) = (state.work(), state.outstanding(), state.moved_at());
        Some(Awaited { builder, work, events, since })
    }

    /// Records that this node was stalled for this time, because its process was stopped or had no processor. Must be called
    /// before the messages that arrived in the meantime are passed.
    pub fn handle_stall(&mut self, stall: Nanos) {
        self.phase.exclude(stall);
    }

    /// Continues with the end of the run, which is limited to `until` unless events end or a node works on them.
    pub(super) fn drain(&mut self, now: Timestamp, until: Timestamp) {
        let mut is_given_up = false;
        if until <= now {
            // Events of a builder that is lost only now have time to be built by another one or by its next session.
            let continues = !self.phase.is_cut()
                && (self.give_up_lost_builders(now) || self.some_work() || self.some_are_quiet(now));
            if continues {
                self.phase.drain(now);
            } else {
                self.drop_everything(now);
                is_given_up = true;
            }
        }
        if self.flow.in_flight() == 0 && (self.is_divided(now) || is_given_up) {
            self.finish_shifts(now);
            self.phase.begin_closing(now);
            self.flow.flush_releases();
        }
    }

    /// Returns whether a living builder unit with events reports that it processes them, or one loads its filters and will take
    /// events that wait.
    fn some_work(&self) -> bool {
        let mut builders = self.flow.builders().iter();
        let works = |state: &BuilderState| state.outstanding() > 0 && state.work() != Work::None;
        builders.any(|(_, state)| state.lives() && (works(state) || state.is_loading()))
    }

    /// Returns whether a node that events may wait for is silent and is not given up. It may be frozen. Its
    /// silence does not mean that the events are stuck, and has a limit of its own.
    fn some_are_quiet(&self, now: Timestamp) -> bool {
        let quiet = Nanos(self.config.heartbeat.0.saturating_mul(QUIET_HEARTBEATS));
        let is_quiet =
            |node: NodeId| self.peers.is_silent(node, now, quiet) && !self.peers.is_lost(node, now);
        let may_wait = |node: NodeId| is_quiet(node) && !self.is_excluded_and_silent(node, now);
        let mut builders = self.flow.builders().iter();
        builders.any(|(node, state)| state.lives() && state.outstanding() > 0 && is_quiet(node))
            || self.readouts.nodes().any(may_wait)
    }

    /// Drops all events after the time to finish. Builders that still have events are given up, so that nothing they may
    /// store from now on counts.
    fn drop_everything(&mut self, now: Timestamp) {
        // Events are dropped first, so that none of a lost builder is assigned again.
        self.flow.drop_everything(now, DropReason::Stopped, &mut self.events);
        for index in 0..self.config.builders {
            let (node, state) = (NodeId::builder(index), self.flow.builders().get(index));
            if state.outstanding() > 0 {
                // Without a message, a builder that waits and its driver would never end. Close is sent before Fence, so
                // that the builder does not begin a new session.
                if let Some(session) = state.session() {
                    self.peers.send_plain(node, self.me.plain_for(session, Body::Command(Command::Close)));
                    self.peers.send_plain(node, self.me.plain(Body::Fence(session)));
                }
                self.lose_builder(now, node);
                self.peers.reset(node);
            }
        }
    }
}
