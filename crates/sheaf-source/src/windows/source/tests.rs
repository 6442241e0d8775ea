use super::*;
use proptest::prelude::*;
use sheaf_buffer::Heap;
use sheaf_wire::Hit;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const SLICE_PS: u64 = 1_000_000;
const SLICE: Nanos = Nanos(1_000);
const SOURCE: SourceId = SourceId(7);

/// Time slices that are given.
struct Slices {
    slices: VecDeque<Vec<u64>>,
    next: u64,
    keeps_data: bool,
}

impl Slices {
    fn new(slices: impl IntoIterator<Item = Vec<u64>>, keeps_data: bool) -> Box<Self> {
        Box::new(Self { slices: slices.into_iter().collect(), next: 0, keeps_data })
    }
}

impl Source for Slices {
    fn id(&self) -> SourceId {
        SOURCE
    }

    fn poll(&mut self, _now: Timestamp) -> SourcePoll {
        let Some(times) = self.slices.pop_front() else { return SourcePoll::Ended };
        self.next += 1;
        SourcePoll::Fragment(Fragment {
            event: EventId(self.next - 1),
            source: SOURCE,
            time: Timestamp(0),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: bytes(&times).into(),
        })
    }

    fn keeps_data(&self) -> bool {
        self.keeps_data
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

/// An interval with its hits.
type Block = (HitInterval, Vec<u8>);

/// An archive that gives an interval when it is asked for the second time.
#[derive(Clone, Default)]
struct Archive {
    hits: Arc<Mutex<Vec<Block>>>,
    asked: BTreeSet<HitInterval>,
}

impl HitArchive for Archive {
    fn keep(&mut self, source: SourceId, interval: HitInterval, hits: &[u8], _now: Timestamp) {
        assert_eq!(source, SOURCE);
        self.hits.lock().unwrap().push((interval, hits.to_vec()));
    }

    fn read(
        &mut self,
        _source: SourceId,
        interval: HitInterval,
        _now: Timestamp,
        hits: &mut Vec<u8>,
    ) -> Result<(), NotHeld> {
        if self.asked.insert(interval) {
            return Err(NotHeld::NotYet);
        }
        for (_, block) in self.hits.lock().unwrap().iter() {
            hits.extend_from_slice(sheaf_wire::hit::hits_in(block, interval));
        }
        Ok(())
    }
}

fn bytes(times: &[u64]) -> Vec<u8> {
    times
        .iter()
        .flat_map(|time_ps| Hit { time_ps: *time_ps, channel: 1, value: 2, extra: 3 }.to_bytes())
        .collect()
}

fn windowed(source: Box<dyn Source>, archive: Option<Archive>) -> WindowSource<Heap> {
    let archive = archive.map(|archive| Box::new(archive) as Box<dyn HitArchive>);
    WindowSource::new(source, SLICE, ByteCount::kib(64), archive, Pool::new(1 << 20, 4))
}

fn window(from_ps: u64, until_ps: u64) -> HitInterval {
    HitInterval { from_ps, until_ps }
}

/// Polls until the source has nothing more to do. Returns what it gives of each event.
fn answers(source: &mut WindowSource<Heap>) -> BTreeMap<u64, Result<Vec<u8>, MissingReason>> {
    let mut all = BTreeMap::new();
    let mut now = Timestamp(0);
    loop {
        let poll = source.poll(now);
        while let Some(event) = source.poll_event() {
            let SourceEvent::Missing { event, reason } = event else { panic!("{event:?}") };
            assert_eq!(all.insert(event.0, Err(reason)), None, "one answer an event");
        }
        match poll {
            SourcePoll::Fragment(fragment) => {
                let answer = Ok(fragment.payload.to_vec());
                assert_eq!(all.insert(fragment.event.0, answer), None, "one answer an event");
            }
            SourcePoll::NotBefore(at) => now = now.max(at),
            SourcePoll::Idle => return all,
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    /// Recorded and live hits, with and without an archive; windows of any length, some of them together, of which some are asked for
    /// before the hits are there.
    #[test]
    fn an_answer_has_what_a_plain_list_has(
        slices in prop::collection::vec(0..300_usize, 1..80),
        requests in prop::collection::vec(
            prop::collection::vec((0..80 * SLICE_PS, 0..3 * SLICE_PS), 1..4), 1..20,
        ),
        early in 0..20_usize, keeps_data: bool, has_archive: bool,
    ) {
        let times = |(number, hits): (u64, &usize)| -> Vec<u64> {
            (0..*hits as u64).map(|hit| number * SLICE_PS + hit * SLICE_PS / *hits as u64).collect()
        };
        let slices: Vec<Vec<u64>> = (0..).zip(&slices).map(times).collect();
        let all = slices.concat();
        let end_ps = slices.len() as u64 * SLICE_PS;
        let mut source = windowed(Slices::new(slices, keeps_data), has_archive.then(Archive::default));
        let windows = |request: &[(u64, u64)]| -> Vec<HitInterval> {
            request.iter().map(|(from, length)| window(*from, from + length)).collect()
        };
        let early = early.min(requests.len());
        let mut found = BTreeMap::new();
        for (number, request) in (0..).zip(&requests) {
            if number == early as u64 {
                found.append(&mut answers(&mut source));
            }
            source.handle_windows(EventId(number), &windows(request));
        }
        found.append(&mut answers(&mut source));
        prop_assert_eq!(found.len(), requests.len(), "each request has an answer");
        let oldest = source.store.kept_from_ps();
        for (number, request) in (0..).zip(&requests) {
            let windows = windows(request);
            let mut expected: Vec<u64> =
                all.iter().copied().filter(|time| windows.iter().any(|window| window.contains(*time))).collect();
            expected.sort_unstable();
            match &found[&number] {
                Ok(hits) => prop_assert_eq!(hits, &bytes(&expected), "request {}", number),
                Err(MissingReason::SourceEnded) => {
                    prop_assert!(windows.iter().any(|window| window.from_ps >= end_ps));
                }
                Err(MissingReason::WindowExpired) => {
                    prop_assert!(!has_archive);
                    prop_assert!(windows.iter().any(|window| window.from_ps < oldest));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        let books = source.books;
        prop_assert_eq!(books.hits_kept, books.hits_archived + books.hits_deleted + source.store.len());
    }
}

#[test]
fn recorded_hits_wait_for_requests_and_live_ones_do_not() {
    let slices = || (0..100_u64).map(|slice| (0..100).map(|hit| slice * SLICE_PS + hit).collect());
    for (keeps_data, archived) in [(true, false), (false, true)] {
        let mut source = windowed(Slices::new(slices(), keeps_data), Some(Archive::default()));
        assert!(answers(&mut source).is_empty());
        let books = source.books;
        assert_eq!(books.hits_archived > 0, archived, "{books:?}");
        assert_eq!(books.hits_kept == 10_000, archived, "{books:?}");
        // What is far ahead is read.
        source.handle_windows(EventId(3), &[window(99 * SLICE_PS + 10, 99 * SLICE_PS + 13)]);
        let hits = [99 * SLICE_PS + 10, 99 * SLICE_PS + 11, 99 * SLICE_PS + 12];
        assert_eq!(answers(&mut source)[&3], Ok(bytes(&hits)));
    }
}

#[test]
fn a_request_that_is_cancelled_or_is_not_on_the_timeline_has_no_fragment() {
    let mut source = windowed(Slices::new([vec![1], vec![SLICE_PS]], true), None);
    source.handle_windows(EventId(1), &[window(0, 2)]);
    source.handle_windows(EventId(2), &[window(0, 2)]);
    source.handle_windows(EventId(3), &[window(0, 2), HitInterval::NONE]);
    source.cancel_windows(EventId(1));
    let found = answers(&mut source);
    assert_eq!(found, [(2, Ok(bytes(&[1]))), (3, Err(MissingReason::WindowOffTimeline))].into());
    let books = source.stats().windows.unwrap();
    assert_eq!((books.given, books.cancelled, books.off_timeline), (1, 1, 1));
}

#[test]
fn a_request_that_waits_for_long_is_reported_once() {
    let mut source = windowed(Box::new(Quiet), None);
    source.handle_windows(EventId(4), &[window(0, 5_000_000)]);
    let mut warnings = Vec::new();
    for second in 0..100 {
        assert_eq!(source.poll(Timestamp(second * 1_000_000_000)), SourcePoll::Idle);
        warnings.extend(std::iter::from_fn(|| source.poll_event()));
    }
    let [SourceEvent::Warning(text)] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(
        text.contains("event 4 waits for hits up to 5 us") && text.contains("source.timed.zero"),
        "{text}"
    );
}

/// A source that has nothing.
struct Quiet;

impl Source for Quiet {
    fn id(&self) -> SourceId {
        SOURCE
    }

    fn poll(&mut self, _now: Timestamp) -> SourcePoll {
        SourcePoll::Idle
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

#[test]
fn a_request_is_answered_although_the_pool_is_in_use() {
    let slices = (0..10_u64).map(|slice| (0..200).map(|hit| slice * SLICE_PS + hit).collect::<Vec<_>>());
    let pool = Pool::new(4_096, 2);
    let mut source =
        WindowSource::new(Slices::new(slices.clone(), true), SLICE, ByteCount::kib(64), None, pool);
    let mut held = Vec::new();
    for event in 0..10 {
        source.handle_windows(EventId(event), &[window(event * SLICE_PS, (event + 1) * SLICE_PS)]);
        let SourcePoll::Fragment(fragment) = source.poll(Timestamp(0)) else {
            panic!("event {event} has no hits")
        };
        held.push(fragment.payload);
    }
    let expected: Vec<Vec<u8>> = slices.map(|times| bytes(&times)).collect();
    assert_eq!(held, expected);
    assert_eq!(source.stats().out_of_memory, 1, "counted once as long as it lasts");
}

#[test]
fn an_answer_that_is_too_large_for_a_fragment_is_refused() {
    let many: Vec<u64> = (0..70_000).collect();
    let mut source = windowed(Slices::new([many], true), None);
    source.handle_windows(EventId(1), &[window(0, 66_000)]);
    source.handle_windows(EventId(2), &[window(0, 65_000)]);
    let found = answers(&mut source);
    assert_eq!(found[&1], Err(MissingReason::FragmentRefused));
    assert_eq!(found[&2].as_ref().map(Vec::len), Ok(65_000 * HIT_BYTES));
}
