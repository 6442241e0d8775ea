use super::*;
use crate::parcels::Parcels;
use proptest::prelude::*;
use sheaf_buffer::Pool;
use sheaf_filter::{FilterFailure, Processed, RawFragment};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{ByteCount, NumberMark, RunNumber, SessionId};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NODE: NodeId = NodeId::readout(0);
const START: Timestamp = Timestamp(1_000_000_000);

/// Follows the instruction in the first byte of a fragment; otherwise removes zeros.
struct Obedient {
    /// While this is set, fragments that begin with `h` take for ever.
    hanging: Arc<AtomicBool>,
}

impl Preprocessor for Obedient {
    fn process(&mut self, raw: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        match raw.payload.first() {
            Some(b'k') => return Ok(Processed::Kept),
            Some(b'f') => return Err(FilterFailure("no idea".into())),
            Some(b'p') => panic!("this worker dies, as the test wants it"),
            Some(b'l') => return Ok(Processed::Written(room.len() + 1)),
            // Features in addition to the raw data: as many as there is room for.
            Some(b'g') => {
                room[..raw.payload.len()].copy_from_slice(raw.payload);
                room[raw.payload.len()..].fill(b'!');
                return Ok(Processed::Written(room.len()));
            }
            Some(b'h') => {
                while self.hanging.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => {}
        }
        Ok(Processed::Written(compact(raw.payload, room)))
    }
}

fn compact(payload: &[u8], room: &mut [u8]) -> usize {
    let kept = payload.iter().filter(|byte| **byte != 0);
    room.iter_mut().zip(kept).map(|(to, from)| *to = *from).count()
}

/// Returns the expected result for a payload, and whether it counts as processed.
fn expected(payload: &[u8]) -> (Vec<u8>, bool) {
    match payload.first() {
        Some(b'k' | b'f' | b'l' | b'p' | b'h') => (payload.to_vec(), false),
        _ => (payload.iter().copied().filter(|byte| *byte != 0).collect(), true),
    }
}

struct World {
    active: Preprocessing,
    parcels: Parcels,
    hanging: Arc<AtomicBool>,
    woken: Arc<Mutex<usize>>,
    sent: Vec<SuperFragments<Bytes>>,
}

struct Count(Arc<Mutex<usize>>);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() += 1;
    }
}

impl World {
    fn new(change: impl FnOnce(&mut PreprocessingSetup)) -> Self {
        let hanging = Arc::new(AtomicBool::new(true));
        let its = hanging.clone();
        let mut setup = PreprocessingSetup {
            sources: None,
            workers: 2,
            outstanding_events: 8,
            time_limit: Some(Nanos::from_millis(10)),
            make: Box::new(move || Ok(Box::new(Obedient { hanging: its.clone() }))),
            memory: Box::new(|| Box::new(Outputs::new(Pool::new(256, 64)))),
            growth: Growth::default(),
        };
        change(&mut setup);
        let woken = Arc::new(Mutex::new(0));
        let waker = Waker::from(Arc::new(Count(woken.clone())));
        let active = Preprocessing::new(NODE, setup, waker).unwrap();
        Self { active, parcels: Parcels::default(), hanging, woken, sent: Vec::new() }
    }

    /// Gives an answer to builder unit 0: for each event these payloads, of the sources 0, 1, ...
    fn give(&mut self, first: u64, events: &[Vec<Vec<u8>>]) {
        let mut parts = SuperFragments::default();
        for (event, payloads) in (first..).map(EventId).zip(events) {
            let fragments = u16::try_from(payloads.len()).unwrap();
            parts.push_entry(SuperFragment { event, count: 1, attempt: 0, part: 0, fragments, missing: 0 });
            for (source, payload) in (0..).map(SourceId).zip(payloads) {
                let length = u32::try_from(payload.len()).unwrap();
                let parcel = self.parcels.keep(Bytes::copy_from_slice(payload), 1);
                let checksum = Some(crc32c(payload));
                let payload = Span { parcel, offset: 0, length };
                let time = Timestamp(event.0);
                parts.fragments.push(Fragment {
                    event,
                    source,
                    time,
                    checksum,
                    processed: false,
                    mark: NumberMark::NONE,
                    payload,
                });
            }
        }
        let header = Header {
            run: RunNumber(1),
            sender: NODE,
            session: SessionId(1),
            sequence: 0,
            acknowledged: 0,
            acknowledged_session: SessionId(0),
            term: sheaf_wire::Term(0),
        };
        let message = Message { header, body: Body::SuperFragments(parts) };
        let back = self.active.take(&self.parcels, Transmit { to: NodeId::builder(0), message });
        assert!(back.is_none(), "an answer is taken");
        self.active.flush();
    }

