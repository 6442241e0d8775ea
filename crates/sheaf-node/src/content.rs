//! Checks that a built event holds what its sources sent.

use bytes::Bytes;
use sheaf_source::content;
use sheaf_wire::checksum::{crc32c, word_sum};
use sheaf_wire::{Event, EventId, Fragment, SourceId};

/// Content check of every fragment of every built event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentCheck {
    /// Nothing.
    #[default]
    Off,
    /// No check, but every payload byte is read once: the cost of reading the data, for measurements.
    Read,
    /// The checksum, where the source gave one.
    Checksum,
    /// The checksum, and the emulator's pattern of source, event and offset: proves that every byte is in its place.
    Pattern,
}

/// A fragment of a built event that is not what its source sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("source {source_id}: {fault}")]
pub struct BadFragment {
    /// The fragment's source.
    pub source_id: SourceId,
    /// Difference from what the source sent.
    pub fault: FragmentFault,
}

/// Difference between a fragment and what its source sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FragmentFault {
    /// It is of another event.
    #[error("a fragment of event {0}")]
    OtherEvent(EventId),
    /// Its checksum is not the one that the source gave.
    #[error("checksum {computed:08x}, the source said {declared:08x}")]
    Checksum {
        /// CRC-32C of the payload as it is.
        computed: u32,
        /// CRC-32C that the source gave.
        declared: u32,
    },
    /// It is not the emulator's pattern.
    #[error(transparent)]
    Pattern(#[from] content::Mismatch),
}

impl ContentCheck {
    /// Checks an event.
    ///
    /// # Errors
    /// The first bad fragment.
    #[inline]
    pub fn check(self, event: &Event<Bytes>) -> Result<(), BadFragment> {
        if self == Self::Off { Ok(()) } else { self.check_some(event) }
    }

    fn check_some(self, event: &Event<Bytes>) -> Result<(), BadFragment> {
        if self == Self::Read {
            let sum = event.fragments.iter().map(|fragment| word_sum(&fragment.payload));
            // The sum goes nowhere; the compiler must not know.
            std::hint::black_box(sum.fold(0, u64::wrapping_add));
            return Ok(());
        }
        event.fragments.iter().try_for_each(|fragment| self.check_fragment(event, fragment))
    }

    fn check_fragment(self, event: &Event<Bytes>, fragment: &Fragment<Bytes>) -> Result<(), BadFragment> {
        let source_id = fragment.source;
        let bad = |fault| BadFragment { source_id, fault };
        if fragment.event != event.id {
            return Err(bad(FragmentFault::OtherEvent(fragment.event)));
        }
        if let Some(declared) = fragment.checksum {
            let computed = crc32c(&fragment.payload);
            if computed != declared {
                return Err(bad(FragmentFault::Checksum { computed, declared }));
            }
        }
        // The output of a preprocessor differs from what the source sent.
        if self == Self::Pattern && !fragment.processed {
            content::check(source_id, event.id, &fragment.payload)
                .map_err(|mismatch| bad(mismatch.into()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use sheaf_wire::{NumberMark, Timestamp, TriggerType};

    /// The emulator's fragment of a source for an event.
    fn fragment(source: u32, event: u64) -> Fragment<Bytes> {
        let (source, event) = (SourceId(source), EventId(event));
        let mut payload = BytesMut::with_capacity(100);
        content::append(source, event, 100, &mut payload);
        let checksum = Some(crc32c(&payload));
        let payload = payload.freeze();
        Fragment {
            event,
            source,
            time: Timestamp(0),
            checksum,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        }
    }

    fn fault_of(check: ContentCheck, bad: Fragment<Bytes>) -> Option<FragmentFault> {
        let event = Event {
            id: EventId(7),
            time: Timestamp(0),
            trigger_type: TriggerType(0),
            attempt: 1,
            incomplete: false,
            fragments: vec![fragment(1, 7), bad],
            missing: Vec::new(),
        };
        check.check(&event).err().map(|bad| {
            assert_eq!(bad.source_id, SourceId(2), "{bad}");
            bad.fault
        })
    }

    #[test]
    fn each_check_names_the_first_fragment_that_it_finds_bad() {
        use ContentCheck::{Checksum, Off, Pattern, Read};
        for check in [Off, Read, Checksum, Pattern] {
            assert_eq!(fault_of(check, fragment(2, 7)), None, "{check:?}");
        }
        let other = fragment(2, 8);
        assert_eq!(fault_of(Checksum, other.clone()), Some(FragmentFault::OtherEvent(EventId(8))));
        assert_eq!(fault_of(Read, other), None);
        let declared = 1;
        let computed = fragment(2, 7).checksum.expect("it has one");
        let wrong = Fragment { checksum: Some(declared), ..fragment(2, 7) };
        assert_eq!(fault_of(Checksum, wrong), Some(FragmentFault::Checksum { computed, declared }));
        let moved = Fragment { event: EventId(7), ..fragment(2, 8) };
        assert_eq!(fault_of(Checksum, moved.clone()), None, "it is whole");
        assert!(matches!(fault_of(Pattern, moved.clone()), Some(FragmentFault::Pattern(_))));
        assert_eq!(fault_of(Pattern, Fragment { processed: true, ..moved }), None, "a preprocessor made it");
    }
}
