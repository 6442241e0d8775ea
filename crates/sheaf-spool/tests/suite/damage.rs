//! Segments that a killed process left, and damaged ones.

use crate::recording::{SLICE_PS, ask, filter, found, options, record, recordings};
use proptest::prelude::*;
use sheaf_spool::segment::{SegmentDamage, read_segment, verify_segment};
use sheaf_spool::{Archive, Spool};
use sheaf_wire::HitInterval;
use sheaf_wire::spool_link::GapReason;
use std::path::{Path, PathBuf};

const ALL: HitInterval = HitInterval { from_ps: 0, until_ps: 1_000 * SLICE_PS };

fn last_segment(directory: &Path) -> PathBuf {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "spool")).max().unwrap()
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    /// A process that is killed leaves a file that ends anywhere, also within a block or within the index.
    #[test]
    fn a_segment_cut_anywhere_has_all_whole_blocks_before_the_cut_and_is_repaired(
        slices in recordings(), cut in any::<prop::sample::Index>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        record(options(directory.path(), 1, 1 << 30), &slices);
        let path = last_segment(directory.path());
        let (whole, _) = read_segment(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let start = 64 + whole.metadata.len();
        let cut = start + cut.index(bytes.len() - start);
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let ends = whole.blocks.iter().skip(1).map(|block| block.offset).chain([whole.bytes]);
        let expected = whole.blocks.iter().zip(ends).filter(|(_, end)| *end <= cut as u64).count();
        let (content, damage) = read_segment(&path).unwrap();
        prop_assert_eq!(content.blocks.len(), expected);
        prop_assert_eq!(&content.blocks[..], &whole.blocks[..expected]);
        prop_assert!(damage.unfinished);
        prop_assert_eq!(damage.torn_bytes, cut as u64 - content.bytes);
        let before = ask(&Archive::open(directory.path()).unwrap().0, ALL, &[]);

        let (spool, recovery) = Spool::open(options(directory.path(), 2, 1 << 30)).unwrap();
        prop_assert_eq!(&recovery.repaired, &[(path.clone(), damage)]);
        drop(spool);
        prop_assert_eq!(verify_segment(&path).unwrap(), (content, SegmentDamage::default()));
        let (archive, damages) = Archive::open(directory.path()).unwrap();
        prop_assert_eq!(damages, []);
        let after = ask(&archive, ALL, &[]);
        prop_assert_eq!(found(&after), found(&before));
    }

    #[test]
    fn a_flipped_bit_costs_hits_of_its_block_only_and_never_changes_one(
        slices in recordings(), bit in any::<prop::sample::Index>(), closed: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        record(options(directory.path(), 1, 1 << 30), &slices);
        let path = last_segment(directory.path());
        let (whole, _) = read_segment(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        if !closed {
            bytes.truncate(whole.bytes as usize);
        }
        let start = whole.blocks[0].offset as usize;
        let bit = 8 * start + bit.index(8 * (whole.bytes as usize - start));
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).unwrap();
        let hit_block = whole.blocks.iter().rposition(|block| block.offset as usize <= bit / 8).unwrap();
        let (archive, _) = Archive::open(directory.path()).unwrap();
        let answer = ask(&archive, ALL, &[]);
        let (kept, all) = (found(&answer), filter(&slices, ALL, &[]));
        for (source, hits) in &kept {
            prop_assert!(hits.iter().all(|hit| all[source].contains(hit)));
        }
        let count = |found: &std::collections::BTreeMap<_, Vec<_>>| found.values().map(Vec::len).sum::<usize>();
        prop_assert!(count(&kept) + whole.blocks[hit_block].hits as usize >= count(&all));
        let is_expected = |reason| matches!(reason, GapReason::NotRecorded | GapReason::Ended);
        let has_gap = answer.gaps.iter().any(|gap| matches!(gap.reason, GapReason::Damaged | GapReason::Lost));
        if count(&kept) < count(&all) && (0 < hit_block && hit_block + 1 < whole.blocks.len()) {
            let at_edge = answer.gaps.iter().all(|gap| is_expected(gap.reason));
            prop_assert!(has_gap || at_edge);
        }
        if closed {
            let (_, damage) = verify_segment(&path).unwrap();
            prop_assert!(damage.damaged_blocks > 0 || damage.skipped_bytes + damage.torn_bytes > 0);
            prop_assert!(has_gap, "an index says that there was something");
        }
    }

    #[test]
    fn any_file_with_the_name_of_a_segment_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment-0000000004.spool");
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(read_segment(&path).is_err());
        let (_, recovery) = Spool::open(options(directory.path(), 1, 1 << 30)).unwrap();
        prop_assert_eq!(recovery.unreadable, [path.clone()]);
        prop_assert_eq!(std::fs::read(&path).unwrap(), bytes, "it stays");
    }
}

