//! Traffic shaping: who may send what, and when.

use super::{GIB, HOUR, KIB};
use crate::codec::{bit_rate, bytes, microseconds, pick, switch, zero_is_none};
use crate::knob::{choice, section};
use sheaf_wire::{ByteCount, ByteRate, Nanos};

choice! {
    /// How super-fragments come to the builder units.
    ShapingPolicy {
        /// builder units ask every readout unit at once for all that they are given
        Pull = "pull",
        /// builder units ask readout units in turn, for no more bytes at a time than the credit
        Paced = "paced",
        /// readout units send unasked, as soon as an event is complete and has a builder unit
        Push = "push",
        /// readout units send in turn, in time slots in which each has another builder unit
        Barrel = "barrel",
    }
}

section! {
    /// Traffic shaping: what keeps many readout units from sending more to one builder unit than its link carries.
    Shaping "shaping" {
        /// How super-fragments come to the builder units.
        policy: ShapingPolicy = ShapingPolicy::Pull, "policy", pick();
        /// With the policy `paced`: how much a builder unit has asked for and not received at most. What a switch's output
        /// buffer holds is right. With `barrel` it holds while the barrel stands, because a node is missing.
        credit: ByteCount = ByteCount(64 * KIB), "credit_bytes", bytes(KIB, GIB);
        /// The rate of a node's line in bits per second, all that is on it included. A node with datagrams sends no faster, on
        /// each of its rails; with the policy `barrel` it gives the slots their length. 0: not known, nothing is paced.
        line_rate: Option<ByteRate> = None, "line_rate_bits", zero_is_none(bit_rate(8_000, 100_000_000_000_000));
        /// What may leave at once after a pause, on top of the line rate.
        burst: ByteCount = ByteCount(32 * KIB), "burst_bytes", bytes(KIB, GIB);
        /// With the policy `barrel`: what a time slot carries.
        block: ByteCount = ByteCount(64 * KIB), "block_bytes", bytes(KIB, GIB);
        /// With the policy `barrel`: between two slots nothing is sent for this time, because clocks and cables differ.
        guard: Nanos = Nanos::from_micros(10), "guard_us", microseconds(Nanos::ZERO, HOUR);
        /// With the policy `barrel`: slots begin by the event manager's clock, not by each readout unit's own work. Needs
        /// `line_rate_bits`.
        synchronised: bool = false, "synchronised", switch();
    }
}
