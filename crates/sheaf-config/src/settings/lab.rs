//! The virtual switch lab: the keys of a scenario in addition to the configuration of the run.

use super::{GIB, KIB, MIB, TIB};
use crate::choice::choice;
use crate::codec::{bytes, maybe, milliseconds, name, pick, prose, real, seconds, switch, whole};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};

/// No time of a measurement is longer: a day.
const DAY: Nanos = Nanos::from_secs(86_400);

section! {
    /// Name and description of the scenario. These keys stand above all tables.
    LabHead "" {
        /// Name of the scenario. Default: the name of its file.
        name: Option<String> = None, "name", maybe(name());
        /// Description, one line.
        about: Option<String> = None, "about", maybe(prose());
    }
}

choice! {
    /// Placement of nodes on hosts of the lab.
    LabPlacement {
        /// every node has a host of its own
        Separate = "separate",
        /// readout unit `i` and builder unit `i` share host `h<i>`; the event manager has its own
        Paired = "paired",
    }
}

section! {
    /// The network: hosts, cables, switches.
    Lab "lab" {
        /// Number of readout units and of builder units; replaces `readout.count` and `builder.count`.
        units: Option<u16> = None, "units", maybe(whole(1, 128));
        /// Placement of nodes on hosts.
        placement: LabPlacement = LabPlacement::Separate, "placement", pick();
        /// Number of data networks, each with its own switches; every host is connected to all of them.
        rails: u16 = 1, "rails", whole(1, 4);
        /// The largest packet that a link carries, without its Ethernet head.
        mtu: u32 = 9_000, "mtu_bytes", whole(1_280, 9_216);
        /// The rate of every cable, in Mbit/s on the wire: a packet takes 38 additional bytes (header, checksum,
        /// preamble, gap), as on real Ethernet.
        rate_mbps: f64 = 100.0, "rate_mbps", real(0.1, 100_000.0);
        /// Output buffer of each switch port; packets that find it full are dropped.
        port_buffer: ByteCount = ByteCount(256 * KIB), "port_buffer_bytes", bytes(4 * KIB, GIB);
        /// Maximum number of bytes that wait in a host for its cable. Packets that find the queue full are lost without
        /// notice, so that the limit should exceed the send buffers of the host's sockets together. Raw Ethernet
        /// bypasses this queue.
        nic_buffer: ByteCount = ByteCount(8 * MIB), "nic_buffer_bytes", bytes(64 * KIB, GIB);
        /// Whether the event manager has a separate network without data. Raw Ethernet uses one network for both.
        control_network: bool = true, "control_network", switch();
        /// Number of leaf switches. With more than one, each network has two stages, leaves and spines, and hosts are
        /// assigned to the leaves in turn.
        leaves: u16 = 1, "leaves", whole(1, 32);
        /// Number of spine switches. The destination of a packet selects its spine.
        spines: u16 = 1, "spines", whole(1, 32);
        /// The rate of each cable between switches, in Mbit/s. Left out: as much as the hosts of a leaf together,
        /// shared by the spines.
        uplink_mbps: Option<f64> = None, "uplink_mbps", maybe(real(0.1, 1e6));
    }
}

section! {
    /// Disturbances of the network during the run, and its observation. `run.duration_s` sets the duration.
    Measure "measure" {
        /// Sampling interval of switch ports and of the nodes' memory.
        sample: Nanos = Nanos::from_millis(500), "sample_ms", milliseconds(Nanos::from_millis(50), DAY);
        /// Number of repetitions of each point; the median counts.
        repeats: u16 = 1, "repeats", whole(1, 100);
        /// Builder unit whose cable is slowed down.
        slow_builder: Option<u16> = None, "slow_builder", maybe(whole(0, 127));
        /// Fraction of its rate to which it is slowed down. 0: its cables are cut.
        slow_to: f64 = 0.5, "slow_to", real(0.0, 1.0);
        /// Start of the slow period, from the start of the run.
        slow_from: Nanos = Nanos::from_secs(4), "slow_from_s", seconds(Nanos::ZERO, DAY);
        /// End of the slow period, from the start of the run.
        slow_until: Nanos = Nanos::from_secs(8), "slow_until_s", seconds(Nanos::ZERO, DAY);
        /// Maximum growth of the memory of all nodes together between the first third of the run and its end; larger
        /// growth fails the run. Default: no limit.
        memory_growth: Option<ByteCount> = None, "memory_growth_bytes", maybe(bytes(KIB, TIB));
    }
}
