//! The byte layout of the trigger protocol: every struct is a field table.

use crate::message::layout::layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// First message of a supervisor, 8 bytes; its name follows, UTF-8.
    HelloBytes[8] {
        /// Offset 0: [`VERSION`](super::VERSION).
        version: U32,
        /// Offset 4: bytes of the name.
        name_bytes: U32,
    }
}

layout! {
    /// A trigger, 32 bytes; its payload follows.
    TriggerBytes[32] {
        /// Offset 0: event id.
        id: U64,
        /// Offset 8: time of the trigger, ns, on the supervisor's clock; zero where it has none.
        time: U64,
        /// Offset 16: trigger bits, in the supervisor's own meaning.
        bits: U64,
        /// Offset 24: trigger type.
        kind: U16,
        /// Offset 26: zero.
        reserved: U16,
        /// Offset 28: bytes of the payload, or zero.
        payload_bytes: U32,
    }
}

layout! {
    /// End of triggers, 8 bytes.
    EndBytes[8] {
        /// Offset 0: number of triggers that were sent over this connection.
        sent: U64,
    }
}

layout! {
    /// Account of a supervisor, 32 bytes; a [`BusyTimeBytes`] follows for each reason.
    TotalsBytes[32] {
        /// Offset 0: triggers that happened.
        offered: U64,
        /// Offset 8: triggers that were sent.
        sent: U64,
        /// Offset 16: triggers that the supervisor's own dead-time rules vetoed.
        own_vetoed: U64,
        /// Offset 24: number of busy times.
        busy_times: U32,
        /// Offset 28: zero.
        reserved: U32,
    }
}

layout! {
    /// Busy time of one reason, 32 bytes.
    BusyTimeBytes[32] {
        /// Offset 0: [`BusyCause`](super::BusyCause).
        cause: u8,
        /// Offset 1: bit 0: `culprit` is present. Other bits are zero.
        flags: u8,
        /// Offset 2: zero.
        reserved: U16,
        /// Offset 4: the node that is the reason, role in the top byte, index in the low two; or zero.
        culprit: U32,
        /// Offset 8: number of intervals.
        intervals: U64,
        /// Offset 16: sum of their lengths, ns.
        time: U64,
        /// Offset 24: triggers that were vetoed in them; zero from the event manager.
        vetoed: U64,
    }
}

layout! {
    /// First message of the event manager, 24 bytes.
    WelcomeBytes[24] {
        /// Offset 0: [`VERSION`](super::VERSION).
        version: U32,
        /// Offset 4: run number.
        run: U32,
        /// Offset 8: id of the next trigger.
        next: U64,
        /// Offset 16: [`Phase`](super::Phase).
        phase: u8,
        /// Offset 17: zero.
        reserved: [u8; 3],
        /// Offset 20: maximum payload of a trigger in bytes; zero: the run takes no payload.
        max_payload_bytes: U32,
    }
}

layout! {
    /// State of the busy signal, 24 bytes.
    BusyBytes[24] {
        /// Offset 0: number of this message in the connection, from 1 on.
        sequence: U64,
        /// Offset 8: the [`BusyCause`](super::BusyCause), or zero: triggers are taken.
        cause: u8,
        /// Offset 9: bit 0: `culprit` is present. Other bits are zero.
        flags: u8,
        /// Offset 10: zero.
        reserved: U16,
        /// Offset 12: the node that is the reason, role in the top byte, index in the low two; or zero.
        culprit: U32,
        /// Offset 16: when the room in a buffer passed the watermark, ns since 1970 on the event manager's clock, or zero if unknown.
        at: U64,
    }
}

layout! {
    /// Triggers of this connection so far, 16 bytes.
    ProgressBytes[16] {
        /// Offset 0: number of triggers received.
        received: U64,
        /// Offset 8: number of triggers that became events.
        accepted: U64,
    }
}

layout! {
    /// Phase of the run, 8 bytes.
    PhaseBytes[8] {
        /// Offset 0: [`Phase`](super::Phase).
        phase: u8,
        /// Offset 1: zero.
        reserved: [u8; 7],
    }
}

layout! {
    /// Reason for which the event manager closes the connection, 8 bytes; a text follows, UTF-8.
    RefusedBytes[8] {
        /// Offset 0: [`Refusal`](super::Refusal).
        refusal: u8,
        /// Offset 1: zero.
        reserved: [u8; 7],
    }
}

layout! {
    /// Account of the event manager, 56 bytes; a [`BusyTimeBytes`] follows for each reason.
    AccountBytes[56] {
        /// Offset 0: triggers received: the sum of the five numbers that follow.
        received: U64,
        /// Offset 8: triggers that became events.
        accepted: U64,
        /// Offset 16: triggers for which there was no room.
        lost: U64,
        /// Offset 24: triggers whose id was received before.
        repeated: U64,
        /// Offset 32: triggers with an id below one received before that was not received itself.
        out_of_order: U64,
        /// Offset 40: triggers that came before the start or after the end of the run.
        outside: U64,
        /// Offset 48: number of busy times.
        busy_times: U32,
        /// Offset 52: zero.
        reserved: U32,
    }
}

layout! {
    /// Head of a datagram, 32 bytes; any number of whole messages follow.
    DatagramHeadBytes[32] {
        /// Offset 0: `SHEAFTRG`.
        magic: [u8; 8],
        /// Offset 8: number that the supervisor has chosen for this connection, not zero; the same in both directions.
        link: U64,
        /// Offset 16: number of the sender's last datagram with messages: this one, if it has messages. The first is 1.
        number: U64,
        /// Offset 24: greatest number that the sender has received from the other side, or zero.
        seen: U64,
    }
}

/// Bit 0 of the flags of [`BusyBytes`] and [`BusyTimeBytes`].
pub const HAS_CULPRIT: u8 = 1;
