//! Any file is accepted, or refused with a reason. A written configuration reads back unchanged.

use proptest::prelude::*;
use sheaf_config::{
    Config, Content, FilterKind, IncompletePolicy, MemoryPolicy, Node, NodeConfig, OutputKind, Pacing,
    ShapingPolicy, SizeModel, StepFilterKind, Stream, Sync, TransportKind, TriggerClass, TriggerMode,
    fuzz_config,
};
use sheaf_wire::{ByteCount, EventId, Nanos, Role, RunNumber, SourceId, TriggerType};
use std::collections::BTreeSet;

/// A valid file with most of the possible tables and keys.
const FILE: &str = r#"
[run]
number = 7
output = "runs" # a comment
duration_s = 2.5
[trigger]
mode = "fixed"
rate_hz = 1e3
[source]
kind = "emulated"
count = 12
optional = [0, "10-11"]
emulated = { mean_bytes = 1_000, rms_bytes = 0x100, size = 'normal' }
[output]
begin_records = """records"""
[readout]
merge_timeout_ms = 150
[builder]
slots = 64
[incomplete]
policy = "drop"
[transport]
kind = "tcp"
[filter]
tags = ["muon", "laser"]
[streams.physics]
tags = ["muon"]
prescale = 2
sync = "fsync"
[streams.default]
rotate_s = 60
[building]
first_step = [0, "4-7"]
filter = "prescale"
prescale = 10
[triggers.calib]
type = 2
weight = 3
readouts = [1]
[[node]]
name = "evm"
role = "manager"
address = "daq0:7000"
[[node]]
name = "ru0"
role = "readout"
sources = ["0-5"]
cpu = [0, "2-3"]
[[node]]
name = "ru1"
role = "readout"
sources = [6, 7, "8-11"]
[[node]]
name = "bu0"
role = "builder"
address = "[::1]:7001"
"#;

/// Fragments of text that make a file invalid in interesting ways.
const PIECES: &[&str] = &[
    "[",
    "]",
    "[[node]]",
    "=",
    "\"",
    "\"\"\"",
    "'",
    "{",
    "}",
    ",",
    "\n",
    "\r\n",
    "\t",
    "#",
    "0",
    "-1",
    "1e400",
    "nan",
    "inf",
    "99999999999999999999",
    "true",
    "1979-05-27",
    "\u{feff}",
    "\u{1f600}",
    "\u{0}",
    "é",
    "node",
    "source",
    "source.replay",
    "readout.count = 3",
    "[builder]",
    "\"0-4294967295\"",
    "role",
    ".",
    "\\",
    "\\u0000",
    "_",
    "\u{2028}",
    "[streams.calib]",
    "streams = 1",
    "tags = [\"laser\"]",
];

