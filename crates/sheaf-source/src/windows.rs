//! Windows of time: hits of free-running sources that are kept until triggers request some of them.
//!
//! | module | holds |
//! |---|---|
//! | [`store`] | [`HitStore`]: the latest hits of a source in memory |
//! | [`source`] | [`WindowSource`]: takes the time slices of a source, and gives windows of their hits on request |
//!
//! A window may begin and end anywhere: in one slice, in several, or before another window. The hits of a request are copied once, from
//! memory to the memory of fragments. Hits that no longer fit in memory go to a [`HitArchive`], or are deleted and counted.

pub mod source;
pub mod store;

pub use source::{WindowBooks, WindowSource};
pub use store::HitStore;

use sheaf_wire::HitInterval;
use sheaf_wire::{SourceId, Timestamp};

/// Keeps hits that no longer fit in memory.
pub trait HitArchive: Send {
    /// Takes the hits of an interval, which follows the previous one of this source. They have 16 bytes each
    /// ([`sheaf_wire::hit`]) and are in order of time.
    fn keep(&mut self, source: SourceId, interval: HitInterval, hits: &[u8], now: Timestamp);

    /// Appends the hits of an interval that this archive was given.
    ///
    /// # Errors
    /// If it does not have all of them; then some may have been appended.
    fn read(
        &mut self,
        source: SourceId,
        interval: HitInterval,
        now: Timestamp,
        hits: &mut Vec<u8>,
    ) -> Result<(), NotHeld>;
}

/// Reason why an archive does not give hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHeld {
    /// They are about to be written. The request is to be repeated.
    NotYet,
    /// They were deleted to make room, or could not be written or read.
    Lost,
}
