//! Frames over TCP.
//!
//! Any two nodes share one connection, used both ways; the configuration defines which of them calls. Both greet first
//! (node, run, session, largest frame), so that strangers, leftovers of other runs and other releases are refused with
//! a reason before a link comes up. Frames then follow each other, each behind an 8-byte prefix of two lengths. An
//! endpoint that is closed says goodbye; a stream that ends without one was lost. [`framing`] has the layouts,
//! `docs/reference/tcp-framing.md` describes the protocol.
//!
//! A link may have several connections, its rails: frames are then numbered, kept until they are acknowledged, moved to
//! another rail when theirs is lost, and delivered in order.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the knobs, each with its default |
//! | [`framing`] | the byte layouts |
//! | `greeting` | identity of the other side, and whether it is acceptable |
//! | `deframer`, `blocks` | from received bytes to frames, without a socket; the receive memory |
//! | `outbox` | frames that wait to be written, and how much of them is written |
//! | `link`, `sequence` | a link and its rails; the order of frames over several rails, without a socket |
//! | `socket` | the system calls, and options of sockets |
//! | `kernel` | whether the peer's machine answers, as known by the local kernel |
//! | `endpoint` | the endpoint: rounds, sleep, and the port |
//! | `traffic` | reading from and writing to links that are up, and their end |
//! | `notice` | how other threads end a wait |
//! | `manner` | whether an endpoint is a node, a host of guests or a guest |
//! | `guests` | callers that no configuration names: they join and leave while the endpoint works |
//! | `meeting` | accepting, calling, greeting |
//! | `proving` | how both sides prove that they have the key of the run |
//! | `standing` | decision on a greeting, given the existing link |
//! | `tls` | certificates, and conversion between bytes and records |
//! | `stream` | a connection without frames, for protocols of their own |
//! | `dialer` | time and address of each call to a peer |
//!
//! # Costs
//! A write takes many frames, up to 1,024 pieces and half a megabyte; a read takes up to 256 KiB. Only the kernel
//! copies payload. A link whose kernel buffer is full is written to again when the kernel signals that a third of it is
//! free.

mod blocks;
mod deframer;
mod dialer;
mod endpoint;
pub mod framing;
mod fuzz;
pub(crate) mod greeting;
mod guests;
#[cfg(target_os = "linux")]
mod kernel;
mod link;
mod manner;
mod meeting;
mod notice;
mod outbox;
mod proving;
mod sequence;
mod settings;
mod socket;
mod standing;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod traffic;

pub use blocks::Blocks;
pub use deframer::{Deframer, FrameError, Item};
pub use endpoint::TcpEndpoint;
#[doc(hidden)]
pub use fuzz::{fuzz_tcp_greeting, fuzz_tcp_stream, tcp_greeting_seeds};
pub use guests::{GuestError, GuestId, GuestOptions, HostEvent, HostOptions, TcpGuest, TcpHost};
pub use settings::{PeerAddress, TcpError, TcpOptions, TcpSettings};
pub use stream::SecureStream;
pub use tls::{Tls, TlsError, TlsFiles};
