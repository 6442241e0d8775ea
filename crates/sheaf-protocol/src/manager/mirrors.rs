//! Whether a readout unit or its mirror acts. Each of the two asks before it acts without the other one, and the first request decides.

use super::draining::QUIET_HEARTBEATS;
use super::{EventManager, ManagerEvent};
use crate::ledger::Counter;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{Body, Header, MirrorStep};
use sheaf_wire::{Nanos, NodeId, Role, SessionId, Timestamp};
use std::collections::BTreeMap;

/// Decision about a readout unit and its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Acting {
    /// The unit acts, and its mirror follows it no more.
    Alone,
    /// The mirror acts for this session of the unit.
    Mirror(SessionId),
}

/// See the [module](self). Readout units without an entry have both, or no mirror.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Mirrors {
    decided: BTreeMap<u16, Acting>,
}

impl<P> EventManager<P> {
    /// Returns whether a readout unit and its mirror both have their part in the run, in a run with mirrors.
    #[must_use]
    pub fn is_mirrored(&self, unit: NodeId) -> bool {
        !self.mirrors.decided.contains_key(&unit.index)
    }
}

impl<P: Clone> EventManager<P> {
    /// Handles a step of a readout unit or of its mirror.
    pub(super) fn handle_mirror(&mut self, now: Timestamp, header: &Header, step: MirrorStep) {
        let NodeId { role, index } = header.sender;
        let unit = NodeId::readout(index);
        let answer = match (role, step) {
            (Role::Readout, MirrorStep::StrikeOff) => Some(self.strike_mirror_off(unit)),
            (Role::Mirror, MirrorStep::TakeOver(session)) => self.let_mirror_act(now, unit, session),
            _ => {
                self.counters.count(Counter::UnexpectedMessages, 1);
                None
            }
        };
        if let Some(answer) = answer {
            let message = self.me.plain_for(header.session, Body::Mirror(answer));
            self.peers.send_plain(header.sender, message);
        }
    }

    /// Handles a new session of a readout unit. Tells a unit whose mirror was lost before to act alone. A unit whose mirror acted for an
    /// earlier session and died may have a mirror again.
    pub(super) fn meet_mirrored(&mut self, unit: NodeId, session: SessionId) {
        match self.mirrors.decided.get(&unit.index) {
            Some(Acting::Alone) => {
                let message = self.me.plain_for(session, Body::Mirror(MirrorStep::Alone));
                self.peers.send_plain(unit, message);
            }
            Some(Acting::Mirror(of)) if *of < session => {
                self.mirrors.decided.remove(&unit.index);
            }
            Some(Acting::Mirror(_)) | None => {}
        }
    }

    fn strike_mirror_off(&mut self, unit: NodeId) -> MirrorStep {
        match self.mirrors.decided.get(&unit.index) {
            Some(Acting::Mirror(_)) => MirrorStep::Superseded,
            Some(Acting::Alone) => MirrorStep::Alone,
            None => {
                self.mirrors.decided.insert(unit.index, Acting::Alone);
                self.events.push_back(ManagerEvent::MirrorLost { readout: unit });
                MirrorStep::Alone
            }
        }
    }

    /// Lets a mirror act for its readout unit, unless the unit is heard. `None` if it is.
    fn let_mirror_act(&mut self, now: Timestamp, unit: NodeId, session: SessionId) -> Option<MirrorStep> {
        match self.mirrors.decided.get(&unit.index) {
            Some(Acting::Mirror(of)) if *of == session => return Some(MirrorStep::Granted(session)),
            Some(_) => return Some(MirrorStep::StruckOff),
            None => {}
        }
        if self.peers.session(unit) != Some(session) {
            // It was started again, or was never heard: what it has taken has led to nothing.
            self.mirrors.decided.insert(unit.index, Acting::Alone);
            return Some(MirrorStep::StruckOff);
        }
        let quiet = Nanos(self.config.heartbeat.0.saturating_mul(QUIET_HEARTBEATS));
        if !self.peers.is_down(unit) && !self.peers.is_silent(unit, now, quiet) {
            return None;
        }
        self.mirrors.decided.insert(unit.index, Acting::Mirror(session));
        self.events.push_back(ManagerEvent::MirrorTookOver { readout: unit });
        Some(MirrorStep::Granted(session))
    }
}
