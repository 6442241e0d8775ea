//! Checks that a built event holds what its sources sent.

use bytes::Bytes;
use sheaf_source::content;
use sheaf_wire::checksum::{crc32c, word_sum};
use sheaf_wire::{Event, Fragment};

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

impl ContentCheck {
    /// Checks an event.
    ///
    /// # Errors
    /// Describes the first bad fragment.
    #[inline]
    pub fn check(self, event: &Event<Bytes>) -> Result<(), String> {
        if self == Self::Off { Ok(()) } else { self.check_some(event) }
    }

    fn check_some(self, event: &Event<Bytes>) -> Result<(), String> {
        if self == Self::Read {
            let sum = event.fragments.iter().map(|fragment| word_sum(&fragment.payload));
            // The sum goes nowhere; the compiler must not know.
            std::hint::black_box(sum.fold(0, u64::wrapping_add));
            return Ok(());
        }
        event.fragments.iter().try_for_each(|fragment| self.check_fragment(event, fragment))
    }

    fn check_fragment(self, event: &Event<Bytes>, fragment: &Fragment<Bytes>) -> Result<(), String> {
        let source = fragment.source;
        if fragment.event != event.id {
            return Err(format!("source {source}: a fragment of event {}", fragment.event));
        }
        if let Some(declared) = fragment.checksum {
            let computed = crc32c(&fragment.payload);
            if computed != declared {
                return Err(format!(
                    "source {source}: checksum {computed:08x}, the source said {declared:08x}"
                ));
            }
        }
        // The output of a preprocessor differs from what the source sent.
        if self == Self::Pattern && !fragment.processed {
            content::check(source, event.id, &fragment.payload)
                .map_err(|mismatch| format!("source {source}: {mismatch}"))?;
        }
        Ok(())
    }
}
