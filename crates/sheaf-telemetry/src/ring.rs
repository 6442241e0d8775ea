//! Memory through which a thread publishes a sequence of entries, of which readers get the last ones.
//!
//! A writer overwrites the oldest entry and never waits. A reader copies what is new, then looks which of it the writer may have
//! overwritten meanwhile, and discards that. So a reader never gets words of two entries, and it knows how many it has missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Published entries of `WORDS` words each.
#[derive(Debug)]
pub struct Ring<const WORDS: usize> {
    /// Number of entries that were ever published.
    head: AtomicU64,
    /// A power of two of entries.
    entries: Box<[[AtomicU64; WORDS]]>,
}

impl<const WORDS: usize> Ring<WORDS> {
    /// Returns the number of entries that it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn place(&self, number: u64) -> &[AtomicU64; WORDS] {
        &self.entries[self.index(number)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits count")]
    fn index(&self, number: u64) -> usize {
        number as usize & (self.entries.len() - 1)
    }
}

/// The side of the thread that publishes. There is one for each [`Ring`].
#[derive(Debug)]
pub struct RingWriter<const WORDS: usize> {
    ring: Arc<Ring<WORDS>>,
    head: u64,
}

impl<const WORDS: usize> RingWriter<WORDS> {
    /// Makes the memory for at least `capacity` entries.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let entry = |_| std::array::from_fn(|_| AtomicU64::new(0));
        let entries = (0..capacity.max(1).next_power_of_two()).map(entry).collect();
        Self { ring: Arc::new(Ring { head: AtomicU64::new(0), entries }), head: 0 }
    }

    /// Returns the memory, for readers.
    #[must_use]
    pub fn ring(&self) -> Arc<Ring<WORDS>> {
        self.ring.clone()
    }

    /// Publishes an entry.
    #[inline]
    pub fn push(&mut self, entry: [u64; WORDS]) {
        // A reader that sees one of the words below must also see that all entries before this one were published.
        fence(Ordering::Release);
        for (place, word) in self.ring.place(self.head).iter().zip(entry) {
            place.store(word, Ordering::Relaxed);
        }
        self.head += 1;
        self.ring.head.store(self.head, Ordering::Release);
    }
}

/// The side of a reader. Each has its own place in the sequence.
#[derive(Debug)]
pub struct RingReader<const WORDS: usize> {
    ring: Arc<Ring<WORDS>>,
    /// Number of the next entry to read.
    next: u64,
    copy: Vec<[u64; WORDS]>,
}

impl<const WORDS: usize> RingReader<WORDS> {
    /// Makes a reader of all entries that the ring has and will have.
    #[must_use]
    pub fn new(ring: Arc<Ring<WORDS>>) -> Self {
        Self { ring, next: 0, copy: Vec::new() }
    }

    /// Returns the number of entries that the ring holds: at most so many are passed on at once.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Returns the entries that were published since the last call, oldest first, and the number of those that were overwritten before
    /// they could be read.
    pub fn read(&mut self) -> (&[[u64; WORDS]], u64) {
        let capacity = self.ring.entries.len();
        let head = self.ring.head.load(Ordering::Acquire);
        let first = self.next.max(head.saturating_sub(capacity as u64));
        let count = usize::try_from(head - first).unwrap_or(usize::MAX);
        let begin = self.ring.index(first);
        let (to_the_end, from_the_start) =
            (count.min(capacity - begin), count.saturating_sub(capacity - begin));
        let entries = &self.ring.entries;
        let entries = entries[begin..begin + to_the_end].iter().chain(&entries[..from_the_start]);
        self.copy.clear();
        self.copy.extend(entries.map(|entry| entry.each_ref().map(|word| word.load(Ordering::Relaxed))));
        // The second look at the head must come after all these loads. The entry with its number may be half written.
        fence(Ordering::Acquire);
        let overwritten = (self.ring.head.load(Ordering::Relaxed) + 1).saturating_sub(capacity as u64);
        let valid = first.max(overwritten).min(head);
        let skip = usize::try_from(valid - first).unwrap_or(usize::MAX);
        let lost = valid - self.next;
        self.next = head;
        (&self.copy[skip..], lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of an entry, which tell its number.
    fn entry(number: u64) -> [u64; 3] {
        [number, !number, number.wrapping_mul(0x9E37_79B9_7F4A_7C15)]
    }

    #[test]
    fn a_reader_gets_whole_entries_in_order_and_knows_what_it_missed() {
        const ENTRIES: u64 = 400_000;
        for capacity in [2, 16, 1024] {
            let mut writer = RingWriter::<3>::new(capacity);
            let mut reader = RingReader::new(writer.ring());
            std::thread::scope(|scope| {
                let reading = scope.spawn(move || {
                    let (mut seen, mut lost, mut last) = (0, 0, None);
                    while seen + lost < ENTRIES {
                        let (in_this_read, missed) = reader.read();
                        lost += missed;
                        for words in in_this_read {
                            assert_eq!(*words, entry(words[0]), "torn");
                            assert!(last < Some(words[0]), "not in order");
                            last = Some(words[0]);
                            seen += 1;
                        }
                    }
                    (seen, lost)
                });
                (0..ENTRIES).for_each(|number| writer.push(entry(number)));
                let (seen, lost) = reading.join().expect("the reader does not panic");
                assert_eq!(seen + lost, ENTRIES);
            });
        }
    }

    #[test]
    fn a_reader_that_keeps_up_misses_nothing() {
        let mut writer = RingWriter::<1>::new(8);
        let mut reader = RingReader::new(writer.ring());
        let mut seen = Vec::new();
        for number in 0..100 {
            writer.push([number]);
            if number % 7 == 6 || number == 99 {
                let (entries, lost) = reader.read();
                assert_eq!(lost, 0);
                seen.extend(entries.iter().flatten().copied());
            }
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert_eq!(reader.read(), (&[][..], 0));
    }

    #[test]
    fn entries_that_were_overwritten_are_counted() {
        let mut writer = RingWriter::<1>::new(8);
        let mut reader = RingReader::new(writer.ring());
        (0..20).for_each(|number| writer.push([number]));
        // The oldest place may be written at this moment, so it counts as overwritten.
        let (entries, lost) = reader.read();
        assert_eq!(lost, 13);
        assert!(entries.iter().flatten().copied().eq(13..20), "{entries:?}");
    }
}
