//! Both ends over loopback, with everything that can come between them.

use crate::frame::Frame;
use crate::secure::{Secured, Tls};
use crate::{Conversation, Door, EndReason, LinkOptions, Received, SendError, call};
use sheaf_key::{Purpose, RunKey};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A test that waits this long has failed.
const WATCHDOG: Duration = Duration::from_secs(120);

fn options() -> LinkOptions {
    LinkOptions { patience: WATCHDOG, connect_timeout: Duration::from_secs(60), room: 1 << 20 }
}

fn key(byte: u8) -> RunKey {
    RunKey::new(&[byte; 32])
}

fn door() -> Door {
    Door::listen("127.0.0.1:0", key(1), &options()).expect("loopback has a port")
}

fn call_at(address: SocketAddr) -> Conversation {
    call(&address.to_string(), &key(1), &options())
}

/// The next message; connections may come and go.
fn message(conversation: &Conversation) -> Vec<u8> {
    loop {
        match conversation.receive(WATCHDOG) {
            Received::Message(message) => return message,
            Received::Connected | Received::Lost(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn over(conversation: &Conversation) -> EndReason {
    loop {
        match conversation.receive(WATCHDOG) {
            Received::Ended(over) => return over,
            Received::Connected | Received::Lost(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Passes bytes on between a caller and a door. Cuts all connections when it is asked to.
#[derive(Clone)]
struct Proxy {
    address: SocketAddr,
    door: Arc<Mutex<SocketAddr>>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(door: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        let address = listener.local_addr().expect("it has one");
        let (door, streams) = (Arc::new(Mutex::new(door)), Arc::new(Mutex::new(Vec::new())));
        let (target, held) = (door.clone(), streams.clone());
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let door = *target.lock().expect("nobody panics");
                let Ok(called) = TcpStream::connect(door) else { return };
                held.lock().expect("nobody panics").extend([
                    caller.try_clone().expect("a socket can be cloned"),
                    called.try_clone().expect("a socket can be cloned"),
                ]);
                pass(&caller, &called);
                pass(&called, &caller);
            }
        });
        Self { address, door, streams }
    }

    fn cut(&self) {
        for stream in self.streams.lock().expect("nobody panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().expect("a clone"), to.try_clone().expect("a clone"));
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}

#[test]
fn messages_go_both_ways_and_the_last_arrives_before_the_end() {
    let door = door();
    let run = call_at(door.address());
    run.send(b"prepare").expect("there is room");
    let agent = door.accept(WATCHDOG).expect("it is called");
    assert_eq!(message(&agent), b"prepare");
    let long = vec![7; 1 << 22];
    agent.send(&long).expect("nothing else waits");
    assert_eq!(message(&run), long);
    run.send(b"close").expect("there is room");
    assert!(run.close(WATCHDOG), "the agent has received everything");
    assert_eq!(message(&agent), b"close");
    assert_eq!(over(&agent), EndReason::Closed);
    assert_eq!(agent.send(b"late"), Err(SendError::Ended));
}

#[test]
fn messages_survive_connections_that_are_cut() {
    let door = door();
    let proxy = Proxy::to(door.address());
    let run = Arc::new(call_at(proxy.address));
    run.send(&0_u32.to_le_bytes()).expect("there is room");
    let agent = Arc::new(door.accept(WATCHDOG).expect("it is called"));
    let count = 3_000_u32;
    let say = |from: Arc<Conversation>, first: u32, cuts: Option<Proxy>| {
        thread::spawn(move || {
            for number in first..count {
                while from.send(&number.to_le_bytes()) == Err(SendError::Full) {
                    thread::yield_now();
                }
                if number % 300 == 299 {
                    cuts.iter().for_each(Proxy::cut);
                    thread::sleep(Duration::from_millis(20));
                }
            }
        })
    };
    let speakers = [say(run.clone(), 1, Some(proxy)), say(agent.clone(), 0, None)];
    for number in 0..count {
        assert_eq!(message(&agent), number.to_le_bytes());
        assert_eq!(message(&run), number.to_le_bytes());
    }
    speakers.into_iter().for_each(|speaker| speaker.join().expect("it does not panic"));
}

#[test]
fn a_caller_with_another_key_is_refused_and_so_is_an_agent() {
    let door = door();
    let stranger = call(&door.address().to_string(), &key(2), &options());
    let EndReason::Refused(why) = over(&stranger) else { panic!("it is refused") };
    assert!(why.contains("agents.key_file"), "{why}");
    assert!(door.accept(Duration::ZERO).is_none());
    // A door that does not care whether the caller has its key, and answers with its own.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let run = call_at(listener.local_addr().expect("it has one"));
    let (stream, _) = listener.accept().expect("it is called");
    let mut secured = Secured::answer(stream, &Tls::new().expect("keys"), WATCHDOG).expect("TLS is there");
    secured.read().expect("the call");
    let proof = secured.prove(&key(2), Purpose::AgentDoor);
    secured.write(&Frame::Answer { proof, is_known: true, received: 0 }).expect("it is written");
    assert!(matches!(over(&run), EndReason::Refused(_)));
}

#[test]
fn a_reflected_proof_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let run = call_at(listener.local_addr().expect("it has one"));
    let (stream, _) = listener.accept().expect("it is called");
    let mut secured = Secured::answer(stream, &Tls::new().expect("keys"), WATCHDOG).expect("TLS is there");
    let Ok(Frame::Call { proof, .. }) = secured.read() else { panic!("the call") };
    secured.write(&Frame::Answer { proof, is_known: true, received: 0 }).expect("it is written");
    assert!(matches!(over(&run), EndReason::Refused(_)));
}

/// Somebody has a TLS session with each end, and passes on what is in them.
#[test]
fn somebody_in_the_middle_is_found_out() {
    let door = door();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let run = call_at(listener.local_addr().expect("it has one"));
    let (stream, _) = listener.accept().expect("it is called");
    let tls = Tls::new().expect("keys");
    let mut to_run = Secured::answer(stream, &tls, WATCHDOG).expect("TLS is there");
    let stream = TcpStream::connect(door.address()).expect("the door is there");
    let mut to_agent = Secured::call(stream, &tls, WATCHDOG).expect("TLS is there");
    to_agent.write(&to_run.read().expect("the call")).expect("it is written");
    assert_eq!(to_agent.read().expect("the answer"), Frame::Refusal);
    to_run.write(&Frame::Refusal).expect("it is written");
    assert!(matches!(over(&run), EndReason::Refused(_)));
    assert!(door.accept(Duration::ZERO).is_none());
}

#[test]
fn an_agent_that_is_started_again_does_not_know_the_conversation() {
    let first = door();
    let proxy = Proxy::to(first.address());
    let run = call_at(proxy.address);
    run.send(b"prepare").expect("there is room");
    let agent = first.accept(WATCHDOG).expect("it is called");
    assert_eq!(message(&agent), b"prepare");
    let again = door();
    *proxy.door.lock().expect("nobody panics") = again.address();
    proxy.cut();
    assert_eq!(over(&run), EndReason::Unknown);
}

#[test]
fn patience_ends_with_the_last_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let address = listener.local_addr().expect("it has one");
    drop(listener);
    let impatient = LinkOptions { patience: Duration::from_millis(200), ..options() };
    let run = call(&address.to_string(), &key(1), &impatient);
    let EndReason::Patience(why) = over(&run) else { panic!("nobody answers") };
    assert!(why.contains("refused"), "{why}");
}

#[test]
fn offers_are_dropped_without_a_connection_and_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let run = call_at(listener.local_addr().expect("it has one"));
    assert!(!run.offer(b"values") && !run.is_connected());
    assert_eq!(run.dropped(), 1);
    let door = door();
    let run = call_at(door.address());
    run.send(b"prepare").expect("there is room");
    let agent = door.accept(WATCHDOG).expect("it is called");
    assert!(agent.offer(b"values"));
    assert_eq!(message(&run), b"values");
    assert!(!agent.offer(&vec![0; options().room]), "more than half of the room");
    assert_eq!(agent.dropped(), 1);
}

#[test]
fn an_end_that_does_not_read_holds_up_the_other_within_the_room() {
    let door = door();
    let run = call_at(door.address());
    run.send(b"prepare").expect("there is room");
    let agent = door.accept(WATCHDOG).expect("it is called");
    assert_eq!(message(&agent), b"prepare");
    let part = vec![1; 64 << 10];
    let mut sent = 0_usize;
    // Room here, room there, and what is between: sockets and TLS.
    while sent * part.len() < 64 << 20 {
        match agent.send(&part) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, SendError::Full);
                break;
            }
        }
    }
    assert!(sent * part.len() < 64 << 20, "memory is bounded");
    for _ in 0..sent {
        assert_eq!(message(&run), part);
    }
}

#[test]
fn strangers_do_not_keep_a_caller_out() {
    let door = door();
    let mut silent: Vec<_> =
        (0..200).map(|_| TcpStream::connect(door.address()).expect("it listens")).collect();
    let mut loud = TcpStream::connect(door.address()).expect("it listens");
    loud.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is written");
    let mut answer = Vec::new();
    let _ = loud.read_to_end(&mut answer);
    let run = call_at(door.address());
    run.send(b"prepare").expect("there is room");
    let agent = door.accept(WATCHDOG).expect("it is called");
    assert_eq!(message(&agent), b"prepare");
    silent.clear();
}

#[test]
fn an_agent_learns_that_the_run_has_hung_up() {
    let door = door();
    let run = call_at(door.address());
    run.send(b"prepare").expect("there is room");
    let agent = door.accept(WATCHDOG).expect("it is called");
    assert_eq!(message(&agent), b"prepare");
    assert!(!agent.was_hung_up());
    drop(run);
    loop {
        match agent.receive(WATCHDOG) {
            Received::Lost(_) => break,
            Received::Connected => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(agent.was_hung_up());
}

proptest::proptest! {
    #[test]
    fn no_bytes_break_the_bounds(bytes: Vec<u8>) {
        crate::fuzz::take_bytes(&bytes);
    }
}

#[test]
fn the_seeds_of_the_fuzz_target_break_no_bounds() {
    crate::fuzz::seeds().iter().for_each(|(_, seed)| crate::fuzz::take_bytes(seed));
}
