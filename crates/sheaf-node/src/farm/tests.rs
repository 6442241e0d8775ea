//! Farms with threads and with processors that join (on threads of the test: a processor does not know whose process it is in).

mod remote;

use super::*;
use crate::filter::{Filter, FilterFailure};
use crate::judging::WorkerTimes;
use crate::processor::{Processor, ProcessorError, ProcessorOptions};
use sheaf_protocol::farm::DispatcherConfig;
use sheaf_wire::farm::Welcome;
use sheaf_wire::{
    ByteCount, EventId, Fragment, Nanos, NumberMark, RunNumber, SourceId, Tags, Timestamp, TriggerType,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Minutes: a machine that does much else makes a test slow, never red.
const PATIENCE: Duration = Duration::from_secs(300);

/// Never sleeps. `time_limit` decides what takes too long: the tests set the clock.
fn dispatcher() -> DispatcherConfig {
    DispatcherConfig {
        events: 64,
        seats: 8,
        ahead: 8,
        time_limit: None,
        load_time_limit: None,
        retries: 1,
        patience: None,
    }
}

fn event(id: u64) -> Event<Bytes> {
    let fragment = |source: u32| Fragment {
        event: EventId(id),
        source: SourceId(source),
        time: Timestamp(id),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::from(vec![id as u8; 100 * source as usize]),
    };
    Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments: (0..4).map(fragment).collect(),
        missing: Vec::new(),
    }
}

/// Accepts even events with their size as payload, rejects odd ones, and treats one of them as instructed.
struct Even {
    special: Option<(u64, Special)>,
}

#[derive(Clone, Copy)]
enum Special {
    Fail,
    Panic,
    Hang,
}

impl Filter for Even {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        match self.special.filter(|(id, _)| event.id.0 == *id) {
            Some((_, Special::Fail)) => return Err(FilterFailure("as it was told".into())),
            Some((_, Special::Panic)) => panic!("as it was told"),
            Some((_, Special::Hang)) => {
                HANGING.fetch_add(1, Ordering::SeqCst);
                loop {
                    std::thread::park();
                }
            }
            None => {}
        }
        for fragment in &event.fragments {
            assert!(fragment.payload.iter().all(|byte| *byte == event.id.0 as u8), "the event is whole");
        }
        if event.id.0 % 2 == 1 {
            return Ok(Verdict::reject());
        }
        let bytes = event.payload_bytes().to_le_bytes();
        Ok(Verdict::accept().with_tags(Tags(event.id.0)).with_payload(bytes.to_vec()))
    }
}

fn maker(special: Option<(u64, Special)>) -> FilterMaker {
    Box::new(move || Ok(Box::new(Even { special })))
}

/// Threads that hang.
static HANGING: AtomicU64 = AtomicU64::new(0);

struct Test {
    farm: Farm,
    now: Timestamp,
    verdicts: BTreeMap<u64, Verdict>,
    directory: tempfile::TempDir,
}

type Joined = JoinHandle<Result<WorkerTimes, ProcessorError>>;

/// A processor on a thread, and the flag that has it leave.
fn join_at(address: &Path, filter: impl Filter + 'static) -> (Joined, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (address, its_stop) = (address.to_owned(), stop.clone());
    let options = ProcessorOptions { ahead: 4, ..ProcessorOptions::default() };
    let body = move || Processor::join(&address, options, Box::new(filter), &its_stop);
    (std::thread::spawn(body), stop)
}

impl Test {
    fn new(dispatcher: DispatcherConfig, threads: Option<(u16, FilterMaker)>, with_door: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let door = with_door.then(|| DoorSetup {
            path: directory.path().join("bu0.farm"),
            welcome: Welcome {
                run: RunNumber(1),
                node: NodeId::builder(0),
                tags: vec!["even".into()],
                configuration: String::new(),
            },
            sources: 4,
            placing: PlacingOptions { memory: ByteCount::mib(1), max_fragment: ByteCount::kib(4) },
            launcher: None,
        });
        Self::of(FarmSetup { dispatcher, threads, door, listen: None }, directory)
    }

