//! A readout unit's side and clients, connected through shared memory.

mod crowds;
mod reserve;

use crate::{ClientOptions, FeedError, FeedSetup, SourceClient, SourceRecord, client::SourceFragment};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_buffer::Pool;
use sheaf_protocol::feed::ServerConfig;
use sheaf_shm::door::{Hello, Visit, VisitError, Visited};
use sheaf_source::{Batch, BatchEnd, Source, SourceEvent};
use sheaf_tcp::{HostOptions, TcpSettings};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::feed::{FragmentHead, FragmentsHead, FromClient, FromReadout, Phase, Refusal};
use sheaf_wire::run_record::RecordKind;
use sheaf_wire::{ByteCount, EventId, Nanos, NodeId, RunNumber, SessionId, SourceId, Timestamp};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Minutes: a machine that does much else makes a test slow, never red.
const PATIENCE: Duration = Duration::from_secs(300);

const MAX_FRAGMENT: u64 = 4096;

/// The side of a readout unit that keeps everything it accepts.
struct Unit {
    sources: Vec<Box<dyn Source>>,
    /// Event and payload of all accepted fragments of each source.
    accepted: Vec<Vec<(u64, Vec<u8>)>>,
    ended: Vec<bool>,
    events: Vec<(usize, SourceEvent)>,
    round: u64,
    /// Accepts at most as many fragments of a source in a round.
    most: usize,
    /// Where programs of other hosts connect.
    address: String,
    /// Accepts nothing of this source.
    held: Option<usize>,
    directory: Arc<tempfile::TempDir>,
}

/// The ways to a readout unit.
const WAYS: [Way; 2] = [Way::Shared, Way::Network];

#[derive(Clone, Copy, Debug)]
enum Way {
    Shared,
    Network,
}

impl Unit {
    fn new(sources: u32, window_fragments: u64) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self::of_session(SessionId(1), (sources, window_fragments), directory.into())
    }

    fn of_session(
        session: SessionId,
        (sources, window_fragments): (u32, u64),
        directory: Arc<tempfile::TempDir>,
    ) -> Self {
        Self::of_session_at(session, (sources, window_fragments), directory, "127.0.0.1:0")
    }

    /// As [`Self::of_session`], at this address of the network.
    fn of_session_at(
        session: SessionId,
        (sources, window_fragments): (u32, u64),
        directory: Arc<tempfile::TempDir>,
        address: &str,
    ) -> Self {
        let setup = setup(session, (sources, window_fragments), &directory, address);
        Self::open(setup, directory)
    }

    fn open(setup: FeedSetup, directory: Arc<tempfile::TempDir>) -> Self {
        let listen = setup.listen.as_ref().expect("it listens");
        let address = listen.listener.local_addr().expect("it is bound").to_string();
        let sources = setup.open(|| Pool::new(64 << 10, 8)).expect("the directory is new");
        let (accepted, ended) = (vec![Vec::new(); sources.len()], vec![false; sources.len()]);
        Self {
            sources,
            accepted,
            ended,
            events: Vec::new(),
            round: 0,
            most: 64,
            held: None,
            address,
            directory,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("ru0.feed")
    }

    fn address(&self, way: Way) -> PathBuf {
        match way {
            Way::Shared => self.socket(),
            Way::Network => PathBuf::from(&self.address),
        }
    }

    fn start(&mut self) {
        self.sources.iter_mut().for_each(|source| source.start());
    }

    /// One round of the thread of a readout unit.
    fn work(&mut self) {
        self.round += 1;
        for (index, source) in self.sources.iter_mut().enumerate() {
            let mut batch = Batch::default();
            let most = if self.held == Some(index) { 0 } else { self.most };
            let end = source.poll_batch(Timestamp(self.round), most, &mut batch);
            self.ended[index] |= end == BatchEnd::Ended;
            for fragment in &batch.fragments {
                let from = fragment.payload.offset as usize;
                let payload = &batch.payload[from..from + fragment.payload.length as usize];
                assert!(fragment.checksum.is_none_or(|checksum| checksum == crc32c(payload)));
                self.accepted[index].push((fragment.event.0, payload.to_vec()));
            }
            source.handle_accepted(batch.fragments.len());
            self.events.extend(std::iter::from_fn(|| source.poll_event()).map(|event| (index, event)));
            let _ = source.prepare_to_sleep();
        }
    }

    fn work_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            self.work();
            assert!(start.elapsed() < PATIENCE, "it does not come to an end");
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// The side of a readout unit for eight programs.
fn setup(
    session: SessionId,
    (sources, window_fragments): (u32, u64),
    directory: &tempfile::TempDir,
    address: &str,
) -> FeedSetup {
    let sources: Vec<SourceId> = (0..sources).map(SourceId).collect();
    FeedSetup {
        node: NodeId::readout(0),
        run: RunNumber(7),
        session,
        socket: directory.path().join("ru0.feed"),
        listen: Some(HostOptions {
            node: NodeId::readout(0),
            run: RunNumber(7),
            session,
            listener: TcpListener::bind(address).expect("a free port"),
            max_guests: 8,
            settings: TcpSettings { blocks: 32, ..TcpSettings::default() },
            tls: None,
            names: Vec::new(),
            key: None,
        }),
        awaited: sources.clone(),
        server: ServerConfig {
            sources,
            window_fragments,
            window: ByteCount(128 << 10),
            max_fragment: ByteCount(MAX_FRAGMENT),
            max_message: ByteCount(32 << 10),
            max_record: ByteCount::kib(64),
            max_clients: 8,
        },
        waker: Waker::noop().clone(),
    }
}

fn options(sources: &[u32]) -> ClientOptions {
    ClientOptions {
        sources: sources.iter().map(|source| SourceId(*source)).collect(),
        name: "board".into(),
        checksum: true,
        keep: true,
        patience: PATIENCE,
        ..ClientOptions::default()
    }
}

fn payload(event: u64) -> Vec<u8> {
    vec![event as u8; (event % 1000) as usize]
}

fn fragment(event: u64, payload: &[u8]) -> SourceFragment<'_> {
    SourceFragment { event: EventId(event), time: Timestamp(event), payload }
}

