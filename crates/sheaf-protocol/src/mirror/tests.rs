//! A readout unit and its mirror, with messages that are late, and a unit that dies.

use super::*;
use crate::channel::{Channel, ChannelTimes};
use crate::liveness::LinkStatus;
use crate::machine::{Identity, Transmit};
use crate::readout::{Announce, ReadoutConfig, ReadoutUnit, SourceConfig};
use proptest::prelude::*;
use sheaf_wire::message::{Body, Command, EventRange, Message, Release, UnitInput};
use sheaf_wire::{
    EventId, Fragment, NodeId, NumberMark, Outcome, Payload, RunNumber, SessionId, SourceId, Timestamp,
};
use std::cell::RefCell;
use std::collections::VecDeque;

/// A payload of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size(usize);

impl Payload for Size {
    fn len(&self) -> usize {
        self.0
    }
}

const SOURCES: u16 = 2;
const BUILDERS: u16 = 2;
const BEGIN: Timestamp = Timestamp(1_000_000_000);

fn identity(node: NodeId) -> Identity {
    Identity { node, run: RunNumber(1), session: SessionId(7) }
}

fn times() -> ChannelTimes {
    ChannelTimes { retransmit: Nanos::from_millis(50), acknowledge: Nanos::from_millis(5) }
}

fn config() -> MirrorConfig {
    MirrorConfig {
        suspicion: Nanos::from_millis(250),
        lag: Nanos::from_secs(2),
        start: Nanos::from_secs(5),
        message_bytes: ByteCount(64),
        channel: times(),
    }
}

fn role() -> ReadoutUnit<Size> {
    let source = |id| SourceConfig { id: SourceId(id), optional: false };
    let config = ReadoutConfig {
        sources: (0..SOURCES).map(|id| source(u32::from(id))).collect(),
        buffer: ByteCount(200),
        buffer_events: 16,
        max_fragment: ByteCount(64),
        announce: Announce::All,
        merge_timeout: Nanos::from_millis(50),
        longest_merge: Nanos::from_secs(1),
        wait_for_required: false,
        orphan_timeout: Some(Nanos::from_millis(400)),
        room_from: None,
        size_window: 4,
        message_bytes: ByteCount(100),
        message_events: 8,
        request_events: 8,
        heartbeat: Nanos::from_millis(100),
        channel: times(),
    };
    ReadoutUnit::new(identity(NodeId::readout(0)), config, BEGIN)
}

/// A role, the fragments that were read for it, and what it has sent.
struct Machine {
    role: ReadoutUnit<Size>,
    read: Vec<VecDeque<Fragment<Size>>>,
    sent: Vec<Transmit<Size>>,
}

impl Machine {
    fn new() -> Self {
        Self { role: role(), read: vec![VecDeque::new(); usize::from(SOURCES)], sent: Vec::new() }
    }

    fn apply(&mut self, now: Timestamp, input: UnitInput<Size>) {
        match input {
            UnitInput::Message(message) => self.role.handle_input(now, *message),
            UnitInput::Link { node, up } => {
                let link = if up { LinkStatus::Up } else { LinkStatus::Down };
                self.role.handle_link(now, node, link);
            }
            UnitInput::Fragments { source, fragments } => self.read[usize::from(source)].extend(fragments),
            UnitInput::Offer { source } => {
                let read = &mut self.read[usize::from(source)];
                let taken = self.role.handle_fragments(now, read.make_contiguous());
                read.drain(..taken);
            }
            UnitInput::SourceEnd { source } => self.role.handle_source_end(now, SourceId(source.into())),
            UnitInput::Round { .. } | UnitInput::Answers(_) | UnitInput::End { .. } => {}
        }
    }

    /// Ends a round in which builder units have room as `has_room` says. Returns those that were picked.
    fn end_round(&mut self, now: Timestamp, has_room: impl Fn(u16) -> bool) -> (Vec<u16>, usize) {
        self.role.handle_timeout(now);
        let (picks, before) = (RefCell::new(Vec::new()), self.sent.len());
        let pick = |builder| {
            let picked = has_room(builder);
            picks.borrow_mut().extend(picked.then_some(builder));
            picked
        };
        while let Some(transmit) = self.role.poll_transmit_if(now, pick) {
            self.sent.push(transmit);
        }
        while self.role.poll_event().is_some() {}
        (picks.into_inner(), before)
    }

