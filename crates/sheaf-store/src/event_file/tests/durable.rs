//! Disks that fail to keep written data.

use super::*;
use sheaf_wire::checksum::crc32c;

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
    /// The disk drops data that it failed to write, and the next attempt succeeds, as on Linux.
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
        assert!(error.contains("cannot make event file") && error.contains("were lost"), "{error}");
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
    let read = std::fs::read(directory.path().join("file")).unwrap();
    assert!(read[..bytes.len()] == bytes && &read[bytes.len()..] == b"end");
    assert!(file.write_again(0..bytes.len() as u64 + 4, 0).is_err(), "there is not so much");
}

#[cfg(target_os = "linux")]
#[test]
fn room_that_was_asked_for_in_advance_is_given_back_when_a_file_is_closed() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = EventFileWriter::create(directory.path(), options()).unwrap();
    let path = writer.path().to_owned();
    let taken = || {
        let metadata = std::fs::metadata(&path).unwrap();
        (metadata.len(), 512 * metadata.blocks())
    };
    for id in 0..30 {
        writer.write(&event(id, &[200_000]), &Verdict::accept()).unwrap();
        writer.end_batch(Timestamp(id)).unwrap();
    }
    let (open_bytes, open_taken) = taken();
    if open_taken < open_bytes + (1 << 20) {
        println!("no room is asked for in advance on the file system of {}", directory.path().display());
    }
    assert!(open_taken < 2 * open_bytes + (4 << 20), "{open_taken} bytes for {open_bytes}");
    writer.finish().unwrap();
    let (closed_bytes, closed_taken) = taken();
    assert!(closed_taken < closed_bytes + (64 << 10), "{closed_taken} bytes for {closed_bytes}");
}
