//! Counters of a spool.

/// Fates of hits and counts of files of a recording. Every hit that was received is in one of `spooled`, `in_overlap`,
/// `repeated`, `queue_full`, `disk_full`, `write_failed` and `waiting` ([`Self::is_balanced`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolBooks {
    /// Hits received.
    pub received: u64,
    /// Hits in segments.
    pub spooled: u64,
    /// Hits outside of their slice: another slice has them, too.
    pub in_overlap: u64,
    /// Hits of slices that had been received before.
    pub repeated: u64,
    /// Hits dropped because the disk was slower than the sources, and the queue full.
    pub queue_full: u64,
    /// Hits dropped because the disk was full, and the spool had no other segment to delete.
    pub disk_full: u64,
    /// Hits dropped because a segment could not be written.
    pub write_failed: u64,
    /// Hits that are not written yet.
    pub waiting: u64,
    /// Slices received.
    pub slices: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Segments begun.
    pub segments: u64,
    /// Segments deleted to make room, of earlier recordings, too.
    pub segments_deleted: u64,
    /// Of them, before the spool had its size, because the disk was full.
    pub segments_deleted_early: u64,
    /// Segments that were closed without an index, because it could not be written.
    pub segments_unindexed: u64,
}

impl SpoolBooks {
    /// Returns whether every hit is in exactly one place.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.received == self.spooled + self.lost() + self.in_overlap + self.repeated + self.waiting
    }

    /// Returns the number of hits that were dropped.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.queue_full + self.disk_full + self.write_failed
    }

    /// Every counter with its name, in a fixed order.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("received", self.received),
            ("spooled", self.spooled),
            ("in_overlap", self.in_overlap),
            ("repeated", self.repeated),
            ("queue_full", self.queue_full),
            ("disk_full", self.disk_full),
            ("write_failed", self.write_failed),
            ("waiting", self.waiting),
            ("slices", self.slices),
            ("blocks", self.blocks),
            ("bytes", self.bytes),
            ("segments", self.segments),
            ("segments_deleted", self.segments_deleted),
            ("segments_deleted_early", self.segments_deleted_early),
            ("segments_unindexed", self.segments_unindexed),
        ]
        .into_iter()
    }
}
