//! The canonical workload: 2 readout units and 2 builders build events of fixed fragments, on one thread.
//!
//! ```text
//! canonical [memory|tcp|shm] [EVENTS] [FRAGMENT BYTES] [descriptor|write-read] [uncompared|compared] [untraced|traced]
//! ```
//!
//! One thread and a clock that goes on by the same step each round: over the memory transport the same instructions
//! are executed every time, so that they can be counted (callgrind) and compared with those of another commit, on any
//! machine and beside any load. `cargo xtask instructions` does that. It prints, for each fragment, what the endpoints
//! counted.

#![allow(clippy::print_stdout, reason = "the result")]

mod links;

use bytes::Bytes;
use sheaf_node::builder::{BuilderNode, Judgement};
use sheaf_node::content::ContentCheck;
use sheaf_node::filter::{Filter, FilterFailure};
use sheaf_node::manager::{Course, ManagerNode};
use sheaf_node::number_check::{CheckedQuantity, NumberCheck, SourceValue, ValuePlace};
use sheaf_node::readout::ReadoutNode;
use sheaf_node::report::RunReport;
use sheaf_node::sink::NullSink;
use sheaf_node::traces::{Sample, Tracing};
use sheaf_node::{NodeDriver, Progress};
use sheaf_protocol::Identity;
use sheaf_protocol::builder::{Asking, BuilderConfig, BuilderUnit, IncompletePolicy, ReadoutSources, Scope};
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{EventManager, ManagerConfig, Shaping, Triggers};
use sheaf_protocol::numbering::Quantity;
use sheaf_protocol::readout::{Announce, ReadoutConfig, ReadoutUnit, SourceConfig};
use sheaf_source::content::Content;
use sheaf_source::described::{ByteOrder, Field, Width};
use sheaf_source::emulator::EmulatedTime;
use sheaf_source::pacing::{Pace, Schedule};
use sheaf_source::script::Defects;
use sheaf_source::size_model::{SizeConfig, SizeShape};
use sheaf_source::{EmulatorConfig, Source};
use sheaf_telemetry::stamps::StampHub;
use sheaf_transport::Endpoint;
use sheaf_wire::{
    ByteCount, Event, EventId, Nanos, NodeId, RunNumber, SessionId, SourceId, Timestamp, TriggerMix,
    TriggerType, Verdict,
};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

const READOUTS: u16 = 2;
const BUILDERS: u16 = 2;
const SLOTS: u32 = 256;
const MEMORY: ByteCount = ByteCount(64 << 20);
const PATIENCE: Patience = Patience { absence: Nanos::from_secs(10), silence: Nanos::from_secs(60) };
const CHANNEL: ChannelTimes =
    ChannelTimes { retransmit: Nanos::from_secs(1), acknowledge: Nanos::from_millis(10) };

/// Clock step of a round: about the time that a round takes.
const STEP: Nanos = Nanos::from_micros(20);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize, default: &str| words.get(place).cloned().unwrap_or_else(|| default.to_owned());
    let events: u64 = word(1, "20000").parse().expect("the second word is the number of events");
    let bytes: u64 = word(2, "2048").parse().expect("the third word is the size of a fragment in bytes");
    let is_touched = match word(3, "descriptor").as_str() {
        "descriptor" => false,
        "write-read" => true,
        other => panic!("the fourth word is `descriptor` or `write-read`, not `{other}`"),
    };
    let numbers = match word(4, "uncompared").as_str() {
        "uncompared" => NumberCheck::default(),
        "compared" => compared(),
        other => panic!("the fifth word is `uncompared` or `compared`, not `{other}`"),
    };
    let tracing = match word(5, "untraced").as_str() {
        "untraced" => None,
        // Traced are events that are slow, incomplete, dropped, or in the sample.
        "traced" => Some(Tracing {
            hub: StampHub::default(),
            sample: Sample::new(RunNumber(1), 1000),
            slow: Nanos::from_secs(1),
            is_alone: false,
        }),
        other => panic!("the sixth word is `untraced` or `traced`, not `{other}`"),
    };
    let nodes: Vec<NodeId> = std::iter::once(NodeId::MANAGER)
        .chain((0..READOUTS).map(NodeId::readout))
        .chain((0..BUILDERS).map(NodeId::builder))
        .collect();
    let lab = links::Lab::new(&word(0, "memory"), &nodes, ByteCount(bytes));
    let load = Load { events, bytes: ByteCount(bytes), is_touched, numbers, tracing };
    let stats = run(&lab, &nodes, &load);
    let fragments = events * u64::from(READOUTS);
    println!("{fragments} fragments of {bytes} bytes over {}", word(0, "memory"));
    for (name, count) in stats {
        if count > 0 {
            println!("{name:24} {count:10} {:10.4} per fragment", count as f64 / fragments as f64);
        }
    }
}

