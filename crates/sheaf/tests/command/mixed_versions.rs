//! Nodes of a protocol to come: they and the nodes of this release part in words, and no run waits for ever.
//!
//! A thread of the test is the other node. It writes the bytes of the reference: a greeting, and a hello in a frame.

use crate::child::{Running, ScratchDirectory, signal, wait_until, watch};
use crate::nodes::free_ports;
use crate::output::{field, number};
use sheaf_transport::greeting::{GREETING_BYTES, Greeting};
use sheaf_wire::message::hello::{Hello, VersionRange};
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const EVENTS: u64 = 2_000;
const WATCHDOG: Duration = Duration::from_secs(300);
const TO_COME: VersionRange =
    VersionRange { oldest: VersionRange::OWN.newest + 1, newest: VersionRange::OWN.newest + 1 };

/// A system of nodes that are started one by one.
struct System {
    scratch: ScratchDirectory,
    config: PathBuf,
    /// Port of the event manager.
    port: u16,
}

impl System {
    fn new(manager: &str) -> Self {
        let scratch = ScratchDirectory::new();
        let [evm, evm1, ru0, bu0] = free_ports();
        let node = |name: &str, role: &str, address: u16| {
            format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{address}\"\n")
        };
        let standby =
            if manager.contains("standby = 1") { node("evm1", "manager", evm1) } else { String::new() };
        let text = format!(
            "[run]\nnumber = 42\nevents = {EVENTS}\nduration_s = 0\n[transport]\nkind = \"tcp\"\n[manager]\n{manager}\n{}{standby}{}{}\
             sources = [\"0-3\"]\n",
            node("evm", "manager", evm),
            node("bu0", "builder", bu0),
            node("ru0", "readout", ru0),
        );
        let config = scratch.file("system.toml", &text);
        Self { scratch, config, port: evm }
    }

    fn node(&self, name: &str) -> Running {
        self.scratch.start(&format!("node {} {name} --json", self.config.display()))
    }

    /// Calls the event manager as another node does, and says hello.
    fn call(&self, me: NodeId, versions: VersionRange) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(&greeting(me)).unwrap();
        stream.read_exact(&mut [0; GREETING_BYTES]).unwrap();
        stream.write_all(&hello(versions)).unwrap();
        stream
    }
}

/// Waits for a caller.
fn accept(listener: &TcpListener) -> TcpStream {
    let mut caller = None;
    wait_until("a node calls", || {
        caller = listener.accept().ok();
        caller.is_some()
    });
    let (stream, _) = caller.expect("it was there");
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}

fn now() -> SessionId {
    SessionId(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap())
}

fn greeting(node: NodeId) -> [u8; GREETING_BYTES] {
    Greeting { node, run: RunNumber(42), session: now(), max_frame_bytes: 1 << 24 }.emit(None)
}

/// Returns a frame with the hello of a node of another release.
fn hello(versions: VersionRange) -> Vec<u8> {
    let (software, host) = ("sheaf 9.0.0".to_owned(), "daq9".to_owned());
    let head = Hello { session: now(), versions, software, host }.emit();
    let length = u32::try_from(head.len()).unwrap().to_le_bytes();
    [&length, &[0; 4], head.as_slice()].concat()
}

/// Reads the hello of the other side.
fn hear_hello(stream: &mut TcpStream) -> Hello {
    let mut prefix = [0; 8];
    stream.read_exact(&mut prefix).unwrap();
    let [length, payload] = [0, 4].map(|at| u32::from_le_bytes(prefix[at..at + 4].try_into().unwrap()));
    assert_eq!(payload, 0);
    let mut head = vec![0; length as usize];
    stream.read_exact(&mut head).unwrap();
    Hello::parse(&head).expect("the first frame is a hello")
}

