//! Keys of events under construction.

use sheaf_wire::EventId;
use std::num::NonZeroU64;

/// Key of an assembly. It contains event, attempt and part, so that a key that has outlived its assembly or part is
/// detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::builder) struct AssemblyKey {
    pub(in crate::builder) event: EventId,
    /// From the highest bits: the place of the assembly plus one, the attempt, the part. A key of two words is passed in
    /// registers, also within an `Option`. Four small fields are written to memory and read back as a whole, which stalls
    /// the processor until its earlier writes have reached the cache.
    place: NonZeroU64,
}

impl AssemblyKey {
    pub(super) fn new(event: EventId, index: u32, attempt: u16, part: u16) -> Self {
        let place = (u64::from(index) + 1) << 32 | u64::from(attempt) << 16 | u64::from(part);
        Self { event, place: NonZeroU64::new(place).expect("the index and one is not 0") }
    }

    #[expect(clippy::cast_possible_truncation, reason = "indices have 32 bits")]
    pub(super) fn index(self) -> u32 {
        ((self.place.get() >> 32) - 1) as u32
    }

    /// Returns the attempt and part whose answers are awaited.
    #[expect(clippy::cast_possible_truncation, reason = "each has 16 bits")]
    pub(in crate::builder) fn wait(self) -> (u16, u16) {
        ((self.place.get() >> 16) as u16, self.place.get() as u16)
    }

    /// Returns the part that was under construction.
    pub(in crate::builder) fn part(self) -> u16 {
        self.wait().1
    }
}
