//! The run that follows the present one without a gap, on a host.

use super::host::{Host, Part, Phase, SILENCE};
use crate::host_message::{HostOrder, HostRun};
use std::time::Duration;

/// Preparation of a run that is to follow another one.
pub(super) enum NextPhase {
    Prepares,
    Ready,
    Refused(String),
    /// The host is not there, for this reason.
    Absent(String),
    /// The host is there, and has not reported anything for this time.
    Silent(Duration),
}

impl Host {
    /// Has the host prepare the run that is to follow. One that is not there does it when it comes.
    pub(super) fn prepare_next(&self, run: &HostRun) {
        let is_there = {
            let mut state = self.state();
            state.parts.insert(run.number, Part::default());
            let HostRun { nodes, key, .. } = state.run.clone();
            // The nodes have met with this key.
            let run = HostRun { nodes, key, ..run.clone() };
            state.next = Some(run.clone());
            (state.phase == Phase::Ready).then_some(run)
        };
        if let Some(run) = is_there {
            self.order(&HostOrder::PrepareNext(Box::new(run)));
        }
    }

    /// Returns how far the host has prepared the run that is to follow. One that has not been there for `patience` is absent.
    pub(super) fn next_phase(&self, run: u32, patience: Duration) -> NextPhase {
        let state = self.state();
        let part = state.parts.get(&run);
        if part.is_some_and(|part| part.ready.is_some()) {
            return NextPhase::Ready;
        }
        if let Some(why) = part.and_then(|part| part.refused.clone()) {
            return NextPhase::Refused(why);
        }
        if state.phase == Phase::Ready {
            let silence = state.heard.elapsed();
            return if silence > SILENCE { NextPhase::Silent(silence) } else { NextPhase::Prepares };
        }
        match &state.unconnected {
            Some((since, why)) if since.elapsed() > patience => NextPhase::Absent(why.clone()),
            _ => NextPhase::Prepares,
        }
    }

    /// Begins the run that was prepared: nodes that are started from now on take part in it. `following` is the run in which the nodes have
    /// met, and the first event of this one.
    ///
    /// A host that is there and has not prepared the run is given up. It is called again, and its nodes are started in this run.
    pub(super) fn begin_next(&self, run: u32, following: (u32, u64)) {
        let mut state = self.state();
        let Some(next) = state.next.take_if(|next| next.number == run) else { return };
        state.run = HostRun { following: Some(following), ..next };
        state.nodes.values_mut().for_each(|node| node.held.clear());
        let is_there = state.phase == Phase::Ready;
        let is_prepared = state.parts.get(&run).is_some_and(|part| part.ready.is_some());
        drop(state);
        match (is_there, is_prepared) {
            (true, true) => _ = self.order(&HostOrder::Begin { run, following }),
            (true, false) => self.lose(&format!("it has not prepared run {run}")),
            (false, _) => {}
        }
    }
}
