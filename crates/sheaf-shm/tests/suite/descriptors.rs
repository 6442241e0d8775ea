//! A process without free file descriptors does not spin, and accepts callers when it has some again.
//!
//! In its own process, because the test exhausts the descriptors of the whole process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sheaf_conformance::{WATCHDOG, alone};
use sheaf_shm::{Arena, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
use sheaf_transport::{Endpoint, Event};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};
use std::fs::File;
use std::time::Instant;

fn endpoint(node: NodeId, name: Option<String>, peer: ShmPeer) -> ShmEndpoint {
    let settings = ShmSettings {
        retry_min: Nanos::from_millis(1),
        retry_max: Nanos::from_millis(10),
        ..ShmSettings::default()
    };
    let arena = Arena::new("sheaf.test", settings.arena_bytes(), false).expect("memory");
    let (run, session) = (RunNumber(1), SessionId(1));
    ShmEndpoint::new(ShmOptions { node, run, session, name, peers: vec![peer], arena, settings })
        .expect("the options are right")
}

#[test]
fn callers_wait_while_there_are_no_file_descriptors_and_nobody_spins() {
    alone("descriptors::callers_wait_while_there_are_no_file_descriptors_and_nobody_spins", || {
        let (called, calling) = (NodeId::MANAGER, NodeId::readout(0));
        let name = format!("test/descriptors/{}", std::process::id());
        let mut manager = endpoint(called, Some(name.clone()), ShmPeer { node: calling, call: None });
        let mut readout = endpoint(calling, None, ShmPeer { node: called, call: Some(name) });
        // The kernel completes the call; the manager has not accepted it yet.
        while readout.stats().connects_begun == 0 {
            assert_eq!(readout.poll(), None);
        }

        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
        let hoard: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!hoard.is_empty());
        let start = Instant::now();
        while manager.stats().accepts_failed < 2 {
            manager.wait(Nanos::from_millis(10));
            assert_eq!(manager.poll(), None, "nobody can be accepted");
            assert!(start.elapsed() < WATCHDOG, "{:?}", manager.stats());
        }
        let stats = manager.stats();
        assert!(stats.wake_ups < stats.sleeps, "the caller that waits does not end every sleep: {stats:?}");
        drop(hoard);
        let mut up = false;
        while !up {
            manager.wait(Nanos::from_millis(1));
            up = manager.poll() == Some(Event::PeerUp { peer: calling });
            let _ = readout.poll();
            assert!(start.elapsed() < WATCHDOG, "{:?}", manager.stats());
        }
    });
}
