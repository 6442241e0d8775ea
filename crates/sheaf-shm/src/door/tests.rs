//! Guarantees between host and guest; the guest may be any process.

use super::ring::{In, Out, Rings, Way};
use super::*;
use crate::segment::{self, Common, PAGE_BYTES};
use crate::tests::as_another_user;
use crate::{Arena, SharedMemory};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_buffer::{Block, Pool};
use sheaf_wire::{ByteCount, Nanos};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// Minutes: a machine that does much else makes a test slow, never red.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct House {
    /// Before the directory, in which it is.
    door: Door,
    woken: Arc<Woken>,
    directory: tempfile::TempDir,
}

impl House {
    fn new(max_guests: usize) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let woken = Arc::new(Woken::default());
        let door = Door::open(DoorOptions {
            path: directory.path().join("test.door"),
            name: "sheaf.test".into(),
            text: Bytes::from_static(b"welcome"),
            down_bytes: 1 << 16,
            up_bytes: 1 << 12,
            max_guests,
            waker: Waker::from(woken.clone()),
        })
        .expect("the directory is new");
        Self { door, woken, directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("test.door")
    }

    fn news(&mut self) -> DoorNews {
        let start = Instant::now();
        loop {
            if let Some(news) = self.door.poll() {
                return news;
            }
            assert!(start.elapsed() < PATIENCE, "nothing happens at the door");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn guest(&mut self) -> (Box<Guest>, Visit) {
        let hello = Hello { pid: 7, content: b"me".to_vec() };
        let visit = Visit::meet(&self.path(), &hello).expect("the door is open");
        match self.news() {
            DoorNews::Entered(guest) => {
                assert_eq!(
                    (&guest.hello, guest.pid),
                    (&hello, std::process::id()),
                    "the kernel knows better"
                );
                (guest, visit)
            }
            DoorNews::Left(_) => panic!("nobody left"),
        }
    }
}

#[test]
fn records_go_both_ways_and_payload_is_read_where_it_lies() {
    let mut house = House::new(4);
    let (mut guest, mut visit) = house.guest();
    assert_eq!(&visit.text()[..], b"welcome");
    let arena = Arena::new("sheaf.test", ByteCount::kib(64), false).expect("memory");
    let mut pool = Pool::with_memory(arena.lender(), 4096, 4);
    let mut block = pool.take().expect("the arena is new");
    block.append(b"a fragment");
    let payload = block.cut();
    let mut memory = SharedMemory::default();
    let (segment, at) =
        memory.locate(&payload).map(|(segment, at)| (segment.clone(), at)).expect("it is there");
    guest.share(&segment, &mut memory).expect("the guest is there");
    assert!(guest.push(&[b"look ", b"there"]));
    guest.flush();
    let mut record = Vec::new();
    assert_eq!(visit.take(&mut record).expect("the host is there"), Visited::Record);
    assert_eq!(record, b"look there");
    let seen = visit.bytes(segment.id, at as u64, 10).expect("a place in the arena");
    assert_eq!(&seen[..], b"a fragment");
    assert_ne!(seen.as_ptr(), payload.as_ptr(), "another mapping of the same memory");
    assert!(visit.bytes(segment.id, (64 << 10) - 1, 2).is_err(), "beyond its end");
    assert!(visit.push(&[b"seen"]));
    visit.show(3, 42);
    visit.flush();
    assert_eq!(guest.take(&mut record), Some(true));
    assert_eq!((&record[..], guest.gauge(3)), (&b"seen"[..], 42));
    assert_eq!(guest.take(&mut record), Some(false));
}

#[test]
fn a_host_that_sleeps_is_woken_and_one_that_is_awake_is_not() {
    let mut house = House::new(4);
    let (_guest, mut visit) = house.guest();
    house.door.get_up();
    let before = house.woken.0.load(Ordering::SeqCst);
    assert!(visit.push(&[b"one"]));
    visit.flush();
    assert!(!house.door.lie_down(), "somebody has rung");
    assert!(house.door.lie_down());
    assert_eq!(house.woken.0.load(Ordering::SeqCst), before);
    assert!(visit.push(&[b"two"]));
    visit.flush();
    let start = Instant::now();
    while house.woken.0.load(Ordering::SeqCst) == before {
        assert!(start.elapsed() < PATIENCE, "it sleeps on");
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn each_side_notices_the_end_of_the_other_after_all_that_it_wrote() {
    let mut house = House::new(4);
    let (mut guest, mut visit) = house.guest();
    assert!(visit.push(&[b"last words"]));
    visit.flush();
    drop(visit);
    assert!(matches!(house.news(), DoorNews::Left(id) if id == guest.id));
    let mut record = Vec::new();
    assert_eq!(guest.take(&mut record), Some(true));
    assert_eq!(record, b"last words");

    let (mut guest, mut visit) = house.guest();
    assert!(guest.push(&[b"farewell"]));
    guest.flush();
    guest.end();
    let start = Instant::now();
    let mut taken = 0;
    loop {
        match visit.take(&mut record) {
            Ok(Visited::Record) => taken += 1,
            Ok(Visited::Nothing) => visit.wait(Nanos::from_millis(10)),
            Err(VisitError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < PATIENCE, "the guest waits for ever");
    }
    assert_eq!(taken, 1);
}

#[test]
fn a_house_that_is_full_says_so_and_has_room_when_somebody_left() {
    let mut house = House::new(1);
    let (_guest, visit) = house.guest();
    let refused = Visit::meet(&house.path(), &Hello::default());
    assert!(matches!(refused, Err(VisitError::Full(_))), "{refused:?}");
    drop(visit);
    assert!(matches!(house.news(), DoorNews::Left(_)));
    assert!(Visit::meet(&house.path(), &Hello::default()).is_ok());
}

#[test]
fn callers_that_are_not_let_in_are_counted_by_reason() {
    let mut house = House::new(1);
    let (_guest, _visit) = house.guest();
    assert!(Visit::meet(&house.path(), &Hello::default()).is_err(), "there is one seat");
    let hangs_up = socket::connect_path(&house.path()).expect("the door is open");
    drop(hangs_up);
    let stranger = socket::connect_path(&house.path()).expect("the door is open");
    socket::send(&stranger, b"GET / HTTP/1.1", &[]).expect("somebody listens");
    let path = house.path();
    // The door refuses for the user, not for the modes of the file.
    let open_for_all = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .expect("it is ours");
    };
    open_for_all(house.directory.path(), 0o777);
    open_for_all(&path, 0o777);
    let as_another =
        as_another_user(move || socket::connect_path(&path).and_then(|caller| received_bytes(&caller)));
    let expected = [
        (DoorRefusal::AnotherUser, u64::from(as_another.is_some())),
        (DoorRefusal::Silent, 1),
        (DoorRefusal::NotUnderstood, 1),
        (DoorRefusal::Full, 1),
    ];
    let start = Instant::now();
    for (reason, count) in expected {
        while house.door.refused(reason) < count {
            assert!(start.elapsed() < PATIENCE, "{reason:?} is not counted");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(house.door.refused(reason), count, "{reason:?}");
    }
    assert_eq!(as_another.unwrap_or(Ok(0)), Ok(0), "another user hears nothing, and is hung up on");
}

/// Waits for what a door says to a caller, and returns its length: 0 where it hangs up.
fn received_bytes(caller: &std::os::fd::OwnedFd) -> rustix::io::Result<usize> {
    let start = Instant::now();
    loop {
        match socket::receive(caller, &mut [0; 4096]) {
            Err(rustix::io::Errno::AGAIN) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            received => return received.map(|(bytes, _)| bytes),
        }
    }
}

#[test]
fn nobody_is_at_a_door_that_is_closed_and_its_path_is_free() {
    let house = House::new(1);
    let (path, directory) = (house.path(), house.directory);
    drop(house.door);
    assert!(!path.exists());
    let error = Visit::meet(&path, &Hello::default()).expect_err("it is closed");
    assert!(matches!(error, VisitError::NobodyThere { .. }), "{error}");
    drop(directory);
}

/// A call that is never accepted: it waits in the queue of a listener, which closes.
#[test]
fn a_door_that_is_closed_behind_a_call_is_a_closed_door() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("test.door");
    for takes_the_call in [false, true] {
        let listener = socket::listen_path(&path).expect("the directory is new");
        let caller = std::thread::spawn({
            let path = path.clone();
            move || Visit::meet(&path, &Hello::default()).map(|_| ())
        });
        let mut called = [rustix::event::PollFd::new(&listener, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut called, None).expect("a call");
        drop(takes_the_call.then(|| socket::accept(&listener)));
        drop(listener);
        let error = caller.join().expect("no panic").expect_err("it is closed");
        assert!(matches!(error, VisitError::Closed), "{error}");
        std::fs::remove_file(&path).expect("it is there");
    }
}

#[test]
fn a_path_that_a_killed_process_has_left_is_used_again_and_one_in_use_is_not() {
    let house = House::new(1);
    let again = |path: PathBuf| {
        Door::open(DoorOptions {
            path,
            name: "sheaf.test".into(),
            text: Bytes::new(),
            down_bytes: 1,
            up_bytes: 1,
            max_guests: 1,
            waker: Waker::noop().clone(),
        })
    };
    assert!(again(house.path()).is_err(), "somebody listens there");
    // The file of a socket whose process has died.
    let left = house.directory.path().join("left.door");
    drop(std::os::unix::net::UnixListener::bind(&left).expect("a socket"));
    assert!(left.exists());
    assert!(again(left).is_ok());
}

#[test]
fn a_path_may_be_longer_than_an_address() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let deep = directory.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).expect("a directory");
    let options = DoorOptions {
        path: deep.join("x.door"),
        name: "sheaf.test".into(),
        text: Bytes::new(),
        down_bytes: 1,
        up_bytes: 1,
        max_guests: 1,
        waker: Waker::noop().clone(),
    };
    let door = Door::open(options).expect("a door");
    let visit = Visit::meet(door.path(), &Hello::default()).expect("it is open");
    assert!(visit.text().is_empty());
}

fn rings(bytes: usize) -> (Rings, Common) {
    let rings = Rings { down_bytes: bytes, up_bytes: bytes };
    let file = segment::create("sheaf.test", rings.segment_bytes()).expect("memory");
    (rings, Common::new(&file, rings.segment_bytes()).expect("memory"))
}

#[test]
fn a_record_that_never_fits_is_refused() {
    let (rings, common) = rings(PAGE_BYTES);
    let mut out = Out::new(rings, Way::Down);
    assert!(!out.push(&common, &[&vec![0; out.longest() + 1]]));
    assert!(out.push(&common, &[&vec![0; out.longest()]]));
}

proptest! {
    #[test]
    fn records_come_out_as_they_went_in(
        steps in prop::collection::vec(prop_oneof![(0..2_000_usize).prop_map(Some), Just(None)], 1..300),
    ) {
        let (rings, common) = rings(PAGE_BYTES);
        let (mut out, mut into) = (Out::new(rings, Way::Up), In::new(rings, Way::Up));
        let mut sent: VecDeque<Vec<u8>> = VecDeque::new();
        let (mut number, mut record) = (0_u8, Vec::new());
        for step in steps.into_iter().chain(std::iter::repeat_n(None, 300)) {
            match step {
                Some(length) => {
                    let content = vec![number; length];
                    let (left, right) = content.split_at(length / 2);
                    if out.push(&common, &[left, right]) {
                        sent.push_back(content);
                        number = number.wrapping_add(1);
                    }
                    out.publish(&common);
                }
                None => {
                    let taken = into.take(&common, &mut record).expect("the writer keeps the rules");
                    let expected = sent.pop_front();
                    prop_assert_eq!(taken.then(|| record.clone()), expected);
                }
            }
        }
        prop_assert!(sent.is_empty());
    }

    #[test]
    fn whatever_stands_in_a_ring_leads_nowhere_else(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_door_ring(&bytes);
    }
}