    /// Takes the finished answers.
    fn round(&mut self, now: Timestamp) {
        self.active.work(now);
        while let Some(transmit) = self.active.poll_transmit() {
            let Body::SuperFragments(parts) = transmit.message.body else { panic!("answers only") };
            self.sent.push(parts);
        }
    }

    /// Continues until nothing is outstanding. The time advances by a millisecond per round if `time_passes`.
    fn settle(&mut self, time_passes: bool) {
        let mut now = START;
        for _ in 0..20_000 {
            self.round(now);
            if self.active.outstanding.is_empty() && self.active.pending.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
            if time_passes {
                now += Nanos::from_millis(1);
            }
        }
        panic!("{} answers stay outstanding", self.active.pending.len());
    }

    /// The payloads that were sent, by event and source, and which of them are processed.
    fn fragments(&self) -> BTreeMap<(u64, u32), (Vec<u8>, bool)> {
        let mut all = BTreeMap::new();
        for fragment in self.sent.iter().flat_map(|parts| &parts.fragments) {
            assert_eq!(
                fragment.checksum,
                Some(crc32c(&fragment.payload)),
                "a checksum is that of what leaves"
            );
            let key = (fragment.event.0, fragment.source.0);
            let before = all.insert(key, (fragment.payload.to_vec(), fragment.processed));
            assert!(before.is_none(), "{key:?} was sent twice");
        }
        all
    }
}

/// Says which run it is of.
struct OfRun(u8);

impl Preprocessor for OfRun {
    fn process(&mut self, _: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        room[0] = self.0;
        Ok(Processed::Written(1))
    }
}

/// A worker that is still busy with the run before, and one that is idle.
#[test]
fn a_run_that_follows_has_its_own_preprocessors_and_sends_nothing_of_the_run_before() {
    let mut world = World::new(|setup| setup.time_limit = None);
    world.give(1, &[vec![b"hangs".to_vec()]]);
    let make = Box::new(|| Ok(Box::new(OfRun(2)) as Box<dyn Preprocessor>));
    let next = NextPreprocessors::make(NODE, 2, make, &|| false).unwrap();
    world.active.go_on(next.expect("the run before is not over"));
    for event in 2..5 {
        world.give(event, &[vec![b"raw".to_vec(), b"kept".to_vec()]]);
    }
    world.hanging.store(false, Ordering::Relaxed);
    world.settle(false);
    let all: Vec<_> = world.fragments().into_iter().collect();
    let expected = (2..5).flat_map(|event| [0, 1].map(|source| ((event, source), (vec![2], true))));
    assert_eq!(all, expected.collect::<Vec<_>>());
    let counts = world.active.counts();
    assert_eq!((counts.processed, counts.kept, counts.workers_restarted), (6, 0, 0));
}

#[test]
fn preprocessors_that_cannot_be_made_are_named_and_those_that_take_too_long_are_left() {
    let make = Box::new(|| Err(FilterFailure("no table".into())));
    let error = NextPreprocessors::make(NODE, 2, make, &|| false).err().expect("it cannot be made");
    assert_eq!(error.to_string(), "ru0 cannot make its preprocessor: no table");
    let (end, until) = std::sync::mpsc::channel::<()>();
    let make = Box::new(move || {
        let _ = until.recv();
        Err(FilterFailure("late".into()))
    });
    assert!(NextPreprocessors::make(NODE, 1, make, &|| true).unwrap().is_none());
    drop(end);
}

fn all_of(first: u64, events: &[Vec<Vec<u8>>]) -> BTreeMap<(u64, u32), (Vec<u8>, bool)> {
    let of_event = |(event, payloads): (u64, &Vec<Vec<u8>>)| {
        let payloads = (0_u32..).zip(payloads.iter());
        payloads.map(|(source, payload)| ((event, source), expected(payload))).collect::<Vec<_>>()
    };
    (first..).zip(events).flat_map(of_event).collect()
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(24))]
    #[test]
    fn every_fragment_leaves_once_processed_or_as_it_was(
        answers in prop::collection::vec(
            prop::collection::vec(
                prop::collection::vec(
                    prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(b'k'), Just(b'f'), Just(b'l')], 0..40),
                    0..4,
                ),
                1..4,
            ),
            1..20,
        ),
    ) {
        let mut world = World::new(|_| {});
        let mut wanted = BTreeMap::new();
        for (first, events) in (0_u64..).step_by(10).zip(&answers) {
            // As the readout unit does: no answer is begun without room for it.
            while !world.active.has_room() {
                world.round(START);
                std::thread::sleep(Duration::from_micros(50));
            }
            world.give(first, events);
            wanted.extend(all_of(first, events));
        }
        world.settle(false);
        prop_assert_eq!(world.fragments(), wanted.clone());
        let counts = world.active.counts();
        let sum = counts.processed + counts.kept + counts.failed + counts.abandoned + counts.no_memory;
        prop_assert_eq!(sum, wanted.len() as u64, "each in one count");
        prop_assert_eq!(counts.abandoned, 0);
        let lengths = |fragments: &BTreeMap<_, (Vec<u8>, bool)>| -> u64 {
            fragments.values().filter(|(_, processed)| *processed).map(|(payload, _)| payload.len() as u64).sum()
        };
        prop_assert_eq!(counts.bytes_after, lengths(&wanted));
        prop_assert_eq!(world.active.take_difference(), (counts.bytes_before - counts.bytes_after, 0));
        world.active.close();
    }
}

