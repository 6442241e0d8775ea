//! Recovery from loss: delivers messages whole and once, over rails that lose, duplicate and reorder datagrams.
//!
//! | module | holds |
//! |---|---|
//! | this | [`Settings`], [`Counts`], events of a [`Link`] for its driver |
//! | [`link`](mod@link) | a link to one peer: the verbs, and the state common to both directions |
//! | `meeting` | identity and session of the peer, and the rails that reach it |
//! | `proving` | proofs that the peer has the key of the run |
//! | `sending` | messages that are not completely received, and the datagrams in flight with their parts |
//! | `rail` | datagrams in flight on one rail: settled, given up, probed |
//! | `receiving` | received datagrams, reassembly of messages, reports |
//! | `numbers`, `coverage` | sets of numbers and of bytes |
//!
//! # Mechanism
//! A message is cut into parts, and parts of several messages share a *datagram*. Each datagram has a number on its
//! rail, and no number is used twice: lost content is retransmitted in a new datagram, on any rail. For each rail the
//! receiver reports the numbers that it has; the sender treats a datagram as lost when later ones of the same rail have
//! arrived, or after some time without a report. Each message is delivered as soon as it is complete, even if others
//! are not.
//!
//! # Limits
//! It copies nothing: messages to be sent are handles `M`, of which it returns the byte ranges to send; for received
//! messages it returns the destination of each byte range of a datagram, and the driver keeps them in an `A` of its
//! own. It does not decide which peer is served next: the driver does, with a shaper. It reads no clock, draws no
//! random number and contains no cryptography: a [`Prover`] proves the key of the run.
//!
//! The crate knows nothing of the roles: a link carries any message between two nodes.

#![forbid(unsafe_code)]

mod coverage;
#[doc(hidden)]
pub mod fuzz;
pub mod link;
mod meeting;
mod numbers;
mod proving;
mod rail;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub use link::Link;
pub use proving::{Prover, Purpose};

use sheaf_wire::datagram::GreetingRefusal;
use sheaf_wire::{ByteCount, Nanos, RunNumber, SessionId};

/// Cost of a message in a window beyond its bytes, so that small messages are bounded, too.
pub const MESSAGE_COST: u64 = 64;

/// Maximum distance between a message that was begun and the oldest one that was not received: both ends remember that
/// many. The first messages of the two ends differ by at most this, so that 16 bits of a message's number identify it.
const SPAN: usize = 16_384;

/// Maximum number of datagrams in flight on a rail.
const MAX_FLIGHT: usize = 16_384;

/// The bounds and times of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of rails, from 1 to 64; the same on both ends.
    pub rails: usize,
    /// The largest datagram of every rail, in bytes, from 256 to 65,535; the same on both ends.
    pub datagram_bytes: usize,
    /// The largest message, head and payload together, at most 1 GiB.
    pub message_bytes: ByteCount,
    /// Window of the peer: cost of the messages that it may send before the driver has taken them, each with
    /// [`MESSAGE_COST`]. At least two of the largest message.
    pub window: ByteCount,
    /// Bytes of datagrams that the peer may have in flight, which wait at this node until the driver reads them.
    pub flight: ByteCount,
    /// Maximum number of messages that wait to be sent or to be received by the peer, up to 16,384.
    pub queue_messages: usize,
    /// Maximum number of their bytes.
    pub queue: ByteCount,
    /// Maximum delay of the report of an arrival.
    pub report_after: Nanos,
    /// Minimum time before an unreported datagram is probed.
    pub probe_min: Nanos,
    /// The pause before the first repetition of a question. It doubles with each, up to `ask_max`.
    pub ask_min: Nanos,
    /// The longest pause between questions.
    pub ask_max: Nanos,
    /// A peer that is silent for this time counts as lost.
    pub dead_peer: Nanos,
    /// Time after which a peer that does not answer requests gives way to a later session of its node from another
    /// address.
    pub rival: Nanos,
}

impl Default for Settings {
    /// One rail of 1,472 bytes (UDP at an MTU of 1,500); messages of 16 MiB; 1,024 messages and 16 MiB queued; the times
    /// of a local network.
    fn default() -> Self {
        Self {
            rails: 1,
            datagram_bytes: 1_472,
            message_bytes: ByteCount::mib(16),
            window: ByteCount::mib(32),
            flight: ByteCount::kib(256),
            queue_messages: 1_024,
            queue: ByteCount::mib(16),
            report_after: Nanos::from_millis(1),
            probe_min: Nanos::from_millis(2),
            ask_min: Nanos::from_millis(20),
            ask_max: Nanos::from_secs(2),
            dead_peer: Nanos::from_secs(10),
            rival: Nanos::from_secs(10),
        }
    }
}

impl Settings {
    /// The window as it is granted.
    fn granted_window(&self) -> u64 {
        self.window.0.max(2 * cost(self.message_bytes.0))
    }
}

/// Returns the cost of a message of this many bytes in a window.
fn cost(bytes: u64) -> u64 {
    bytes + MESSAGE_COST
}

