use super::*;
use crate::address::{Address, doors_in, in_directory};
use crate::client::{Client, ClientError};
use sheaf_wire::tap::{EndReason, Frame, Kind};
use sheaf_wire::verdict::Tags;
use sheaf_wire::{EventId, Fragment, Nanos, NumberMark, RunNumber, SessionId, SourceId, TriggerType};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

/// Minutes: a machine that does much else makes a test slow, never red.
const PATIENT: Duration = Duration::from_secs(300);

fn options(directory: &Path) -> DoorOptions {
    DoorOptions {
        key: None,
        socket: Some(in_directory(directory, NodeId::builder(0))),
        listen: None,
        consumers: 2,
        bounds: Bounds {
            queue_events: 8,
            queue_bytes: ByteCount::mib(64),
            interval: Nanos::ZERO,
            copy_rate: None,
        },
        greeting: PATIENT,
        patience: PATIENT,
    }
}

fn open(options: DoorOptions) -> Feed {
    try_open(options).unwrap()
}

fn try_open(options: DoorOptions) -> Result<Feed, DoorError> {
    let header = FileHeader {
        run: RunNumber(7),
        node: NodeId::builder(0),
        session: SessionId(9),
        part: 0,
        created: Timestamp(1),
        time_base: None,
    };
    Door::new(options).open(&header, r#"{"tags":["muon","electron"],"sources":[3,4]}"#)
}

fn address(directory: &Path) -> Address {
    Address::Unix(doors_in(directory).unwrap().remove(0))
}

fn event(id: u64, bytes: usize) -> Event<Bytes> {
    let fragment = |source| Fragment {
        event: EventId(id),
        source: SourceId(source),
        time: Timestamp(id),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::from(vec![source as u8; bytes]),
    };
    Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(1),
        attempt: 1,
        incomplete: false,
        fragments: vec![fragment(3), fragment(4)],
        missing: Vec::new(),
    }
}

/// Feeds events until `until` holds, and fails if that takes too long.
fn feed_until(feed: &mut Feed, bytes: usize, mut until: impl FnMut(&Feed) -> bool) -> u64 {
    let watchdog = Instant::now();
    let mut id = 0;
    while !until(feed) {
        assert!(watchdog.elapsed() < PATIENT, "it did not happen within {PATIENT:?}");
        feed.see(Timestamp(id), &event(id, bytes), &Verdict::accept().with_tags(Tags(id % 4)));
        id += 1;
        std::thread::yield_now();
    }
    id
}

fn listening(feed: &Feed) -> usize {
    feed.seats.len()
}

/// Reads everything up to the door's final message.
fn read_to_end(client: &mut Client) -> (Vec<u64>, EndReason, Counts) {
    let mut ids = Vec::new();
    loop {
        match client.next(PATIENT).unwrap().expect("something comes") {
            Frame::Event(stored) => ids.push(stored.event.id.0),
            Frame::Status(_) => {}
            Frame::End(reason, counts) => return (ids, reason, counts),
            other => panic!("a door does not say {other:?}"),
        }
    }
}

#[test]
fn a_door_may_open_before_the_run_has_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("runs/run000007");
    let _feed = open(options(&directory));
    assert_eq!(doors_in(&directory).unwrap().len(), 1);
}

#[test]
fn a_consumer_gets_events_whole_and_in_order_and_hears_of_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut feed = open(options(directory.path()));
    let mut client = Client::connect(&address(directory.path()), PATIENT).unwrap();
    assert_eq!(client.welcome().header.run, RunNumber(7));
    assert_eq!((client.welcome().tag_names().len(), client.welcome().sources()), (2, vec![3, 4]));
    client.subscribe(&Selection { tags: Tags(2), ..Selection::default() }, "a test").unwrap();
    // On a busy machine the door's thread may come late, after many events.
    let first = feed_until(&mut feed, 10, |feed| listening(feed) == 1).next_multiple_of(4);
    for id in first..first + 16 {
        feed.see(Timestamp(id), &event(id, 10), &Verdict::accept().with_tags(Tags(id % 4)));
    }
    let door = feed.close().wait();
    let (ids, reason, counts) = read_to_end(&mut client);
    assert_eq!(reason, EndReason::BuilderEnded);
    assert_eq!(ids.len() as u64, counts.taken);
    assert!(ids.is_sorted() && ids.iter().all(|id| id % 4 >= 2), "{ids:?} have the tag");
    assert!(ids.len() >= 8, "what the queue holds is sent also when the run has ended");
    assert_eq!(counts.seen, counts.taken + counts.other_tags + counts.missed());
    assert_eq!((door.joined, door.sent, door.missed), (1, counts.taken, counts.missed()));
    assert!(doors_in(directory.path()).unwrap().is_empty(), "a closed door leaves nothing behind");
}