#[test]
fn what_a_worker_hangs_or_dies_with_leaves_as_it_was_and_the_others_are_processed() {
    for order in [b'h', b'p'] {
        let mut world = World::new(|setup| setup.workers = 1);
        let bad = vec![vec![vec![order, 0, 1]]];
        let good = vec![vec![vec![1, 0, 2]]];
        world.give(0, &bad);
        world.settle(order == b'h');
        world.give(1, &good);
        // No time passes, so that a worker that the machine does not run is not taken for one that hangs.
        world.settle(false);
        let mut wanted = all_of(0, &bad);
        wanted.extend(all_of(1, &good));
        assert_eq!(world.fragments(), wanted);
        let counts = world.active.counts();
        assert_eq!((counts.abandoned, counts.processed, counts.workers_restarted), (1, 1, 1));
        world.hanging.store(false, Ordering::Relaxed);
        world.active.close();
    }
}

#[test]
fn workers_that_hang_are_replaced_so_often_and_then_everything_leaves_as_it_is() {
    let mut world = World::new(|setup| setup.workers = 1);
    let events: Vec<_> = (0..MOST_LEFT_BEHIND as u64 + 3).map(|_| vec![vec![b'h', 0]]).collect();
    for (first, event) in (0..).zip(events.chunks(1)) {
        world.give(first, event);
        world.settle(true);
    }
    assert_eq!(world.fragments(), all_of(0, &events));
    let counts = world.active.counts();
    assert_eq!(counts.abandoned, events.len() as u64);
    assert_eq!(counts.workers_restarted, MOST_LEFT_BEHIND as u64);
    world.hanging.store(false, Ordering::Relaxed);
}

#[test]
fn only_chosen_sources_are_processed_and_an_answer_without_them_goes_at_once() {
    let mut world = World::new(|setup| setup.sources = Some(BTreeSet::from([SourceId(1)])));
    world.give(0, &[vec![vec![1, 0, 2]]]);
    assert_eq!(world.active.poll_transmit().map(|transmit| transmit.to), Some(NodeId::builder(0)));
    world.give(1, &[vec![vec![1, 0, 2], vec![3, 0]]]);
    world.settle(false);
    let wanted = BTreeMap::from([((1, 0), (vec![1, 0, 2], false)), ((1, 1), (vec![3], true))]);
    assert_eq!(world.fragments(), wanted);
    assert_eq!(world.active.counts().processed, 1);
    assert!(*world.woken.lock().unwrap() > 0, "the unit's thread was woken when a worker was done");
}

#[test]
fn what_is_asked_for_again_while_it_is_being_processed_is_not_processed_twice() {
    let mut world = World::new(|setup| setup.time_limit = None);
    let slow = vec![vec![vec![b'h', 0, 7]]];
    world.give(0, &slow);
    // Its repetition comes with another event, which is answered.
    world.give(0, &[slow[0].clone(), vec![vec![1, 0]]]);
    assert_eq!(world.active.counts().asked_again, 1);
    assert_eq!(world.active.take_difference(), (3, 0), "the repetition has 3 bytes, and is not sent");
    world.hanging.store(false, Ordering::Relaxed);
    world.settle(false);
    let wanted = BTreeMap::from([((0, 0), (vec![b'h', 7], true)), ((1, 0), (vec![1], true))]);
    assert_eq!(world.fragments(), wanted);
    // Once it has been sent, it is answered anew.
    world.sent.clear();
    world.give(0, &slow);
    world.settle(false);
    assert_eq!(world.fragments().len(), 1);
    assert_eq!(world.active.counts().asked_again, 1);
}

