//! Disks that hang, fail and come back.

use super::*;
use crate::examples::event;
use sheaf_store::event_file::StreamName;
use sheaf_store::streams::StreamRule;
use sheaf_wire::{MissingReason, MissingSource, SourceId, Tags};
use std::time::Instant;

/// Scripted behaviour of a disk.
#[derive(Debug, Default)]
struct Script {
    hangs: bool,
    fails: bool,
    panics: bool,
    /// Maximum number of events between two ends of batches.
    room: Option<usize>,
    written: Vec<u64>,
    records: Vec<u64>,
    ended: usize,
    finished: bool,
}

#[derive(Clone, Default)]
struct Disk(Arc<(Mutex<Script>, Condvar)>);

impl Disk {
    fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script());
        self.0.1.notify_all();
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.0.lock().unwrap()
    }

    /// A call of the operating system, which comes back when the disk does.
    fn call(&self) -> MutexGuard<'_, Script> {
        let script = self.0.1.wait_while(self.script(), |script| script.hangs).unwrap();
        assert!(!script.panics, "as told");
        script
    }
}

impl EventSink for Disk {
    fn write(&mut self, event: &Event<Bytes>, _: &Verdict) -> Result<Taken, SinkError> {
        let mut script = self.call();
        if script.fails {
            return Err(SinkError::Other("the disk is full".to_owned()));
        }
        script.written.push(event.id.0);
        Ok(Taken::Accepted)
    }

    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        let mut script = self.call();
        if script.fails {
            return Err(SinkError::Other("the disk is full".to_owned()));
        }
        script.records.push(record.number);
        Ok(())
    }

    fn end_batch(&mut self, _: Timestamp) -> Result<(), SinkError> {
        let mut script = self.call();
        script.ended = script.written.len();
        Ok(())
    }

    fn press(&mut self) {}

    fn has_room(&self) -> bool {
        let script = self.script();
        script.room.is_none_or(|room| script.written.len() - script.ended < room)
    }

    fn stored(&self) -> u64 {
        self.script().ended as u64
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.call().finished = true;
        Ok(())
    }

    fn counters(&self) -> Vec<(String, u64)> {
        vec![(FileSink::PRESCALED.to_owned(), 0), ("written".to_owned(), self.script().written.len() as u64)]
    }
}

fn beside(disk: &Disk, patience: Duration) -> FilesBeside {
    FilesBeside::with(Box::new(disk.clone()), Routing::new(Vec::new()), patience).unwrap()
}

/// Minutes: a machine that does much else makes a test slow, never red.
const LONG: Duration = Duration::from_secs(300);

