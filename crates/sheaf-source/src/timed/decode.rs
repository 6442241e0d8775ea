//! Content of a packet of a self-triggered front end.

use sheaf_wire::SourceId;
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
    fn read(&mut self, packet: &[u8], take: &mut dyn FnMut(Reading));

    /// Bits of the counter in [`Reading`]s, and in [`PacketHead::number`].
    fn counter_bits(&self) -> CounterBits;
}

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
    /// A record that is neither a hit nor a marker.
    Other,
    /// Bytes at the end that are no whole record.
    Remainder,
}
