//! A process without free file descriptors keeps its links and accepts callers when it has some again.
//!
//! In its own process, because the test exhausts the descriptors of the whole process.

use crate::nodes::{expects, greeting_of};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sheaf_conformance::{WATCHDOG, alone};
use sheaf_tcp::{TcpEndpoint, TcpOptions, TcpSettings};
use sheaf_transport::{Endpoint, Event};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};
use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use zerocopy::IntoBytes;

#[test]
fn callers_wait_while_there_are_no_file_descriptors() {
    alone("descriptors::callers_wait_while_there_are_no_file_descriptors", || {
        let caller = NodeId::readout(0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut endpoint = TcpEndpoint::new(TcpOptions {
            node: NodeId::MANAGER,
            run: RunNumber(1),
            session: SessionId(1),
            listener: Some(listener),
            peers: vec![expects(caller)],
            settings: TcpSettings::default(),
        })
        .unwrap();
        // The kernel completes the call; the endpoint has not accepted it yet.
        let mut raw = TcpStream::connect(address).unwrap();
        let greeting = greeting_of(caller, RunNumber(1));
        raw.write_all(greeting.as_bytes()).unwrap();

        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
        let hoard: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!hoard.is_empty());
        let start = Instant::now();
        let mut drive_until = |holds: &mut dyn FnMut(&TcpEndpoint, Option<Event>) -> bool| loop {
            endpoint.wait(Nanos::from_millis(10));
            let event = endpoint.poll();
            if holds(&endpoint, event) {
                break;
            }
            assert!(start.elapsed() < WATCHDOG, "{:?}", endpoint.stats());
        };
        drive_until(&mut |endpoint, event| {
            assert_eq!(event, None, "nobody can be accepted");
            endpoint.stats().accepts_failed >= 2
        });
        drop(hoard);
        drive_until(&mut |_, event| event == Some(Event::PeerUp { peer: caller }));
    });
}