/// Runs `client` on a thread while the unit works.
fn beside<T: Send>(unit: &mut Unit, way: Way, client: impl FnOnce(PathBuf) -> T + Send) -> T {
    let (socket, over) = (unit.address(way), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let result = client(socket);
            over.store(true, Ordering::Release);
            result
        });
        while !over.load(Ordering::Acquire) && !thread.is_finished() {
            unit.work();
            std::thread::sleep(Duration::from_micros(50));
        }
        thread.join().expect("the client succeeds")
    })
}

fn expected(events: impl Iterator<Item = u64>) -> Vec<(u64, Vec<u8>)> {
    events.map(|event| (event, payload(event))).collect()
}

#[test]
fn fragments_arrive_in_order_one_by_one_and_many_at_once() {
    for way in WAYS {
        let mut unit = Unit::new(2, 500);
        unit.start();
        beside(&mut unit, way, |socket| {
            let mut client = SourceClient::connect(&socket, options(&[0, 1])).expect("it accepts clients");
            assert!(client.wait_for_start(None).expect("connected"));
            assert_eq!(client.run(), Some(RunNumber(7)));
            for event in 0..2_000 {
                client.send(0, fragment(event, &payload(event))).expect("connected");
            }
            let payloads: Vec<Vec<u8>> = (0..2_000).map(payload).collect();
            let all: Vec<_> =
                payloads.iter().enumerate().map(|(event, it)| fragment(event as u64, it)).collect();
            client.send_all(1, &all).expect("connected");
            assert!(client.drain().expect("connected"));
            client.end(0).expect("connected");
            client.end(1).expect("connected");
            assert!(matches!(client.send(1, fragment(1, b"")), Err(FeedError::SourceEnded(SourceId(1)))));
        });
        unit.work_until(|unit| unit.ended == [true; 2]);
        for accepted in &unit.accepted {
            assert_eq!(*accepted, expected(0..2_000));
        }
    }
}

#[test]
fn a_client_waits_for_the_start_and_its_absence_delays_it() {
    let mut unit = Unit::new(2, 100);
    assert!(!unit.sources[0].is_ready());
    let socket = unit.socket();
    let mut client = std::thread::scope(|scope| {
        let thread = scope.spawn(|| SourceClient::connect(&socket, options(&[1])));
        unit.work_until(|_| thread.is_finished());
        thread.join().expect("no panic").expect("it accepts clients")
    });
    assert!(!unit.sources[0].is_ready(), "source 0 is absent");
    assert_eq!(client.phase(), Phase::Waiting);
    assert!(!client.try_send(0, fragment(0, b"early")).expect("connected"));
    client.decline("the high voltage is off").expect("connected");
    unit.work();
    let reason = SourceEvent::Declined { name: "board".into(), reason: "the high voltage is off".into() };
    let news: Vec<_> = unit.events.iter().filter(|(_, event)| *event == reason).collect();
    assert_eq!(news.len(), 1);
}

