//! The link between a run and the agents on other hosts that start its nodes.
//!
//! Both ends have a [`Conversation`]: opaque messages that arrive once and in order, in both directions, also when the connection is lost and
//! made again. The run [calls](call) an agent, whose [`Door`] gives out a conversation for each call.
//!
//! A connection is TLS 1.3 over TCP, between raw public keys that each process makes for itself. They prove nothing. The secret that both
//! ends share does: each proves that it has it, for this TLS session, before anything else is sent or read. So somebody in the middle, who
//! has a session of his own with each end, has a valid proof for neither.
//!
//! | module | holds |
//! |---|---|
//! | `frame` | the units of a connection |
//! | `exchange` | numbers, acknowledgements and bounds of a conversation, without IO |
//! | `conversation` | an end of a conversation, for several threads |
//! | `secure` | TLS, and the proofs of both ends |
//! | `pump` | moves frames between a connection and a conversation |
//! | `caller` | calls an agent, and calls again |
//! | `door` | answers calls |
//!
//! Deliberately not part of this crate: the content of messages, and processes.

mod caller;
mod conversation;
mod door;
mod exchange;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod pump;
mod secure;
#[cfg(test)]
mod tests;

pub use caller::call;
pub use conversation::{Conversation, EndReason, Received, SendError};
pub use door::Door;
pub use frame::LONGEST_MESSAGE;

use std::time::Duration;

/// Settings of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// Time without a connection after which the conversation is over.
    pub patience: Duration,
    /// Time in which a connection must be made and proven.
    pub connect_timeout: Duration,
    /// Bytes of messages that wait to be acknowledged, and of those that wait to be received, at most.
    pub room: usize,
}
