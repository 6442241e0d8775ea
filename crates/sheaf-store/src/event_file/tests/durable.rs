//! Disks that fail to keep what they were given.

use super::*;
use sheaf_wire::checksum::crc32c;
use std::io::{Read, Seek, SeekFrom};

/// The events that a power cut would leave.
fn durable(disk: &Disk) -> Vec<Event<Bytes>> {
    let mut read = Vec::new();
    for bytes in disk.durable_files().into_values().filter(|bytes| !bytes.is_empty()) {
        let (reader, _) = EventFileReader::new_damaged(Cursor::new(&bytes[..]), "memory").unwrap();
        read.extend(reader.map_while(Result::ok).map(bare));
    }
    read
}

proptest! {
    /// The disk forgets what it failed to write, and calls the next attempt a success, as Linux does.
    #[test]
    fn what_counts_as_stored_is_on_a_disk_that_forgets_what_it_failed_to_write(
        failing in prop::collection::vec(any::<bool>(), 1..12),
        rotate_events in 1..9_u64,
    ) {
        let disk = Disk::new(u64::MAX);
        let options = WriterOptions { flush: FlushPolicy::SyncEvery(Nanos(0)), rotate_events, ..options() };
        let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
        let mut accepted = Vec::new();
        for (batch, fails) in failing.into_iter().enumerate() {
            disk.fail_sync(fails);
            for _ in 0..2 {
                let event = event(accepted.len() as u64, &[30, batch]);
                if writer.write(&event, &verdict(&event)).is_ok() {
                    accepted.push(event);
                }
            }
            let _ = writer.end_batch(Timestamp(batch as u64));
            let stored = writer.stored_events() as usize;
            prop_assert!(durable(&disk).starts_with(&with_checksums(&accepted)[..stored]), "{stored} events");
        }
        disk.fail_sync(false);
        writer.finish().unwrap();
        prop_assert_eq!(writer.stored_events(), accepted.len() as u64);
        prop_assert_eq!(durable(&disk), with_checksums(&accepted));
        prop_assert_eq!(disk.durable_files(), disk.files());
    }
}

#[test]
fn what_is_lost_is_never_called_stored() {
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { flush: FlushPolicy::SyncEvery(Nanos(0)), ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    let event = event(1, &[500]);
    writer.write(&event, &verdict(&event)).unwrap();
    disk.fail_sync(true);
    assert!(writer.end_batch(Timestamp(1)).is_err());
    // The page leaves the memory before it is written again.
    disk.spoil(200);
    disk.fail_sync(false);
    for time in 2..4 {
        let error = writer.end_batch(Timestamp(time)).unwrap_err().to_string();
        assert!(error.contains("cannot make event file") && error.contains("is lost"), "{error}");
        assert_eq!(writer.stored_events(), 0);
    }
}

#[test]
fn a_file_is_written_again_as_it_is_and_goes_on_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = Directory::new(directory.path()).unwrap().create("file").unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let written = file.append(&[std::io::IoSlice::new(rest)]).unwrap();
        rest = &rest[written..];
    }
    let from = 1_000;
    let checksum = file.write_again(from..bytes.len() as u64, crc32c(&bytes[..from as usize])).unwrap();
    assert_eq!(checksum, crc32c(&bytes));
    assert_eq!(file.append(&[std::io::IoSlice::new(b"end")]).unwrap(), 3);
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut read).unwrap();
    assert!(read[..bytes.len()] == bytes && &read[bytes.len()..] == b"end");
    assert!(file.write_again(0..bytes.len() as u64 + 4, 0).is_err(), "there is not so much");
}
