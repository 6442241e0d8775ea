//! The latest hits of a source in memory.

use sheaf_wire::HitInterval;
use sheaf_wire::hit::{HIT_BYTES, hits_in};
use std::collections::VecDeque;

/// Bytes of a chunk in a large store.
const CHUNK_BYTES: usize = 256 << 10;

/// Number of chunks in a store, at least: the part of it that is given up at a time.
const LEAST_CHUNKS: usize = 16;

/// Smallest chunk.
const LEAST_CHUNK_BYTES: usize = 4 << 10;

/// The hits of consecutive slices, in order of time.
#[derive(Debug)]
pub struct Chunk {
    interval: HitInterval,
    hits: Vec<u8>,
}

impl Chunk {
    /// Returns the interval of which the chunk has all hits.
    #[must_use]
    pub const fn interval(&self) -> HitInterval {
        self.interval
    }

    /// Returns its hits, of 16 bytes each.
    #[must_use]
    pub fn hits(&self) -> &[u8] {
        &self.hits
    }

    /// Returns those in an interval.
    fn hits_in(&self, interval: HitInterval) -> &[u8] {
        hits_in(&self.hits, interval)
    }
}

/// The latest hits of a source: a ring of chunks, of a bounded size. Intervals of time that are next to each other share a chunk, so that
/// a search passes few chunks and memory is allocated rarely.
#[derive(Debug)]
pub struct HitStore {
    chunks: VecDeque<Chunk>,
    /// Bytes of memory that all chunks have.
    bytes: usize,
    most_bytes: usize,
    chunk_bytes: usize,
    /// End of the oldest part, which is no longer here. 0 if everything is.
    kept_from_ps: u64,
    /// End of the latest slice.
    until_ps: u64,
    /// Memory of a chunk that was given up.
    spare: Option<Vec<u8>>,
}

