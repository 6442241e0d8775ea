//! Remarks about single events.

/// Reason for a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RemarkKind {
    /// The event has ended. The code is its outcome, the duration that from its trigger to its end.
    Ended,
    /// The event was dropped. The code is the reason.
    Dropped,
    /// A source is missing. The code is the reason, the detail 1 if the source is required.
    Missing,
    /// The filter gave no verdict.
    Quarantined,
    /// The event is one of those that are always traced.
    Sampled,
}

impl RemarkKind {
    const ALL: [Self; 5] = [Self::Ended, Self::Dropped, Self::Missing, Self::Quarantined, Self::Sampled];
}

/// A remark about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Reason.
    pub kind: RemarkKind,
    /// Id of the event.
    pub event: u64,
    /// Time in nanoseconds since 1970.
    pub at_ns: u64,
    /// Code of an outcome or of a reason; 0 without one.
    pub code: u8,
    /// [`Remark::INCOMPLETE`] and other bits of an end; otherwise see the kind.
    pub detail: u16,
    /// Id of a source; 0 without one.
    pub source: u32,
    /// Duration in nanoseconds; 0 without one.
    pub duration_ns: u64,
}

impl Remark {
    /// A required source is missing in an event that has ended.
    pub const INCOMPLETE: u16 = 1;
    /// An event that has ended took longer than the limit.
    pub const SLOW: u16 = 2;
    /// An event that has ended was dropped.
    pub const DROPPED: u16 = 4;
    /// An event that has ended is one of those that are always traced.
    pub const SAMPLED: u16 = 8;

    /// Makes a remark without code, detail, source or duration.
    #[must_use]
    pub const fn new(kind: RemarkKind, event: u64, at_ns: u64) -> Self {
        Self { kind, event, at_ns, code: 0, detail: 0, source: 0, duration_ns: 0 }
    }

    /// Returns whether nothing is wrong with the event.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        self.kind == RemarkKind::Sampled || (self.kind == RemarkKind::Ended && self.detail == Self::SAMPLED)
    }

    /// Returns whether the event took longer than the limit, and nothing else is wrong with it.
    #[must_use]
    pub fn is_only_slow(&self) -> bool {
        self.kind == RemarkKind::Ended && self.detail & !Self::SAMPLED == Self::SLOW
    }

    pub(super) const fn words(&self) -> [u64; 4] {
        let third = self.kind as u64
            | (self.code as u64) << 8
            | (self.detail as u64) << 16
            | (self.source as u64) << 32;
        [self.event, self.at_ns, third, self.duration_ns]
    }

    /// Reads a remark. Returns `None` if the words are those of no remark.
    #[must_use]
    pub fn from_words([event, at_ns, third, duration_ns]: [u64; 4]) -> Option<Self> {
        let [kind, code, low, high, source @ ..] = third.to_le_bytes();
        Some(Self {
            kind: *RemarkKind::ALL.get(usize::from(kind))?,
            event,
            at_ns,
            code,
            detail: u16::from_le_bytes([low, high]),
            source: u32::from_le_bytes(source),
            duration_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_survives_its_words() {
        for kind in RemarkKind::ALL {
            let remark = Remark {
                kind,
                event: u64::MAX - 3,
                at_ns: 1 << 60,
                code: 250,
                detail: 40_000,
                source: u32::MAX - 1,
                duration_ns: 1 << 50,
            };
            assert_eq!(Remark::from_words(remark.words()), Some(remark));
        }
        assert_eq!(Remark::from_words([0, 0, 77, 0]), None);
    }
}