#[test]
fn a_client_that_is_not_accepted_fills_its_window_and_no_more() {
    for way in WAYS {
        let mut unit = Unit::new(1, 10);
        unit.start();
        unit.most = 0;
        let mut client = beside(&mut unit, way, |socket| {
            let mut client = SourceClient::connect(&socket, options(&[0])).expect("it accepts clients");
            assert!(client.wait_for_start(None).expect("connected"));
            let sent =
                (0..20).take_while(|event| client.try_send(0, fragment(*event, b"x")).expect("connected"));
            assert_eq!(sent.count(), 10);
            let large = vec![0; MAX_FRAGMENT as usize + 1];
            assert!(matches!(client.try_send(0, fragment(99, &large)), Err(FeedError::TooLarge { .. })));
            client
        });
        assert_eq!(client.progress(0), (10, 0));
        unit.most = 64;
        unit.work_until(|unit| unit.accepted[0].len() == 10);
        unit.work_until(|_| client.try_send(0, fragment(10, b"x")).expect("connected"));
        // What the unit accepts may be told in several messages.
        unit.work_until(|_| {
            client.wait(Duration::from_millis(1)).expect("connected");
            client.progress(0) == (11, 11)
        });
    }
}

/// Notifies all sources of the unit; the first one notifies the clients.
#[test]
fn clients_see_a_pause_and_feed_during_it() {
    for way in WAYS {
        let mut unit = Unit::new(2, 4);
        unit.start();
        let mut client = beside(&mut unit, way, |socket| {
            SourceClient::connect(&socket, options(&[0, 1])).expect("it accepts clients")
        });
        for (round, phase) in [Phase::Paused, Phase::Running, Phase::Paused].into_iter().enumerate() {
            unit.sources.iter_mut().for_each(|source| source.handle_pause(phase == Phase::Paused));
            unit.work_until(|_| {
                client.wait(Duration::from_millis(1)).expect("connected");
                client.phase() == phase
            });
            // More than the credit of the moment.
            for event in 0..20 {
                let event = 20 * round as u64 + event;
                unit.work_until(|_| client.try_send(0, fragment(event, b"x")).expect("connected"));
            }
        }
        unit.work_until(|unit| unit.accepted[0].len() == 60);
        let seen: Vec<Phase> = std::iter::from_fn(|| client.poll_phase()).collect();
        assert!(seen.ends_with(&[Phase::Paused, Phase::Running, Phase::Paused]), "{seen:?}");
    }
}

#[test]
fn the_next_client_of_a_source_learns_where_it_continues() {
    for way in WAYS {
        let mut unit = Unit::new(1, 50);
        unit.start();
        for life in 0..5_u64 {
            beside(&mut unit, way, move |socket| {
                let mut client = SourceClient::connect(&socket, options(&[0])).expect("it accepts clients");
                let next = client.last_event(0).map_or(0, |event| event.0 + 1);
                assert_eq!(next, client.progress(0).0, "events are numbered like fragments");
                for event in next..next + 100 + life {
                    client.send(0, fragment(event, &payload(event))).expect("connected");
                }
                // It dies without a word; what it had written is there.
            });
        }
        unit.work_until(|unit| unit.events.len() == 11);
        assert_eq!(unit.accepted[0], expected(0..510));
        let gone = unit.events.iter().filter(|(_, event)| *event == SourceEvent::Gone).count();
        assert_eq!(gone, 6, "before the first and after each, and back five times: {:?}", unit.events);
    }
}

