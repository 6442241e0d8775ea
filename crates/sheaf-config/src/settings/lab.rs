//! The virtual switch lab: what a scenario says beside the configuration of the run.

use super::{GIB, KIB, MIB, TIB};
use crate::codec::{bytes, maybe, milliseconds, name, pick, prose, real, seconds, switch, whole};
use crate::knob::{choice, section};
use sheaf_wire::{ByteCount, Nanos};

/// No time of a measurement is longer: a day.
const DAY: Nanos = Nanos::from_secs(86_400);

section! {
    /// What the scenario is called and what it shows. These keys stand above all tables.
    LabHead "" {
        /// What the scenario is called; left out, as its file.
        name: Option<String> = None, "name", maybe(name());
        /// What it shows, in a line.
        about: Option<String> = None, "about", maybe(prose());
    }
}

choice! {
    /// Which nodes share a host of the lab.
    LabPlacement {
        /// every node has a host of its own
        Separate = "separate",
        /// readout unit `i` and builder unit `i` share host `h<i>`; the event manager has its own
        Paired = "paired",
    }
}

section! {
    /// The network that is made: hosts, cables, switches.
    Lab "lab" {
        /// So many readout units and as many builder units; in place of `readout.count` and `builder.count`.
        units: Option<u16> = None, "units", maybe(whole(1, 128));
        /// Which nodes share a host.
        placement: LabPlacement = LabPlacement::Separate, "placement", pick();
        /// How many data networks there are, each with switches of its own; every host is on all of them.
        rails: u16 = 1, "rails", whole(1, 4);
        /// The largest packet that a link carries, without its Ethernet head.
        mtu: u32 = 9_000, "mtu_bytes", whole(1_280, 9_216);
        /// The rate of every cable, in Mbit/s on the wire: a packet takes 38 bytes beside its own (head, checksum,
        /// preamble, gap), as on real Ethernet.
        rate_mbps: f64 = 100.0, "rate_mbps", real(0.1, 100_000.0);
        /// What each output of a switch can hold. What finds it full is lost.
        port_buffer: ByteCount = ByteCount(256 * KIB), "port_buffer_bytes", bytes(4 * KIB, GIB);
        /// What waits in a host for its cable at most. What finds it full is lost without a word, so that it should be
        /// more than the send buffers of its sockets together. Raw Ethernet goes around it.
        nic_buffer: ByteCount = ByteCount(8 * MIB), "nic_buffer_bytes", bytes(64 * KIB, GIB);
        /// Whether the event manager is reached over a network of its own, that no data go through. Raw Ethernet has one network
        /// for both.
        control_network: bool = true, "control_network", switch();
        /// How many switches the hosts are on. With more than one each network has two stages, leaves and spines, and
        /// the hosts are dealt out to the leaves in turn.
        leaves: u16 = 1, "leaves", whole(1, 32);
        /// How many switches join the leaves. A packet goes by the spine that belongs to its destination.
        spines: u16 = 1, "spines", whole(1, 32);
        /// The rate of each cable between switches, in Mbit/s. Left out: as much as the hosts of a leaf together,
        /// shared by the spines.
        uplink_mbps: Option<f64> = None, "uplink_mbps", maybe(real(0.1, 1e6));
    }
}

section! {
    /// What is done to the network while the run takes its data, and how it is watched. How long a run takes is
    /// `run.duration_s`.
    Measure "measure" {
        /// How often the ports of the switches and the memory of the nodes are looked at.
        sample: Nanos = Nanos::from_millis(500), "sample_ms", milliseconds(Nanos::from_millis(50), DAY);
        /// How often the run is repeated; the median counts.
        repeats: u16 = 1, "repeats", whole(1, 100);
        /// The builder unit that is slowed down, by the rate of the cable to its host.
        slow_builder: Option<u16> = None, "slow_builder", maybe(whole(0, 127));
        /// To which share of its rate it is slowed down. 0: its cables are cut.
        slow_to: f64 = 0.5, "slow_to", real(0.0, 1.0);
        /// When it becomes slow, from the start of the run.
        slow_from: Nanos = Nanos::from_secs(4), "slow_from_s", seconds(Nanos::ZERO, DAY);
        /// When it is as before again, from the start of the run.
        slow_until: Nanos = Nanos::from_secs(8), "slow_until_s", seconds(Nanos::ZERO, DAY);
        /// How much the memory of all nodes together may grow between the first third of the run and its end; more fails
        /// the run. Left out: it may.
        memory_growth: Option<ByteCount> = None, "memory_growth_bytes", maybe(bytes(KIB, TIB));
    }
}
