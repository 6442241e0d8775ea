//! The same seed makes the same data.

use crate::child::ScratchDirectory;
use crate::output::{directory, dump, number};

/// Returns event, source, size and CRC-32 of all fragments, in order of event and source. The distribution over builders is not
/// repeatable, and times depend on the clock.
fn data(scratch: &ScratchDirectory, how: &str) -> Vec<(u64, u32, u64, u32)> {
    let config = scratch.file("seed.toml", "[source.emulated]\nseed = 11\n[readout]\ncount = 3\n");
    let summary = scratch.sheaf(&format!("run {} {how} --json", config.display())).exits(0).json();
    assert_eq!(number(&summary, "events_incomplete"), 0, "{summary:#}");
    let lines = dump(&directory(scratch, &summary)).into_iter();
    let mut data: Vec<_> = lines.map(|line| (line.event, line.source, line.bytes, line.crc32)).collect();
    data.sort_unstable();
    data
}

#[test]
fn the_same_seed_gives_the_same_data() {
    let scratch = ScratchDirectory::new();
    let first = data(&scratch, "--events 3000");
    assert_eq!(first.len(), 9000);
    assert_eq!(first, data(&scratch, "--events 3000"));
    assert_eq!(first, data(&scratch, "--events 3000 --processes --builders 2"));
}