    fn of(setup: FarmSetup, directory: tempfile::TempDir) -> Self {
        let now = Timestamp(1_000_000_000);
        let farm = Farm::new(setup, NodeId::builder(0), Waker::noop().clone(), now).expect("a farm");
        Self { farm, now, verdicts: BTreeMap::new(), directory }
    }

    fn step(&mut self) {
        self.farm.work(self.now);
        while let Some((event, verdict)) = self.farm.poll() {
            assert_eq!(event.fragments.len(), 4, "the event comes back as it was");
            assert!(self.verdicts.insert(event.id.0, verdict).is_none(), "each event has one verdict");
        }
    }

    /// Until `wanted` holds.
    fn until(&mut self, what: &str, mut wanted: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !wanted(self) {
            self.step();
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", self.farm.dispatcher.counts());
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn judge(&mut self, events: std::ops::Range<u64>) {
        let end = events.end as usize;
        for id in events {
            self.until("there is room", |test| test.farm.has_room());
            self.farm.offer(event(id));
        }
        self.until("all are judged", |test| test.verdicts.len() == end);
    }

    fn check(&self, special: Option<u64>) {
        for (id, verdict) in &self.verdicts {
            let expected = match id {
                id if Some(*id) == special => Verdict::quarantine(),
                id if id % 2 == 1 => Verdict::reject(),
                id => Verdict::accept().with_tags(Tags(*id)).with_payload(600_u64.to_le_bytes().to_vec()),
            };
            assert_eq!(*verdict, expected, "event {id}");
        }
    }

    fn join(&self, filter: impl Filter + 'static) -> (Joined, Arc<AtomicBool>) {
        join_at(self.directory.path(), filter)
    }
}

#[test]
fn threads_judge_events_and_every_verdict_comes_back() {
    let mut test = Test::new(dispatcher(), Some((3, maker(None))), false);
    test.judge(0..500);
    test.check(None);
    let report = test.farm.finish();
    assert_eq!((report.counts.judged, report.counts.quarantined, report.restarts), (500, 0, 0));
    let judged: u64 = report.workers.iter().map(|(_, times)| times.judged).sum();
    assert_eq!((report.workers.len(), judged), (3, 500));
}

#[test]
fn an_event_whose_filter_fails_twice_is_stored_as_it_is() {
    let mut test = Test::new(dispatcher(), Some((2, maker(Some((7, Special::Fail))))), false);
    test.judge(0..40);
    test.check(Some(7));
    let counts = test.farm.finish().counts;
    assert_eq!((counts.failed, counts.retried, counts.quarantined, counts.died), (2, 1, 1, 0));
}

#[test]
fn a_thread_that_panics_is_replaced_and_the_event_that_it_panicked_with_is_stored_as_it_is() {
    let mut test = Test::new(dispatcher(), Some((2, maker(Some((7, Special::Panic))))), false);
    test.judge(0..40);
    test.check(Some(7));
    let report = test.farm.finish();
    assert_eq!((report.counts.died, report.counts.quarantined, report.restarts), (2, 1, 2));
}

#[test]
fn a_thread_that_hangs_is_left_behind_and_replaced() {
    let config = DispatcherConfig { time_limit: Some(Nanos::from_secs(1)), ..dispatcher() };
    let mut test = Test::new(config, Some((1, maker(Some((7, Special::Hang))))), false);
    for id in 0..20 {
        test.farm.offer(event(id));
    }
    for hung in 1..=2 {
        test.until("it hangs with event 7", |_| HANGING.load(Ordering::SeqCst) == hung);
        // No other worker is running, so time may pass.
        test.until("it is replaced", |test| {
            test.now += Nanos::from_millis(10);
            test.farm.report.restarts == hung
        });
    }
    test.until("all are judged", |test| test.verdicts.len() == 20);
    test.check(Some(7));
}

#[test]
fn processors_join_judge_where_payload_lies_and_leave() {
    let mut test = Test::new(dispatcher(), None, true);
    let (first, stop) = test.join(Even { special: None });
    test.judge(0..100);
    stop.store(true, Ordering::Relaxed);
    test.until("the first has left", |_| first.is_finished());
    let times = first.join().expect("no panic").expect("a good end");
    assert_eq!(times.judged, 100);
    let (second, _stop) = test.join(Even { special: None });
    test.judge(100..200);
    test.check(None);
    let report = test.farm.finish();
    assert_eq!((report.counts.joined, report.counts.left, report.counts.died), (2, 1, 0));
    second.join().expect("no panic").expect("the end of the run is a good end");
    assert!(!test.directory.path().join("bu0.farm").exists());
}

/// Returns a large payload for every event.
struct Wordy;

impl Filter for Wordy {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        Ok(Verdict::accept().with_payload(vec![event.id.0 as u8; 400_000]))
    }
}

#[test]
fn large_payloads_of_verdicts_come_in_parts() {
    let mut test = Test::new(dispatcher(), None, true);
    let (worker, _stop) = test.join(Wordy);
    test.judge(0..20);
    assert!(test.verdicts.iter().all(|(id, verdict)| verdict.payload == vec![*id as u8; 400_000]));
    test.farm.finish();
    worker.join().expect("no panic").expect("a good end");
}

#[test]
fn a_payload_that_is_too_large_is_a_failure_of_the_filter() {
    struct TooWordy;
    impl Filter for TooWordy {
        fn judge(&mut self, _event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
            Ok(Verdict::accept().with_payload(vec![0; sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES + 1]))
        }
    }
    let mut test = Test::new(dispatcher(), Some((1, Box::new(|| Ok(Box::new(TooWordy))))), false);
    test.judge(0..1);
    assert_eq!(test.verdicts[&0], Verdict::quarantine());
}

/// A processor that goes away with events in hand, again and again; the other judges all of them.
#[test]
fn processors_that_vanish_lose_no_event() {
    let mut test = Test::new(dispatcher(), None, true);
    let (steady, _stop) = test.join(Even { special: None });
    let vanished = Arc::new(AtomicU64::new(0));
    let (door, count) = (test.directory.path().to_owned(), vanished.clone());
    let vanishing = std::thread::spawn(move || {
        for _ in 0..10 {
            vanish(&door);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut next = 0;
    while vanished.load(Ordering::Relaxed) < 10 {
        test.judge(next..next + 8);
        next += 8;
    }
    vanishing.join().expect("no panic");
    test.until("all have gone", |test| test.farm.dispatcher.counts().died == 10);
    let counts = test.farm.dispatcher.counts();
    assert_eq!(test.verdicts.len() as u64, next);
    assert_eq!(counts.judged + counts.quarantined, next);
    assert!(counts.abandoned > 0, "they had events: {counts:?}");
    test.farm.finish();
    steady.join().expect("no panic").expect("a good end");
}

/// Joins, waits for an event, and disappears like a killed process.
fn vanish(door: &Path) {
    let options = ProcessorOptions { patience: Nanos::from_secs(10), ..ProcessorOptions::default() };
    let mut processor = Processor::meet(door, options).expect("the door is open");
    while processor.take().expect("the dispatcher keeps the rules").is_none() && !processor.is_closed() {
        processor.flush().expect("it is there");
        processor.wait(Nanos::from_millis(5));
    }
}

#[test]
fn a_processor_says_what_is_wrong_with_its_address() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let join = |path: &Path| Processor::meet(path, ProcessorOptions::default()).map(|_| ());
    let error = join(directory.path()).expect_err("there is no door");
    assert!(error.to_string().contains("has no socket for processors"), "{error}");
    let error = join(&directory.path().join("bu0.farm")).expect_err("nobody is there");
    assert!(error.to_string().contains("cannot connect to"), "{error}");
    for name in ["bu0.farm", "bu1.farm"] {
        std::fs::write(directory.path().join(name), "").expect("a file");
    }
    let error = join(directory.path()).expect_err("there are two");
    assert!(error.to_string().contains("name one of them"), "{error}");
}

#[test]
fn a_filter_that_cannot_be_made_is_told_at_once() {
    let threads: FilterMaker = Box::new(|| Err(FilterFailure::new("no such file")));
    let setup = FarmSetup { dispatcher: dispatcher(), threads: Some((1, threads)), door: None, listen: None };
    let error =
        Farm::new(setup, NodeId::builder(0), Waker::noop().clone(), Timestamp(1)).expect_err("no filter");
    assert_eq!(error.to_string(), "the filter cannot be made: no such file");
}
