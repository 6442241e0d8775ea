//! The vocabulary of Sheaf: identifiers, units, messages, and byte layouts.
//!
//! | module | holds |
//! |---|---|
//! | [`ids`] | run, event, source, node and session numbers |
//! | [`units`] | instants, durations and sizes, each a type of its own |
//! | [`interval`] | intervals of the timeline that hits share |
//! | [`exact`] | durations of any rational number of nanoseconds, and drifts of clocks |
//! | [`reason`] | reasons for dropped fragments and events, and for missing sources: the names in every ledger |
//! | [`fragment`] | a fragment, a super-fragment and an event, generic over the payload handle |
//! | [`number_mark`] | mark of a fragment whose event number disagrees with others, or was changed |
//! | [`message`] | the messages between readout units, builder units and the event manager |
//! | [`datagram`] | the datagrams of links that recover from loss |
//! | [`file`](mod@file) | common parts of the two file formats: errors, limits, the header's checksum |
//! | [`stream_file`] | the fragment stream: one file per source, for replay and import |
//! | [`event_file`] | the event file: built events on disk |
//! | [`run_record`] | information that belongs to a run and to no event |
//! | [`verdict`] | verdict of a filter on an event: accepted or not, tags, a payload |
//! | [`window`] | windows in time, where a filter found something in a time slice |
//! | [`key_proof`] | proofs of the key of a run, as consumers and trigger supervisors exchange them |
//! | [`source_names`] | names of sources, for people |
//! | [`spool_file`] | a segment of a hit spool on disk |
//! | [`link_frame`] | frames of the links to consumers and to hit spools |
//! | [`spool_link`] | messages between a hit spool and programs that ask it for windows |
//! | [`tap`] | messages between a builder's door and consumers |
//! | [`trigger`] | types of emulated triggers |
//! | [`feed`] | the source protocol: messages between a readout unit and the programs that feed it |
//! | [`trigger_link`] | the trigger protocol: messages between the event manager and a trigger supervisor |
//! | `parts` | parts of the messages of these two |
//! | `codes` | enums whose values have a code and a name |
//! | [`exclusion_record`] | run records about sources that an operator has excluded |
//! | [`shift_record`] | run records about sources whose event numbers are off |
//! | [`hit`] | content of a fragment of a time slice |
//! | [`ethernet`] | the frame of raw Ethernet |
//! | [`checksum`] | CRC-32C |
//! | [`machine`] | identity and deadline of a sans-IO machine |
//! | [`mix`] | deterministic mixing of numbers |
//! | [`time_base`] | unit and zero of the times in a file |
//! | [`times`] | rate of log lines about events that may repeat without end |
//!
//! This crate defines the bytes of every message between roles and of every file. Every layout is declared once, as a
//! `#[repr(C)]` struct of little-endian fields whose documentation is the field table; parsing borrows, checks lengths
//! and checksums once, and returns a validated value or a typed error. The crate does no I/O, reads no clock and holds
//! no `unsafe`.

#![forbid(unsafe_code)]

pub mod checksum;
mod codes;
pub mod datagram;
pub mod ethernet;
pub mod event_file;
pub mod exact;
pub mod exclusion_record;
pub mod farm;
pub mod feed;
pub mod file;
pub mod fragment;
#[doc(hidden)]
pub mod fuzz;
pub mod hit;
pub mod ids;
pub mod interval;
pub mod key_proof;
pub mod link_frame;
pub mod machine;
pub mod message;
pub mod mix;
pub mod number_mark;
mod parts;
pub mod reason;
pub mod run_record;
pub mod shift_record;
pub mod source_names;
pub mod spool_file;
pub mod spool_link;
pub mod stream_file;
pub mod tap;
#[doc(hidden)]
pub mod testing;
pub mod time_base;
pub mod times;
pub mod trigger;
pub mod trigger_link;
pub mod units;
pub mod verdict;
pub mod window;

pub use exact::{ClockDrift, ExactNanos};
pub use fragment::{Event, Fragment, MissingSource, Payload, Span, SuperFragment};
pub use hit::Hit;
pub use ids::{EventId, NodeId, Role, RunNumber, SessionId, SourceId, Term, TriggerType};
pub use interval::HitInterval;
pub use number_mark::NumberMark;
pub use reason::{Account, DropReason, MissingReason, Outcome};
pub use source_names::SourceNames;
pub use time_base::{TimeBase, TimeUnit, UtcTime};
pub use trigger::TriggerMix;
pub use units::{ByteCount, ByteRate, Nanos, Timestamp};
pub use verdict::{FilterFailure, Tags, Verdict};
