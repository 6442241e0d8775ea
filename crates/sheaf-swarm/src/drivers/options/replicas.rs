//! Two replicas of the event manager: their parameters, and their faults in random runs.

use super::{DriverFault, DriverFaultKind, DriverOptions, START};
use crate::dice::Dice;
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::standby::{self, StandbyConfig, StandbyTimes};
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};

/// Silence after which the standby suspects the active replica, as in the default configuration.
const SUSPICION: Nanos = Nanos::from_millis(250);
const LAG: Nanos = Nanos::from_secs(2);
const START_TIME: Nanos = Nanos::from_secs(200);
/// Time without a majority of the voters after which a replica gives up.
const QUORUM: Nanos = Nanos::from_secs(10);
/// The same time if voters may be blocked by a filter or a disk.
const PATIENT_QUORUM: Nanos = Nanos::from_secs(300);
const VOTERS: usize = 3;
/// Time after the start of the run at which voters with small links are no longer starved.
const LONG_STARVATION: Nanos = Nanos::from_secs(30);

impl DriverOptions {
    /// Returns the nodes that vote.
    #[must_use]
    pub fn voters(&self) -> Vec<NodeId> {
        let readouts = (0..self.readouts).map(NodeId::readout);
        let outputs = (0..self.outputs).map(NodeId::output);
        let builders = (0..self.builders).map(NodeId::builder);
        standby::voters(readouts.chain(outputs).chain(builders), VOTERS)
    }

    /// Returns the silence of the event manager after which a node agrees to a take-over, if the node votes.
    pub(in super::super) fn vote_of(&self, node: NodeId) -> Option<Nanos> {
        self.voters().contains(&node).then_some(standby::voters_silence(SUSPICION))
    }

    /// Returns the parameters of the replicas.
    pub(in super::super) fn replicas(&self, channel: ChannelTimes) -> StandbyConfig {
        let voters = self.voters();
        let is_quick = voters.iter().all(|voter| voter.role == Role::Readout);
        StandbyConfig {
            voters,
            nodes: self.nodes().into_iter().filter(|node| node.role != Role::Manager).collect(),
            times: StandbyTimes {
                suspicion: SUSPICION,
                lag: LAG,
                start: START_TIME,
                quorum: if is_quick { QUORUM } else { PATIENT_QUORUM },
            },
            rounds_per_digest: 1 + u32::try_from(self.seed % 8).unwrap_or(0),
            channel,
        }
    }

    /// Adds a standby, and as many readout units that there are three voters, of which a slow node is one at most.
    pub(super) fn add_standby(&mut self) {
        self.standby = true;
        self.readouts = if self.seed.is_multiple_of(3) { 2 } else { 3 };
    }

    /// Draws faults of the replicas, and of readout units and their mirrors, with dice of their own.
    pub(super) fn draw_faults_of_both(&mut self, busy: Nanos) {
        let mut dice = Dice::new(self.seed, 35);
        self.keep_faults_beside_replicas();
        self.draw_faults_of_mirrors(busy);
        for _ in 0..dice.between(1, 2) {
            let at = Timestamp(START.0 + dice.below(busy.0));
            match dice.below(4) {
                0 => self.draw_kills_of_replicas(&mut dice, at),
                1 => self.draw_fault_of_a_replica(&mut dice, at),
                _ => self.draw_steps_down(&mut dice, busy),
            }
        }
    }

    /// Drops the faults that two replicas do without: those of a supervisor, of the event manager alone, and more slowness than they endure.
    fn keep_faults_beside_replicas(&mut self) {
        self.supervisor = None;
        // A slow replica is one that fails, and a second stop would cut the run.
        let mut was_stopped = false;
        let has_small_links = self.links.queue_frames < 8;
        self.faults.retain(|fault| match fault.kind {
            DriverFaultKind::Suspend { .. } => true,
            // Signs of life fill links that take few frames, if their receiver polls rarely.
            DriverFaultKind::Starve { .. } if has_small_links && fault.node.role != Role::Manager => {
                fault.at + fault.kind.lasts() < START + LONG_STARVATION
            }
            DriverFaultKind::Stop { .. } => !std::mem::replace(&mut was_stopped, true),
            _ => fault.node.role != Role::Manager,
        });
    }

