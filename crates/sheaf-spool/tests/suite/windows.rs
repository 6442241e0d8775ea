//! Random windows of random recordings equal a plain filter, and what is missing has a reason.

use crate::recording::{SLICE_PS, TestSlice, ask, filter, found, options, record, recordings};
use proptest::prelude::*;
use sheaf_spool::Archive;
use sheaf_wire::HitInterval;
use sheaf_wire::SourceId;
use sheaf_wire::spool_link::GapReason;
use std::time::Duration;

/// Returns the interval of a source's slices.
fn extent(slices: &[TestSlice], source: u32) -> Option<HitInterval> {
    let own = slices.iter().filter(|slice| slice.source == SourceId(source));
    own.map(TestSlice::interval).reduce(|one, other| one.hull(other))
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    #[test]
    fn a_window_has_exactly_the_hits_of_a_plain_filter_and_gaps_where_nothing_was_recorded(
        slices in recordings(), segment in 400..4_000_u64,
        windows in prop::collection::vec((0..4_000_u64, 0..1_500_u64, prop::collection::vec(0..6_u32, 0..3)), 1..6),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut recording = options(directory.path(), 1, 1 << 30);
        recording.segment = sheaf_wire::ByteCount(segment);
        let books = record(recording, &slices);
        prop_assert!(books.is_balanced() && books.lost() == 0 && books.waiting == 0, "{:?}", books);
        let (archive, damages) = Archive::open(directory.path()).unwrap();
        prop_assert!(damages.is_empty());
        for (from_ps, length, mut sources) in windows {
            sources.sort_unstable();
            sources.dedup();
            let window = HitInterval { from_ps, until_ps: from_ps + length };
            let answer = ask(&archive, window, &sources);
            prop_assert_eq!(found(&answer), filter(&slices, window, &sources));
            for gap in &answer.gaps {
                let held = extent(&slices, gap.source.0);
                let is_right = match gap.reason {
                    GapReason::UnknownSource => held.is_none(),
                    GapReason::NotRecorded => held.is_some_and(|held| gap.interval.until_ps <= held.from_ps),
                    GapReason::Ended => held.is_some_and(|held| gap.interval.from_ps >= held.until_ps),
                    _ => false,
                };
                prop_assert!(is_right, "{:?}", gap);
            }
            // Every moment of the window is either held or in a gap.
            for source in sources {
                let own = answer.gaps.iter().filter(|gap| gap.source == SourceId(source));
                let missing: u64 = own.map(|gap| gap.interval.until_ps - gap.interval.from_ps).sum();
                let held = extent(&slices, source).and_then(|held| held.common(window));
                prop_assert_eq!(missing + held.map_or(0, |held| held.until_ps - held.from_ps), length);
            }
        }
    }

    #[test]
    fn a_ring_keeps_the_latest_hits_within_its_size_and_says_that_earlier_ones_are_no_longer_held(
        slices in recordings(), keep in 1_500..6_000_u64,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let books = record(options(directory.path(), 1, keep), &slices);
        prop_assert!(books.is_balanced() && books.lost() == 0, "{:?}", books);
        let sizes = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        let total: u64 = sizes.sum();
        prop_assert!(total <= keep, "{} bytes of {}", total, keep);
        let (archive, _) = Archive::open(directory.path()).unwrap();
        let window = HitInterval { from_ps: 0, until_ps: 1_000 * SLICE_PS };
        let answer = ask(&archive, window, &[]);
        let (kept, all) = (found(&answer), filter(&slices, window, &[]));
        let mut deleted = 0;
        for (source, hits) in &all {
            let kept = kept.get(source).cloned().unwrap_or_default();
            prop_assert!(hits.ends_with(&kept), "the latest are kept");
            deleted += hits.len() - kept.len();
            let before = answer.gaps.iter().find(|gap| gap.source == *source && gap.interval.from_ps == 0);
            let reason = before.map(|gap| gap.reason);
            if hits.len() > kept.len() && !kept.is_empty() {
                prop_assert_eq!(reason, Some(GapReason::Deleted));
            }
        }
        prop_assert!(deleted == 0 || books.segments_deleted > 0);
    }
}

#[test]
fn recordings_have_timelines_of_their_own_and_the_latest_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let slice = |value| TestSlice {
        source: SourceId(1),
        number: 5,
        hits: vec![sheaf_wire::Hit { time_ps: 510, channel: 1, value, extra: 0 }],
    };
    record(options(directory.path(), 1, 1 << 20), &[slice(1)]);
    record(options(directory.path(), 2, 1 << 20), &[slice(2)]);
    let (archive, _) = Archive::open(directory.path()).unwrap();
    let window = HitInterval { from_ps: 500, until_ps: 600 };
    let answer = ask(&archive, window, &[]);
    assert_eq!(found(&answer), filter(&[slice(2)], window, &[]));
    assert_eq!(archive.sessions().len(), 2);
}

#[test]
fn hits_that_wait_are_written_when_their_time_is_up_and_can_be_asked_for_while_recording() {
    let directory = tempfile::tempdir().unwrap();
    let mut recording = options(directory.path(), 1, 1 << 20);
    recording.block = sheaf_wire::ByteCount::mib(1);
    let interval = recording.interval;
    let now = recording.start;
    let (mut spool, _) = sheaf_spool::Spool::open(recording).unwrap();
    let slice = TestSlice {
        source: SourceId(1),
        number: 5,
        hits: vec![sheaf_wire::Hit { time_ps: 510, channel: 1, value: 7, extra: 0 }],
    };
    spool.take(slice.source, slice.interval(), &slice.payload(), now).unwrap();
    assert_eq!(spool.books().waiting, 1);
    spool.tend(now + interval);
    while spool.books().spooled == 0 {
        std::thread::sleep(Duration::from_micros(50));
    }
    let window = HitInterval { from_ps: 500, until_ps: 700 };
    let answer = ask(spool.archive(), window, &[1]);
    assert_eq!(found(&answer), filter(&[slice], window, &[]));
    let reasons: Vec<_> = answer.gaps.iter().map(|gap| (gap.interval.from_ps, gap.reason)).collect();
    assert_eq!(reasons, [(600, GapReason::Awaited)]);
    assert!(spool.finish(now).is_balanced());
}

#[test]
fn hits_of_a_source_that_has_not_come_yet_are_awaited() {
    let directory = tempfile::tempdir().unwrap();
    let mut recording = options(directory.path(), 1, 1 << 20);
    recording.sources = vec![SourceId(1), SourceId(2)];
    recording.metadata = r#"{"sources":[1,2]}"#.to_owned();
    let now = recording.start;
    let (mut spool, _) = sheaf_spool::Spool::open(recording).unwrap();
    let window = HitInterval { from_ps: 500, until_ps: 600 };
    let reasons = |archive: &Archive, sources: &[u32]| -> Vec<_> {
        ask(archive, window, sources).gaps.iter().map(|gap| (gap.source.0, gap.reason)).collect()
    };
    assert_eq!(reasons(spool.archive(), &[]), [(1, GapReason::Awaited), (2, GapReason::Awaited)]);
    assert_eq!(reasons(spool.archive(), &[2, 7]), [(2, GapReason::Awaited), (7, GapReason::UnknownSource)]);
    let slice = TestSlice { source: SourceId(1), number: 5, hits: Vec::new() };
    spool.take(slice.source, slice.interval(), &[], now).unwrap();
    assert!(spool.finish(now).is_balanced());
    let (archive, _) = Archive::open(directory.path()).unwrap();
    assert_eq!(reasons(&archive, &[]), [(2, GapReason::UnknownSource)], "it never came");
}