    fn repeat(&mut self, round: UnitRound<Size>) {
        let UnitRound { now, stall, inputs } = round;
        self.role.handle_stall(stall);
        let picks = RefCell::new(VecDeque::new());
        for input in inputs {
            match input {
                UnitInput::Answers(builders) => picks.borrow_mut().extend(builders),
                input => self.apply(now, input),
            }
        }
        self.end_round(now, |builder| {
            let is_next = picks.borrow().front() == Some(&builder);
            if is_next {
                picks.borrow_mut().pop_front();
            }
            is_next
        });
        assert!(picks.into_inner().is_empty(), "the mirror has other answers");
    }
}

/// A message on its way between the unit and its mirror.
type Late = VecDeque<Message<Size>>;

struct World {
    now: Timestamp,
    unit: Machine,
    sender: MirrorSender<Size, Transmit<Size>>,
    mirror: Machine,
    receiver: MirrorReceiver<Size>,
    to_mirror: Late,
    to_unit: Late,
    /// Messages that have left the unit.
    left: Vec<Transmit<Size>>,
    /// Number of fragments of each source that its front end may forget.
    confirmed: Vec<usize>,
    asked: Vec<MirrorStep>,
    next_event: Vec<u64>,
    sequence: u64,
}

impl World {
    fn new() -> Self {
        let unit = identity(NodeId::readout(0));
        Self {
            now: BEGIN,
            unit: Machine::new(),
            sender: MirrorSender::new(unit, config(), BEGIN),
            mirror: Machine::new(),
            receiver: MirrorReceiver::new(identity(NodeId::mirror(0)), config(), BEGIN),
            to_mirror: Late::new(),
            to_unit: Late::new(),
            left: Vec::new(),
            confirmed: vec![0; usize::from(SOURCES)],
            asked: Vec::new(),
            next_event: vec![1; usize::from(SOURCES)],
            sequence: 0,
        }
    }

    fn of_manager(&mut self, body: Body<Size>) -> UnitInput<Size> {
        self.sequence += 1;
        let mut message = identity(NodeId::MANAGER).plain_for(SessionId(7), body);
        message.header.sequence = self.sequence;
        UnitInput::Message(Box::new(message))
    }

    fn inputs(&mut self, step: &Step) -> Vec<UnitInput<Size>> {
        match *step {
            Step::Fragments { source, count, bytes } => {
                let next = &mut self.next_event[usize::from(source)];
                let fragment = |event| Fragment {
                    event: EventId(event),
                    source: SourceId(source.into()),
                    time: Timestamp(event),
                    checksum: None,
                    processed: false,
                    mark: NumberMark::NONE,
                    payload: Size(bytes),
                };
                let fragments: Vec<_> = (*next..*next + count).map(fragment).collect();
                *next += count;
                vec![UnitInput::Fragments { source, fragments }, UnitInput::Offer { source }]
            }
            Step::Request { builder, first, count, attempt } => {
                let range = EventRange { first: EventId(first), count, attempt };
                let message = identity(NodeId::builder(builder)).plain(Body::FragmentRequest(vec![range]));
                vec![UnitInput::Message(Box::new(message))]
            }
            Step::Release { first, count, stored } => {
                let outcome = if stored { Outcome::Stored } else { Outcome::Rejected };
                let release = Release { first: EventId(first), count, outcome, reason: None, parts: 0 };
                vec![self.of_manager(Body::Release(vec![release]))]
            }
            Step::Start => vec![self.of_manager(Body::Command(Command::Start))],
            Step::Wait { .. } | Step::Carry { .. } => Vec::new(),
        }
    }