/// Ends batches as a node does, when it is due, until `done`; or fails after a while.
fn until(
    files: &mut FilesBeside,
    now: &mut u64,
    mut done: impl FnMut(&FilesBeside, Result<(), SinkError>) -> bool,
) {
    let begun = Instant::now();
    loop {
        *now += 1;
        let ended = files.end_batch(Timestamp(*now));
        if done(files, ended) {
            return;
        }
        assert!(begun.elapsed() < LONG, "nothing comes of it: {files:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_disk_that_hangs_holds_up_nobody_and_what_it_was_given_is_stored_when_it_is_back() {
    let disk = Disk::default();
    let mut files = beside(&disk, LONG);
    let mut now = 0;
    disk.set(|script| script.hangs = true);
    // None of these calls comes back if it waits for the disk.
    for id in 0..1_000 {
        files.write(&event(id), &Verdict::accept()).unwrap();
        now += 1;
        files.end_batch(Timestamp(now)).unwrap();
    }
    assert_eq!(files.stored(), 0);
    assert_eq!(files.due(), Timestamp(now) + LOOKS, "it is looked again");
    disk.set(|script| script.hangs = false);
    until(&mut files, &mut now, |files, ended| {
        ended.unwrap();
        files.stored() == 1_000
    });
    until(&mut files, &mut now, |files, _| files.due() == Timestamp::MAX);
    files.finish().unwrap();
    assert_eq!(disk.script().written, Vec::from_iter(0..1_000));
    assert!(disk.script().finished);
}

#[test]
fn what_the_disk_does_not_take_is_told_kept_and_written_in_order_when_it_does() {
    let disk = Disk::default();
    let mut files = beside(&disk, LONG);
    let mut now = 0;
    for id in 0..10 {
        disk.set(|script| script.fails = id == 5);
        files.write(&event(id), &Verdict::accept()).unwrap();
        until(&mut files, &mut now, |files, ended| match ended {
            Ok(()) => files.stored() > id,
            Err(error) => {
                assert_eq!((error.to_string().as_str(), id), ("the disk is full", 5));
                assert_eq!(files.stored(), 5);
                disk.set(|script| script.fails = false);
                false
            }
        });
    }
    files.finish().unwrap();
    assert_eq!(disk.script().written, Vec::from_iter(0..10));
}

#[test]
fn events_that_had_no_room_in_a_batch_are_written_once_there_is_room_again() {
    let disk = Disk::default();
    disk.set(|script| script.room = Some(3));
    let routing = Routing::new(Vec::new());
    let (mut files, mut writer) = FilesBeside::without_thread(Box::new(disk.clone()), routing, LONG);
    for id in 0..10 {
        files.write(&event(id), &Verdict::accept()).unwrap();
    }
    let mut now = 0;
    loop {
        now += 1;
        files.end_batch(Timestamp(now)).unwrap();
        if !writer.is_due() {
            break;
        }
        writer.work();
    }
    assert_eq!((files.stored(), files.has_room()), (10, true));
}

#[test]
fn the_end_of_a_run_does_not_wait_for_a_disk_that_hangs_for_ever() {
    let disk = Disk::default();
    let mut files = beside(&disk, Duration::from_millis(50));
    disk.set(|script| script.hangs = true);
    files.write(&event(1), &Verdict::accept()).unwrap();
    files.end_batch(Timestamp(1)).unwrap();
    let error = files.finish().unwrap_err();
    assert!(matches!(error, SinkError::NotClosed { .. }), "{error}");
    drop(files);
    // When the disk works again, nothing more is written.
    disk.set(|script| script.hangs = false);
}

#[test]
fn what_no_stream_takes_is_left_out_at_once_and_counted() {
    let disk = Disk::default();
    let rule = StreamRule { name: StreamName::default(), tags: Tags::NONE, prescale: 2 };
    let mut files = FilesBeside::with(Box::new(disk.clone()), Routing::new(vec![rule]), LONG).unwrap();
    let ids = 0..100_u64;
    let taken = ids.filter(|id| {
        let missing = MissingSource { source: SourceId(1), reason: MissingReason::SourceSilent };
        let mut event = Event { missing: vec![missing], ..event(*id) };
        let taken = files.give(&mut event, &Verdict::accept()).unwrap();
        assert_eq!(event.missing.is_empty(), taken == Taken::Accepted, "what it keeps it takes out");
        taken == Taken::Accepted
    });
    let taken: Vec<u64> = taken.collect();
    files.finish().unwrap();
    assert!((20..80).contains(&taken.len()));
    assert_eq!(disk.script().written, taken);
    let left_out = 100 - taken.len() as u64;
    assert_eq!(
        files.counters(),
        [("prescaled".to_owned(), left_out), ("written".to_owned(), taken.len() as u64)]
    );
}

#[test]
fn a_thread_that_panics_is_an_error_of_the_output() {
    let disk = Disk::default();
    let mut files = beside(&disk, LONG);
    disk.set(|script| script.panics = true);
    files.write(&event(1), &Verdict::accept()).unwrap();
    let mut now = 0;
    until(&mut files, &mut now, |_, ended| matches!(ended, Err(SinkError::Panicked)));
    assert!(matches!(files.finish(), Err(SinkError::Panicked)));
}

#[test]
fn records_are_written_by_the_thread_in_order_also_after_a_failure_and_at_the_end() {
    let disk = Disk::default();
    disk.set(|script| script.fails = true);
    let mut files = beside(&disk, LONG);
    let record = |number| {
        let (source, kind, time) = (SourceId(1), sheaf_wire::run_record::RecordKind::End, Timestamp(0));
        Arc::new(RunRecord { number, source, kind, time, name: String::new(), content: Bytes::new() })
    };
    files.record(&record(1)).unwrap();
    files.record(&record(2)).unwrap();
    let mut now = 0;
    until(&mut files, &mut now, |_, ended| ended.is_err());
    disk.set(|script| script.fails = false);
    until(&mut files, &mut now, |_, _| disk.script().records == [1, 2]);
    files.record(&record(3)).unwrap();
    files.finish().unwrap();
    assert_eq!(disk.script().records, [1, 2, 3]);
}
