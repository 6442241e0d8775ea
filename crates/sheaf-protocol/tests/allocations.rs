//! Counts the allocations of the roles per fragment in a steady state, in which lists, slots and cells are reused.
//!
//! A separate binary, because allocations of the whole process are counted, and a single test, because tests of a binary run in
//! parallel.

#![allow(unsafe_code, reason = "the allocator that counts passes every call on")]

use sheaf_protocol::Identity;
use sheaf_protocol::builder::{
    Asking, BuilderConfig, BuilderEvent, BuilderUnit, Decision, IncompletePolicy, ReadoutSources, Scope,
};
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{EventManager, ManagerConfig, Shaping, Triggers};
use sheaf_protocol::readout::{Announce, ReadoutConfig, ReadoutUnit, SourceConfig};
use sheaf_wire::message::Message;
use sheaf_wire::{
    ByteCount, EventId, Fragment, Nanos, NodeId, NumberMark, Payload, Role, RunNumber, SessionId, SourceId,
    Timestamp, TriggerMix, TriggerType,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of allocations per fragment in a steady state, as stated in ARCHITECTURE.md. The remaining allocations are for
/// messages, each of which contains many fragments.
const ALLOCATIONS_A_FRAGMENT: f64 = 0.03;

const READOUTS: u16 = 2;
const BUILDERS: u16 = 2;
/// Number of sources of each readout unit.
const SOURCES: u32 = 4;
/// Number of fragments that each source offers at a time.
const OFFERED: u64 = 64;

/// Number of events before counting begins. After these, no list grows any more.
const WARM_UP: u64 = 50_000;
const COUNTED: u64 = 50_000;

const PATIENCE: Patience = Patience { absence: Nanos::from_secs(10), silence: Nanos::from_secs(60) };
const CHANNEL: ChannelTimes =
    ChannelTimes { retransmit: Nanos::from_secs(1), acknowledge: Nanos::from_millis(10) };

/// The system's allocator, with a counter of allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded to the system's allocator with unchanged arguments, and its result is returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` is from `alloc` or `realloc` of this allocator, which are the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as for `dealloc`; the caller keeps the contract of `realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A payload without data, only with a size.
#[derive(Clone, Debug)]
struct Size(usize);

impl Payload for Size {
    fn len(&self) -> usize {
        self.0
    }
}

#[test]
fn a_fragment_in_a_steady_state_needs_almost_no_allocation() {
    let mut run = Run::new();
    run.build(WARM_UP);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let built = run.stored();
    run.build(WARM_UP + COUNTED);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let fragments = (run.stored() - built) * u64::from(READOUTS) * u64::from(SOURCES);
    let each = allocations as f64 / fragments as f64;
    println!("{allocations} allocations for {fragments} fragments: {each:.4} for each");
    assert!(fragments >= COUNTED, "events are built");
    assert!(each <= ALLOCATIONS_A_FRAGMENT, "{allocations} allocations for {fragments} fragments: {each:.4}");
    assert!(allocations > 0, "messages are allocated, so that a count of nothing would be wrong");
}

/// All roles, and messages in transit, which arrive at once and in order.
struct Run {
    now: Timestamp,
    manager: EventManager<Size>,
    readouts: Vec<ReadoutUnit<Size>>,
    builders: Vec<BuilderUnit<Size>>,
    /// Next event of each source of each readout unit.
    next: Vec<Vec<u64>>,
    fragments: Vec<Fragment<Size>>,
    on_their_way: VecDeque<(NodeId, Message<Size>)>,
}

impl Run {
    fn new() -> Self {
        let now = Timestamp(1_000_000_000);
        Self {
            now,
            manager: EventManager::new(identity(NodeId::MANAGER), manager_config(), now),
            readouts: (0..READOUTS)
                .map(|index| ReadoutUnit::new(identity(NodeId::readout(index)), readout_config(index), now))
                .collect(),
            builders: (0..BUILDERS)
                .map(|index| BuilderUnit::new(identity(NodeId::builder(index)), builder_config(), now))
                .collect(),
            next: vec![vec![0; SOURCES as usize]; usize::from(READOUTS)],
            fragments: Vec::new(),
            on_their_way: VecDeque::new(),
        }
    }

    fn stored(&self) -> u64 {
        self.manager.tallies().stored
    }

    /// Continues until this many events are stored.
    fn build(&mut self, events: u64) {
        let mut rounds = 0;
        while self.stored() < events {
            self.round();
            rounds += 1;
            assert!(rounds < 100 * (WARM_UP + COUNTED), "events are stored: {} of {events}", self.stored());
        }
    }

    /// Runs every node until it is idle, as a driver does between two readings of the clock.
    fn round(&mut self) {
        self.now += Nanos::from_micros(20);
        self.offer();
        self.manager.handle_timeout(self.now);
        while let Some(transmit) = self.manager.poll_transmit(self.now) {
            self.on_their_way.push_back((transmit.to, transmit.message));
        }
        while self.manager.poll_event().is_some() {}
        for readout in &mut self.readouts {
            readout.handle_timeout(self.now);
            while let Some(transmit) = readout.poll_transmit(self.now) {
                self.on_their_way.push_back((transmit.to, transmit.message));
            }
            while readout.poll_event().is_some() {}
        }
        for builder in &mut self.builders {
            builder.handle_timeout(self.now);
            while let Some(transmit) = builder.poll_transmit(self.now) {
                self.on_their_way.push_back((transmit.to, transmit.message));
            }
            while let Some(event) = builder.poll_event() {
                if let BuilderEvent::Built(built) = event {
                    let fragments = builder.lend(built, |event| event.fragments.len());
                    assert_eq!(fragments, usize::from(READOUTS) * SOURCES as usize, "{:?}", built.event());
                    builder.handle_decision(self.now, built.event(), Decision::Stored);
                }
            }
        }
        while let Some((to, message)) = self.on_their_way.pop_front() {
            match to.role {
                Role::Manager => self.manager.handle_input(self.now, message),
                Role::Readout => self.readouts[usize::from(to.index)].handle_input(self.now, message),
                Role::Builder => self.builders[usize::from(to.index)].handle_input(self.now, message),
                Role::Output | Role::Mirror => unreachable!("there are no output nodes or mirrors"),
            }
        }
    }

    /// Lets every source offer its next fragments. Refused fragments are offered again.
    fn offer(&mut self) {
        for (index, readout) in self.readouts.iter_mut().enumerate() {
            for (source, next) in self.next[index].iter_mut().enumerate() {
                let id = SourceId(index as u32 * SOURCES + source as u32);
                self.fragments.clear();
                self.fragments.extend((*next..*next + OFFERED).map(|event| Fragment {
                    event: EventId(event),
                    source: id,
                    time: self.now,
                    checksum: None,
                    processed: false,
                    mark: NumberMark::NONE,
                    payload: Size(1_000),
                }));
                *next += readout.handle_fragments(self.now, &self.fragments) as u64;
            }
        }
    }
}

fn identity(node: NodeId) -> Identity {
    Identity { node, run: RunNumber(1), session: SessionId(1) }
}

fn manager_config() -> ManagerConfig {
    ManagerConfig {
        readouts: READOUTS,
        builders: BUILDERS,
        outputs: 0,
        readout_of: std::collections::BTreeMap::new(),
        triggers: Triggers::Free,
        first_event: EventId(0),
        max_events: None,
        trigger_type: TriggerType(0),
        trigger_mix: TriggerMix::default(),
        queue_events: 1_024,
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
    }
}

fn readout_config(index: u16) -> ReadoutConfig {
    let first = u32::from(index) * SOURCES;
    ReadoutConfig {
        sources: (first..first + SOURCES)
            .map(|id| SourceConfig { id: SourceId(id), optional: false })
            .collect(),
        buffer: ByteCount(64 << 20),
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
    }
}

fn builder_config() -> BuilderConfig {
    let sources = |readout: u16| {
        let first = u32::from(readout) * SOURCES;
        ReadoutSources { sources: (first..first + SOURCES).map(SourceId).collect() }
    };
    BuilderConfig {
        mirrored: false,
        readouts: (0..READOUTS).map(sources).collect(),
        optional: BTreeSet::new(),
        slots: 256,
        memory: ByteCount(64 << 20),
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
    }
}