/// The events of a run.
struct Load {
    events: u64,
    /// Size of each fragment.
    bytes: ByteCount,
    /// Whether payload is written by the sources and read by the builder units.
    is_touched: bool,
    numbers: NumberCheck,
    /// Stamps of the events, if there are any.
    tracing: Option<Tracing>,
}

/// Builds all events, and returns the counts of all endpoints together.
fn run(lab: &links::Lab, nodes: &[NodeId], load: &Load) -> Vec<(&'static str, u64)> {
    let Load { events, bytes, is_touched, ref numbers, ref tracing } = *load;
    let mut now = Timestamp(1_000_000_000_000);
    let report: Arc<Mutex<Option<RunReport>>> = Arc::default();
    let stats = Arc::new(Mutex::new(sheaf_transport::LinkStats::default()));
    let mut drivers: Vec<Box<dyn NodeDriver>> = nodes
        .iter()
        .map(|node| {
            let (endpoint, memory) = lab.endpoint(*node);
            let endpoint: Box<dyn Endpoint> = Box::new(links::Counted::new(endpoint, stats.clone()));
            match node.role {
                sheaf_wire::Role::Manager => {
                    manager(endpoint, (events, tracing.as_ref()), report.clone(), now)
                }
                sheaf_wire::Role::Readout => readout(
                    *node,
                    (endpoint, tracing.as_ref()),
                    memory.source(&emulated(bytes, is_touched), SourceId(node.index.into())),
                    now,
                ),
                sheaf_wire::Role::Builder => {
                    builder(*node, (endpoint, tracing.as_ref()), is_touched, numbers.clone(), now)
                }
                sheaf_wire::Role::Output | sheaf_wire::Role::Mirror => {
                    unreachable!("the laboratory has no output nodes")
                }
            }
        })
        .collect();
    while !drivers.is_empty() {
        now += STEP;
        drivers.retain_mut(|driver| {
            let over = driver.work(now) == Progress::Finished;
            if over {
                driver.finish().expect("every node does its work");
            }
            !over
        });
    }
    let report = report.lock().expect("nobody panicked").take().expect("the event manager has reported");
    assert_eq!(report.ledger.stored, events, "every event is built and stored");
    assert_eq!(report.incomplete, 0, "and complete");
    let stats = *stats.lock().expect("nobody panicked");
    stats.fields().collect()
}

fn identity(node: NodeId) -> Identity {
    Identity { node, run: RunNumber(1), session: SessionId(1) }
}

fn manager(
    endpoint: Box<dyn Endpoint>,
    (events, tracing): (u64, Option<&Tracing>),
    report: Arc<Mutex<Option<RunReport>>>,
    now: Timestamp,
) -> Box<dyn NodeDriver> {
    let config = ManagerConfig {
        readouts: READOUTS,
        builders: BUILDERS,
        outputs: 0,
        readout_of: std::collections::BTreeMap::new(),
        triggers: Triggers::Free,
        first_event: EventId(0),
        max_events: Some(events),
        trigger_type: TriggerType(0),
        trigger_mix: TriggerMix::default(),
        queue_events: 1024,
        batch_events: 256,
        max_attempts: 3,
        expected_event: None,
        requirements: Vec::new(),
        start_timeout: Nanos::from_secs(10),
        stop_timeout: Nanos::from_secs(10),
        desertion_timeout: Nanos::from_secs(60),
        patience: PATIENCE,
        heartbeat: Nanos::from_millis(100),
        batch_time: Nanos::from_millis(1),
        shaping: Shaping::Pull,
        channel: CHANNEL,
        shifts: None,
    };
    let course = Course {
        triggers: None,
        from_start: false,
        duration: None,
        warm_up: Nanos::ZERO,
        stop: Arc::default(),
        controls: Arc::default(),
    };
    let role = EventManager::new(identity(NodeId::MANAGER), config, now);
    let done = move |found| *report.lock().expect("nobody panicked") = Some(found);
    let node = ManagerNode::new(role, endpoint, course, Arc::default(), done);
    match tracing {
        Some(tracing) => Box::new(node.traced(tracing.clone())),
        None => Box::new(node),
    }
}

