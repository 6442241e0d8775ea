//! Mirrors of readout units: their parameters, and their faults in random runs.

use super::{DriverFault, DriverFaultKind, DriverOptions, START};
use crate::dice::Dice;
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::mirror::MirrorConfig;
use sheaf_wire::{ByteCount, Nanos, NodeId, Role, Timestamp};

/// Silence after which a mirror suspects its readout unit, as in the default configuration.
const SUSPICION: Nanos = Nanos::from_millis(250);
const LAG: Nanos = Nanos::from_secs(2);
/// Time for which a readout unit waits for its mirror before the run.
const START_TIME: Nanos = Nanos::from_secs(5);
/// Longest time for which a link of a readout unit is cut. Others give the unit up later.
const LONGEST_CUT: Nanos = Nanos::from_secs(2);

impl DriverOptions {
    /// Returns the parameters of a readout unit and its mirror.
    pub(in super::super) fn mirror(&self, channel: ChannelTimes) -> MirrorConfig {
        // Small messages divide rounds with many fragments.
        let message_bytes = if self.seed.is_multiple_of(2) { ByteCount::kib(256) } else { ByteCount(1_000) };
        MirrorConfig { suspicion: SUSPICION, lag: LAG, start: START_TIME, message_bytes, channel }
    }

    /// Draws faults of readout units and mirrors, with dice of their own: of each two, one at most ends.
    pub(super) fn draw_faults_of_mirrors(&mut self, busy: Nanos) {
        let mut dice = Dice::new(self.seed, 34);
        self.supervisor = None;
        if matches!(self.gathering, Gathering::Barrel { .. }) {
            self.gathering = Gathering::Pull;
        }
        // The last unit without a mirror does not die, and a second stop would cut the run.
        let mut was_stopped = false;
        self.faults.retain(|fault| match fault.kind {
            DriverFaultKind::Stop { .. } => !std::mem::replace(&mut was_stopped, true) && fault.is_slowness(),
            _ => fault.is_slowness() && fault.node.role != Role::Mirror,
        });
        for index in 0..self.readouts {
            if dice.below(4) == 0 {
                continue;
            }
            let within = dice.pick(&[busy.0, busy.0, 1_000_000_000, 50_000_000]);
            let at = Timestamp(START.0 + dice.below(within));
            self.draw_fault_of_two(&mut dice, index, at);
        }
    }

    fn draw_fault_of_two(&mut self, dice: &mut Dice, index: u16, at: Timestamp) {
        let (unit, mirror) = (NodeId::readout(index), NodeId::mirror(index));
        let node = if dice.below(3) == 0 { mirror } else { unit };
        let longest = dice.pick(&[2 * SUSPICION.0, 2 * LAG.0, 30_000_000_000]);
        let lasts = dice.time_between(Nanos::from_millis(10), Nanos(longest));
        match dice.below(8) {
            0..=3 => self.faults.push(DriverFault { at, node, kind: DriverFaultKind::Crash }),
            4 | 5 => self.faults.push(DriverFault { at, node, kind: DriverFaultKind::Freeze { lasts } }),
            6 => self.cut(dice, at, (unit, &[mirror]), lasts),
            _ => {
                let is_peer =
                    |peer: &NodeId| matches!(peer.role, Role::Manager | Role::Builder) || *peer == mirror;
                let mut peers: Vec<NodeId> = self.nodes().into_iter().filter(is_peer).collect();
                if dice.below(2) == 0 {
                    peers = vec![dice.pick(&peers)];
                }
                self.cut(dice, at, (unit, &peers), lasts.min(LONGEST_CUT));
            }
        }
    }
}
