//! The nodes of a system that is spread over hosts.

use super::MAX_NODES;
use crate::choice::Choice;
use crate::codec::{address, address_list, id_list, interface_list, maybe, name, pick, source_list, whole};
use crate::knob::section;
use sheaf_wire::{Role, SourceId};

impl Choice for Role {
    const WORDS: &'static [(Self, &'static str, &'static [&'static str])] = &[
        (Self::Manager, "manager", &["the event manager; there is one"]),
        (Self::Readout, "readout", &["a readout unit"]),
        (Self::Builder, "builder", &["a builder unit"]),
        (Self::Output, "output", &["an output node"]),
        (Self::Mirror, "mirror", &["the mirror of a readout unit, if `readout.protect` is `\"mirror\"`"]),
    ];
}

section! {
    /// One node. Its index within its role is its place among the tables of that role. Without any `[[node]]` the nodes
    /// are `evm`, `ru0`, `ru1`, ..., `bu0`, `bu1`, ..., `out0`, ... by `readout.count`, `builder.count` and
    /// `output.nodes`, and the sources are shared out among the readout units in contiguous blocks.
    Node "node" {
        /// The name by which `sheaf node CONFIG NAME` starts this node. Required, and unique.
        name: String = String::new(), "name", name();
        /// Role of the node. Required.
        role: Role = Role::Readout, "role", pick();
        /// Where the node listens, as `host:port`. Needed for TCP between processes that are started one by one.
        address: Option<String> = None, "address", maybe(address());
        /// Address of the [agent](../operating/README.md#several-hosts) that starts this node on its host, `host:port`. Without it, the node is
        /// started where the run is.
        agent: Option<String> = None, "agent", maybe(address());
        /// Further addresses of this node, for `transport.rails`: each `host:port`, in a separate network.
        more_addresses: Vec<String> = Vec::new(), "more_addresses", address_list();
        /// Network interfaces of this node, one for each of `transport.rails`, each in a separate network: `["eth1"]`.
        /// Only for `transport.kind = "ethernet"`, which needs it.
        interfaces: Vec<String> = Vec::new(), "interfaces", interface_list();
        /// The sources that a readout unit reads. Either all readout units have
        /// this list, or none: then the sources are shared out in contiguous blocks.
        sources: Option<Vec<SourceId>> = None, "sources", maybe(source_list());
        /// The processors that the node's threads may use. Without it, or empty: all.
        cpu: Vec<usize> = Vec::new(), "cpu", id_list(1_023);
        /// Number by which programs find a readout unit: its socket is `ru<number>.feed`, and its port is that of `source.feed.listen` plus the
        /// number. Default: its index. In a partition it is that of the whole system, so that programs need not know of partitions.
        feed_index: Option<u16> = None, "feed_index", maybe(whole(0, MAX_NODES - 1));
    }
}
