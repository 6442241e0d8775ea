//! Mirrors of readout units, and their time limits.

use crate::plan::Plan;
use sheaf_config::NodeConfig;
use sheaf_protocol::mirror::MirrorConfig;
use sheaf_wire::{ByteCount, Nanos, NodeId, Role};

/// Payload of a message from a readout unit to its mirror.
const MESSAGE: ByteCount = ByteCount::kib(256);

impl Plan {
    /// Returns whether readout units have mirrors.
    pub(crate) fn has_mirrors(&self) -> bool {
        self.count(Role::Mirror) > 0
    }

    /// Returns the node whose sources a node reads: of a mirror its readout unit.
    pub(crate) fn reader<'a>(&'a self, node: &'a NodeConfig) -> &'a NodeConfig {
        let unit = || self.node(NodeId::readout(node.id.index));
        if node.id.role == Role::Mirror { unit().unwrap_or(node) } else { node }
    }

    /// Returns the configuration of a readout unit and its mirror.
    pub(crate) fn mirror(&self) -> MirrorConfig {
        let readout = &self.config.readout;
        MirrorConfig {
            suspicion: readout.suspect_after,
            lag: readout.mirror_lag,
            // The run waits for the readout unit meanwhile.
            start: Nanos(self.config.manager.start_timeout.0 / 2),
            message_bytes: MESSAGE,
            channel: self.channel(),
        }
    }
}
