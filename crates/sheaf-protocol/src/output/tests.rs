use super::*;
use crate::channel::ChannelTimes;
use crate::ledger::Counter;
use crate::machine::Identity;
use proptest::prelude::*;
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, MissingReason, MissingSource, Nanos, NodeId, NumberMark, Payload,
    RunNumber, SessionId, SourceId, Tags, Timestamp, TriggerType, Verdict,
};
use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Size(usize);

impl Payload for Size {
    fn len(&self) -> usize {
        self.0
    }
}

const CHANNEL: ChannelTimes =
    ChannelTimes { retransmit: Nanos::from_millis(20), acknowledge: Nanos::from_millis(2) };
const HEARTBEAT: Nanos = Nanos::from_millis(10);
const SILENCE: Nanos = Nanos::from_millis(100);

fn me(node: NodeId, session: u64) -> Identity {
    Identity { node, run: RunNumber(1), session: SessionId(session) }
}

/// One builder's sender and some output nodes. Messages arrive at once and in order.
struct World {
    now: Timestamp,
    sender: Sender<Size>,
    outputs: Vec<Option<OutputUnit<Size>>>,
    /// Events received by each output node and not yet written.
    arrived: Vec<VecDeque<(Ticket, Event<Size>, Verdict)>>,
    /// Number of events that each has written.
    written: Vec<u64>,
    /// Largest message, in bytes of payload.
    largest: usize,
}

impl World {
    fn new(outputs: u16, adjust: impl FnOnce(&mut SenderConfig)) -> Self {
        let mut config = SenderConfig {
            outputs,
            message: ByteCount(1_000),
            peer_timeout: SILENCE,
            heartbeat: HEARTBEAT,
            channel: CHANNEL,
        };
        adjust(&mut config);
        let now = Timestamp(1_000);
        let mut world = Self {
            now,
            sender: Sender::new(me(NodeId::builder(0), 1), config, now),
            outputs: (0..outputs).map(|_| None).collect(),
            arrived: (0..outputs).map(|_| VecDeque::new()).collect(),
            written: vec![0; usize::from(outputs)],
            largest: 0,
        };
        (0..outputs).for_each(|index| world.begin(index, 1));
        world.pass(HEARTBEAT);
        world
    }

    /// Starts an output node, whose previous session ended without a message.
    fn begin(&mut self, index: u16, session: u64) {
        let config = OutputConfig {
            builders: 1,
            window_events: 8,
            window: ByteCount(2_000),
            heartbeat: HEARTBEAT,
            channel: CHANNEL,
        };
        let node = OutputUnit::new(me(NodeId::output(index), session), config, self.now);
        let index = usize::from(index);
        (self.outputs[index], self.written[index]) = (Some(node), 0);
        self.arrived[index].clear();
    }

    fn offer(&mut self, event: Event<Size>) {
        self.sender.handle_event(event, Verdict::accept().with_tags(Tags(5)).with_payload(vec![7, 8]));
        self.settle();
    }

    /// Exchanges messages until there are none.
    fn settle(&mut self) {
        loop {
            let mut messages = Vec::new();
            while let Some(transmit) = self.sender.poll_transmit(self.now) {
                messages.push((transmit.to, transmit.message));
            }
            for node in self.outputs.iter_mut().flatten() {
                while let Some(transmit) = node.poll_transmit(self.now) {
                    messages.push((transmit.to, transmit.message));
                }
            }
            if messages.is_empty() {
                return;
            }
            messages.into_iter().for_each(|(to, message)| self.carry(to, message));
        }
    }

    fn carry(&mut self, to: NodeId, message: Message<Size>) {
        if let Body::Delivery(delivery) = &message.body {
            let bytes = delivery.fragments.iter().map(|fragment| fragment.payload.0).sum();
            self.largest = self.largest.max(bytes);
        }
        if to == NodeId::builder(0) {
            self.sender.handle_input(self.now, message);
            return;
        }
        let index = usize::from(to.index);
        if to.role != sheaf_wire::Role::Output {
            return;
        }
        let Some(node) = &mut self.outputs[index] else { return };
        node.handle_input(self.now, message);
        while let Some(event) = node.poll_event() {
            if let OutputEvent::Store(ticket, event, verdict) = event {
                self.arrived[index].push_back((ticket, event, verdict));
            }
        }
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        while self.now < until {
            self.now += Nanos::from_millis(1);
            self.sender.handle_timeout(self.now);
            let now = self.now;
            self.outputs.iter_mut().flatten().for_each(|node| node.handle_timeout(now));
            self.settle();
        }
    }

