//! The window against a plain slice.

use super::*;
use proptest::prelude::*;
use std::io::Cursor;

/// An input that gives a few bytes at a time.
struct Slow(Cursor<Vec<u8>>, usize);

impl Read for Slow {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = out.len().min(self.1);
        self.0.read(&mut out[..bytes])
    }
}

impl Seek for Slow {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
}

proptest! {
    #[test]
    fn every_slice_has_the_bytes_of_its_place(
        steps in prop::collection::vec((0..3_u8, 0..600_000_usize), 1..20),
        slow in prop::sample::select(vec![7_001, usize::MAX]),
    ) {
        let data = content(900_000);
        let mut reader = BlockReader::new(Slow(Cursor::new(data.clone()), slow), None).unwrap();
        let mut held = Vec::new();
        for (kind, number) in steps {
            let at = reader.offset() as usize;
            if kind == 0 {
                reader.seek(number as u64).unwrap();
            } else {
                let fits = at + number <= data.len();
                prop_assert_eq!(reader.ensure(number as u64).unwrap(), fits);
                if fits {
                    held.push((at, reader.take(number)));
                }
            }
        }
        for (at, slice) in held {
            prop_assert!(data[at..at + slice.len()] == slice[..]);
        }
    }
}

#[test]
fn a_marker_is_found_across_the_border_of_two_blocks() {
    for shift in 0..8 {
        let mut data = vec![b'E'; BLOCK_BYTES + 100];
        let at = BLOCK_BYTES - 6 + shift;
        data[at..at + 4].copy_from_slice(b"EVNT");
        let mut reader = BlockReader::new(Cursor::new(data.clone()), None).unwrap();
        assert!(reader.find(&[*b"FRAG", *b"EVNT"], u64::MAX).unwrap());
        assert_eq!(reader.offset(), at as u64);
        reader.seek(at as u64 + 1).unwrap();
        assert!(!reader.find(&[*b"EVNT"], u64::MAX).unwrap());
        assert_eq!(reader.offset(), data.len() as u64);
        reader.seek(0).unwrap();
        assert!(!reader.find(&[*b"EVNT"], at as u64 + 3).unwrap(), "the limit cuts the marker");
    }
}

#[test]
fn blocks_are_used_again_when_their_slices_are_gone() {
    let mut reader = BlockReader::new(Cursor::new(content(BLOCK_BYTES * 40)), None).unwrap();
    let mut addresses = std::collections::BTreeSet::new();
    while reader.ensure(BLOCK_BYTES as u64).unwrap() {
        addresses.insert(reader.take(BLOCK_BYTES).as_ptr() as usize);
    }
    assert!(addresses.len() <= 2, "{} blocks for one reader that holds nothing", addresses.len());
}

#[test]
fn a_file_that_shrank_ends_where_it_ends_now() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content(1000)).unwrap();
    let mut reader = BlockReader::new(std::fs::File::open(file.path()).unwrap(), None).unwrap();
    file.as_file().set_len(10).unwrap();
    assert!(!reader.ensure(1000).unwrap());
    assert_eq!(reader.remaining(), 10);
    assert!(reader.ensure(10).unwrap());
}

#[test]
fn a_hole_of_a_terabyte_takes_no_time_and_hides_nothing() {
    use std::os::unix::fs::FileExt;
    const FAR: u64 = 1 << 40;
    let file = tempfile::tempfile().unwrap();
    // Where the file system has no such files there is nothing to skip.
    if file.set_len(2 * FAR).is_err() {
        return println!("skipped: this file system has no files of 2 TiB");
    }
    for at in [5, FAR - 2, FAR + BLOCK_BYTES as u64 - 1, 2 * FAR - 4] {
        file.write_all_at(b"MARK", at).unwrap();
    }
    let mut reader = BlockReader::new(file, Some(data_of_file)).unwrap();
    for at in [5, FAR - 2, FAR + BLOCK_BYTES as u64 - 1, 2 * FAR - 4] {
        assert!(reader.find(&[*b"MARK"], u64::MAX).unwrap(), "at {at}");
        assert_eq!(reader.offset(), at);
        assert!(reader.ensure(4).unwrap());
        assert_eq!(reader.take(4), b"MARK"[..]);
    }
    assert!(!reader.find(&[*b"MARK"], u64::MAX).unwrap());
    assert_eq!(reader.offset(), 2 * FAR);
}