#[derive(Clone, Debug)]
enum Mutation {
    Insert(usize, &'static str),
    Byte(usize, u8),
    Remove(usize, usize),
    Copy(usize, usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = 0..FILE.len();
    prop_oneof![
        (at.clone(), prop::sample::select(PIECES)).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        (at.clone(), 1..40_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (at.clone(), 1..80_usize, at).prop_map(|(from, length, to)| Mutation::Copy(from, length, to)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let end = bytes.len();
    match *mutation {
        Mutation::Insert(at, piece) => {
            bytes.splice(at.min(end)..at.min(end), piece.bytes());
        }
        Mutation::Byte(at, byte) => {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        Mutation::Remove(at, length) => {
            bytes.drain(at.min(end)..(at + length).min(end));
        }
        Mutation::Copy(from, length, to) => {
            let piece = bytes[from.min(end)..(from + length).min(end)].to_vec();
            bytes.splice(to.min(end)..to.min(end), piece);
        }
    }
}

#[test]
fn the_file_to_be_mutated_is_valid() {
    Config::parse(FILE, "run.toml").unwrap_or_else(|errors| panic!("{errors}"));
}

proptest! {
    #[test]
    fn a_mutated_file_is_a_configuration_or_a_list_of_errors_within_it(
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let mut bytes = FILE.as_bytes().to_vec();
        for mutation in &mutations {
            mutate(&mut bytes, mutation);
        }
        fuzz_config(&bytes);
        if let Ok(text) = std::str::from_utf8(&bytes)
            && let Err(errors) = Config::parse(text, "run.toml")
        {
            let lines = text.split('\n').count();
            for error in errors.errors() {
                let line = error.line();
                prop_assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
                // A position in the file, except for errors of the file as a whole.
                prop_assert!(line.is_some() || error.to_string().contains("--> run.toml"), "{error}");
            }
        }
    }

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}") {
        fuzz_config(text.as_bytes());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_config(&bytes);
    }

    /// Knobs without effect are left out.
    #[test]
    fn every_configuration_reads_as_it_was_written(config in config()) {
        prop_assert_eq!(config.validate().map_err(|errors| errors.to_string()), Ok(()));
        prop_assert!(config.nodes().is_ok());
        for text in [config.to_toml(), config.to_short_toml()] {
            let again = Config::parse(&text, "written.toml")?;
            prop_assert_eq!(short_without_nodes(&again), short_without_nodes(&config), "{}", text);
            let third = Config::parse(&again.to_toml(), "again.toml").map_err(|errors| errors.to_string());
            prop_assert_eq!(third.as_ref(), Ok(&again), "{}", text);
        }
    }

    #[test]
    fn each_source_is_on_exactly_one_readout_unit_and_the_shares_are_even(
        ids in prop::collection::btree_set(0..100_000_u32, 1..200),
        readouts in 1..40_u16,
        builders in 1..40_u16,
    ) {
        let mut config = Config::default();
        config.set_replay("streams".into());
        config.readout.count = readouts;
        config.builder.count = builders;
        let ids: Vec<SourceId> = ids.into_iter().map(SourceId).collect();
        let nodes = config.resolve_nodes(&ids).unwrap();
        let units: Vec<&NodeConfig> = nodes.iter().filter(|node| node.id.role == Role::Readout).collect();
        prop_assert_eq!(units.len(), usize::from(readouts).min(ids.len()));
        let read: Vec<SourceId> = units.iter().flat_map(|unit| unit.sources.clone()).collect();
        prop_assert_eq!(&read, &ids, "in contiguous blocks, in order");
        let sizes: BTreeSet<usize> = units.iter().map(|unit| unit.sources.len()).collect();
        prop_assert!(sizes.last().unwrap() - sizes.first().unwrap() <= 1, "{:?}", sizes);
        let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        prop_assert_eq!(names.len(), nodes.len());

        // A child process gets the same result from the resolved nodes.
        let mut listed = config.clone();
        listed.set_nodes(&nodes);
        let child = Config::parse(&listed.to_toml(), "child.toml")?;
        prop_assert_eq!(child.nodes()?, nodes);
    }
}

/// Returns all that has an effect. Nodes are written with their defaults.
fn short_without_nodes(config: &Config) -> String {
    Config { node: Vec::new(), ..config.clone() }.to_short_toml()
}

fn time(from: Nanos, to: Nanos) -> impl Strategy<Value = Nanos> {
    (from.0..=to.0).prop_map(Nanos)
}

fn bytes(from: u64, to: u64) -> impl Strategy<Value = ByteCount> {
    (from..=to).prop_map(ByteCount)
}

/// Generates valid configurations that differ from the default in many keys of every type.
fn config() -> impl Strategy<Value = Config> {
    (sources(), times(), sizes(), words(), places(), nodes(), streams(), building()).prop_map(|changes| {
        let (sources, times, sizes, words, places, nodes, streams, building) = changes;
        let mut config = Config::default();
        for Change(change) in [sources, times, sizes, words, places, nodes, streams, building] {
            change(&mut config);
        }
        config
    })
}

/// A change of a configuration.
struct Change(Box<dyn Fn(&mut Config)>);

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a change; its effect is in the configuration")
    }
}

fn change(change: impl Fn(&mut Config) + 'static) -> Change {
    Change(Box::new(change))
}

fn sources() -> impl Strategy<Value = Change> {
    let text = "[a-zA-Z0-9/ \"'\\\\\n\té.]{1,20}";
    let numbers = (1..=u32::MAX, 0..=i64::MAX as u64, prop::option::of(1..=i64::MAX as u64), any::<u16>());
    let rates = (0.001..1e9_f64, prop::option::of(0.001..1e9_f64), 1e-6..1e6_f64);
    (text, text, numbers, rates, prop::option::of(1..=u32::MAX)).prop_map(
        |(output, directory, (number, seed, events, kind), (rate, replay_rate, speed), loops)| {
            change(move |config| {
                config.run.output = output.clone().into();
                config.run.number = RunNumber(number);
                config.run.events = events;
                config.trigger.rate_hz = Some(rate);
                config.trigger.seed = seed;
                config.trigger.first_event = EventId(seed);
                config.trigger.trigger_type = TriggerType(kind);
                config.source.replay.directory = Some(directory.clone().into());
                config.source.replay.rate_hz = replay_rate;
                config.source.replay.speed = speed;
                config.source.replay.loop_count = loops;
            })
        },
    )
}

fn times() -> impl Strategy<Value = Change> {
    let duration = prop::option::of(time(Nanos(1), Nanos::from_secs(8_640_000)));
    let merge = time(Nanos::from_micros(100), Nanos::from_millis(1_999));
    let pause = time(Nanos::ZERO, Nanos::from_secs(3_600));
    let orphan = prop::option::of(time(Nanos::from_secs(2), Nanos::from_secs(3_600)));
    (duration, merge, pause, orphan).prop_map(|(duration, merge, pause, orphan)| {
        change(move |config| {
            config.run.duration = duration;
            config.readout.merge_timeout = merge;
            config.readout.orphan_timeout = orphan;
            config.source.replay.pause = pause;
            config.output.sync_interval = pause;
        })
    })
}

fn sizes() -> impl Strategy<Value = Change> {
    let of_fragments =
        (bytes(1, 4_000), bytes(0, 1_000), prop::option::of(bytes(4_000, 100_000)), 0.0..0.999_f64);
    let bounds =
        (bytes(16 << 20, 1 << 40), bytes(16 << 20, 1 << 36), prop::option::of(bytes(4_096, 1 << 30)));
    (of_fragments, bounds).prop_map(|((mean, rms, maximum, share), (memory, queue, socket))| {
        change(move |config| {
            config.source.emulated.mean = mean;
            config.source.emulated.rms = rms;
            config.source.emulated.maximum = maximum;
            config.source.emulated.peak_share = share;
            config.builder.memory = memory;
            config.readout.buffer = memory;
            config.transport.queue = queue;
            config.transport.send_buffer = socket;
        })
    })
}

fn words() -> impl Strategy<Value = Change> {
    use prop::sample::select;
    let of_run = (
        select(vec![TriggerMode::Free, TriggerMode::Fixed, TriggerMode::Poisson, TriggerMode::Seen]),
        select(vec![SizeModel::Fixed, SizeModel::LogNormal, SizeModel::Normal, SizeModel::MinimumPeaked]),
        select(vec![Content::Pattern, Content::Fill, Content::None]),
        select(vec![Pacing::Full, Pacing::Recorded, Pacing::Fixed]),
    );
    let of_flow = (
        select(vec![IncompletePolicy::Wait, IncompletePolicy::Store, IncompletePolicy::Drop]),
        select(vec![FilterKind::AcceptAll, FilterKind::Prescale]),
        select(vec![OutputKind::File, OutputKind::None]),
        select(vec![Sync::None, Sync::Flush, Sync::Fsync]),
        select(vec![
            TransportKind::Memory,
            TransportKind::Tcp,
            TransportKind::Shm,
            TransportKind::Mixed,
            TransportKind::Libfabric,
            TransportKind::Udp,
            TransportKind::Ethernet,
        ]),
        select(vec![ShapingPolicy::Pull, ShapingPolicy::Paced, ShapingPolicy::Push]),
    );
    (of_run, of_flow, any::<[bool; 3]>()).prop_map(
        |((mode, size, content, pacing), (policy, filter, output, sync, transport, shaping), switches)| {
            change(move |config| {
                config.trigger.mode = mode;
                // Only these modes have a rate.
                config
                    .trigger
                    .rate_hz
                    .take_if(|_| !matches!(mode, TriggerMode::Fixed | TriggerMode::Poisson));
                config.source.emulated.size = size;
                config.source.emulated.content = content;
                config.source.replay.pacing = pacing;
                config.incomplete.policy = policy;
                config.filter.kind = filter;
                config.output.kind = output;
                config.output.sync = sync;
                config.transport.kind = transport;
                config.shaping.policy = shaping;
                [config.run.overwrite, config.source.emulated.checksum, config.builder.check_content] =
                    switches;
            })
        },
    )
}

/// Generates the placement of threads.
fn places() -> impl Strategy<Value = Change> {
    let cpus = || prop::collection::btree_set(0..1_024_usize, 0..6);
    let priority = || prop::option::of(1..=99_u8);
    let memory = prop::sample::select(vec![
        MemoryPolicy::System,
        MemoryPolicy::Local,
        MemoryPolicy::Bind,
        MemoryPolicy::Interleave,
    ]);
    (cpus(), cpus(), priority(), priority(), memory, any::<bool>()).prop_map(
        |(readouts, builders, manager, readout, memory, required)| {
            change(move |config| {
                config.affinity.readout_cpu = readouts.iter().copied().collect();
                config.affinity.builder_cpu = builders.iter().copied().collect();
                config.affinity.manager_priority = manager;
                config.affinity.readout_priority = readout;
                config.affinity.builder_memory = memory;
                config.affinity.required = required;
            })
        },
    )
}

/// Generates tags, and streams that contain some of them.
fn streams() -> impl Strategy<Value = Change> {
    let tags = prop::collection::btree_set("[A-Za-z0-9][A-Za-z0-9_-]{0,31}", 0..12);
    let own =
        (0..70_usize, 1..=u32::MAX, prop::option::of(1..=1_u64 << 32), prop::option::of(100..86_400_000_u64));
    (tags, prop::collection::btree_map("[a-z][a-z0-9-]{0,31}", own, 0..6)).prop_map(|(tags, streams)| {
        change(move |config| {
            config.filter.tags = tags.iter().cloned().collect();
            for (name, (every, prescale, events, millis)) in &streams {
                let tags = tags.iter().step_by(every + 1).cloned().collect();
                let stream = Stream {
                    tags: if name == "default" { Vec::new() } else { tags },
                    prescale: *prescale,
                    rotate_events: *events,
                    rotate_time: millis.map(Nanos::from_millis),
                    sync: events.map(|_| Sync::Fsync),
                    ..Stream::default()
                };
                config.streams.insert(name.clone(), stream);
            }
        })
    })
}

/// Generates steps and types of triggers, if both are possible.
fn building() -> impl Strategy<Value = Change> {
    let first_step = prop::collection::btree_set(0..=u32::MAX, 0..9);
    let types = prop::collection::btree_map("[a-z][a-z0-9-]{0,31}", (1..=9_u32, any::<bool>()), 0..5);
    (first_step, types, 1..=u32::MAX, 0..1_000_000_u64).prop_map(|(first_step, types, prescale, minimum)| {
        change(move |config| {
            if config.shaping.policy == ShapingPolicy::Push {
                return;
            }
            config.building.first_step = first_step.iter().copied().map(SourceId).collect();
            config.building.prescale = prescale;
            config.building.minimum = ByteCount(minimum);
            if !first_step.is_empty() {
                config.building.filter = StepFilterKind::Activity;
            }
            if matches!(config.trigger.mode, TriggerMode::Source | TriggerMode::Seen) {
                return;
            }
            for ((name, (weight, is_partial)), kind) in types.iter().zip(1..) {
                let readouts = if *is_partial { vec![0] } else { Vec::new() };
                let trigger_type = TriggerType(kind);
                let class =
                    TriggerClass { trigger_type, weight: *weight, readouts, ..TriggerClass::default() };
                config.triggers.insert(name.clone(), class);
            }
        })
    })
}

/// Generates no listed nodes, or nodes whose readout units list sources with irregular numbers.
fn nodes() -> impl Strategy<Value = Change> {
    let ids = prop::collection::btree_set(0..=u32::MAX, 6..60);
    let cpu = prop::collection::btree_set(0..1_024_usize, 0..6);
    (ids, cpu, 1..6_usize, 1..6_u16, any::<bool>()).prop_map(|(ids, cpu, readouts, builders, listed)| {
        change(move |config| {
            if !listed {
                return;
            }
            let ids: Vec<SourceId> = ids.iter().copied().map(SourceId).collect();
            let interfaces = vec!["eth1".to_owned(), "enp0s1f0".to_owned()];
            let node =
                |name: String, role| Node { name, role, interfaces: interfaces.clone(), ..Node::default() };
            config.node.push(node("evm".into(), Role::Manager));
            for (index, block) in ids.chunks(ids.len().div_ceil(readouts)).enumerate() {
                config.node.push(Node {
                    sources: Some(block.to_vec()),
                    address: Some(format!("ro-{index}.daq:{}", 7_000 + index)),
                    more_addresses: vec![format!("[fd00::{index}]:7000")],
                    cpu: cpu.iter().copied().collect(),
                    ..node(format!("readout.{index}"), Role::Readout)
                });
            }
            config.transport.rails = 2;
            config.readout.count = u16::try_from(config.node.len() - 1).expect("a few nodes");
            config.node.extend((0..builders).map(|index| node(format!("bu{index}"), Role::Builder)));
            config.builder.count = builders;
            config.source.optional = ids.iter().copied().step_by(3).collect();
        })
    })
}