impl HitStore {
    /// Creates a store with this amount of memory, of which it uses at least 64 KiB.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        let chunk_bytes = (most_bytes / LEAST_CHUNKS).clamp(LEAST_CHUNK_BYTES, CHUNK_BYTES);
        Self {
            chunks: VecDeque::new(),
            bytes: 0,
            most_bytes: most_bytes.max(LEAST_CHUNKS * LEAST_CHUNK_BYTES),
            chunk_bytes: chunk_bytes / HIT_BYTES * HIT_BYTES,
            kept_from_ps: 0,
            until_ps: 0,
            spare: None,
        }
    }

    /// Returns the end of the latest slice: hits that come later are not earlier than this.
    #[must_use]
    pub const fn until_ps(&self) -> u64 {
        self.until_ps
    }

    /// Returns the moment from which on all hits are here.
    #[must_use]
    pub const fn kept_from_ps(&self) -> u64 {
        self.kept_from_ps
    }

    /// Returns whether hits of this size can be appended without giving up others.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.fits_last(bytes) || self.bytes + bytes.max(self.chunk_bytes) <= self.most_bytes
    }

    fn fits_last(&self, bytes: usize) -> bool {
        self.chunks.back().is_some_and(|chunk| chunk.hits.capacity() - chunk.hits.len() >= bytes)
    }

    /// Appends the hits of a slice, in order of time. The oldest chunks are given to `give_up` until there is room.
    ///
    /// # Panics
    /// If these are not whole hits.
    pub fn append(&mut self, slice: HitInterval, hits: &[u8], mut give_up: impl FnMut(&Chunk)) {
        assert_eq!(hits.len() % HIT_BYTES, 0, "{} bytes are not whole hits", hits.len());
        self.until_ps = slice.until_ps;
        if !self.fits_last(hits.len()) {
            self.make_room(hits.len().max(self.chunk_bytes), &mut give_up);
            let memory = self.take_memory(hits.len().max(self.chunk_bytes));
            self.bytes += memory.capacity();
            self.chunks.push_back(Chunk { interval: slice, hits: memory });
        }
        if let Some(last) = self.chunks.back_mut() {
            last.hits.extend_from_slice(hits);
            last.interval.until_ps = slice.until_ps;
        }
    }

    fn make_room(&mut self, bytes: usize, give_up: &mut impl FnMut(&Chunk)) {
        while self.bytes + bytes > self.most_bytes
            && let Some(oldest) = self.chunks.pop_front()
        {
            give_up(&oldest);
            self.kept_from_ps = oldest.interval.until_ps;
            self.bytes -= oldest.hits.capacity();
            self.spare = Some(oldest.hits);
        }
    }

    fn take_memory(&mut self, bytes: usize) -> Vec<u8> {
        match self.spare.take().filter(|spare| spare.capacity() == bytes) {
            Some(mut spare) => {
                spare.clear();
                spare
            }
            None => Vec::with_capacity(bytes),
        }
    }

    /// Returns the hits of an interval that are here, in order of time.
    pub fn hits_in(&self, interval: HitInterval) -> impl Iterator<Item = &[u8]> {
        let first = self.chunks.partition_point(|chunk| chunk.interval.until_ps <= interval.from_ps);
        let chunks = self.chunks.range(first..);
        chunks
            .take_while(move |chunk| chunk.interval.from_ps < interval.until_ps)
            .map(move |chunk| chunk.hits_in(interval))
    }

    /// Returns the number of hits.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.chunks.iter().map(|chunk| (chunk.hits.len() / HIT_BYTES) as u64).sum()
    }

    /// Returns whether there is no hit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_wire::Hit;

    fn bytes(times: &[u64]) -> Vec<u8> {
        let hit = |time_ps: &u64| Hit { time_ps: *time_ps, channel: 0, value: 0, extra: 0 }.to_bytes();
        times.iter().flat_map(hit).collect()
    }

    proptest! {
        #![proptest_config(sheaf_wire::property_cases!(64))]

        /// Slices of 100 ps, some of them large, in a small store, and windows of any place and length.
        #[test]
        fn a_window_has_what_a_plain_list_has_and_memory_its_bound(
            slices in prop::collection::vec(prop_oneof![9 => 0..40_usize, 1 => 300..2_000_usize], 1..120),
            windows in prop::collection::vec((0..12_000_u64, 0..3_000_u64), 1..30),
        ) {
            let mut store = HitStore::new(64 << 10);
            let (mut all, mut given_up) = (Vec::new(), Vec::new());
            for (number, hits) in (0..).zip(&slices) {
                let slice = HitInterval { from_ps: number * 100, until_ps: number * 100 + 100 };
                let times: Vec<u64> = (0..*hits as u64).map(|hit| slice.from_ps + hit * 100 / *hits as u64).collect();
                let had_room = store.has_room(times.len() * HIT_BYTES);
                let before = given_up.len();
                store.append(slice, &bytes(&times), |chunk| given_up.extend_from_slice(chunk.hits()));
                prop_assert!(!had_room || given_up.len() == before);
                all.extend(times);
                prop_assert!(store.bytes <= store.most_bytes || store.chunks.len() == 1);
            }
            let kept: Vec<u8> = store.hits_in(HitInterval { from_ps: 0, until_ps: u64::MAX }).flatten().copied().collect();
            prop_assert_eq!([given_up, kept].concat(), bytes(&all), "each hit is kept or given up, in order");
            prop_assert_eq!(store.until_ps(), slices.len() as u64 * 100);
            for (from_ps, length) in windows {
                let window = HitInterval { from_ps: from_ps.max(store.kept_from_ps()), until_ps: from_ps + length };
                let expected: Vec<u64> = all.iter().copied().filter(|time| window.contains(*time)).collect();
                let found: Vec<u8> = store.hits_in(window).flatten().copied().collect();
                prop_assert_eq!(found, bytes(&expected));
            }
        }
    }
}
