//! Slices of many sources to blocks of consecutive times.

use crate::books::SpoolBooks;
use sheaf_wire::HitInterval;
use sheaf_wire::file::FileFormatError;
use sheaf_wire::hit::{HIT_BYTES, HitBytes, NotHits};
use sheaf_wire::spool_file::{BlockHeader, emit_block};
use sheaf_wire::{SourceId, Timestamp};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, IntoBytes};

/// A block, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolBlock {
    /// Its header.
    pub header: BlockHeader,
    /// Its sources, with their hits.
    pub sources: Vec<(SourceId, HitInterval, u32)>,
    /// All of its bytes.
    pub bytes: Vec<u8>,
}

/// Gathers the slices of sources until they are enough for a block.
///
/// The slices of a source come in order. An interval between two of them has no hits: sources leave out empty slices after many
/// others. Slices that come again, and hits outside of their slice, are left out, so that each hit is in one block at most.
#[derive(Debug, Default)]
pub struct Gathering {
    sources: BTreeMap<SourceId, Gathered>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Gathered {
    /// End of the last slice.
    reached_ps: Option<u64>,
    /// Interval and hits since the last block.
    interval: Option<HitInterval>,
    hits: Vec<u8>,
}

impl Gathering {
    /// Takes the slice of a source: its hits, one after another.
    ///
    /// # Errors
    /// If these are no hits. Nothing is taken.
    pub fn take(
        &mut self,
        source: SourceId,
        slice: HitInterval,
        payload: &[u8],
        books: &mut SpoolBooks,
    ) -> Result<(), NotHits> {
        let hits = <[HitBytes]>::ref_from_bytes(payload).map_err(|_| NotHits { bytes: payload.len() })?;
        let gathered = self.sources.entry(source).or_default();
        books.received += hits.len() as u64;
        books.slices += 1;
        let reached_ps = gathered.reached_ps.unwrap_or(slice.from_ps);
        if slice.until_ps <= reached_ps {
            books.repeated += hits.len() as u64;
            return Ok(());
        }
        let wanted = HitInterval { from_ps: reached_ps.max(slice.from_ps), until_ps: slice.until_ps };
        let before = gathered.hits.len();
        if is_ordered_within(hits, wanted) {
            gathered.hits.extend_from_slice(payload);
        } else {
            gathered.take_some(hits, wanted);
        }
        let taken = gathered.hits.len() - before;
        books.in_overlap += hits.len() as u64 - (taken / HIT_BYTES) as u64;
        books.waiting += (taken / HIT_BYTES) as u64;
        self.bytes += taken;
        let interval = HitInterval { from_ps: reached_ps, until_ps: slice.until_ps };
        gathered.interval = Some(gathered.interval.map_or(interval, |whole| whole.hull(interval)));
        gathered.reached_ps = Some(slice.until_ps);
        Ok(())
    }