#[test]
fn answers_are_begun_until_as_many_events_are_outstanding_as_may_be() {
    let mut world = World::new(|setup| {
        setup.outstanding_events = 2;
        setup.time_limit = None;
    });
    assert!(world.active.has_room());
    world.give(0, &[vec![vec![b'h']], vec![vec![b'h']]]);
    assert!(!world.active.has_room() && !world.active.has_room());
    assert_eq!(world.active.counts().limit_reached, 1, "it is counted once for each time that it begins");
    world.hanging.store(false, Ordering::Relaxed);
    world.settle(false);
    assert!(world.active.has_room());
}

#[test]
fn while_builder_units_hold_all_memory_for_results_fragments_leave_as_they_are() {
    let mut world = World::new(|setup| {
        setup.workers = 1;
        setup.memory = Box::new(|| Box::new(Outputs::new(Pool::new(4, 1))));
    });
    let event = |byte: u8| vec![vec![vec![byte, 0, byte, byte]]];
    world.give(0, &event(1));
    world.give(1, &event(2));
    world.settle(false);
    assert_eq!(world.active.counts().no_memory, 1, "the first result holds the only block");
    assert_eq!(world.fragments()[&(1, 0)], (vec![2, 0, 2, 2], false));
    world.sent.clear();
    world.give(2, &event(3));
    world.settle(false);
    assert_eq!(world.fragments()[&(2, 0)], (vec![3, 3, 3], true), "the block is free again");
}

/// Events of two fragments that become larger, and one that becomes smaller.
fn growing(sizes: [usize; 3]) -> Vec<Vec<Vec<u8>>> {
    sizes.iter().map(|size| vec![vec![b'g'; *size], vec![b'g'; *size], vec![1, 0]]).collect()
}

#[test]
fn results_may_be_larger_than_their_fragments_by_what_is_allowed_and_leave_in_messages_of_the_usual_size() {
    let mut world = World::new(|setup| {
        setup.growth = Growth {
            extra: ByteCount(10),
            fragment: ByteCount(64),
            event: ByteCount(1000),
            message: ByteCount(100),
        };
    });
    world.give(0, &growing([20, 60, 20]));
    world.settle(false);
    let sizes: Vec<usize> = world.fragments().values().map(|(payload, _)| payload.len()).collect();
    assert_eq!(sizes, [30, 30, 1, 64, 64, 1, 30, 30, 1]);
    assert!(world.fragments().values().all(|(_, processed)| *processed));
    let message =
        |parts: &SuperFragments<Bytes>| -> usize { parts.fragments.iter().map(|it| it.payload.len()).sum() };
    let messages: Vec<usize> = world.sent.iter().map(message).collect();
    assert_eq!(messages, [61, 129, 61], "each event is a message: two together would be more than 100 bytes");
    assert_eq!(world.active.take_difference(), (3, 48));
}

#[test]
fn an_event_that_would_not_fit_a_frame_leaves_as_it_was() {
    let mut world = World::new(|setup| {
        setup.growth = Growth {
            extra: ByteCount(10),
            fragment: ByteCount(64),
            event: ByteCount(100),
            message: ByteCount(1000),
        };
    });
    let events = growing([20, 60, 20]);
    world.give(0, &events);
    world.settle(false);
    let fragments = world.fragments();
    for (source, payload) in (0..).zip(&events[1]) {
        assert_eq!(fragments[&(1, source)], (payload.clone(), false));
    }
    assert_eq!(fragments.values().filter(|(_, processed)| *processed).count(), 6);
    assert_eq!((world.active.counts().too_large, world.active.counts().processed), (3, 6));
    assert_eq!(world.sent.len(), 1, "together they are no more than a message");
}

#[test]
fn a_slow_worker_is_waited_for_and_its_unit_says_so() {
    let mut world = World::new(|setup| setup.time_limit = Some(Nanos::from_secs(300)));
    assert!(!world.active.is_busy());
    world.give(0, &[vec![vec![b'h', 0]]]);
    for second in 0..299 {
        world.active.work(START + Nanos::from_secs(second));
        assert!(world.active.is_busy(), "after {second} s");
    }
    assert_eq!(world.active.counts().abandoned, 0);
    world.hanging.store(false, Ordering::Relaxed);
    world.settle(false);
    assert_eq!((world.active.counts().processed, world.active.is_busy()), (1, false));
}

#[test]
fn a_unit_that_was_held_up_itself_gives_no_worker_up() {
    let mut world = World::new(|_| {});
    world.give(0, &[vec![vec![b'h', 0]]]);
    world.active.work(START);
    world.active.work(START + Nanos::from_secs(60));
    assert_eq!(world.active.counts().abandoned, 0);
    world.hanging.store(false, Ordering::Relaxed);
    world.settle(false);
    assert_eq!(world.active.counts().processed, 1);
}
