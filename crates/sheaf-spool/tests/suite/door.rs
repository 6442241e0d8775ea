//! Requesters at the door of a spool.

use crate::recording::{SLICE_PS, TestSlice, filter, found, options};
use sheaf_key::RunKey;
use sheaf_spool::{Address, Client, ClientError, Door, DoorOptions, Spool};
use sheaf_wire::HitInterval;
use sheaf_wire::spool_link::{EndReason, GapReason, WindowRequest};
use sheaf_wire::{Hit, SourceId, Timestamp};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn slices() -> Vec<TestSlice> {
    let hit = |time_ps| Hit { time_ps, channel: 1, value: 2, extra: 0 };
    let slice = |number: u64| TestSlice {
        source: SourceId((number % 3) as u32),
        number: number / 3,
        hits: (0..10).map(|at| hit(number / 3 * SLICE_PS + at * 7)).collect(),
    };
    (0..90).map(slice).collect()
}

fn spool(directory: &Path, slices: &[TestSlice]) -> Spool {
    let (mut spool, _) = Spool::open(options(directory, 1, 1 << 20)).unwrap();
    for slice in slices {
        spool.take(slice.source, slice.interval(), &slice.payload(), Timestamp(1)).unwrap();
    }
    spool.tend(Timestamp(u64::MAX));
    while spool.books().waiting > 0 {
        std::thread::sleep(Duration::from_micros(50));
    }
    spool
}

const fn request(from_ps: u64, until_ps: u64) -> WindowRequest {
    WindowRequest { number: 0, window: HitInterval { from_ps, until_ps }, session: None, sources: Vec::new() }
}

#[test]
fn windows_are_served_while_recording_over_both_kinds_of_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let slices = slices();
    let mut spool = spool(directory.path(), &slices);
    let socket = directory.path().join("spool.sock");
    let listen = Some(([127, 0, 0, 1], 0).into());
    let options = DoorOptions { socket: Some(socket.clone()), listen, ..DoorOptions::default() };
    let door = Door::open(options, spool.archive().clone()).unwrap();
    let tcp = Address::Tcp(door.address().unwrap().to_string());
    for address in [Address::Unix(socket.clone()), tcp] {
        let mut client = Client::connect(&address, None, PATIENCE).unwrap();
        assert!(client.welcome().contains("sheaf-spool"), "{}", client.welcome());
        for (from_ps, until_ps) in [(0, 3_000), (150, 151), (1_234, 2_345)] {
            let (window, done) = client.window(&request(from_ps, until_ps)).unwrap();
            let expected = filter(&slices, HitInterval { from_ps, until_ps }, &[]);
            assert_eq!(found(&window), expected);
            assert_eq!((done.hits, window.gaps.len()), (window.hit_count(), 0));
        }
        let (window, _) = client.window(&request(2_900, 3_100)).unwrap();
        assert!(window.gaps.iter().all(|gap| gap.reason == GapReason::Awaited) && window.gaps.len() == 3);
    }
    let counts = door.close();
    assert_eq!((counts.joined, counts.windows), (2, 8));
    assert!(!socket.exists());
    assert!(spool.finish(Timestamp(1)).is_balanced());
}

#[test]
fn over_the_network_a_requester_needs_the_key_of_the_spool() {
    let directory = tempfile::tempdir().unwrap();
    let spool = spool(directory.path(), &slices());
    let (key, other) = (RunKey::new(&[1; 32]), RunKey::new(&[2; 32]));
    let listen = Some(([127, 0, 0, 1], 0).into());
    let options = DoorOptions { listen, key: Some(key.clone()), ..DoorOptions::default() };
    let door = Door::open(options, spool.archive().clone()).unwrap();
    let address = Address::Tcp(door.address().unwrap().to_string());
    let mut client = Client::connect(&address, Some(&key), PATIENCE).unwrap();
    assert_eq!(client.window(&request(0, 3_000)).unwrap().1.hits, 900);
    let error = Client::connect(&address, Some(&other), PATIENCE).unwrap_err();
    assert!(matches!(error, ClientError::WrongKey { .. }), "{error}");
    let error = Client::connect(&address, None, PATIENCE).unwrap_err();
    assert!(matches!(error, ClientError::KeyNeeded { .. }), "{error}");
    while door.counts().wrong_key < 2 {
        std::thread::sleep(Duration::from_micros(50));
    }
    assert_eq!(door.close().joined, 1);
}

#[test]
fn a_requester_beyond_the_bound_is_refused_and_one_that_sends_nonsense_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let spool = spool(directory.path(), &slices());
    let socket = directory.path().join("spool.sock");
    let options = DoorOptions { socket: Some(socket.clone()), connections: 1, ..DoorOptions::default() };
    let door = Door::open(options, spool.archive().clone()).unwrap();
    let address = Address::Unix(socket.clone());
    let first = Client::connect(&address, None, PATIENCE).unwrap();
    let error = Client::connect(&address, None, PATIENCE).unwrap_err();
    assert!(matches!(error, ClientError::Ended { reason: EndReason::Full, .. }), "{error}");
    drop(first);
    // Its thread notices that it has left.
    while Client::connect(&address, None, PATIENCE).is_err() {
        std::thread::sleep(Duration::from_micros(50));
    }
    while door.counts().invalid == 0 {
        let mut stranger = UnixStream::connect(&socket).unwrap();
        // Refused, or it has its place.
        let _ = stranger.write_all(b"GET / HTTP/1.1\r\n\r\n");
    }
    assert!(door.counts().refused > 0);
}

/// The answer is far larger than the buffers of a socket, and its requester reads none of it.
#[test]
fn a_requester_that_reads_nothing_is_dropped_and_holds_up_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let hits = (0..200_000).map(|at| Hit { time_ps: at, channel: 1, value: 2, extra: 0 }).collect();
    let slice = TestSlice { source: SourceId(1), number: 0, hits };
    let mut recording = options(directory.path(), 1, 1 << 30);
    recording.block = sheaf_wire::ByteCount(1);
    let (mut spool, _) = Spool::open(recording).unwrap();
    let whole = HitInterval { from_ps: 0, until_ps: 200_000 };
    spool.take(slice.source, whole, &slice.payload(), Timestamp(1)).unwrap();
    while spool.books().waiting > 0 {
        std::thread::sleep(Duration::from_micros(50));
    }
    let socket = directory.path().join("spool.sock");
    let patience = Duration::from_millis(50);
    let options = DoorOptions { socket: Some(socket.clone()), patience, ..DoorOptions::default() };
    let door = Door::open(options, spool.archive().clone()).unwrap();
    let mut slow = UnixStream::connect(&socket).unwrap();
    slow.write_all(&sheaf_wire::spool_link::Frame::Request(request(0, 200_000)).emit()).unwrap();
    let mut other = Client::connect(&Address::Unix(socket), None, PATIENCE).unwrap();
    assert_eq!(other.window(&request(100, 200)).unwrap().1.hits, 100);
    while door.counts().slow == 0 {
        std::thread::sleep(Duration::from_micros(50));
    }
    assert_eq!(other.window(&request(100, 200)).unwrap().1.hits, 100);
    assert_eq!(door.close().windows, 2);
}
