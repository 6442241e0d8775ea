//! A real file system that is full. Skipped if this process is not permitted to mount one.

use bytes::Bytes;
use sheaf_store::event_file::{EventFileReader, EventFileWriter, EventWriteError, WriterOptions};
use sheaf_store::verify::verify;
use sheaf_wire::{
    Event, EventId, Fragment, NodeId, NumberMark, RunNumber, SessionId, SourceId, Timestamp, TriggerType,
    Verdict,
};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// A mounted file system of a megabyte, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(directory.path())
            .output()
            .map_err(|error| format!("cannot run mount: {error}"))?;
        if output.status.success() {
            Ok(Self(directory))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn event(id: u64) -> Event<Bytes> {
    Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments: vec![Fragment {
            event: EventId(id),
            source: SourceId(1),
            time: Timestamp(id),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: Bytes::from(vec![id as u8; 5_000]),
        }],
        missing: vec![],
    }
}

#[test]
fn a_full_disk_leaves_whole_events_and_writing_goes_on_when_there_is_room() {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(why) => {
            eprintln!("skipped: cannot mount a small file system: {why}");
            return;
        }
    };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![0; 700_000]).unwrap();
    let options = WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(1), Timestamp(0));
    let mut writer = EventFileWriter::create(disk.path(), options).unwrap();
    let mut accepted = 0;
    let error = loop {
        match writer.write(&event(accepted), &Verdict::accept()).and_then(|()| writer.end_batch(Timestamp(0)))
        {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    let EventWriteError::Write { path, error, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((path.as_path(), error.kind()), (writer.path(), ErrorKind::StorageFull));
    let stored = writer.counts().written_events;
    let reader = EventFileReader::open(writer.path()).unwrap();
    assert_eq!(reader.map(Result::unwrap).count() as u64, stored);

    std::fs::remove_file(ballast).unwrap();
    // The event whose batch failed was accepted. It is written now, exactly once.
    let counts = writer.finish().unwrap();
    assert_eq!(counts.written_events, counts.accepted_events);
    let report = verify(writer.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.events, counts.written_events);
}
