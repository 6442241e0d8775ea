//! Peers that do not keep to the rules, and strangers.

use super::super::segment::{self, Common, PAGE_BYTES};
use super::super::side::Side;
use super::super::{greeting::MESSAGE_BYTES, socket};
use super::as_another_user;
use super::world::{RECEIVER, SENDER, name, next, next_frame, options, pair, until};
use crate::{ShmEndpoint, ShmError};
use bytes::Bytes;
use rustix::event::EventfdFlags;
use rustix::fs::MemfdFlags;
use sheaf_transport::greeting::Greeting;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, Refusal};
use sheaf_wire::{RunNumber, SessionId};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

fn link_memory(endpoint: &ShmEndpoint) -> &Common {
    endpoint.peers[0].links[0].1.memory()
}

#[test]
fn a_position_that_cannot_be_ends_the_link() {
    for position in [1_u64 << 40, u64::MAX, 33, 7] {
        let (mut sender, _arena, mut receiver) = pair();
        sender.send(RECEIVER, Frame::new(Bytes::from_static(b"before"), [])).unwrap();
        assert_eq!(&next_frame(&mut receiver).head[..], b"before");
        Side::Called.written(link_memory(&sender)).store(position, std::sync::atomic::Ordering::Release);
        assert_eq!(next(&mut receiver), Event::PeerDown { peer: SENDER, reason: DownReason::Violated });
        assert_eq!(next(&mut sender), Event::PeerDown { peer: RECEIVER, reason: DownReason::Lost });
        assert_eq!(receiver.stats().links_violated, 1);
    }
}

#[test]
fn an_extent_beyond_the_arena_ends_the_link() {
    let (mut sender, _arena, mut receiver) = pair();
    sender.send(RECEIVER, Frame::new(Bytes::new(), [Bytes::from(vec![1; 5000])])).unwrap();
    let ring = Side::Called.ring(1 << 18);
    let mut extent = [0; 16];
    link_memory(&sender).read(ring.at + 32, &mut extent);
    assert_eq!(extent[8..], 5000_u64.to_ne_bytes(), "the test looks at the right place");
    link_memory(&sender).write(ring.at + 32, &(1_u64 << 50).to_ne_bytes());
    assert_eq!(next(&mut receiver), Event::PeerDown { peer: SENDER, reason: DownReason::Violated });
}

/// Whatever stands in the whole of a link's memory, nothing crashes, and no frame is larger than agreed.
#[test]
fn any_content_of_a_links_memory_is_survived_by_both_ends() {
    let mut seed = 1_u64;
    for _ in 0..200 {
        let (mut sender, _arena, mut receiver) = pair();
        for _ in 0..3 {
            sender
                .send(RECEIVER, Frame::new(Bytes::from_static(b"head"), [Bytes::from(vec![1; 500])]))
                .unwrap();
        }
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Both sides, and the beginning of the ring that has records.
            let at = if seed & 1 << 40 == 0 {
                seed >> 50 & 0x3ff
            } else {
                PAGE_BYTES as u64 + (1 << 18) + (seed >> 50 & 0x3ff)
            };
            link_memory(&sender).write(at as usize, &[(seed >> 32) as u8]);
        }
        for endpoint in [&mut sender, &mut receiver] {
            for _ in 0..200 {
                match endpoint.poll() {
                    Some(Event::Received { frame, .. }) => assert!(frame.bytes() <= 256 << 10),
                    Some(Event::PeerDown { .. }) => break,
                    _ => {}
                }
            }
            endpoint.wait(sheaf_wire::Nanos::ZERO);
        }
    }
}

#[test]
fn a_name_is_one_nodes_at_a_time_and_free_with_its_end() {
    let name = name();
    let first = ShmEndpoint::new(options(SENDER, RECEIVER, &name)).unwrap();
    let second = ShmEndpoint::new(options(SENDER, RECEIVER, &name));
    assert!(matches!(second, Err(ShmError::NameInUse(taken)) if taken == name));
    drop(first);
    ShmEndpoint::new(options(SENDER, RECEIVER, &name)).unwrap();
}

