//! Minimum numbers of nodes.

use crate::choice::choice;
use crate::codec::{node_pattern_list, pick, real, whole};
use crate::knob::section;

choice! {
    /// Action of a run when fewer nodes are left than it requires.
    LossAction {
        /// it goes on, with a warning and in the summary
        Continue = "continue",
        /// it takes no triggers until enough nodes are back; the time is dead time with the cause `too_few_nodes`
        Pause = "pause",
        /// it takes no more triggers, builds the events in flight, and ends
        Stop = "stop",
    }
}

section! {
    /// Nodes that a run [requires](../operating/README.md#required-nodes): it does not start with fewer, and does what `on_loss` says when it
    /// has fewer later. The name of the table is in messages.
    Requirement "require.NAME" {
        /// Names of nodes. `*` stands for any characters: `["ru*"]`. The event manager is never among them: a run ends without it.
        nodes: Vec<String> = Vec::new(), "nodes", node_pattern_list();
        /// Fraction of the nodes that is required.
        share: f64 = 1.0, "share", real(0.0, 1.0);
        /// Minimum number of nodes, if that is more than `share` of them.
        least: u32 = 1, "least", whole(0, 65_535);
        /// Action of the run when it has fewer. A node that is started again within `manager.peer_timeout_ms` was never missing.
        on_loss: LossAction = LossAction::Continue, "on_loss", pick();
    }
}
