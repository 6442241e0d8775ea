//! The source protocol: a readout unit takes fragments from programs of the user.
//!
//! | module | holds |
//! |---|---|
//! | [`server`] | [`Server`]: the side of a readout unit, for all of its clients |
//! | [`client`] | [`Client`]: the side of a program that feeds sources |
//!
//! The connection between the two is ordered and reliable, or it ends: rings in shared memory, or TCP. The kernel reports its
//! end, also when the other process dies. So neither side needs a heartbeat, and a client that is stopped for a while is not
//! lost.
//!
//! # Fate of a fragment
//! | what happens | what it means |
//! |---|---|
//! | the client has sent it, and the connection ends | it counts only if the readout unit has *received* it; the next welcome contains the number of received fragments |
//! | the readout unit has received it | it is in the memory of the source; it is not sent again |
//! | the readout unit has *accepted* it | it is in exactly one bin of the ledger; the client may discard it |
//! | the run ends before it was accepted | it belongs to no run |
//! | the readout unit restarts | its new session has received nothing; what the old one had accepted is lost, and missing in its events as `readout_restarted` |
//!
//! The readout unit does not know what a client had sent to an earlier session, nor what was lost with an earlier client. So a client
//! that joins during the run is not waited for without limit before its first fragment
//! ([`handle_source_gone`](crate::readout::ReadoutUnit::handle_source_gone)).
//!
//! A client that keeps each fragment until it is accepted, and continues at the number in the welcome, neither loses nor
//! duplicates a fragment when a connection ends.
//!
//! # Records
//! A client may send run records, one of each source at a time. It keeps a record until it is answered, and sends it again on the next
//! connection. The event manager recognises repeats by their numbers. A client that announces it in its hello may send further ones
//! after the end of the run, until it leaves ([`Server::is_recording`]).
//!
//! # Credit
//! Each source has a window of its own, in fragments and in bytes. So a source whose fragments wait for other sources never
//! blocks another source of the same client. Limits are sums since the start of the run and never decrease: a repeated or
//! delayed progress message is harmless.

pub mod client;
mod records;
pub mod server;

pub use client::{Client, ClientError, ClientEvent, Credit};
pub use server::{Admission, ClientId, Server, ServerConfig, ServerEvent};

#[cfg(test)]
mod tests;
