//! The memory transport meets the contract.

use sheaf_conformance::{Lab, Limits};
use sheaf_transport::memory::{Doorbell, MemoryEndpoint, MemoryLimits, MemoryNetwork};
use sheaf_wire::NodeId;

struct MemoryLab(MemoryNetwork);

impl Lab for MemoryLab {
    type Endpoint = MemoryEndpoint;

    fn new(nodes: &[NodeId], limits: Limits) -> Self {
        let limits = MemoryLimits {
            link_frames: limits.queue_frames.min(1 << 16),
            link_bytes: limits.queue_bytes,
            max_frame_bytes: limits.max_frame_bytes,
        };
        Self(MemoryNetwork::new(nodes, limits).expect("each node is named once"))
    }

    fn start(&mut self, node: NodeId) -> MemoryEndpoint {
        self.0.attach(node, &Doorbell::new()).expect("the past life is over")
    }
}

sheaf_conformance::conformance_tests!(MemoryLab);
