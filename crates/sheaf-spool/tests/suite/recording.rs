//! Random recordings, and what a plain filter finds in them.

use proptest::prelude::*;
use sheaf_spool::{Archive, CollectedWindow, Spool, SpoolOptions};
use sheaf_wire::HitInterval;
use sheaf_wire::hit::hits;
use sheaf_wire::spool_link::WindowRequest;
use sheaf_wire::{ByteCount, Hit, RunNumber, SourceId, Timestamp};
use std::collections::BTreeMap;
use std::path::Path;

/// Length of a slice in ps.
pub(crate) const SLICE_PS: u64 = 100;

/// One slice of a source.
#[derive(Clone, Debug)]
pub(crate) struct TestSlice {
    pub(crate) source: SourceId,
    pub(crate) number: u64,
    pub(crate) hits: Vec<Hit>,
}

impl TestSlice {
    pub(crate) const fn interval(&self) -> HitInterval {
        HitInterval { from_ps: self.number * SLICE_PS, until_ps: (self.number + 1) * SLICE_PS }
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        self.hits.iter().flat_map(|hit| hit.to_bytes()).collect()
    }
}

/// Slices of up to four sources, each of consecutive numbers, in a random order of sources.
pub(crate) fn recordings() -> impl Strategy<Value = Vec<TestSlice>> {
    let slice = (0..4_u32, prop::collection::vec((0..SLICE_PS, any::<u16>()), 0..6));
    prop::collection::vec(slice, 1..120).prop_map(|slices| {
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        let mut taken = Vec::new();
        for (source, hits) in slices {
            let number = next.entry(source).or_insert(3);
            let begin = *number * SLICE_PS;
            let mut hits: Vec<_> = hits
                .into_iter()
                .map(|(at, value)| Hit { time_ps: begin + at, channel: source, value, extra: 0 })
                .collect();
            hits.sort();
            taken.push(TestSlice { source: SourceId(source), number: *number, hits });
            *number += 1;
        }
        taken
    })
}

/// Options of a spool of tests, whose time of recording is `start`.
pub(crate) fn options(directory: &Path, start: u64, keep: u64) -> SpoolOptions {
    let mut options = SpoolOptions::new(directory, RunNumber(3), Timestamp(start), ByteCount(keep));
    options.block = ByteCount(200);
    // Tests are about the death of processes, not of machines.
    options.sync = false;
    options
}

/// Records slices.
pub(crate) fn record(options: SpoolOptions, slices: &[TestSlice]) -> sheaf_spool::SpoolBooks {
    let now = options.start;
    let (mut spool, _) = Spool::open(options).unwrap();
    for slice in slices {
        spool.take(slice.source, slice.interval(), &slice.payload(), now).unwrap();
    }
    spool.finish(now)
}

/// Returns what an archive answers.
pub(crate) fn ask(archive: &Archive, window: HitInterval, sources: &[u32]) -> CollectedWindow {
    let sources = sources.iter().map(|source| *source..=*source).collect();
    let request = WindowRequest { number: 1, window, session: None, sources };
    let mut collected = CollectedWindow::default();
    let done = archive.answer(&request, &mut |answer| {
        collected.add(answer);
        Ok(())
    });
    let done = done.unwrap();
    assert_eq!((done.hits, done.gaps as usize), (collected.hit_count(), collected.gaps.len()));
    collected
}

/// The hits of a window by a plain filter of all hits.
pub(crate) fn filter(
    slices: &[TestSlice],
    window: HitInterval,
    sources: &[u32],
) -> BTreeMap<SourceId, Vec<Hit>> {
    let mut found: BTreeMap<SourceId, Vec<Hit>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| sources.is_empty() || sources.contains(&slice.source.0)) {
        let own = slice.hits.iter().filter(|hit| window.contains(hit.time_ps));
        found.entry(slice.source).or_default().extend(own);
    }
    found.retain(|_, hits| !hits.is_empty());
    found
}

/// The hits of a window, without sources that have none.
pub(crate) fn found(window: &CollectedWindow) -> BTreeMap<SourceId, Vec<Hit>> {
    let parsed = window.hits.iter().map(|(source, payload)| (*source, hits(payload).unwrap().collect()));
    parsed.filter(|(_, hits): &(_, Vec<Hit>)| !hits.is_empty()).collect()
}
