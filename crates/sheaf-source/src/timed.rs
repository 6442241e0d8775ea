//! Self-triggered front ends, which send packets of hits with times and no event numbers: captured, or live.
//!
//! | module | holds |
//! |---|---|
//! | [`decode`] | [`Decoder`]: reads packets, with one implementation for each kind of front end |
//! | [`hit_records`] | front ends that are described by their fields |
//! | [`vmm3a`] | the VMM3a chips behind RD51's scalable readout system |
//! | [`capture`] | [`Capture`]: the UDP payloads of a pcap or pcapng file |
//! | [`feed`] | [`SliceFeed`]: packets in, time slices out, with accounts of both |
//! | [`sources`] | [`CaptureSource`], [`UdpSource`]: sources whose events are time slices |
//! | [`slice_source`] | [`SliceSource`]: makes time slices of the fragments of any other source |
//!
//! A source is one front-end card. Several may be behind one socket or in one file: each source takes the packets of its
//! card and leaves the others.

pub mod capture;
pub mod decode;
pub mod feed;
pub mod hit_records;
pub mod slice_source;
pub mod sources;
#[cfg(test)]
mod testing;
pub mod vmm3a;

pub use capture::{Capture, CaptureError};
pub use decode::{CounterBits, DecodeFailure, Decoder, Packet, PacketError, PacketHead, Reading};
pub use feed::{FeedBooks, FeedConfig, HitTimes, SliceFeed};
pub use hit_records::{CardNumber, HitDescription, HitRecords, RecordKinds, TimeFields};
pub use slice_source::SliceSource;
pub use sources::{CaptureSource, DecoderMaker, TimedSourceError, UdpSource};
pub use vmm3a::Vmm3a;
