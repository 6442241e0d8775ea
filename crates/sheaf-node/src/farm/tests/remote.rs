//! Processors that join over a network, here over loopback.

use super::*;
use sheaf_shm::door::VisitError;
use sheaf_tcp::{GuestOptions, HostEvent, HostOptions, TcpGuest, TcpHost, TcpSettings};
use sheaf_wire::SessionId;
use sheaf_wire::farm::Hello;
use std::net::TcpListener;

/// A farm that listens, and where.
fn listening(dispatcher: DispatcherConfig, max_guests: u16) -> (Test, PathBuf) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let settings = TcpSettings { blocks: 16, block_bytes: ByteCount::kib(64), ..TcpSettings::default() };
    let (node, run, session) = (NodeId::builder(0), RunNumber(1), SessionId(1));
    let host = HostOptions {
        node,
        run,
        session,
        listener,
        max_guests,
        settings,
        tls: None,
        names: Vec::new(),
        key: None,
    };
    let welcome = Welcome { run, node, tags: vec!["even".into()], configuration: "[run]".into() };
    let listen = Some(ListenSetup { host, welcome });
    let setup = FarmSetup { dispatcher, threads: None, door: None, listen };
    (Test::of(setup, tempfile::tempdir().expect("a directory")), address.into())
}

#[test]
fn processors_join_over_a_network_judge_what_they_are_sent_and_leave() {
    let (mut test, address) = listening(dispatcher(), 4);
    let (first, stop) = join_at(&address, Even { special: None });
    test.judge(0..100);
    stop.store(true, Ordering::Relaxed);
    test.until("the first has left", |test| first.is_finished() && test.farm.members.is_empty());
    assert_eq!(first.join().expect("no panic").expect("a good end").judged, 100);
    let (second, _stop) = join_at(&address, Even { special: Some((107, Special::Fail)) });
    test.judge(100..200);
    test.check(Some(107));
    let report = test.farm.finish();
    let counts = report.counts;
    assert_eq!((counts.joined, counts.left, counts.died, counts.failed), (2, 1, 0, 2));
    second.join().expect("no panic").expect("the end of the run is a good end");
    let judged: Vec<u64> = report.workers.iter().map(|(_, times)| times.judged).collect();
    assert_eq!(judged, [100, 101], "each said what it had done; the event that failed was tried twice");
}

#[test]
fn large_payloads_of_verdicts_come_over_a_network() {
    let (mut test, address) = listening(dispatcher(), 1);
    let (worker, _stop) = join_at(&address, Wordy);
    test.judge(0..20);
    assert!(test.verdicts.iter().all(|(id, verdict)| verdict.payload == vec![*id as u8; 400_000]));
    test.farm.finish();
    worker.join().expect("no panic").expect("a good end");
}

