//! Two real processes that share memory, and the effects of killing one of them.
//!
//! The other process is a second instance of this test program. Its environment makes it a node ([`the_other_process`]).

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use sheaf_buffer::{Block, Pool};
use sheaf_conformance::WATCHDOG;
use sheaf_shm::{Arena, ShmEndpoint, ShmError, ShmOptions, ShmPeer, ShmSettings};
use sheaf_transport::{DownReason, Endpoint, Event, Frame, SendError};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HERE: NodeId = NodeId::readout(0);
const THERE: NodeId = NodeId::builder(0);

/// Environment variables of the other process: its task, its session, and the name by which it finds this one.
const TASK: &str = "SHEAF_TEST_SHM_TASK";
const PAYLOAD: usize = 3000;

fn name() -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("processes/{}/{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

fn endpoint(node: NodeId, peer: NodeId, session: u64, name: &str) -> (ShmEndpoint, Arena) {
    try_endpoint(node, peer, session, name).unwrap()
}

/// Makes an endpoint by a name that another endpoint of this process had before.
///
/// The name can stay in use for a moment: another test of this process may be starting a child, and the child holds
/// a copy of each descriptor until it executes its program.
fn endpoint_by_a_used_name(node: NodeId, peer: NodeId, session: u64, name: &str) -> (ShmEndpoint, Arena) {
    let start = Instant::now();
    loop {
        match try_endpoint(node, peer, session, name) {
            Err(ShmError::NameInUse(_)) if start.elapsed() < WATCHDOG => {
                std::thread::sleep(Duration::from_millis(1));
            }
            made => return made.unwrap(),
        }
    }
}

fn try_endpoint(
    node: NodeId,
    peer: NodeId,
    session: u64,
    name: &str,
) -> Result<(ShmEndpoint, Arena), ShmError> {
    let settings = ShmSettings { blocks: 16, retry_min: Nanos::from_millis(1), ..ShmSettings::default() };
    let arena = Arena::new("sheaf.test", settings.arena_bytes() + ByteCount::mib(4), false).unwrap();
    let calls = node == THERE;
    let endpoint = ShmEndpoint::new(ShmOptions {
        node,
        run: RunNumber(1),
        session: SessionId(session),
        name: (!calls).then(|| name.to_owned()),
        peers: vec![ShmPeer { node: peer, call: calls.then(|| name.to_owned()) }],
        arena: arena.clone(),
        settings,
    });
    endpoint.map(|endpoint| (endpoint, arena))
}

/// Another process with a task. It is killed with this, and dies with its parent.
struct Other(Child);

impl Other {
    fn start(task: &str, session: u64, name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::the_other_process", "--quiet"]).stdout(Stdio::null());
        Self(command.env(TASK, format!("{task} {session} {name}")).spawn().unwrap())
    }

    fn kill(mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        assert!(!self.0.wait().unwrap().success());
    }

    fn end(mut self) {
        assert!(self.0.wait().unwrap().success(), "the other process says on standard error what is wrong");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test itself, but the other process of the tests below.
#[test]
fn the_other_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let words: Vec<&str> = task.split(' ').collect();
    let (mut endpoint, arena) = endpoint(THERE, HERE, words[1].parse().unwrap(), words[2]);
    until(&mut endpoint, |event| matches!(event, Event::PeerUp { .. }));
    match words[0] {
        "flood" => flood(&mut endpoint, &arena),
        "echo" => echo(&mut endpoint),
        other => panic!("no task {other}"),
    }
}

/// Sends numbered payload from its arena endlessly.
fn flood(endpoint: &mut ShmEndpoint, arena: &Arena) {
    let mut pool = Pool::with_memory(arena.lender(), 64 << 10, 16);
    let mut block = None;
    for number in 0_u64.. {
        let piece = loop {
            let room = block.get_or_insert_with(|| pool.take().expect("blocks come back"));
            if room.room() >= PAYLOAD {
                room.append(&number.to_le_bytes());
                room.append_fill(number as u8, PAYLOAD - 8);
                break room.cut();
            }
            pool.give_back(block.take().expect("it is there"));
            while block.is_none() {
                block = pool.take();
                endpoint.wait(Nanos::from_micros(100));
                while endpoint.poll().is_some() {}
            }
        };
        let mut frame = Frame::new(Bytes::copy_from_slice(&number.to_le_bytes()), [piece]);
        while let Err(error) = endpoint.send(HERE, frame) {
            let SendError::Full(back) = error else { return };
            frame = back;
            endpoint.wait(Nanos::from_millis(10));
            while endpoint.poll().is_some() {}
        }
        endpoint.flush();
    }
}

/// Returns every frame to the sender, until the other side closes.
fn echo(endpoint: &mut ShmEndpoint) {
    loop {
        match next(endpoint) {
            Event::Received { frame, .. } => endpoint.send(HERE, frame).unwrap(),
            Event::PeerDown { reason, .. } => return assert_eq!(reason, DownReason::Closed),
            other => panic!("{other:?}"),
        }
        endpoint.flush();
    }
}

/// Sleeps until there is an event, and returns it.
fn next(endpoint: &mut ShmEndpoint) -> Event {
    let start = Instant::now();
    loop {
        if let Some(event) = endpoint.poll() {
            return event;
        }
        assert!(start.elapsed() < WATCHDOG, "nothing happens: {:?}", endpoint.stats());
        endpoint.wait(Nanos::from_millis(100));
    }
}

fn until(endpoint: &mut ShmEndpoint, holds: impl Fn(&Event) -> bool) {
    let event = next(endpoint);
    assert!(holds(&event), "{event:?}");
}

/// Checks a frame of the flood and returns its number.
fn check(frame: &Frame) -> u64 {
    let number = u64::from_le_bytes(frame.head[..].try_into().expect("a number"));
    let payload = &frame.payload[0];
    assert_eq!(payload[..8], number.to_le_bytes());
    assert_eq!(payload[8..], [number as u8; PAYLOAD - 8]);
    number
}

#[test]
fn payload_goes_from_process_to_process_and_back() {
    const ROUNDS: u64 = 500;
    let name = name();
    let (mut endpoint, _arena) = endpoint(HERE, THERE, 1, &name);
    let other = Other::start("echo", 1, &name);
    until(&mut endpoint, |event| matches!(event, Event::PeerUp { .. }));
    for number in 0..ROUNDS {
        let pieces = [Bytes::from(vec![number as u8; number as usize * 10]), Bytes::from_static(b"tail")];
        endpoint.send(THERE, Frame::new(Bytes::copy_from_slice(&number.to_le_bytes()), pieces)).unwrap();
        endpoint.flush();
        let Event::Received { frame, .. } = next(&mut endpoint) else { panic!("a frame") };
        assert_eq!(frame.head[..], number.to_le_bytes());
        let payload: Vec<u8> = frame.payload.into_iter().flatten().collect();
        assert_eq!(payload, [vec![number as u8; number as usize * 10], b"tail".to_vec()].concat());
    }
    endpoint.close(Nanos::from_secs(1));
    other.end();
}

#[test]
fn a_process_that_is_killed_leaves_a_beginning_without_gaps_and_its_next_life_is_met() {
    let name = name();
    let (mut endpoint, _arena) = endpoint(HERE, THERE, 1, &name);
    let mut kept = Vec::new();
    for life in 1..=3 {
        let other = Other::start("flood", life, &name);
        until(&mut endpoint, |event| matches!(event, Event::PeerUp { .. }));
        let mut other = Some(other);
        let mut number = 0;
        loop {
            match next(&mut endpoint) {
                Event::Received { frame, .. } => {
                    assert_eq!(check(&frame), number);
                    if number.is_multiple_of(100) {
                        kept.push(frame);
                    }
                    number += 1;
                    if number == 1000 {
                        other.take().expect("it lives").kill();
                    }
                }
                Event::PeerDown { reason, .. } => {
                    assert_eq!(reason, DownReason::Lost);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(number >= 1000);
    }
    // Its memory exists as long as any handle to it.
    for frame in &kept {
        check(frame);
    }
    assert_eq!(endpoint.stats().bytes_copied, 0, "payload was read in place");
}

/// A killed node leaves nothing that could disturb a later start: its name is free, and no file contains its memory.
#[test]
fn a_node_that_is_killed_leaves_nothing_behind() {
    let name = name();
    let (mut listening, arena) = endpoint(HERE, THERE, 1, &name);
    let other = Other::start("flood", 1, &name);
    until(&mut listening, |event| matches!(event, Event::PeerUp { .. }));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", other.0.id())).unwrap();
    assert!(maps.contains("memfd:sheaf."), "its memory says whose it is");
    for line in maps.lines().filter(|line| line.contains("memfd:sheaf.")) {
        assert!(line.ends_with("(deleted)"), "no file system has a name for it: {line}");
    }
    other.kill();
    drop((listening, arena));
    let (mut again, _arena) = endpoint_by_a_used_name(HERE, THERE, 2, &name);
    let _other = Other::start("flood", 2, &name);
    until(&mut again, |event| matches!(event, Event::PeerUp { .. }));
}