#[test]
fn a_builder_unit_of_a_protocol_to_come_is_refused_in_words_on_both_sides_and_the_run_does_not_start() {
    // The run waits for this long in any case.
    let system = System::new("start_timeout_ms = 10000");
    let mut manager = system.node("evm");
    manager.wait_until_said("listens on");
    let mut builder = system.call(NodeId::builder(0), TO_COME);
    let heard = hear_hello(&mut builder);
    assert_eq!(heard.versions, VersionRange::OWN, "the other side has what it needs to say why");
    assert_eq!(heard.versions.common(TO_COME), None);
    assert!(heard.software.starts_with("sheaf ") && !heard.host.is_empty(), "{heard}");
    manager.wait_until_said(
        "evm: no link with bu0: bu0 (sheaf 9.0.0 on host daq9) speaks version 4 of the protocol",
    );
    let readout = system.node("ru0");
    manager.end().exits(1).says(&[
        "the run could not start: bu0 did not appear within 10.000 s",
        "; bu0 (sheaf 9.0.0 on host daq9) speaks version 4 of the protocol",
        "install the same release of sheaf on both hosts",
    ]);
    readout.end();
    assert_eq!(
        builder.read_to_end(&mut Vec::new()).unwrap_or(0),
        8,
        "nothing but the goodbye came after the hello"
    );
}

#[test]
fn nodes_leave_an_event_manager_of_a_protocol_to_come_with_the_reason() {
    let system = System::new("start_timeout_ms = 600000");
    let listener = TcpListener::bind(("127.0.0.1", system.port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    for (name, id) in [("ru0", NodeId::readout(0)), ("bu0", NodeId::builder(0))] {
        let node = system.node(name);
        let mut stream = accept(&listener);
        let mut greeted = [0; GREETING_BYTES];
        stream.read_exact(&mut greeted).unwrap();
        assert_eq!(greeted[12..16], id.to_code().to_le_bytes());
        stream.write_all(&greeting(NodeId::MANAGER)).unwrap();
        stream.write_all(&hello(TO_COME)).unwrap();
        assert_eq!(hear_hello(&mut stream).versions, VersionRange::OWN);
        node.end().exits(1).says(&[
            &format!("{id} left the run: evm (sheaf 9.0.0 on host daq9) speaks version 4 of the protocol"),
            "install the same release of sheaf on both hosts",
        ]);
    }
}

#[test]
fn a_builder_unit_of_a_later_release_with_a_common_version_is_named_and_joins() {
    let system = System::new("start_timeout_ms = 600000");
    let mut manager = system.node("evm");
    manager.wait_until_said("listens on");
    let wider = VersionRange { newest: VersionRange::OWN.newest + 5, ..VersionRange::OWN };
    let mut builder = system.call(NodeId::builder(0), wider);
    assert_eq!(hear_hello(&mut builder).versions.common(wider), Some(VersionRange::OWN.newest));
    manager.wait_until_said("bu0 is sheaf 9.0.0 on host daq9, and evm is sheaf ");
    manager.wait_until_said("they use version 3 of the protocol");
    // It says nothing more. A genuine one takes its place.
    drop(builder);
    let others = ["ru0", "bu0"].map(|name| system.node(name));
    let summary = manager.end().exits(0).json();
    others.into_iter().for_each(|node| drop(node.end().exits(0)));
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
}

#[test]
fn a_standby_of_another_release_is_refused_in_words_and_the_run_goes_on_unprotected() {
    let system = System::new("start_timeout_ms = 5000\nstandby = 1\nvoters = 1");
    let mut manager = system.node("evm");
    manager.wait_until_said("listens on");
    let mut standby = system.call(NodeId::MANAGER.other_replica(), VersionRange::OWN);
    assert_eq!(hear_hello(&mut standby).versions, VersionRange::OWN);
    manager.wait_until_said("no link with evm1: evm1 is sheaf 9.0.0 on host daq9, and evm is sheaf ");
    let others = ["ru0", "bu0"].map(|name| system.node(name));
    let ended = manager.end().exits(0).says(&[
        "install the same release of sheaf for the event manager and its standby",
        "[run-unprotected]",
    ]);
    others.into_iter().for_each(|node| drop(node.end()));
    let summary = ended.json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    assert_eq!(field(&summary, "kept.all"), true);
}

#[test]
fn a_run_whose_program_is_replaced_goes_on_with_its_own() {
    let scratch = ScratchDirectory::new();
    let program = scratch.join("sheaf");
    std::fs::copy(env!("CARGO_BIN_EXE_sheaf"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["run", "--processes", "--json", "--duration", "0", "--readouts", "1", "--builders", "2"]);
    command.current_dir(scratch.path());
    let mut running = watch(command);
    running.wait_until_said("running: ");
    let victim = running.wait_for_node("bu1", 0);
    std::fs::rename(scratch.file("later", "no program at all"), &program).unwrap();
    signal(victim, "KILL");
    running.wait_for_node("bu1", victim);
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 1);
}