    /// Draws faults of the replicas and of voters, with dice of their own: at most one replica and one voter at a time.
    pub(super) fn draw_faults_of_replicas(&mut self, busy: Nanos) {
        let mut dice = Dice::new(self.seed, 33);
        self.keep_faults_beside_replicas();
        let within = dice.pick(&[busy.0, busy.0, 1_000_000_000, 50_000_000]);
        let at = Timestamp(START.0 + dice.below(within));
        if dice.below(3) == 0 {
            self.draw_kills_of_replicas(&mut dice, at);
        } else {
            self.draw_fault_of_a_replica(&mut dice, at);
        }
        if dice.below(2) == 0 {
            let node = dice.pick(&self.voters());
            let earliest = at.0.saturating_sub(500_000_000).max(START.0 + 50_000_000);
            let at = Timestamp(dice.between(earliest, at.0.max(earliest) + 1_000_000_000));
            let back_after = dice.time_between(Nanos::from_millis(1), Nanos::from_secs(3));
            self.faults.push(DriverFault { at, node, kind: DriverFaultKind::Kill { back_after } });
        }
        if dice.below(5) == 0 {
            let lasts = dice.time_between(Nanos::from_millis(100), Nanos::from_secs(30));
            let at = at + Nanos(dice.below(3_000_000_000));
            self.faults.push(DriverFault {
                at,
                node: NodeId::MANAGER,
                kind: DriverFaultKind::Suspend { lasts },
            });
        }
        if dice.below(3) == 0 {
            self.draw_steps_down(&mut dice, busy);
        }
    }

    /// Has the event manager step down, also while another fault lasts.
    fn draw_steps_down(&mut self, dice: &mut Dice, busy: Nanos) {
        for _ in 0..dice.between(1, 4) {
            let at = Timestamp(START.0 + dice.below(busy.0));
            self.faults.push(DriverFault { at, node: NodeId::MANAGER, kind: DriverFaultKind::StepDown });
        }
    }

    /// Kills replicas one after another. Each is started again, and joins.
    fn draw_kills_of_replicas(&mut self, dice: &mut Dice, mut at: Timestamp) {
        for _ in 0..dice.between(1, 6) {
            let node = NodeId::manager(u16::from(dice.below(2) == 0));
            let back_after = dice.time_between(Nanos::from_millis(1), Nanos::from_secs(2));
            self.faults.push(DriverFault { at, node, kind: DriverFaultKind::Kill { back_after } });
            at += dice.time_between(Nanos::from_millis(1), Nanos::from_secs(3));
        }
    }

    fn draw_fault_of_a_replica(&mut self, dice: &mut Dice, at: Timestamp) {
        let node = NodeId::manager(if dice.below(3) == 0 { 1 } else { 0 });
        let longest = dice.pick(&[2 * SUSPICION.0, 2 * LAG.0, 30_000_000_000]);
        let lasts = dice.time_between(Nanos::from_millis(10), Nanos(longest));
        match dice.below(8) {
            0..=2 => self.faults.push(DriverFault { at, node, kind: DriverFaultKind::Crash }),
            3 | 4 => self.faults.push(DriverFault { at, node, kind: DriverFaultKind::Freeze { lasts } }),
            5 => self.cut(dice, at, (NodeId::MANAGER, &[NodeId::manager(1)]), lasts),
            6 => {
                let others: Vec<NodeId> = self.nodes().into_iter().filter(|other| *other != node).collect();
                self.cut(dice, at, (node, &others), lasts);
            }
            _ => {
                let nodes = self.nodes();
                let others: Vec<NodeId> =
                    nodes.into_iter().filter(|other| other.role != Role::Manager).collect();
                let peer = dice.pick(&others);
                self.cut(dice, at, (node, &[peer]), lasts.min(Nanos::from_secs(2)));
            }
        }
    }

    /// Adds a fault of the links from a node to others, of both directions or one.
    pub(super) fn cut(
        &mut self,
        dice: &mut Dice,
        at: Timestamp,
        (node, others): (NodeId, &[NodeId]),
        lasts: Nanos,
    ) {
        let (is_both, is_reverse) = (dice.below(2) == 0, dice.below(2) == 0);
        for other in others {
            let (node, peer) = if is_reverse { (*other, node) } else { (node, *other) };
            self.faults.push(DriverFault { at, node, kind: DriverFaultKind::Cut { peer, is_both, lasts } });
        }
    }
}
