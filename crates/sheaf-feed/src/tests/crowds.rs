//! Many programs at a time, and programs that do not read.

use super::*;
use crate::connection::Connection;
use crate::network::{Network, UnderWay};
use sheaf_tcp::GuestId;

/// Number of strangers on each way.
const STRANGERS: u64 = 500;

/// Raises the number of files that this process may have open. Returns `false`, and prints why, if the system does not allow it.
#[allow(clippy::print_stdout, reason = "a test that is skipped says why")]
fn may_open(files: u64) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < files) {
        println!("skipped: this process may not open {files} files (`ulimit -Hn`)");
        return false;
    }
    let current = limit.current.map(|current| current.max(files));
    let raised = rustix::process::Rlimit { current, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).is_ok()
}

/// The side of a readout unit for this number of programs.
fn unit_for(programs: u16, sources: u32) -> Unit {
    let directory = Arc::new(tempfile::tempdir().expect("a temporary directory"));
    let mut setup = setup(SessionId(1), (sources, 50), &directory, "127.0.0.1:0");
    setup.server.max_clients = programs.into();
    if let Some(listen) = &mut setup.listen {
        listen.max_guests = programs;
        listen.settings.block_bytes = ByteCount::kib(64);
        listen.settings.blocks = 2 * usize::from(programs) + 16;
    }
    Unit::open(setup, directory)
}

#[test]
fn a_thousand_programs_feed_a_readout_unit() {
    const PROGRAMS: u16 = 1_000;
    if !may_open(8 * u64::from(PROGRAMS)) {
        return;
    }
    let mut unit = unit_for(PROGRAMS, PROGRAMS.into());
    unit.start();
    beside(&mut unit, Way::Network, |address| {
        let connect =
            |source: u32| SourceClient::connect(&address, options(&[source])).expect("there is room");
        let mut clients: Vec<_> = (0..u32::from(PROGRAMS)).map(connect).collect();
        for client in &mut clients {
            (0..3).for_each(|event| client.send(0, fragment(event, &payload(event))).expect("connected"));
            client.end(0).expect("connected");
        }
        assert!(clients.iter_mut().all(|client| client.drain().expect("connected")));
    });
    assert!(unit.accepted.iter().all(|accepted| *accepted == expected(0..3)));
    unit.work_until(|unit| unit.ended.iter().all(|ended| *ended));
}

#[test]
fn a_thousand_strangers_are_refused_by_name_and_cost_the_others_nothing() {
    let mut unit = unit_for(1, 2);
    unit.start();
    let socket = unit.socket();
    let refused = beside(&mut unit, Way::Network, |address| {
        let mut client = SourceClient::connect(&address, options(&[0])).expect("there is room");
        let mut refused = 0;
        for event in 0..STRANGERS {
            let impatient = ClientOptions { patience: Duration::ZERO, ..options(&[1]) };
            for way in [&address, &socket] {
                refused += u64::from(SourceClient::connect(way, impatient.clone()).is_err());
            }
            client.send(0, fragment(event, &payload(event))).expect("connected");
        }
        assert!(client.drain().expect("connected"));
        refused
    });
    assert_eq!(refused, 2 * STRANGERS, "there is room for one program");
    assert_eq!(unit.accepted[0], expected(0..STRANGERS));
    assert_eq!(unit.accepted[1], []);
    let counted: u64 = unit.sources[0].stats().refused.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, 2 * STRANGERS, "{:?}", unit.sources[0].stats().refused);
}

#[test]
fn messages_for_a_client_that_does_not_read_are_not_composed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = setup(SessionId(1), (1, 50), &directory, "127.0.0.1:0").listen.expect("it listens");
    let mut network = Network::open(NodeId::readout(0), options, Waker::noop().clone()).expect("a free port");
    // No message for this client ever leaves.
    let mut client = Connection::network(GuestId(1), UnderWay::default());
    let mut composed = 0;
    for _ in 0..100 {
        client.send(Some(&mut network), || {
            composed += 1;
            Some(vec![0])
        });
        network.flush();
    }
    assert_eq!(composed, 16);
}
