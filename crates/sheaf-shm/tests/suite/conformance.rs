//! The shared-memory transport meets the contract.

use sheaf_conformance::{Lab, Limits};
use sheaf_shm::{Arena, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::sync::atomic::{AtomicU64, Ordering};

/// Nodes of this process, isolated from each other like nodes of several processes. Of two nodes, the later one in the list calls.
struct ShmLab {
    nodes: Vec<NodeId>,
    /// Unique among the labs of this machine.
    name: String,
    settings: ShmSettings,
    sessions: u64,
}

impl ShmLab {
    fn name_of(&self, node: NodeId) -> String {
        format!("{}/{node}", self.name)
    }
}

impl Lab for ShmLab {
    type Endpoint = ShmEndpoint;

    fn new(nodes: &[NodeId], limits: Limits) -> Self {
        static LABS: AtomicU64 = AtomicU64::new(0);
        let lab = LABS.fetch_add(1, Ordering::Relaxed);
        Self {
            nodes: nodes.to_vec(),
            name: format!("test/{}/{lab}", std::process::id()),
            settings: ShmSettings {
                max_frame_bytes: limits.max_frame_bytes,
                queue_frames: limits.queue_frames,
                queue_bytes: limits.queue_bytes,
                // Small, so that frames cross the ends of blocks, some are larger than a block, and memory is exhausted.
                block_bytes: ByteCount::kib(64),
                blocks: 16,
                retry_min: Nanos::from_millis(1),
                retry_max: Nanos::from_millis(20),
                ..ShmSettings::default()
            },
            sessions: 0,
        }
    }

    fn start(&mut self, node: NodeId) -> ShmEndpoint {
        self.sessions += 1;
        let place = self.nodes.iter().position(|it| *it == node).expect("the network has the node");
        let peer = |(other, node): (usize, &NodeId)| ShmPeer {
            node: *node,
            call: (other < place).then(|| self.name_of(*node)),
        };
        let peers = self.nodes.iter().enumerate().filter(|(other, _)| *other != place).map(peer).collect();
        let arena = Arena::new("sheaf.test", self.settings.arena_bytes(), false).expect("memory");
        ShmEndpoint::new(ShmOptions {
            node,
            run: RunNumber(7),
            session: SessionId(self.sessions),
            name: Some(self.name_of(node)),
            peers,
            arena,
            settings: self.settings,
        })
        .expect("the options are right")
    }
}

sheaf_conformance::conformance_tests!(ShmLab);