#[test]
fn fragments_of_a_source_that_waits_hold_up_no_other_and_go_to_the_next_session() {
    let mut unit = Unit::new(2, 500);
    unit.start();
    unit.held = Some(0);
    let mut client = beside(&mut unit, Way::Shared, |socket| {
        let mut client = SourceClient::connect(&socket, options(&[0, 1])).expect("it accepts clients");
        assert!(client.wait_for_start(None).expect("connected"));
        for event in 900..1_000 {
            client.send(0, fragment(event, &payload(event))).expect("connected");
        }
        // Several times what the ring holds.
        for event in 0..3_000 {
            client.send(1, fragment(event, &payload(event))).expect("connected");
        }
        while client.progress(1) != (3_000, 3_000) {
            client.wait(Duration::from_millis(10)).expect("connected");
        }
        for event in 1_900..1_920 {
            client.send(0, fragment(event, &payload(event))).expect("connected");
        }
        client
    });
    unit.work();
    assert_eq!(client.progress(0), (120, 0));
    assert_eq!((unit.accepted[0].len(), unit.accepted[1].len()), (0, 3_000));
    let directory = unit.directory.clone();
    drop(unit);
    let mut unit = Unit::of_session(SessionId(2), (2, 500), directory);
    unit.start();
    beside(&mut unit, Way::Shared, move |_| assert!(client.drain().expect("the next session accepts it")));
    assert_eq!(unit.accepted[0], expected((900..1_000).chain(1_900..1_920)));
    assert_eq!(unit.accepted[1], [], "what was accepted is not sent again");
}

#[test]
fn a_run_that_ends_is_told_to_its_clients_with_what_was_accepted() {
    for way in WAYS {
        let mut unit = Unit::new(1, 50);
        unit.start();
        let mut client = beside(&mut unit, way, |socket| {
            let mut client = SourceClient::connect(&socket, options(&[0])).expect("it accepts clients");
            client.wait_for_start(None).expect("connected");
            for event in 0..20 {
                client.send(0, fragment(event, b"x")).expect("connected");
            }
            client
        });
        unit.work_until(|unit| unit.accepted[0].len() == 20);
        unit.sources[0].stop();
        let start = Instant::now();
        while client.phase() != Phase::Ended {
            client.wait(Duration::from_millis(10)).expect("the last words are there");
            assert!(start.elapsed() < PATIENCE);
        }
        assert_eq!(client.progress(0), (20, 20));
        assert!(matches!(client.send(0, fragment(20, b"x")), Err(FeedError::RunEnded(RunNumber(7)))));
    }
}

#[test]
fn a_record_after_the_end_of_the_run_does_not_wait_for_fragments_that_nobody_accepts() {
    for way in WAYS {
        let mut unit = Unit::new(1, 50);
        unit.start();
        unit.most = 0;
        let late = ClientOptions { late_records: true, ..options(&[0]) };
        let mut client = beside(&mut unit, way, move |socket| {
            let mut client = SourceClient::connect(&socket, late).expect("it accepts clients");
            client.wait_for_start(None).expect("connected");
            for event in 0..20 {
                client.send(0, fragment(event, b"x")).expect("connected");
            }
            client
        });
        // It arrives after the end.
        assert!(client.try_send(0, fragment(20, b"x")).expect("connected"));
        unit.sources[0].stop();
        let (kind, name) = (RecordKind::End, "counters".to_owned());
        let record = SourceRecord { kind, time: None, name, content: Bytes::new() };
        assert!(client.try_record(0, &record).expect("connected"));
        let is_record = |event: &(usize, SourceEvent)| matches!(event.1, SourceEvent::Record(_));
        unit.work_until(|unit| unit.events.iter().any(is_record));
        assert!(unit.sources[0].is_recording());
        assert_eq!(unit.accepted[0], []);
        assert_eq!(unit.sources[0].stats().refused, [], "the client is still connected");
    }
}

/// A client that says what it likes.
struct Stranger(Visit);

impl Stranger {
    fn enter(unit: &mut Unit) -> Self {
        let socket = unit.socket();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || Visit::meet(&socket, &Hello::default()));
            unit.work_until(|_| thread.is_finished());
            Self(thread.join().expect("no panic").expect("there is room"))
        })
    }

    fn say(&mut self, message: &[u8]) {
        assert!(self.0.push(&[message]));
        self.0.flush();
    }

    /// Returns the reason of its refusal, once the unit has closed the connection.
    fn refusal(mut self, unit: &mut Unit) -> Option<Refusal> {
        let (mut last, mut record) = (None, Vec::new());
        let start = Instant::now();
        loop {
            unit.work();
            match self.0.take(&mut record) {
                Ok(Visited::Record) => {
                    if let Ok(FromReadout::Refused { refusal, .. }) = FromReadout::read(&record) {
                        last = Some(refusal);
                    }
                }
                Ok(Visited::Nothing) => self.0.wait(Nanos::from_millis(1)),
                Err(VisitError::Closed) => return last,
                Err(error) => panic!("{error}"),
            }
            assert!(start.elapsed() < PATIENCE, "the connection stays");
        }
    }
}