    fn round(&mut self, step: &Step, room: [bool; 2]) {
        let now = self.now;
        let mut inputs = self.inputs(step);
        let old = (0..SOURCES).filter(|source| !self.unit.read[usize::from(*source)].is_empty());
        inputs.extend(old.map(|source| UnitInput::Offer { source }).collect::<Vec<_>>());
        self.sender.begin_round(now, Nanos::ZERO);
        if self.unit.role.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            self.sender.enter_round();
        }
        for input in inputs {
            match &input {
                UnitInput::Fragments { source, fragments } => {
                    self.sender.take_fragments(*source, fragments);
                }
                other => self.sender.take(|| other.clone()),
            }
            self.unit.apply(now, input);
        }
        let (picks, before) = self.unit.end_round(now, |builder| room[usize::from(builder)]);
        if !picks.is_empty() {
            self.sender.take(|| UnitInput::Answers(picks));
        }
        for transmit in self.unit.sent[before..].iter().cloned() {
            self.sender.hold(now, transmit);
        }
        self.sender.end_round(|| self.unit.role.digest());
        self.settle();
    }

    /// Does what is due at both, apart from messages on their way.
    fn settle(&mut self) {
        let now = self.now;
        self.sender.handle_timeout(now);
        while let Some(transmit) = self.sender.poll_transmit(now) {
            match transmit.message.body {
                Body::Mirror(step) => self.asked.push(step),
                _ if transmit.to == NodeId::MANAGER => {}
                _ => self.to_mirror.push_back(transmit.message),
            }
        }
        while let Some(transmit) = self.sender.release() {
            self.left.push(transmit);
        }
        while let Some(MirrorFragments { source, payloads }) = self.sender.poll_confirmed() {
            self.confirmed[usize::from(source)] += payloads.len();
        }
        self.settle_mirror();
    }

    fn settle_mirror(&mut self) {
        let now = self.now;
        self.receiver.handle_timeout(now);
        while let Some(round) = self.receiver.poll_round(|| self.mirror.role.digest()) {
            self.mirror.repeat(round);
        }
        while let Some(transmit) = self.receiver.poll_transmit(now) {
            match transmit.message.body {
                Body::Mirror(step) => self.asked.push(step),
                _ => self.to_unit.push_back(transmit.message),
            }
        }
    }

    /// Delivers some of the messages on their way.
    fn carry(&mut self, mut most: usize) {
        while most > 0 && !(self.to_mirror.is_empty() && self.to_unit.is_empty()) {
            most -= 1;
            if let Some(message) = self.to_mirror.pop_front() {
                assert_eq!(self.receiver.handle_message(self.now, message), None);
            }
            if let Some(message) = self.to_unit.pop_front() {
                assert_eq!(self.sender.handle_message(self.now, message), None);
            }
            self.settle();
        }
    }

    fn start(&mut self) {
        self.round(&Step::Start, [true; 2]);
        self.carry(usize::MAX);
    }

    fn granted(&mut self, step: MirrorStep, to_mirror: bool) {
        let message = identity(NodeId::MANAGER).plain(Body::Mirror(step));
        let left = match to_mirror {
            true => self.receiver.handle_message(self.now, message),
            false => self.sender.handle_message(self.now, message),
        };
        assert_eq!(left, None);
        self.settle();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start,
    Fragments { source: u16, count: u64, bytes: usize },
    Request { builder: u16, first: u64, count: u32, attempt: u16 },
    Release { first: u64, count: u32, stored: bool },
    Wait { millis: u64 },
    Carry { messages: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..SOURCES, 1..6_u64, 0..40_usize)
            .prop_map(|(source, count, bytes)| Step::Fragments { source, count, bytes }),
        4 => (0..BUILDERS, 1..40_u64, 1..6_u32, 1..3_u16)
            .prop_map(|(builder, first, count, attempt)| Step::Request { builder, first, count, attempt }),
        2 => (1..40_u64, 1..6_u32, any::<bool>())
            .prop_map(|(first, count, stored)| Step::Release { first, count, stored }),
        2 => (0..300_u64).prop_map(|millis| Step::Wait { millis }),
        4 => (1..8_usize).prop_map(|messages| Step::Carry { messages }),
    ]
}

fn play(world: &mut World, steps: &[(Step, [bool; 2])]) {
    for (step, room) in steps {
        match *step {
            Step::Carry { messages } => world.carry(messages),
            Step::Wait { millis } => {
                world.now += Nanos::from_millis(millis);
                world.round(step, *room);
            }
            _ => world.round(step, *room),
        }
    }
}

