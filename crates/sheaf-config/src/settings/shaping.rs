//! Traffic shaping: who may send what, and when.

use super::{GIB, HOUR, KIB};
use crate::choice::choice;
use crate::codec::{bit_rate, bytes, microseconds, pick, switch, zero_is_none};
use crate::knob::section;
use sheaf_wire::{ByteCount, ByteRate, Nanos};

choice! {
    /// Traffic policy for super-fragments.
    ShapingPolicy {
        /// builder units request all assigned events from every readout unit at once
        Pull = "pull",
        /// builder units request from one readout unit after another, within the credit
        Paced = "paced",
        /// readout units send as soon as an event is complete and assigned
        Push = "push",
        /// readout units send in time slots, each to another builder unit
        Barrel = "barrel",
    }
}

section! {
    /// Traffic shaping: prevents many readout units from sending more to one builder unit than its link carries.
    Shaping "shaping" {
        /// Traffic policy for super-fragments.
        policy: ShapingPolicy = ShapingPolicy::Pull, "policy", pick();
        /// With the policy `paced`: maximum bytes that a builder unit has requested and not received. A good value is
        /// the output buffer of the switch. With `barrel` it applies while the barrel is stopped because a node is
        /// missing.
        credit: ByteCount = ByteCount(64 * KIB), "credit_bytes", bytes(KIB, GIB);
        /// Line rate of a node in bits per second, including all overhead. A node with datagrams sends no faster on
        /// each of its rails; with the policy `barrel` it determines the length of time slots. 0: unknown, no pacing.
        line_rate: Option<ByteRate> = None, "line_rate_bits", zero_is_none(bit_rate(8_000, 100_000_000_000_000));
        /// Burst that may be sent after a pause, above the line rate.
        burst: ByteCount = ByteCount(32 * KIB), "burst_bytes", bytes(KIB, GIB);
        /// With the policy `barrel`: bytes per time slot.
        block: ByteCount = ByteCount(64 * KIB), "block_bytes", bytes(KIB, GIB);
        /// With the policy `barrel`: guard time between two slots, for differences of clocks and cables.
        guard: Nanos = Nanos::from_micros(10), "guard_us", microseconds(Nanos::ZERO, HOUR);
        /// With the policy `barrel`: slots follow the clock of the event manager instead of the work of each readout
        /// unit. Needs `line_rate_bits`.
        synchronised: bool = false, "synchronised", switch();
    }
}