    /// Makes an output node write its events and make them durable.
    fn store(&mut self, index: usize) -> Vec<EventId> {
        let Some(node) = &mut self.outputs[index] else { return Vec::new() };
        let mut events = Vec::new();
        for (ticket, event, _) in self.arrived[index].drain(..) {
            node.handle_stored(ticket, self.written[index]);
            self.written[index] += 1;
            events.push(event.id);
        }
        assert_eq!(node.held(), (0, ByteCount::ZERO), "nothing is left");
        self.settle();
        events
    }

    fn stored(&mut self) -> Vec<(u64, StoragePlace)> {
        let mut stored = Vec::new();
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Stored(event, place) => stored.push((event.id.0, place)),
                SenderEvent::LeftOut(event) => panic!("event {} is left out", event.id),
            }
        }
        stored
    }
}

fn event(id: u64, fragments: u32, bytes: usize) -> Event<Size> {
    let fragment = |source| Fragment {
        event: EventId(id),
        source: SourceId(source),
        time: Timestamp(9),
        checksum: None,
        // Properties set by the readout unit must be preserved.
        processed: source % 2 == 1,
        mark: NumberMark::NONE,
        payload: Size(bytes),
    };
    Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(3),
        attempt: 2,
        incomplete: true,
        fragments: (0..fragments).map(fragment).collect(),
        missing: vec![MissingSource { source: SourceId(fragments), reason: MissingReason::ReadoutSilent }],
    }
}

fn place(output: u16, session: u64, number: u64) -> StoragePlace {
    StoragePlace { output, session: SessionId(session), number }
}

#[test]
fn an_event_is_stored_when_the_output_node_reports_its_place() {
    let mut world = World::new(1, |_| {});
    world.offer(event(5, 2, 100));
    world.offer(event(6, 2, 100));
    assert_eq!((world.stored(), world.sender.held()), (vec![], 2), "nothing is durable yet");
    assert_eq!(world.store(0), [EventId(5), EventId(6)]);
    assert_eq!(world.stored(), [(5, place(0, 1, 0)), (6, place(0, 1, 1))]);
    assert_eq!(world.sender.held(), 0);
}

#[test]
fn an_event_larger_than_a_message_arrives_whole() {
    let mut world = World::new(1, |_| {});
    let whole = event(5, 9, 400);
    world.offer(whole.clone());
    let (_, arrived, verdict) = world.arrived[0].pop_front().expect("it has arrived");
    assert_eq!(arrived, whole);
    assert_eq!(verdict, Verdict::accept().with_tags(Tags(5)).with_payload(vec![7, 8]));
    assert!(world.largest <= 1_000, "a message had {} bytes of payload", world.largest);
}

#[test]
fn an_output_node_holds_at_most_its_window_and_one_event() {
    let mut world = World::new(1, |_| {});
    (0..40).for_each(|id| world.offer(event(id, 1, 300)));
    // Seven events of 302 bytes pass 2,000 bytes.
    assert_eq!(world.arrived[0].len(), 7);
    world.store(0);
    assert_eq!(world.arrived[0].len(), 7, "stored events make room");
    let mut small = World::new(1, |_| {});
    (0..40).for_each(|id| small.offer(event(id, 1, 10)));
    assert_eq!(small.arrived[0].len(), 8, "or the number of events is the bound");
}

#[test]
fn events_go_to_the_output_node_with_the_most_room() {
    let mut world = World::new(2, |_| {});
    (0..8).for_each(|id| world.offer(event(id, 1, 300)));
    assert_eq!((world.arrived[0].len(), world.arrived[1].len()), (4, 4));
    world.store(1);
    (8..11).for_each(|id| world.offer(event(id, 1, 300)));
    assert_eq!((world.arrived[0].len(), world.arrived[1].len()), (4, 3));
}

