//! Parts of a system that have runs of their own.

use crate::codec::{address, maybe, node_pattern_list, setting_list};
use crate::knob::section;

section! {
    /// A [partition](../operating/partitions.md): a part of the system that has runs of its own, by `--partition NAME`. Runs of partitions go on
    /// at the same time if they have no node in common.
    Partition "partition.NAME" {
        /// Names of its readout units, builder units and output nodes. `*` stands for any characters: `["ru-trk*", "bu0"]`. Its sources are those
        /// of its readout units. Required.
        nodes: Vec<String> = Vec::new(), "nodes", node_pattern_list();
        /// Address of the event manager of the partition, as `host:port`. Needed where nodes have agents or are started one by one: the event
        /// managers of runs that go on at the same time cannot share that of the system.
        manager: Option<String> = None, "manager", maybe(address());
        /// Settings of the partition in place of those of the file, as `KEY=VALUE`: `["trigger.mode=fixed", "trigger.rate_hz=100"]`. Flags and rows
        /// of tables go first.
        set: Vec<String> = Vec::new(), "set", setting_list();
    }
}
