use super::*;
use crate::examples::event;
use sheaf_wire::SourceId;
use sheaf_wire::run_record::RecordKind;
use std::sync::{Arc, Mutex};

/// Scripted behaviour of a disk.
#[derive(Default)]
struct Script {
    fails: bool,
    /// Whether it closes files faster than they are converted.
    is_behind: bool,
    batches: u64,
    accepted: u64,
    stored: u64,
    records: Vec<u64>,
}

fn record(number: u64) -> Arc<RunRecord> {
    let (kind, name, content) = (RecordKind::End, String::new(), Bytes::new());
    RunRecord { number, source: SourceId(1), kind, time: Timestamp(0), name, content }.into()
}

struct Scripted(Arc<Mutex<Script>>);

impl EventSink for Scripted {
    fn write(&mut self, event: &Event<Bytes>, _: &Verdict) -> Result<Taken, SinkError> {
        let mut script = self.0.lock().expect("no test panics with it");
        if script.fails {
            return Err(SinkError::Other("the disk is full".to_owned()));
        }
        if event.id.0.is_multiple_of(10) {
            return Ok(Taken::LeftOut);
        }
        script.accepted += 1;
        Ok(Taken::Accepted)
    }

    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        let mut script = self.0.lock().expect("no test panics with it");
        if script.fails {
            return Err(SinkError::Other("the disk is full".to_owned()));
        }
        script.records.push(record.number);
        Ok(())
    }

    fn end_batch(&mut self, _: Timestamp) -> Result<(), SinkError> {
        self.0.lock().expect("no test panics with it").batches += 1;
        Ok(())
    }

    fn press(&mut self) {}

    fn has_room(&self) -> bool {
        !self.0.lock().expect("no test panics with it").is_behind
    }

    fn stored(&self) -> u64 {
        self.0.lock().expect("no test panics with it").stored
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn settled(storing: &mut Storing<u64>) -> Vec<Settled<u64>> {
    std::iter::from_fn(|| storing.poll()).collect()
}

#[test]
fn what_no_stream_takes_waits_for_nothing_and_the_rest_for_the_disk() {
    let script = Arc::new(Mutex::new(Script::default()));
    let mut storing = Storing::new(NodeId::builder(0), Box::new(Scripted(script.clone())));
    for id in 8..12 {
        assert!(storing.write(Timestamp(0), id, &mut event(id), &Verdict::accept()));
    }
    storing.end_batch(Timestamp(0));
    assert_eq!(settled(&mut storing), [Settled::LeftOut(10)]);
    script.lock().expect("no test panics with it").stored = 2;
    assert_eq!(settled(&mut storing), [Settled::Stored(8, 0), Settled::Stored(9, 1)]);
    assert_eq!(storing.waiting(), 1);
}

#[test]
fn a_record_that_the_disk_refuses_is_tried_again_in_order_and_not_lost_at_the_end() {
    let script = Arc::new(Mutex::new(Script { fails: true, ..Script::default() }));
    let records = || script.lock().expect("no test panics with it").records.clone();
    let mut storing = Storing::<u64>::new(NodeId::builder(0), Box::new(Scripted(script.clone())));
    storing.record(Timestamp(0), record(1));
    assert!(storing.is_failing());
    storing.record(Timestamp(0), record(2));
    storing.end_batch(Timestamp(0));
    assert!(storing.is_failing(), "the records are not written");
    let later = storing.due();
    assert!(!storing.is_ready(later), "the disk still fails");
    script.lock().expect("no test panics with it").fails = false;
    assert!(storing.is_ready(storing.due()));
    assert_eq!(records(), [1, 2]);
    storing.end_batch(later);
    assert!(!storing.is_failing());
    script.lock().expect("no test panics with it").fails = true;
    storing.record(Timestamp(0), record(3));
    assert!(storing.finish().is_err(), "the operator learns of it");
    script.lock().expect("no test panics with it").fails = false;
    storing.record(Timestamp(0), record(4));
    storing.record(Timestamp(0), record(5));
    assert_eq!(storing.finish(), Ok(()));
    assert_eq!(records(), [1, 2, 4, 5]);
}

#[test]
fn an_event_that_the_disk_refuses_is_tried_again_and_goes_first() {
    let script = Arc::new(Mutex::new(Script { fails: true, stored: 9, ..Script::default() }));
    let mut storing = Storing::new(NodeId::builder(0), Box::new(Scripted(script.clone())));
    assert!(!storing.write(Timestamp(0), 1, &mut event(1), &Verdict::accept()));
    assert!(storing.is_in_trouble() && storing.waiting() == 1);
    let later = storing.due();
    assert!(!storing.is_ready(Timestamp(1)), "it is left alone for a while");
    assert!(!storing.is_ready(later), "it fails again");
    script.lock().expect("no test panics with it").fails = false;
    let later = storing.due();
    assert!(storing.is_ready(later));
    assert_eq!(script.lock().expect("no test panics with it").accepted, 1);
    storing.end_batch(later);
    assert!(!storing.is_in_trouble());
    assert_eq!(settled(&mut storing), [Settled::Stored(1, 0)]);
}

#[test]
fn an_output_without_room_holds_events_up_and_what_was_written_before_does_not_wait() {
    let script = Arc::new(Mutex::new(Script { is_behind: true, stored: 1, ..Script::default() }));
    let mut storing = Storing::new(NodeId::builder(0), Box::new(Scripted(script.clone())));
    assert!(storing.write(Timestamp(0), 1, &mut event(1), &Verdict::accept()));
    assert!(!storing.is_ready(Timestamp(0)));
    assert!(storing.is_in_trouble(), "whoever counts dead time hears of it");
    assert_eq!(script.lock().expect("no test panics with it").batches, 1);
    assert_eq!(settled(&mut storing), [Settled::Stored(1, 0)]);
    let later = storing.due();
    assert!(later > Timestamp(0) && later < Timestamp::MAX, "it is asked again");
    script.lock().expect("no test panics with it").is_behind = false;
    assert!(storing.is_ready(later));
    assert!(!storing.is_in_trouble());
}
