//! The vocabulary of Sheaf: what things are called, how they are counted, and how they look as bytes.
//!
//! | module | holds |
//! |---|---|
//! | [`ids`] | run, event, source, node and session numbers |
//! | [`units`] | instants, durations and sizes, each a type of its own |
//! | [`reason`] | why a fragment or an event was dropped, why a source is missing: the names in every ledger |
//! | [`fragment`] | a fragment, a super-fragment and an event, generic over what carries the payload |
//! | [`message`] | the messages between readout units, builder units and the event manager |
//! | [`datagram`] | the datagrams of links that recover from loss |
//! | [`file`](mod@file) | what the two file formats share: errors, limits, the header's checksum |
//! | [`stream_file`] | the fragment stream: one file per source, for replay and import |
//! | [`event_file`] | the event file: built events on disk |
//! | [`verdict`] | what a filter says of an event: accepted or not, tags, a payload |
//! | [`tap`] | between a builder's door and the consumers that look on |
//! | [`trigger`] | which types emulated triggers have |
//! | [`hit`] | what a fragment holds that is part of a time slice |
//! | [`ethernet`] | the frame of raw Ethernet |
//! | [`checksum`] | CRC-32C |
//! | [`machine`] | who a sans-IO machine is, and when it wants to be called |
//! | [`mix`] | deterministic mixing of numbers |
//! | [`times`] | counts in log lines about what may happen without end |
//!
//! Only this crate knows byte layouts. Every layout is declared once, as a `#[repr(C)]` struct of little-endian
//! fields whose documentation is the field table; parsing borrows, checks lengths and checksums once, and returns
//! a validated value or a typed error. The crate does no I/O, reads no clock and holds no `unsafe`.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod datagram;
pub mod ethernet;
pub mod event_file;
pub mod farm;
pub mod file;
pub mod fragment;
#[doc(hidden)]
pub mod fuzz;
pub mod hit;
pub mod ids;
pub mod machine;
pub mod message;
pub mod mix;
pub mod reason;
pub mod stream_file;
pub mod tap;
pub mod times;
pub mod trigger;
pub mod units;
pub mod verdict;

pub use fragment::{Event, Fragment, MissingSource, Payload, Span, SuperFragment};
pub use hit::Hit;
pub use ids::{EventId, NodeId, Role, RunNumber, SessionId, SourceId, TriggerType};
pub use reason::{Account, DropReason, MissingReason, Outcome};
pub use trigger::TriggerMix;
pub use units::{ByteCount, ByteRate, Nanos, Timestamp};
pub use verdict::{Tags, Verdict};