proptest! {
    /// The mirror has sent, in order, whatever has left its unit, and the fragments that front ends may forget.
    #[test]
    fn nothing_leaves_a_unit_that_its_mirror_does_not_have(
        steps in prop::collection::vec((step(), any::<[bool; 2]>()), 1..80),
    ) {
        let mut world = World::new();
        world.start();
        play(&mut world, &steps);
        prop_assert!(world.mirror.sent.starts_with(&world.left));
        let has = |source: u16| {
            let id = SourceId(source.into());
            let read = world.mirror.read[usize::from(source)].back().map(|fragment| fragment.event);
            read.max(world.mirror.role.highest_delivered(id)).map_or(0, |event| event.0 as usize)
        };
        for source in 0..SOURCES {
            prop_assert!(world.confirmed[usize::from(source)] <= has(source));
        }
    }

    /// Once all has arrived, both have the same books and have sent the same.
    #[test]
    fn a_mirror_has_the_books_of_its_unit(
        steps in prop::collection::vec((step(), any::<[bool; 2]>()), 1..80),
    ) {
        let mut world = World::new();
        world.start();
        play(&mut world, &steps);
        world.carry(usize::MAX);
        prop_assert_eq!(&world.unit.sent, &world.mirror.sent);
        prop_assert_eq!(&world.unit.sent, &world.left);
        prop_assert_eq!(world.unit.role.books(), world.mirror.role.books());
        prop_assert_eq!(world.unit.role.held(), world.mirror.role.held());
        prop_assert_eq!(&world.unit.read, &world.mirror.read);
    }

    /// A unit whose mirror acts sends nothing any more, and tells no front end to forget anything.
    #[test]
    fn a_unit_that_was_succeeded_sends_nothing(
        steps in prop::collection::vec((step(), any::<[bool; 2]>()), 1..40),
        later in prop::collection::vec((step(), any::<[bool; 2]>()), 1..40),
    ) {
        let mut world = World::new();
        world.start();
        play(&mut world, &steps);
        world.receiver.handle_link(world.now, LinkStatus::Down);
        world.settle();
        prop_assert_eq!(world.asked.pop(), Some(MirrorStep::TakeOver(SessionId(7))));
        world.granted(MirrorStep::Granted(SessionId(7)), true);
        prop_assert!(world.receiver.is_active());
        // Confirmations that are on their way are of what the mirror has.
        let sent = world.mirror.sent.clone();
        play(&mut world, &later);
        prop_assert!(sent.starts_with(&world.left));
        world.granted(MirrorStep::Superseded, false);
        prop_assert!(sent.starts_with(&world.left));
        prop_assert!(world.sender.is_settled());
    }

    /// A unit that goes on alone sends all that it has held.
    #[test]
    fn a_unit_whose_mirror_is_gone_goes_on(
        steps in prop::collection::vec((step(), any::<[bool; 2]>()), 1..40),
        later in prop::collection::vec((step(), any::<[bool; 2]>()), 1..40),
    ) {
        let mut world = World::new();
        world.start();
        play(&mut world, &steps);
        world.sender.handle_link(world.now, LinkStatus::Down);
        world.settle();
        prop_assert_eq!(world.asked.pop(), Some(MirrorStep::StrikeOff));
        world.granted(MirrorStep::Alone, false);
        prop_assert_eq!(&world.unit.sent, &world.left);
        world.to_mirror.clear();
        play(&mut world, &later);
        prop_assert_eq!(&world.unit.sent, &world.left);
        let read: usize = world.next_event.iter().map(|next| *next as usize - 1).sum();
        prop_assert_eq!(world.confirmed.iter().sum::<usize>(), read);
    }
}

#[test]
fn a_unit_asks_to_go_on_without_a_mirror_that_does_not_appear() {
    let mut world = World::new();
    world.round(&Step::Wait { millis: 0 }, [true; 2]);
    world.now += config().start;
    world.round(&Step::Wait { millis: 0 }, [true; 2]);
    assert_eq!(world.asked, [MirrorStep::StrikeOff]);
    assert!(world.left.is_empty(), "the event manager has not answered");
    world.granted(MirrorStep::Alone, false);
    assert_eq!(world.left, world.unit.sent);
}