#[test]
fn one_who_reads_nothing_costs_others_no_event_and_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    // The keen one reads within that time, also on a busy machine.
    let patience = Duration::from_secs(5);
    let mut feed = open(DoorOptions { patience, ..options(directory.path()) });
    let mut lazy = Client::connect(&address(directory.path()), PATIENT).unwrap();
    lazy.subscribe(&Selection::default(), "lazy").unwrap();
    feed_until(&mut feed, 10, |feed| listening(feed) == 1);
    let mut keen = Client::connect(&address(directory.path()), PATIENT).unwrap();
    keen.subscribe(&Selection::default(), "keen").unwrap();
    feed_until(&mut feed, 10, |feed| listening(feed) == 2);
    let reader = std::thread::spawn(move || read_to_end(&mut keen));
    // 200 kB an event: the lazy one's socket and queue are full soon.
    feed_until(&mut feed, 100_000, |feed| listening(feed) == 1);
    let door = feed.close().wait();
    let (ids, _, counts) = reader.join().unwrap();
    assert_eq!((door.slow, ids.len() as u64), (1, counts.taken));
    assert!(counts.taken > 0 && door.missed > counts.missed(), "{counts:?}, {door:?}");
    let last = loop {
        match lazy.next(PATIENT) {
            Ok(frame) => assert!(!matches!(frame, Some(Frame::End(..)))),
            Err(error) => break error,
        }
    };
    assert!(matches!(last, ClientError::Closed { .. } | ClientError::Broken { .. }), "{last}");
}

#[test]
fn silent_visitors_and_those_who_talk_nonsense_are_dropped_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let greeting = Duration::from_millis(50);
    let feed = open(DoorOptions { greeting, consumers: 9, ..options(directory.path()) });
    let Address::Unix(path) = address(directory.path()) else { panic!("it is a socket") };
    let refused = |said: &[u8]| {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.set_read_timeout(Some(PATIENT)).unwrap();
        // The door may have closed the connection before it has read everything.
        let _ = socket.write_all(said);
        let mut rest = Vec::new();
        // Closed, in one way or the other.
        let _ = socket.read_to_end(&mut rest);
    };
    refused(b"");
    refused(b"GET / HTTP/1.1\r\n\r\n");
    refused(&tap::emit_status(&Counts::default()));
    let mut twice = tap::emit_subscribe(&Selection::default(), "twice");
    twice.extend_from_slice(b"and more");
    refused(&twice);
    let door = feed.close().wait();
    assert_eq!((door.silent, door.nonsense, door.joined), (1, 3, 0));
}

#[test]
fn who_comes_when_all_places_are_taken_is_told_so_and_a_place_is_free_again_when_one_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let mut feed = open(options(directory.path()));
    let address = address(directory.path());
    let join = |name: &str| {
        let mut client = Client::connect(&address, PATIENT)?;
        client.subscribe(&Selection::default(), name).map(|()| client)
    };
    let first = join("first").unwrap();
    let _second = join("second").unwrap();
    feed_until(&mut feed, 10, |feed| listening(feed) == 2);
    let refused = join("third").expect_err("there are two places");
    assert!(matches!(refused, ClientError::Full { .. }), "{refused}");
    drop(first);
    feed_until(&mut feed, 10, |feed| listening(feed) == 1);
    let mut third = None;
    feed_until(&mut feed, 10, |_| {
        third = third.take().or_else(|| join("third").ok());
        third.is_some()
    });
    let door = feed.close().wait();
    assert_eq!(read_to_end(third.as_mut().unwrap()).1, EndReason::BuilderEnded);
    assert!(door.refused >= 1 && door.joined >= 2, "{door:?}");
}

#[test]
fn a_door_has_also_a_tcp_address() {
    let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut feed = open(DoorOptions { listen: Some(listen), ..options(directory.path()) });
    let mut client = Client::connect(&Address::parse(&listen.to_string()), PATIENT).unwrap();
    client.subscribe(&Selection::default(), "over TCP").unwrap();
    feed_until(&mut feed, 10, |feed| listening(feed) == 1);
    assert_eq!(feed.close().wait().joined, 1);
    assert_eq!(read_to_end(&mut client).1, EndReason::BuilderEnded);
}

#[test]
fn an_address_in_use_does_not_keep_consumers_from_the_unix_socket() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut feed =
        open(DoorOptions { listen: Some(taken.local_addr().unwrap()), ..options(directory.path()) });
    assert!(matches!(feed.closed_sockets(), [DoorError::Listen { .. }]), "{:?}", feed.closed_sockets());
    let mut client = Client::connect(&address(directory.path()), PATIENT).unwrap();
    client.subscribe(&Selection::default(), "over the Unix socket").unwrap();
    feed_until(&mut feed, 10, |feed| listening(feed) == 1);
    assert_eq!(feed.close().wait().joined, 1);
    assert_eq!(read_to_end(&mut client).1, EndReason::BuilderEnded);
}