/// A processor that goes away with events in hand, again and again; the other judges all of them.
#[test]
fn processors_that_vanish_from_the_network_lose_no_event() {
    let (mut test, address) = listening(dispatcher(), 8);
    let (steady, _stop) = join_at(&address, Even { special: None });
    let vanished = Arc::new(AtomicU64::new(0));
    let count = vanished.clone();
    let vanishing = std::thread::spawn(move || {
        for _ in 0..10 {
            vanish(&address);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut next = 0;
    while vanished.load(Ordering::Relaxed) < 10 {
        test.judge(next..next + 8);
        next += 8;
    }
    vanishing.join().expect("no panic");
    test.until("all have gone", |test| test.farm.dispatcher.counts().died == 10);
    let counts = test.farm.dispatcher.counts();
    assert_eq!(test.verdicts.len() as u64, next);
    assert_eq!(counts.judged + counts.quarantined, next);
    assert!(counts.abandoned > 0, "they had events: {counts:?}");
    test.farm.finish();
    steady.join().expect("no panic").expect("a good end");
}

/// It takes events and is silent, as a process that hangs, or one whose host has lost its power.
#[test]
fn a_processor_that_hangs_somewhere_else_is_given_up_and_learns_of_it() {
    let config = DispatcherConfig { time_limit: Some(Nanos::from_secs(1)), ..dispatcher() };
    let (mut test, address) = listening(config, 2);
    let met = std::thread::spawn({
        let address = address.clone();
        move || Processor::meet(&address, ProcessorOptions::default()).expect("it is let in")
    });
    test.until("it is let in", |_| met.is_finished());
    let mut hangs = met.join().expect("no panic");
    hangs.flush().expect("it asks for events");
    for id in 0..4 {
        test.farm.offer(event(id));
    }
    test.until("it has them", |test| test.farm.dispatcher.held() == (4, 4));
    test.until("it is given up", |test| {
        test.now += Nanos::from_millis(10);
        test.farm.dispatcher.counts().silent == 1
    });
    let (steady, _stop) = join_at(&address, Even { special: None });
    test.until("all are judged", |test| test.verdicts.len() == 4);
    test.check(None);
    let start = Instant::now();
    while !hangs.is_closed() {
        let _ = hangs.take().expect("it is a good end");
        hangs.wait(Nanos::from_millis(5));
        assert!(start.elapsed() < PATIENCE);
    }
    test.farm.finish();
    steady.join().expect("no panic").expect("a good end");
}

#[test]
fn callers_that_are_no_processors_of_this_release_are_turned_away_and_counted() {
    let (mut test, address) = listening(dispatcher(), 2);
    let says = move |hello: Vec<u8>| {
        let options =
            GuestOptions { session: SessionId(1), settings: TcpSettings::default(), tls: None, key: None };
        let address = address.to_str().expect("it is ASCII");
        let mut guest = TcpGuest::meet(address, options).expect("it speaks the framing");
        guest.send(sheaf_transport::Frame::new(hello.into(), None)).expect("there is room");
        let start = Instant::now();
        while guest.ended().is_none() {
            let _ = guest.take();
            guest.wait(Nanos::from_millis(5));
            assert!(start.elapsed() < PATIENCE);
        }
    };
    let mut other_release = Hello { process: 1, host: "old".into() }.emit();
    other_release[0] = 1;
    for (count, hello) in [(1, b"nothing".to_vec()), (2, other_release)] {
        let says = says.clone();
        let caller = std::thread::spawn(move || says(hello));
        test.until("it is cut", |test| caller.is_finished() && test.farm.report.callers_refused == count);
        caller.join().expect("no panic");
    }
    assert_eq!(test.farm.finish().counts.joined, 0);
}

#[test]
fn who_joins_nobody_is_told_what_to_look_at() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let join = |address: String| {
        let result = Processor::meet(Path::new(&address), ProcessorOptions::default());
        result.map(|_| ()).expect_err("nobody is there").to_string()
    };
    let said = join(free.to_string());
    assert!(said.contains(&format!("cannot connect to {free}")), "{said}");
    let said = join("no host of this name:1".into());
    assert!(said.contains("cannot resolve"), "{said}");
}

/// A processor that waits for the next run must not end because it connected while a run was ending.
#[test]
fn a_dispatcher_that_ends_while_it_is_greeted_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let mut host = TcpHost::new(HostOptions {
        node: NodeId::builder(0),
        run: RunNumber(1),
        session: SessionId(1),
        listener,
        max_guests: 1,
        settings: TcpSettings::default(),
        tls: None,
        names: Vec::new(),
        key: None,
    })
    .expect("it can be");
    let caller = std::thread::spawn(move || {
        let met = Processor::meet(Path::new(&address), ProcessorOptions::default());
        met.map(|_| ()).expect_err("it was not welcomed")
    });
    let start = Instant::now();
    while !matches!(host.poll(), Some(HostEvent::Entered { .. })) {
        host.wait(Nanos::from_millis(5));
        assert!(start.elapsed() < PATIENCE);
    }
    host.close(Nanos::from_secs(2));
    let error = caller.join().expect("no panic");
    assert!(error.nobody_is_there(), "{error}");
    assert!(ProcessorError::from(VisitError::Closed).nobody_is_there(), "nor is one behind a door");
}
