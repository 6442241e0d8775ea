//! Events out of times: for detectors whose front ends have no event number.
//!
//! | module | holds |
//! |---|---|
//! | [`moment`] | [`Moment`] and [`Picos`]: the common timeline of all sources, in picoseconds |
//! | [`clock`] | [`Clock`]: a source's counter, of few bits and any tick, on that timeline |
//! | [`disorder`] | [`Disorder`]: items of one source put in order, as far as its disorder is bounded |
//! | [`slices`] | [`Slicer`]: items in order to time slices of fixed length, with overlap before and after |
//! | [`coincidence`] | [`Coincidence`]: items of many sources to clusters, by a gap or a window; and of one slice alone |
//!
//! The machines are generic over what an item is and do not look at it. They have no clock, no thread and no input or
//! output; the same calls give the same answers. Each is bounded, and counts under a name what its bound cost.
//!
//! # How they fit together
//! A time slice is an event like any other: its number is the event id, its fragments are what each source saw in it. So a
//! source cuts what it sees into slices ([`Clock`], [`Disorder`], [`Slicer`]), readout units and builders treat them as
//! events, and clusters are looked for in built slices, on as many builders as there are. [`coincidence::of_slice`] finds in
//! each slice the clusters that begin in it: with overlaps that are long enough every cluster is found in exactly one.
//! [`Coincidence`] does the same in one place, without slices.

#![forbid(unsafe_code)]

pub mod clock;
pub mod coincidence;
pub mod disorder;
pub mod moment;
pub mod slices;

pub use clock::{Clock, ClockConfig};
pub use coincidence::{Cluster, Coincidence, CoincidenceConfig, Rule};
pub use disorder::Disorder;
pub use moment::{Moment, Picos};
pub use slices::{Slice, SliceConfig, Slicer};