fn hello(source: u32) -> Vec<u8> {
    FromClient::Hello(sheaf_wire::feed::Hello {
        sources: vec![SourceId(source)],
        name: "stranger".into(),
        late_records: false,
    })
    .emit()
}

/// A message of fragments that declares `count`, whatever it has.
fn fragments(first: u64, count: u32, payloads: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for payload in payloads {
        let length = payload.len() as u32;
        let head = FragmentHead { event: EventId(0), time: Timestamp(0), length, checksum: None };
        body.extend([&head.emit(), *payload].concat());
    }
    let length = (sheaf_wire::feed::FRAGMENTS_HEAD_BYTES + body.len()) as u32;
    [&FragmentsHead { source: SourceId(1), count, first }.emit(length)[..], &body].concat()
}

#[test]
fn each_kind_of_lie_ends_its_own_connection_by_name() {
    let mut unit = Unit::new(2, 50);
    unit.start();
    let mut other = hello(1);
    other[8] = 99;
    let large = vec![0; MAX_FRAGMENT as usize + 1];
    let mut cut = fragments(0, 2, &[b"one", b"two"]);
    cut.truncate(cut.len() - 1);
    let length = cut.len() as u32;
    cut[..4].copy_from_slice(&length.to_le_bytes());
    let cases: [(Vec<Vec<u8>>, Refusal); 9] = [
        (vec![b"garbage".to_vec()], Refusal::InvalidMessage),
        (vec![other], Refusal::OtherVersion),
        (vec![hello(2)], Refusal::UnknownSource),
        (vec![fragments(0, 1, &[b"x"])], Refusal::InvalidMessage),
        (vec![hello(1), fragments(7, 1, &[b"x"])], Refusal::SequenceGap),
        (vec![hello(1), fragments(0, 51, &[b"x".as_slice(); 51])], Refusal::OverCredit),
        (vec![hello(1), fragments(0, 1, &[&large])], Refusal::TooLarge),
        (vec![hello(1), fragments(0, 3, &[b"x"])], Refusal::InvalidMessage),
        (vec![hello(1), cut], Refusal::InvalidMessage),
    ];
    for (messages, refusal) in cases {
        let mut stranger = Stranger::enter(&mut unit);
        for message in &messages {
            stranger.say(message);
            // The welcome has the limits.
            unit.work();
        }
        assert_eq!(stranger.refusal(&mut unit), Some(refusal), "{} messages", messages.len());
    }
    assert!(unit.accepted.iter().all(Vec::is_empty), "nothing of it counts");
    beside(&mut unit, Way::Network, |socket| {
        let mut client = SourceClient::connect(&socket, options(&[1])).expect("its source is free");
        client.send(0, fragment(5, b"x")).expect("connected");
        assert!(client.drain().expect("connected"));
        let impatient = ClientOptions { patience: Duration::ZERO, ..options(&[1]) };
        let second = SourceClient::connect(&socket, impatient);
        let refused = matches!(second, Err(FeedError::Refused { refusal: Refusal::SourceTaken, .. }));
        assert!(refused, "it has a client");
        // One with patience comes in as soon as the first has gone.
        std::thread::scope(|scope| {
            let next =
                scope.spawn(|| SourceClient::connect(&socket, options(&[1])).map(|next| next.last_event(0)));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!next.is_finished(), "the first is there");
            drop(client);
            let last = next.join().expect("it does not panic").expect("its source is free");
            assert_eq!(last, Some(EventId(5)));
        });
    });
}

#[test]
fn an_address_without_a_readout_unit_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(&[0]);
    options.patience = Duration::ZERO;
    let error =
        SourceClient::connect(&directory.path().join("ru9.feed"), options).expect_err("nobody is there");
    assert!(error.to_string().contains("ru9.feed"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// The ring of a client never harms the unit, and a client that follows is served.
    #[test]
    fn any_messages_are_survived(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..10)) {
        let mut unit = Unit::new(2, 50);
        unit.start();
        let mut stranger = Stranger::enter(&mut unit);
        for message in &messages {
            stranger.say(message);
        }
        unit.work();
        let _ = stranger.refusal(&mut unit);
        beside(&mut unit, Way::Network, |socket| {
            let mut client = SourceClient::connect(&socket, options(&[0, 1])).expect("it accepts clients");
            client.send(0, fragment(1, b"x")).expect("connected");
            assert!(client.drain().expect("connected"));
        });
        prop_assert_eq!(&unit.accepted[0], &vec![(1, b"x".to_vec())]);
    }
}
