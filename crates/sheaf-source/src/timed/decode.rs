//! Content of a packet of a self-triggered front end.

use sheaf_wire::{EventId, SourceId, Timestamp};
use std::fmt::Debug;

/// Reads the packets of one kind of front end. It keeps the state that packets need from earlier ones, such as time
/// markers.
pub trait Decoder: Debug + Send {
    /// Returns the sender of a packet, without reading all of it.
    ///
    /// # Errors
    /// Why it is not a packet of this kind.
    fn head(&self, packet: &[u8]) -> Result<PacketHead, PacketError>;

    /// Reads a packet that [`Self::head`] has accepted, and passes its content to `take`, in order.
    ///
    /// # Errors
    /// Why it cannot be read. Nothing of it was passed to `take`.
    fn read(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Reading)) -> Result<(), DecodeFailure>;

    /// Bits of the counter in [`Reading`]s, and in [`PacketHead::number`].
    fn counter_bits(&self) -> CounterBits;
}

/// A packet, or a fragment that holds hits.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The sender.
    pub source: SourceId,
    /// Event id of the fragment; 0 for a packet.
    pub event: EventId,
    /// Time of the fragment; 0 for a packet.
    pub time: Timestamp,
    /// The packet, or the payload of the fragment.
    pub bytes: &'a [u8],
}

/// Reason why a decoder cannot read a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeFailure(pub String);

/// Widths of a front end's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterBits {
    /// Of times.
    pub time: u32,
    /// Of packet numbers, at most 64. 0: packets have no number.
    pub packet: u32,
}

/// Sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// The card.
    pub card: SourceId,
    /// The card's number of the packet, which rises by one from packet to packet and begins anew after its largest. Without
    /// meaning if [`CounterBits::packet`] is 0.
    pub number: u64,
}

/// Reason why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Shorter than its head.
    #[error("a packet of {bytes} bytes is shorter than its head of {needed}")]
    TooShort {
        /// Number of bytes found.
        bytes: usize,
        /// Number of bytes needed.
        needed: usize,
    },
    /// It does not begin as packets of this kind do.
    #[error("a packet is not of this kind of front end")]
    Foreign,
}

/// Something in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A hit, with its time.
    Hit {
        /// The reading of the card's clock.
        time: u64,
        /// Channel.
        channel: u32,
        /// Measured value.
        value: u16,
        /// Second measured value.
        extra: u16,
    },
    /// A hit whose time is not known, because no time marker came before it.
    Untimed,
    /// The card's clock has come this far.
    Marker {
        /// The reading of the card's clock.
        time: u64,
    },
    /// A pulse of the reference came to the card's clock.
    Pulse {
        /// The reading of the card's clock at the pulse.
        time: u64,
        /// Whether the pulse restarts the counter at 0.
        resets: bool,
    },
    /// The counter restarts at 0.
    Reset {
        /// The last reading before that.
        time: u64,
    },
    /// A record of another kind.
    Other,
    /// Bytes at the end that are no whole record.
    Remainder,
}