#[test]
fn two_processes_do_not_record_into_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, _) = Spool::open(options(directory.path(), 1, 1 << 20)).unwrap();
    assert!(sheaf_spool::segment::is_recording(directory.path()));
    let error = Spool::open(options(directory.path(), 2, 1 << 20)).unwrap_err().to_string();
    assert!(error.contains("another process records into"), "{error}");
    drop(spool);
    assert!(!sheaf_spool::segment::is_recording(directory.path()));
}

/// The bytes of a valid index, whose checksum is right, and whose only block is somewhere else.
#[test]
fn an_index_that_leads_out_of_its_segment_is_not_used() {
    use sheaf_wire::spool_file::{IndexBlock, emit_index};
    let directory = tempfile::tempdir().unwrap();
    let hits = vec![sheaf_wire::Hit { time_ps: 310, channel: 0, value: 1, extra: 0 }];
    let slices = [crate::recording::TestSlice { source: sheaf_wire::SourceId(0), number: 3, hits }];
    record(options(directory.path(), 1, 1 << 30), &slices);
    let path = last_segment(directory.path());
    let (whole, _) = read_segment(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let good = whole.blocks[0];
    for (offset, hits) in [(u64::MAX, 1), (0, 1), (good.offset, 1 << 26), (good.offset + 1, 1)] {
        let wrong = IndexBlock { offset, hits, ..good };
        let index = emit_index(
            whole.bytes,
            &[wrong],
            whole.sources.values().copied().collect::<Vec<_>>().into_iter(),
        );
        std::fs::write(&path, [&bytes[..whole.bytes as usize], &index.unwrap()].concat()).unwrap();
        let (content, damage) = read_segment(&path).unwrap();
        assert!(damage.unfinished, "block at {offset}");
        assert_eq!(content.blocks, whole.blocks);
        let (archive, _) = Archive::open(directory.path()).unwrap();
        assert_eq!(found(&ask(&archive, ALL, &[])), filter(&slices, ALL, &[]));
    }
}

#[test]
fn a_segment_that_is_cut_after_it_was_opened_has_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let slice = |number: u64| {
        let hits =
            (0..20).map(|at| sheaf_wire::Hit { time_ps: number * 100 + at, channel: 0, value: 1, extra: 0 });
        crate::recording::TestSlice { source: sheaf_wire::SourceId(0), number, hits: hits.collect() }
    };
    let slices: Vec<_> = (0..4).map(slice).collect();
    record(options(directory.path(), 1, 1 << 30), &slices);
    let (archive, _) = Archive::open(directory.path()).unwrap();
    let path = last_segment(directory.path());
    let (whole, _) = read_segment(&path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(whole.blocks[2].offset + 60).unwrap();
    let window = HitInterval { from_ps: 0, until_ps: 400 };
    let answer = ask(&archive, window, &[]);
    assert_eq!(found(&answer), filter(&slices[..2], window, &[]));
    let gaps: Vec<_> = answer.gaps.iter().map(|gap| (gap.interval.from_ps, gap.reason)).collect();
    assert_eq!(gaps, [(200, GapReason::Damaged)]);
}

#[test]
fn bytes_that_only_look_like_blocks_are_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let hits = vec![sheaf_wire::Hit { time_ps: 310, channel: 0, value: 1, extra: 0 }];
    let slices = [crate::recording::TestSlice { source: sheaf_wire::SourceId(0), number: 3, hits }];
    record(options(directory.path(), 1, 1 << 30), &slices);
    let path = last_segment(directory.path());
    let (whole, _) = read_segment(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let start = whole.blocks[0].offset as usize;
    // More than is searched at a time.
    let noise = b"SPBK".repeat((3 << 20) / 4 + 5);
    std::fs::write(&path, [&bytes[..start], &noise, &bytes[start..whole.bytes as usize]].concat()).unwrap();
    let (content, damage) = read_segment(&path).unwrap();
    assert_eq!((content.blocks.len(), damage.skipped_bytes), (1, noise.len() as u64));
    assert_eq!(found(&ask(&Archive::open(directory.path()).unwrap().0, ALL, &[])), filter(&slices, ALL, &[]));
}
