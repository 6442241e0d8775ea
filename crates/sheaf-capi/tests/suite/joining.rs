//! Programs in C that join a run: processors and consumers.

use crate::common::{compile, library_directory, text};
use bytes::Bytes;
use sheaf_node::farm::{DoorSetup, Farm, FarmSetup, PlacingOptions};
use sheaf_node::processor::Welcome;
use sheaf_protocol::farm::DispatcherConfig;
use sheaf_protocol::sampler::Bounds;
use sheaf_tap::address::in_directory;
use sheaf_tap::door::{Door, DoorOptions};
use sheaf_wire::event_file::FileHeader;
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, Nanos, NodeId, NumberMark, RunNumber, SessionId, SourceId, Tags,
    Timestamp, TriggerType, Verdict,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Minutes, so that a busy machine makes a test slow but does not fail it.
const PATIENCE: Duration = Duration::from_secs(300);

const NOW: Timestamp = Timestamp(1_000_000_000);

fn event(id: u64) -> Event<Bytes> {
    let fragment = |source: u32| Fragment {
        event: EventId(id),
        source: SourceId(source),
        time: Timestamp(id),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::from(vec![id as u8; 300 * source as usize]),
    };
    Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments: (0..3).map(fragment).collect(),
        missing: Vec::new(),
    }
}

fn start(program: &Path, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", library_directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns a farm without workers of its own, whose door is in `directory`.
fn farm(directory: &Path) -> Farm {
    let door = DoorSetup {
        path: directory.join("bu0.farm"),
        welcome: Welcome {
            run: RunNumber(1),
            node: NodeId::builder(0),
            tags: vec!["even".into()],
            configuration: "[filter]\ndoor = true\nparameters = \"2\"\n".into(),
        },
        sources: 3,
        placing: PlacingOptions { memory: ByteCount::mib(1), max_fragment: ByteCount::kib(4) },
        launcher: None,
    };
    let dispatcher = DispatcherConfig {
        events: 32,
        seats: 4,
        ahead: 8,
        time_limit: None,
        load_time_limit: None,
        retries: 1,
        patience: None,
    };
    let setup = FarmSetup { dispatcher, threads: None, door: Some(door), listen: None };
    Farm::new(setup, NodeId::builder(0), Waker::noop().clone(), NOW).unwrap()
}

/// Returns the verdicts of the events 0 to `count` by the processors that join.
fn judged(farm: &mut Farm, count: u64, child: &mut Child) -> BTreeMap<u64, Verdict> {
    let (begin, mut next, mut verdicts) = (Instant::now(), 0, BTreeMap::new());
    while (verdicts.len() as u64) < count {
        while next < count && farm.has_room() {
            farm.offer(event(next));
            next += 1;
        }
        farm.work(NOW);
        while let Some((event, verdict)) = farm.poll() {
            verdicts.insert(event.id.0, verdict);
        }
        assert!(child.try_wait().unwrap().is_none(), "the program ended early");
        assert!(begin.elapsed() < PATIENCE, "{} of {count} events are judged", verdicts.len());
        std::thread::sleep(Duration::from_micros(50));
    }
    verdicts
}

#[test]
fn a_program_in_c_judges_the_events_of_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("judge", directory.path());
    let mut farm = farm(directory.path());
    let mut child = start(&program, &[directory.path().to_str().unwrap()]);
    let verdicts = judged(&mut farm, 100, &mut child);
    for (id, verdict) in &verdicts {
        let expected = match id % 2 {
            0 => Verdict::accept().with_tags(Tags(1)).with_payload(vec![3]),
            _ => Verdict::reject(),
        };
        assert_eq!(*verdict, expected, "event {id}");
    }
    farm.finish();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "100 events judged\n");
}

#[test]
fn a_program_in_c_that_cannot_judge_reports_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("judge", directory.path());
    let _farm = farm(directory.path());
    let door = directory.path().join("bu0.farm");
    let output = start(&program, &[door.to_str().unwrap(), "many"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let right = "the filter of this program rejects its configuration: the parameters should be a number, not \"many\"";
    assert_eq!(said.trim_end(), right);
    let empty = tempfile::tempdir().unwrap();
    let output = start(&program, &[empty.path().to_str().unwrap()]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("has no socket for processors"), "{}", text(&output.stderr));
}

#[test]
fn a_program_in_c_sees_the_accepted_events_that_it_asks_for() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("look", directory.path());
    let options = DoorOptions {
        key: None,
        socket: Some(in_directory(directory.path(), NodeId::builder(0))),
        listen: None,
        consumers: 1,
        bounds: Bounds {
            queue_events: 1000,
            queue_bytes: ByteCount::mib(16),
            interval: Nanos::ZERO,
            copy_rate: None,
        },
        greeting: PATIENCE,
        patience: PATIENCE,
    };
    let header = FileHeader {
        run: RunNumber(7),
        node: NodeId::builder(0),
        session: SessionId(9),
        part: 0,
        created: Timestamp(1),
        time_base: None,
    };
    let mut feed = Door::new(options).open(&header, r#"{"tags":["muon","calo"]}"#).unwrap();
    let mut child = start(&program, &[directory.path().to_str().unwrap(), "muon"]);
    // It does not get events from before it has joined.
    let begin = Instant::now();
    while !format!("{feed:?}").contains("consumers: 1") {
        feed.tend();
        assert!(child.try_wait().unwrap().is_none(), "the program ended early");
        assert!(begin.elapsed() < PATIENCE, "nobody has joined");
        std::thread::sleep(Duration::from_micros(50));
    }
    for id in 0..20 {
        let verdict = Verdict::accept().with_tags(Tags(1 << (id % 2))).with_payload(vec![0; id as usize]);
        feed.see(NOW, &event(id), &verdict);
    }
    let closing = feed.close();
    let output = child.wait_with_output().unwrap();
    let _ = closing.wait();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected: String = (0..20).step_by(2).map(|id| format!("event {id} muon payload {id}\n")).collect();
    assert_eq!(text(&output.stdout), expected);
}