macro_rules! counts {
    ($($(#[$doc:meta])+ $field:ident,)*) => {
        /// Counts of a link in all its lives.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[$doc])+ pub $field: u64,)* }

        impl std::ops::AddAssign for Counts {
            fn add_assign(&mut self, other: Self) { $(self.$field += other.$field;)* }
        }
    };
}

counts! {
    /// Datagrams of data that were given out to be sent.
    datagrams_sent,
    /// Bytes of messages in them, those that were sent again included.
    bytes_sent,
    /// Datagrams of data that arrived and had not before.
    datagrams_received,
    /// Datagrams that were taken for lost.
    datagrams_lost,
    /// Bytes of messages that were sent again.
    bytes_repeated,
    /// Datagrams that arrived a second time.
    duplicates,
    /// Bytes of messages that arrived a second time.
    bytes_in_vain,
    /// Datagrams of another life of a node: of another run, too.
    stale,
    /// Datagrams whose heads are not as they were sent.
    damaged,
    /// Invalid datagrams.
    malformed,
    /// Datagrams beyond the granted window, dropped.
    beyond_window,
    /// Reports sent.
    reports_sent,
    /// Reports that arrived.
    reports_received,
    /// Times that a rail was probed because it was silent.
    probes,
    /// Rails that joined a link that was up, or came back to it.
    rails_up,
    /// Rails that a link did without from then on.
    rails_down,
    /// Links that came up.
    links_up,
    /// Links that went down.
    links_down,
    /// Links refused, by this side or the other.
    refused,
    /// Those of them whose peer did not prove that it has the key.
    unproven,
    /// Messages that were taken and not all received when a link went down.
    messages_lost,
}

/// Reason why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Too many messages, or too many bytes, wait.
    #[error("the link's queue is full")]
    Full,
    /// The link is not up, or is being closed.
    #[error("the link is not up")]
    NotUp,
    /// The message is larger than one of the two ends takes.
    #[error("the message is larger than the link's maximum of {0}")]
    TooLarge(ByteCount),
}

/// Reason why a link went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    /// In good order: all that the peer had sent was received.
    Closed,
    /// The peer was silent for too long, or had taken this node for lost.
    Lost,
    /// The peer lives anew.
    Replaced,
}

/// Reason why two nodes cannot connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// One of the two refuses the other.
    Greeting {
        /// Reason.
        why: GreetingRefusal,
        /// The run of the peer.
        run: RunNumber,
        /// The peer's session; where an earlier life was refused, the one that is.
        session: SessionId,
    },
    /// Small datagrams reach the peer by this rail, those of full size do not.
    FullSize {
        /// The rail.
        rail: usize,
        /// The size.
        bytes: usize,
    },
}

/// Reason why a link needs to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The peer is not met yet by one of the rails.
    Meet,
    /// The peer waits for a report of received datagrams.
    Acknowledge,
    /// The peer has not reported a datagram.
    Retransmit,
    /// A farewell must be sent.
    Farewell,
    /// A sign of life must be sent.
    KeepAlive,
    /// The peer counts as lost if it stays silent.
    PeerSilent,
}

/// Event on a link, in order.
#[derive(Debug)]
pub enum Happened<A> {
    /// The peer is connected.
    Up,
    /// A message is whole.
    Message(Arrived<A>),
    /// The peer has gone. Data that it has not received are lost.
    Down(Down),
    /// A link does not come up. It is tried again.
    Refused(Refused),
}

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrived<A> {
    /// Memory in which the driver keeps its bytes; `None` if it has none.
    pub memory: Option<A>,
    /// Number of bytes of its head.
    pub head_bytes: usize,
    /// Its bytes.
    pub bytes: usize,
}

/// Destination of a part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRange {
    /// Bytes of the whole message: at most [`Settings::message_bytes`].
    pub total: usize,
    /// Their offset in the message.
    pub offset: usize,
    /// Their range in the datagram's body.
    pub at: std::ops::Range<usize>,
}

/// Source of a datagram, as far as the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// By which rail.
    pub rail: usize,
    /// Whether it came from the address to which datagrams for the peer are sent.
    pub is_home: bool,
    /// Whether only one process can send from that address, so that a later session there proves that the earlier one
    /// is dead.
    pub ends_earlier: bool,
}

impl Origin {
    /// A rail on which every node has exactly one address of its own.
    #[must_use]
    pub const fn home(rail: usize) -> Self {
        Self { rail, is_home: true, ends_earlier: true }
    }
}

/// Knowledge about the sender of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// It may be any node, or changes nothing.
    Unknown,
    /// It may be the peer. It is answered where it is.
    Asks,
    /// It is the peer, at its present address.
    IsPeer,
}

/// A datagram without message bytes, to be sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// By which rail.
    pub rail: usize,
    /// Whether it goes to the source of the last datagram for which [`Link::handle_datagram`] returned
    /// [`Sender::Asks`], instead of to the peer's address.
    pub is_aside: bool,
    /// Number of zeros after the head.
    pub padding: usize,
}

/// The number near `near` whose lower half is `low`.
fn expand(low: u32, near: u64) -> u64 {
    let difference = i64::from(low.wrapping_sub(low_half(near)).cast_signed());
    near.checked_add_signed(difference).unwrap_or(u64::from(low))
}

/// The message near `near` whose number's lowest 16 bits are `low`.
fn expand_message(low: u16, near: u64) -> u64 {
    let difference = i64::from(low.wrapping_sub(low_bits(near)).cast_signed());
    near.checked_add_signed(difference).unwrap_or(u64::from(low))
}

/// The lowest 16 bits of a number.
fn low_bits(number: u64) -> u16 {
    (number & u64::from(u16::MAX)) as u16
}

/// The lower half of a number.
fn low_half(number: u64) -> u32 {
    (number & u64::from(u32::MAX)) as u32
}