    /// Returns the number of bytes of hits since the last block.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns what has been gathered, if anything, in the memory of `buffer`.
    ///
    /// # Errors
    /// If it is more than a block can have. It is dropped.
    pub fn make_block(
        &mut self,
        written: Timestamp,
        buffer: Vec<u8>,
    ) -> Result<Option<SpoolBlock>, FileFormatError> {
        self.bytes = 0;
        let parts = || {
            let parts = self.sources.iter();
            parts.filter_map(|(source, part)| Some((*source, part.interval?, &part.hits[..])))
        };
        let count = |hits: &[u8]| (hits.len() / HIT_BYTES) as u32;
        let sources: Vec<_> =
            parts().map(|(source, interval, hits)| (source, interval, count(hits))).collect();
        let made = (!sources.is_empty()).then(|| emit_block(written, parts(), buffer)).transpose();
        for part in self.sources.values_mut() {
            part.interval = None;
            part.hits.clear();
        }
        Ok(made?.map(|(header, bytes)| SpoolBlock { header, sources, bytes }))
    }
}

impl Gathered {
    /// Takes the hits that are in the interval, in order.
    #[cold]
    fn take_some(&mut self, hits: &[HitBytes], wanted: HitInterval) {
        let mut some: Vec<&HitBytes> = hits.iter().filter(|hit| wanted.contains(hit.time_ps.get())).collect();
        some.sort_by_key(|hit| hit.time_ps.get());
        some.iter().for_each(|hit| self.hits.extend_from_slice(hit.as_bytes()));
    }
}

fn is_ordered_within(hits: &[HitBytes], interval: HitInterval) -> bool {
    let (Some(first), Some(last)) = (hits.first(), hits.last()) else { return true };
    interval.contains(first.time_ps.get())
        && interval.contains(last.time_ps.get())
        && hits.windows(2).all(|pair| pair[0].time_ps.get() <= pair[1].time_ps.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_wire::Hit;

    fn payload(times: &[u64]) -> Vec<u8> {
        times.iter().flat_map(|&time_ps| Hit { time_ps, channel: 1, value: 2, extra: 3 }.to_bytes()).collect()
    }

    fn times(payload: &[u8]) -> Vec<u64> {
        sheaf_wire::hit::hits(payload).unwrap().map(|hit| hit.time_ps).collect()
    }

    const fn slice(number: u64) -> HitInterval {
        HitInterval { from_ps: number * 10, until_ps: (number + 1) * 10 }
    }

    proptest! {
        /// Slices of 10 ps with overlaps of up to 5 ps, some left out, some twice.
        #[test]
        fn each_hit_is_in_one_block_whatever_overlaps_and_repetitions_are(
            slices in prop::collection::vec((0..8_u64, prop::collection::vec(0..90_u64, 0..6), any::<bool>()), 0..20),
        ) {
            let (mut gathering, mut books) = (Gathering::default(), SpoolBooks::default());
            let (mut expected, mut found, mut next) = (Vec::new(), Vec::new(), 0);
            for (number, mut all, ends_block) in slices {
                all.sort_unstable();
                gathering.take(SourceId(1), slice(number), &payload(&all), &mut books).unwrap();
                if number >= next {
                    let own = |time: &u64| slice(number).contains(*time);
                    expected.extend(all.into_iter().filter(own));
                    next = number + 1;
                }
                if ends_block && let Some(block) = gathering.make_block(Timestamp(1), Vec::new()).unwrap() {
                    found.extend(times(&block.bytes[48 + 32 * block.sources.len()..]));
                }
            }
            if let Some(block) = gathering.make_block(Timestamp(1), Vec::new()).unwrap() {
                found.extend(times(&block.bytes[48 + 32 * block.sources.len()..]));
            }
            prop_assert_eq!(books.waiting, expected.len() as u64);
            prop_assert!(books.is_balanced());
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_interval_reaches_from_the_last_slice_to_the_end_of_this_one() {
        let (mut gathering, mut books) = (Gathering::default(), SpoolBooks::default());
        let mut take = |gathering: &mut Gathering, number| {
            gathering.take(SourceId(7), slice(number), &[], &mut books).unwrap();
        };
        take(&mut gathering, 2);
        take(&mut gathering, 3);
        let block = gathering.make_block(Timestamp(1), Vec::new()).unwrap().unwrap();
        assert_eq!(block.sources, [(SourceId(7), HitInterval { from_ps: 20, until_ps: 40 }, 0)]);
        assert_eq!(gathering.make_block(Timestamp(1), Vec::new()), Ok(None));
        take(&mut gathering, 9);
        let block = gathering.make_block(Timestamp(1), Vec::new()).unwrap().unwrap();
        assert_eq!(
            block.header.interval,
            HitInterval { from_ps: 40, until_ps: 100 },
            "empty slices are left out"
        );
    }

    #[test]
    fn what_is_not_hits_is_refused() {
        let mut books = SpoolBooks::default();
        let taken = Gathering::default().take(SourceId(1), slice(0), &[0; 17], &mut books);
        assert_eq!(taken, Err(NotHits { bytes: 17 }));
        assert_eq!(books, SpoolBooks::default());
    }
}