#[test]
fn a_door_without_any_socket_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let listen = Some(taken.local_addr().unwrap());
    let error = try_open(DoorOptions { listen, socket: None, ..options(directory.path()) }).err();
    assert!(matches!(error, Some(DoorError::Listen { .. })), "{error:?}");
}

#[test]
fn over_tcp_the_key_is_asked_for_and_who_lacks_it_gets_nothing() {
    let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (key, other) = (RunKey::random().unwrap(), RunKey::random().unwrap());
    let options = DoorOptions {
        listen: Some(listen),
        key: Some(key.clone()),
        consumers: 9,
        ..options(directory.path())
    };
    let mut feed = open(options);
    let network = Address::parse(&listen.to_string());
    let without = Client::connect(&network, PATIENT);
    assert!(matches!(without, Err(ClientError::KeyNeeded { .. })), "{without:?}");
    let wrong = Client::connect_with(&network, Some(&other), PATIENT);
    assert!(matches!(wrong, Err(ClientError::WrongKey { .. })), "{wrong:?}");
    let relayed = relay(listen, |proxy| Client::connect_with(&proxy, Some(&key), PATIENT).map(|_| ()));
    let relayed = relayed.expect("the recorded consumer is welcome");
    for said in [
        &relayed[..],
        &sheaf_wire::tap::emit_subscribe(&Selection::default(), "nobody"),
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = std::net::TcpStream::connect(listen).unwrap();
        stream.write_all(said).unwrap();
        let (mut received, challenge) = (Vec::new(), sheaf_wire::tap::emit_challenge([0; 32]).len());
        let end = sheaf_wire::tap::emit_end(EndReason::WrongKey, &Counts::default());
        stream.read_to_end(&mut received).unwrap();
        // A visitor that sends before the challenge gets no challenge.
        assert!(
            received.ends_with(&end) && received.len() <= challenge + end.len(),
            "a challenge, and the reason"
        );
    }
    let mut client = Client::connect_with(&network, Some(&key), PATIENT).unwrap();
    client.subscribe(&Selection::default(), "with the key").unwrap();
    // Within the host, the modes of the directory decide who may join.
    let mut near = Client::connect_with(&address(directory.path()), None, PATIENT).unwrap();
    near.subscribe(&Selection::default(), "at the socket").unwrap();
    feed_until(&mut feed, 10, |feed| listening(feed) == 2);
    let door = feed.close().wait();
    assert_eq!((door.joined, door.wrong_key, door.nonsense), (2, 5, 0));
    assert_eq!(read_to_end(&mut client).1, EndReason::BuilderEnded);
}

/// Lets a consumer join through a relay; returns the bytes that it sent to the door.
fn relay<E: std::fmt::Debug>(
    door: SocketAddr,
    join: impl FnOnce(Address) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::parse(&listener.local_addr().unwrap().to_string());
    let carrier = std::thread::spawn(move || {
        let (mut consumer, mut host) =
            (listener.accept().unwrap().0, std::net::TcpStream::connect(door).unwrap());
        let (mut back, mut from) = (consumer.try_clone().unwrap(), host.try_clone().unwrap());
        let returning = std::thread::spawn(move || std::io::copy(&mut from, &mut back));
        let mut said = Vec::new();
        let mut buffer = [0; 256];
        while let Ok(bytes @ 1..) = consumer.read(&mut buffer) {
            said.extend_from_slice(&buffer[..bytes]);
            host.write_all(&buffer[..bytes]).unwrap();
        }
        host.shutdown(std::net::Shutdown::Both).unwrap();
        let _ = returning.join();
        said
    });
    let joined = join(address);
    let said = carrier.join().unwrap();
    joined.map(|()| said)
}

#[test]
fn a_consumer_with_a_key_does_not_believe_a_door_without() {
    let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let feed = open(DoorOptions { listen: Some(listen), ..options(directory.path()) });
    let key = RunKey::random().unwrap();
    let joined = Client::connect_with(&Address::parse(&listen.to_string()), Some(&key), PATIENT);
    assert!(matches!(joined, Err(ClientError::NoKeyThere { .. })), "{joined:?}");
    assert_eq!(feed.close().wait().joined, 0);
}

#[test]
fn a_door_that_closes_while_its_thread_falls_asleep_closes() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..100 {
        assert_eq!(open(options(directory.path())).close().wait(), DoorCounts::default());
    }
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let feed = open(options(&deep));
    let client = Client::connect(&address(&deep), PATIENT).unwrap();
    assert_eq!(client.welcome().header.node, NodeId::builder(0));
    assert_eq!(feed.close().wait(), DoorCounts::default());
}

#[test]
fn a_frame_that_is_none_of_a_consumers_is_named_in_the_log() {
    let nonsense = visitor::Nonsense::Kind(Kind::Status);
    assert!(nonsense.to_string().contains("Status"));
}
