//! Segments that a killed process left, and damaged ones.

use crate::recording::{SLICE_PS, ask, filter, found, options, record, recordings};
use proptest::prelude::*;
use sheaf_spool::segment::{SegmentDamage, read_segment, verify_segment};
use sheaf_spool::{Archive, Spool};
use sheaf_wire::spool_file::HitInterval;
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