fn greeting() -> Greeting {
    Greeting { node: RECEIVER, run: RunNumber(1), session: SessionId(1), max_frame_bytes: 1000 }
}

/// Returns the bytes of a caller with rings of 64 KiB and an arena of a page.
fn call(greeting: &Greeting) -> Vec<u8> {
    let mut message = greeting.emit(None).to_vec();
    message.extend(b"SHMLINK1");
    message.extend(65_536_u32.to_le_bytes());
    message.extend(1024_u32.to_le_bytes());
    message.extend(4096_u64.to_le_bytes());
    assert_eq!(message.len(), MESSAGE_BYTES);
    message
}

/// Sends `message` to a new endpoint; returns the event that it reports.
fn event_of(message: &[u8], files: &[BorrowedFd<'_>]) -> Event {
    let name = name();
    let mut endpoint = ShmEndpoint::new(options(SENDER, RECEIVER, &name)).unwrap();
    let connection = socket::connect(&name).unwrap();
    socket::send(&connection, message, files).unwrap();
    next(&mut endpoint)
}

struct Files {
    link: OwnedFd,
    arena: OwnedFd,
    page: OwnedFd,
    event: OwnedFd,
    pipe: (OwnedFd, OwnedFd),
}

impl Files {
    fn new() -> Self {
        Self {
            link: segment::create("sheaf.test", super::super::side::link_bytes(65_536)).unwrap(),
            arena: segment::create("sheaf.test", 4096).unwrap(),
            page: segment::create("sheaf.test", 4096).unwrap(),
            event: rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap(),
            pipe: rustix::pipe::pipe().unwrap(),
        }
    }

    fn all(&self) -> [BorrowedFd<'_>; 5] {
        [self.link.as_fd(), self.arena.as_fd(), self.page.as_fd(), self.event.as_fd(), self.pipe.1.as_fd()]
    }
}

#[test]
fn a_caller_that_gives_what_it_should_is_let_in() {
    assert_eq!(event_of(&call(&greeting()), &Files::new().all()), Event::PeerUp { peer: RECEIVER });
}

#[test]
fn strangers_are_refused_with_a_reason() {
    let files = Files::new();
    let refusal = |event| match event {
        Event::Refused { peer: None, reason } => reason,
        other => panic!("expected a refusal: {other:?}"),
    };
    let said = |greeting: Greeting| refusal(event_of(&call(&greeting), &files.all()));
    assert_eq!(refusal(event_of(b"GET / HTTP/1.1\r\n\r\n", &[])), Refusal::Malformed);
    assert_eq!(refusal(event_of(&[0; MESSAGE_BYTES], &files.all())), Refusal::WrongMagic);
    assert_eq!(said(Greeting { run: RunNumber(2), ..greeting() }), Refusal::WrongRun(RunNumber(2)));
    let other = sheaf_wire::NodeId::builder(7);
    assert_eq!(said(Greeting { node: other, ..greeting() }), Refusal::UnknownNode(other.to_code()));
    let far = SessionId(u64::MAX);
    assert_eq!(said(Greeting { session: far, ..greeting() }), Refusal::FutureSession(far));
    let mut other_link = call(&greeting());
    other_link[39] = b'9';
    assert_eq!(refusal(event_of(&other_link, &files.all())), Refusal::Malformed);
}

/// The greeting of a process of another user is right in every field, and gets nothing.
#[test]
fn a_process_of_another_user_is_not_let_in() {
    let name = name();
    let mut called = ShmEndpoint::new(options(SENDER, RECEIVER, &name)).unwrap();
    let ours = socket::address(&name).unwrap();
    let hung_up = as_another_user(move || {
        let connection = socket::connect_to(&ours)?;
        // It may have hung up before.
        let _ = socket::send(&connection, &call(&greeting()), &Files::new().all());
        Ok::<_, rustix::io::Errno>(connection)
    });
    let Some(connection) = hung_up else { return };
    let connection = connection.unwrap();
    until("the caller is refused", || {
        assert!(called.poll().is_none(), "nobody who may is there");
        called.stats().links_refused == 1
    });
    let received = socket::receive(&connection, &mut [0; MESSAGE_BYTES]).map(|(bytes, _)| bytes);
    assert!(matches!(received, Ok(0) | Err(rustix::io::Errno::CONNRESET)), "{received:?}");
}

/// Another user may take the name of a node before the node does: its callers say nothing there.
#[test]
fn a_node_tells_nothing_to_another_user_who_has_taken_its_peers_name() {
    let name = name();
    let ours = socket::address(&name).unwrap();
    let Some(listener) = as_another_user(move || socket::listen_at(&ours)) else { return };
    let listener = listener.unwrap();
    let mut caller = ShmEndpoint::new(options(RECEIVER, SENDER, &name)).unwrap();
    let mut said = None;
    until("the node calls", || {
        assert!(caller.poll().is_none(), "there is no peer");
        said = said.take().or_else(|| socket::accept(&listener).ok());
        said.is_some()
    });
    let connection = said.unwrap();
    let mut received = Err(rustix::io::Errno::AGAIN);
    until("the node hangs up", || {
        assert!(caller.poll().is_none(), "there is no peer");
        received = socket::receive(&connection, &mut [0; MESSAGE_BYTES]).map(|(bytes, _)| bytes);
        received != Err(rustix::io::Errno::AGAIN)
    });
    assert_eq!(received, Ok(0), "nothing was said");
}

#[test]
fn a_greeting_does_not_take_the_place_of_a_link_that_is_alive() {
    let name = name();
    let mut called = ShmEndpoint::new(options(SENDER, RECEIVER, &name)).unwrap();
    let up = Event::PeerUp { peer: RECEIVER };
    let mut caller = ShmEndpoint::new(options(RECEIVER, SENDER, &name)).unwrap();
    until("the caller is connected", || {
        assert!(matches!(called.poll(), None | Some(Event::PeerUp { .. })));
        caller.poll() == Some(Event::PeerUp { peer: SENDER })
    });
    let rival = || {
        let connection = socket::connect(&name).unwrap();
        let later = Greeting { session: SessionId(2), ..greeting() };
        socket::send(&connection, &call(&later), &Files::new().all()).unwrap();
        connection
    };
    let _refused = rival();
    assert_eq!(next(&mut called), Event::Refused { peer: None, reason: Refusal::InUse });
    caller.send(SENDER, Frame::new(Bytes::from_static(b"still here"), [])).unwrap();
    caller.flush();
    assert_eq!(&next_frame(&mut called).head[..], b"still here");
    drop(caller);
    let _let_in = rival();
    assert!(matches!(next(&mut called), Event::PeerDown { peer: RECEIVER, .. }));
    assert_eq!(next(&mut called), up);
}

/// Files that are missing, too small, of the wrong kind, or that their owner could cut off below a reader.
#[test]
fn files_that_could_harm_are_refused() {
    let files = Files::new();
    let unsealed = rustix::fs::memfd_create("sheaf.test", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&unsealed, 1 << 20).unwrap();
    let small = segment::create("sheaf.test", 4095).unwrap();
    let blocking = rustix::event::eventfd(0, EventfdFlags::empty()).unwrap();
    for (place, file) in [
        (0, &unsealed),
        (1, &unsealed),
        (2, &unsealed),
        (0, &small),
        (1, &small),
        (2, &small),
        (3, &blocking),
        (1, &files.event),
    ] {
        let mut given = files.all();
        given[place] = file.as_fd();
        let refused = Event::Refused { peer: None, reason: Refusal::Malformed };
        assert_eq!(event_of(&call(&greeting()), &given), refused, "place {place}");
    }
    let refused = Event::Refused { peer: None, reason: Refusal::Malformed };
    assert_eq!(event_of(&call(&greeting()), &files.all()[..4]), refused);
    assert_eq!(event_of(&call(&greeting()), &[]), refused);
}