#[test]
fn events_of_an_output_node_that_died_go_to_its_next_session() {
    let mut world = World::new(1, |_| {});
    (0..4).for_each(|id| world.offer(event(id, 1, 100)));
    world.store(0);
    (4..6).for_each(|id| world.offer(event(id, 1, 100)));
    world.outputs[0] = None;
    world.pass(Nanos::from_millis(5));
    world.begin(0, 2);
    world.pass(HEARTBEAT);
    assert_eq!(world.store(0), [EventId(4), EventId(5)]);
    let stored = world.stored();
    assert_eq!(stored[..4], [0, 1, 2, 3].map(|id| (id, place(0, 1, id))));
    assert_eq!(stored[4..], [(4, place(0, 2, 0)), (5, place(0, 2, 1))]);
    assert_eq!(world.sender.books().counters[&Counter::ForwardedAgain], 2);
}

#[test]
fn events_of_a_silent_output_node_go_to_another_and_its_late_receipt_is_ignored() {
    let mut world = World::new(2, |_| {});
    (0..4).for_each(|id| world.offer(event(id, 1, 100)));
    let deaf = world.outputs[0].take();
    let held = world.arrived[0].len();
    assert!(held > 0);
    world.pass(SILENCE + SILENCE);
    assert_eq!(world.store(1).len(), 4, "all are with the other");
    assert_eq!(world.stored().len(), 4);
    // It returns with the same session and has written the events, too.
    world.outputs[0] = deaf;
    world.store(0);
    world.pass(HEARTBEAT);
    assert_eq!(world.stored(), []);
    assert_eq!(world.sender.books().counters[&Counter::LateReceipts], held as u64);
    world.offer(event(9, 1, 100));
    assert_eq!(world.arrived[0].len() + world.arrived[1].len(), 1, "it is one of them again");
}

#[test]
fn events_wait_for_a_silent_output_node_if_there_is_no_other() {
    let mut world = World::new(1, |_| {});
    world.offer(event(1, 1, 100));
    let deaf = world.outputs[0].take();
    world.pass(SILENCE + SILENCE);
    assert!(world.sender.is_held_up());
    world.outputs[0] = deaf;
    world.pass(HEARTBEAT);
    assert_eq!(world.store(0), [EventId(1)]);
    assert_eq!(world.stored(), [(1, place(0, 1, 0))]);
    assert!(!world.sender.is_held_up());
}

#[test]
fn events_of_an_ended_session_are_not_written() {
    let mut world = World::new(1, |_| {});
    world.offer(event(1, 1, 100));
    let node = world.outputs[0].as_mut().expect("it is there");
    let mut second = Sender::new(me(NodeId::builder(0), 2), config_of(1), world.now);
    second.handle_timeout(world.now);
    // A further event of the first session has arrived, and waits, when the second begins.
    world.sender.handle_event(event(2, 1, 100), Verdict::accept());
    while let Some(transmit) = world.sender.poll_transmit(world.now) {
        node.handle_input(world.now, transmit.message);
    }
    while let Some(transmit) = second.poll_transmit(world.now) {
        node.handle_input(world.now, transmit.message);
    }
    assert_eq!(node.poll_event(), None);
    assert_eq!(node.books().counters[&Counter::VoidEvents], 1);
}

fn config_of(outputs: u16) -> SenderConfig {
    let message = ByteCount(1_000);
    SenderConfig { outputs, message, peer_timeout: SILENCE, heartbeat: HEARTBEAT, channel: CHANNEL }
}

proptest! {
    #[test]
    fn places_are_a_set(ranges in prop::collection::vec((0..200_u64, 0..20_u32), 0..40)) {
        let (mut places, mut model) = (Places::default(), BTreeSet::new());
        for (first, count) in ranges {
            places.insert(first, count);
            model.extend(first..first + u64::from(count));
        }
        prop_assert_eq!(places.len(), model.len() as u64);
        prop_assert_eq!(places.is_empty(), model.is_empty());
        prop_assert_eq!(places.end(), model.last().map_or(0, |last| last + 1));
        prop_assert!((0..240).all(|number| places.contains(number) == model.contains(&number)));
        let gaps: BTreeSet<u64> = places.gaps().flat_map(|(first, last)| first..=last).collect();
        prop_assert!((0..places.end()).all(|number| gaps.contains(&number) != model.contains(&number)));
    }
}