fn emulated(bytes: ByteCount, touched: bool) -> EmulatorConfig {
    EmulatorConfig {
        seed: 1,
        first_event: EventId(0),
        events: None,
        size: SizeConfig { shape: SizeShape::Fixed { size: bytes }, min: ByteCount(0), max: bytes },
        content: if touched { Content::Fill(0x5a) } else { Content::None },
        checksum: false,
        time: EmulatedTime::Now,
        pace: Pace { schedule: Schedule::FullSpeed, pause: Nanos::ZERO },
        defects: Defects::default(),
        fault: None,
        block_size: links::SOURCE_BLOCK.max(bytes),
        max_blocks: links::SOURCE_BLOCKS,
    }
}

fn readout(
    node: NodeId,
    (endpoint, tracing): (Box<dyn Endpoint>, Option<&Tracing>),
    source: Box<dyn Source>,
    now: Timestamp,
) -> Box<dyn NodeDriver> {
    let config = ReadoutConfig {
        sources: vec![SourceConfig { id: source.id(), optional: false }],
        buffer: ByteCount(1 << 20),
        buffer_events: 16_384,
        max_fragment: ByteCount(1 << 20),
        announce: Announce::Never,
        merge_timeout: Nanos::from_secs(10),
        longest_merge: Nanos::from_secs(60),
        wait_for_required: false,
        orphan_timeout: Some(Nanos::from_secs(30)),
        room_from: None,
        size_window: ReadoutConfig::SIZE_WINDOW,
        message_bytes: ByteCount(1 << 20),
        message_events: 256,
        request_events: 1 << 16,
        heartbeat: Nanos::from_millis(100),
        channel: CHANNEL,
    };
    let role = ReadoutUnit::new(identity(node), config, now);
    let unit = ReadoutNode::new(role, endpoint, vec![source], PATIENCE, now);
    match tracing {
        Some(tracing) => Box::new(unit.traced(tracing, &node.to_string(), Vec::new())),
        None => Box::new(unit),
    }
}

/// Compares 32 bits of every payload: all payload is alike.
fn compared() -> NumberCheck {
    let field = Field::new(4, Width::of_bits(32).expect("a width"), ByteOrder::Little);
    let value = |source| SourceValue { source, place: ValuePlace::Payload(field), offset: 0 };
    let values = (0..READOUTS).map(|source| value(SourceId(source.into()))).collect();
    let quantity = Quantity { modulus: 1 << 32, tolerance: 0 };
    NumberCheck::new(vec![CheckedQuantity { quantity, reference: None, values }])
}

fn builder(
    node: NodeId,
    (endpoint, tracing): (Box<dyn Endpoint>, Option<&Tracing>),
    touched: bool,
    numbers: NumberCheck,
    now: Timestamp,
) -> Box<dyn NodeDriver> {
    let sources = |readout: u16| ReadoutSources { sources: vec![SourceId(readout.into())] };
    let config = BuilderConfig {
        mirrored: false,
        readouts: (0..READOUTS).map(sources).collect(),
        optional: BTreeSet::new(),
        slots: SLOTS,
        memory: MEMORY,
        incomplete: IncompletePolicy::Store,
        event_timeout: Nanos::from_secs(10),
        patience: PATIENCE,
        request_retry: Nanos::from_secs(10),
        asking: Asking::AtOnce,
        scope: Scope::default(),
        windows: None,
        batch_events: 64,
        batch_time: Nanos::from_millis(1),
        heartbeat: Nanos::from_millis(100),
        channel: CHANNEL,
    };
    let role = BuilderUnit::new(identity(node), config, now);
    let filter = Box::new(Reader { touched });
    let judgement =
        Judgement { check: ContentCheck::Off, numbers, filter, sink: Box::new(NullSink::default()) };
    let unit = BuilderNode::new(role, endpoint, judgement, PATIENCE, now);
    match tracing {
        Some(tracing) => Box::new(unit.traced(tracing, &node.to_string(), Vec::new())),
        None => Box::new(unit),
    }
}

/// Reads every byte if the load is touched.
struct Reader {
    touched: bool,
}

impl Filter for Reader {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        if self.touched {
            for fragment in &event.fragments {
                black_box(fragment.payload.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
            }
        }
        Ok(Verdict::accept())
    }
}