#[test]
fn a_mirror_that_was_started_again_has_lost_what_it_had() {
    let mut world = World::new();
    world.start();
    let later = Identity { session: SessionId(8), ..identity(NodeId::mirror(0)) };
    world.receiver = MirrorReceiver::new(later, config(), world.now);
    world.mirror = Machine::new();
    world.now += config().suspicion;
    world.settle();
    world.carry(usize::MAX);
    assert_eq!(world.asked.pop(), Some(MirrorStep::StrikeOff));
    let left = world.left.len();
    world.round(&Step::Fragments { source: 0, count: 1, bytes: 1 }, [true; 2]);
    world.carry(usize::MAX);
    assert_eq!(world.left.len(), left, "the new mirror confirms nothing");
    world.granted(MirrorStep::Alone, false);
    assert_eq!(world.left, world.unit.sent);
}

/// Without another input, the role would refuse fragments again that it has refused.
#[test]
fn fragments_that_were_refused_are_offered_again_in_a_round_with_another_input() {
    let mut sender: MirrorSender<Size, ()> = MirrorSender::new(identity(NodeId::readout(0)), config(), BEGIN);
    sender.begin_round(BEGIN, Nanos::ZERO);
    assert!(!sender.may_retry());
    sender.take(|| UnitInput::Link { node: NodeId::MANAGER, up: true });
    assert!(sender.may_retry());
    sender.end_round(|| 0);
    sender.begin_round(BEGIN, Nanos::ZERO);
    assert!(!sender.may_retry());
}

/// A mirror that is behind holds up its unit, and not the sources.
#[test]
fn the_time_for_which_a_mirror_was_behind_is_returned_with_the_next_time_limit_or_when_it_is_not() {
    let mut sender: MirrorSender<Size, ()> = MirrorSender::new(identity(NodeId::readout(0)), config(), BEGIN);
    let at = |ms| BEGIN + Nanos::from_millis(ms);
    assert_eq!(sender.take_hold_up(BEGIN, Nanos::ZERO, false), Nanos::ZERO);
    let fragment = Fragment {
        event: EventId(0),
        source: SourceId(0),
        time: BEGIN,
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Size(64),
    };
    while sender.has_room() {
        sender.begin_round(BEGIN, Nanos::ZERO);
        sender.take_fragments(0, std::slice::from_ref(&fragment));
        sender.end_round(|| 0);
    }
    assert_eq!(sender.take_hold_up(at(10), Nanos::ZERO, false), Nanos::ZERO, "it was not behind before");
    assert_eq!(sender.take_hold_up(at(30), Nanos::from_millis(5), false), Nanos::ZERO);
    assert_eq!(sender.take_hold_up(at(40), Nanos::ZERO, true), Nanos::from_millis(25), "a limit is due");
    assert_eq!(sender.take_hold_up(at(60), Nanos::ZERO, false), Nanos::ZERO);
    let manager = identity(NodeId::MANAGER);
    assert!(sender.handle_message(at(60), manager.plain(Body::Mirror(MirrorStep::Superseded))).is_none());
    assert_eq!(sender.take_hold_up(at(70), Nanos::ZERO, false), Nanos::from_millis(30));
}

/// On a busy machine, each round of the mirror is late.
#[test]
fn a_mirror_that_is_often_held_up_for_a_short_time_still_finds_its_unit_silent() {
    let me = identity(NodeId::mirror(0));
    let mut receiver: MirrorReceiver<Size> = MirrorReceiver::new(me, config(), BEGIN);
    let mut channel: Channel<Size> = Channel::new(NodeId::mirror(0), times());
    let unit = identity(NodeId::readout(0));
    channel.push(Body::UnitInputs(vec![
        UnitInput::Round { now: BEGIN, stall: Nanos::ZERO },
        UnitInput::End { digest: None },
    ]));
    let message = channel.poll_transmit(BEGIN, &unit).expect("the inputs");
    assert!(receiver.handle_message(BEGIN, message).is_none());
    let asks = |receiver: &mut MirrorReceiver<Size>, now| {
        receiver.handle_timeout(now);
        let messages: Vec<_> = std::iter::from_fn(|| receiver.poll_transmit(now)).collect();
        messages.iter().any(|transmit| matches!(transmit.message.body, Body::Mirror(MirrorStep::TakeOver(_))))
    };
    // Of each 30 ms, it is held up for 20 ms: the silence of 250 ms takes 750 ms.
    let rounds = (1..=40).find(|round| {
        let now = BEGIN + Nanos::from_millis(30 * round);
        receiver.handle_stall(now, Nanos::from_millis(20));
        asks(&mut receiver, now)
    });
    assert_eq!(rounds, Some(25));
}
