//! Building events by time, for detectors whose front ends have no event numbers.
//!
//! | module | contents |
//! |---|---|
//! | [`moment`] | [`Moment`] and [`Picos`]: the common timeline of all sources, in picoseconds |
//! | [`clock`] | [`Clock`]: maps a source's counter, of any width and tick, to that timeline; follows pulses of a reference |
//! | [`scale`] | [`TickScale`]: converts counts of ticks of any rational length to times, exactly |
//! | [`disorder`] | [`Disorder`]: sorts the items of one source, whose disorder is bounded |
//! | [`slices`] | [`Slicer`]: divides sorted items into time slices of fixed length, with overlap before and after |
//! | [`coincidence`] | [`Coincidence`]: groups items of many sources into clusters, by a gap or a window; also within one slice |
//!
//! The machines are generic over the type of items and do not inspect them. They have no clock, no thread and no input or
//! output; the same calls give the same answers. Each is bounded and counts the losses caused by its bound.
//!
//! # How they fit together
//! A time slice is an event like any other: its number is the event id, and its fragments are the data of each source in that
//! time. A source divides its data into slices ([`Clock`], [`Disorder`], [`Slicer`]), readout units and builder units treat them
//! as events, and clusters are searched for in built slices, in parallel on all builder units. [`coincidence::of_slice`] finds the
//! clusters that begin in a slice: if the overlaps are long enough, every cluster is found in exactly one slice.
//! [`Coincidence`] does the same in one place, without slices.

#![forbid(unsafe_code)]

pub mod clock;
pub mod coincidence;
pub mod disorder;
pub mod moment;
pub mod scale;
pub mod slices;

pub use clock::{Clock, ClockConfig, PulseConfig};
pub use coincidence::{Cluster, Coincidence, CoincidenceConfig, Rule};
pub use disorder::Disorder;
pub use moment::{Moment, Picos};
pub use scale::TickScale;
pub use slices::{Slice, SliceConfig, Slicer};
