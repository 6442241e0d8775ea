//! Runs that follow one another where the data announce the triggers: each fragment is stored in exactly one of them.
//!
//! The event manager and the readout units are real, and so are their channels. A builder unit stores whatever it is assigned, and gives back
//! its youngest event where an older one waits for its place. Links have their own order, and the order among links is arbitrary, as is that in which sources deliver: units are at different events when a run
//! ends, and events have fragments of some sources only.

use proptest::prelude::*;
use sheaf_protocol::channel::{Channel, ChannelTimes};
use sheaf_protocol::ledger::NodeBooks;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{EventManager, ManagerConfig, ManagerEvent, Shaping, Triggers};
use sheaf_protocol::readout::{Announce, ReadoutConfig, ReadoutEvent, ReadoutUnit, SourceConfig};
use sheaf_protocol::{Identity, Transmit};
use sheaf_wire::message::{
    Assignment, Body, Command, EventRange, Finished, Message, Request, SuperFragments,
};
use sheaf_wire::{
    ByteCount, EventId, Fragment, Nanos, NodeId, NumberMark, Outcome, Payload, Role, RunNumber, SessionId,
    SourceId, Timestamp, TriggerMix, TriggerType,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const READOUTS: u16 = 2;

/// Number of sources of a readout unit.
const SOURCES: u32 = 2;

/// Number of events that the builder unit takes at a time.
const SLOTS: u32 = 6;

/// Maximum number of steps of a run. The longest known takes 4,600.
const MOST_STEPS: u32 = 20_000;

/// Maximum number of messages that a node sends between two steps.
const MOST_MESSAGES: usize = 1_000;

/// Maximum number of runs: more than there are events, since each but the last one has an event.
const MOST_RUNS: u32 = 100;

const CHANNEL: ChannelTimes =
    ChannelTimes { retransmit: Nanos::from_millis(50), acknowledge: Nanos::from_millis(1) };

#[derive(Clone, Debug, PartialEq, Eq)]
struct Nothing;

impl Payload for Nothing {
    fn len(&self) -> usize {
        0
    }
}

type Event = (u64, u32);

/// An event that the builder unit gathers.
struct Gathering {
    attempt: u16,
    /// Readout units that have not answered.
    waits: BTreeSet<NodeId>,
    fragments: Vec<Event>,
}

/// A builder unit that stores its events.
struct Store {
    me: Identity,
    channel: Channel<Nothing>,
    events: BTreeMap<EventId, Gathering>,
    stored: Vec<Event>,
    given_back: usize,
    out: Vec<Transmit<Nothing>>,
}

impl Store {
    fn new(run: u32) -> Self {
        let me = identity(NodeId::builder(0), run);
        let mut channel = Channel::new(NodeId::MANAGER, CHANNEL);
        channel.push(grant(SLOTS, Vec::new()));
        Self { me, channel, events: BTreeMap::new(), stored: Vec::new(), given_back: 0, out: Vec::new() }
    }

    fn take(&mut self, now: Timestamp, message: Message<Nothing>) {
        let sender = message.header.sender;
        match message.body {
            Body::SuperFragments(answer) => self.take_answer(sender, &answer),
            Body::Acknowledge => {}
            body => {
                self.channel.handle(now, &self.me, &message.header, body);
                while let Some(body) = self.channel.poll_deliver() {
                    match body {
                        Body::Assign(events) => events.iter().for_each(|event| self.ask(*event)),
                        Body::Command(Command::GiveWay) => self.give_way(),
                        Body::Command(Command::Close | Command::HandOver { .. }) => {
                            self.channel.push(Body::Report(NodeBooks::default().to_counts()));
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    fn ask(&mut self, Assignment { event, attempt, .. }: Assignment) {
        let units = (0..READOUTS).map(NodeId::readout);
        for to in units.clone() {
            let ranges = vec![EventRange::one(event, attempt)];
            self.out.push(Transmit { to, message: self.me.plain(Body::FragmentRequest(ranges)) });
        }
        self.events.insert(event, Gathering { attempt, waits: units.collect(), fragments: Vec::new() });
    }

    /// Gives back the youngest event. The event manager depends on it: with the fragments of the oldest event, a source may have no room
    /// for those of which all events in the slots wait.
    fn give_way(&mut self) {
        if let Some((event, Gathering { attempt, .. })) = self.events.pop_last() {
            self.given_back += 1;
            self.channel.push(grant(1, vec![finished(event, attempt, Outcome::GivenBack)]));
        }
    }

    fn take_answer(&mut self, unit: NodeId, answer: &SuperFragments<Nothing>) {
        let mut fragments = answer.fragments.iter();
        for entry in &answer.entries {
            for event in (0..u64::from(entry.count)).map(|more| EventId(entry.event.0 + more)) {
                let of_event = fragments.by_ref().take(usize::from(entry.fragments));
                let of_event = of_event.map(|fragment| (fragment.event.0, fragment.source.0)).collect();
                self.take_part(unit, event, of_event);
            }
        }
    }

    /// Takes the part of an event that a readout unit has. The answer to an earlier request may come after the event was given back.
    fn take_part(&mut self, unit: NodeId, event: EventId, fragments: Vec<Event>) {
        let Some(gathering) = self.events.get_mut(&event) else { return };
        if !gathering.waits.remove(&unit) {
            return;
        }
        gathering.fragments.extend(fragments);
        if gathering.waits.is_empty()
            && let Some(Gathering { attempt, fragments, .. }) = self.events.remove(&event)
        {
            self.stored.extend(fragments);
            self.channel.push(grant(1, vec![finished(event, attempt, Outcome::Stored)]));
        }
    }
}

fn finished(event: EventId, attempt: u16, outcome: Outcome) -> Finished {
    let bytes = ByteCount(1);
    Finished { event, attempt, outcome, reason: None, bytes, fragments: 1, missing: 0, incomplete: false }
}

fn grant(slots: u32, finished: Vec<Finished>) -> Body<Nothing> {
    Body::Request(Request { slots, bytes: ByteCount(u64::from(slots)), finished, ..Request::default() })
}

fn identity(node: NodeId, run: u32) -> Identity {
    Identity { node, run: RunNumber(run), session: SessionId(u64::from(run)) }
}

/// A source with its events, and those that its unit held at the end of the run before.
#[derive(Clone, Default)]
struct Feed {
    held: VecDeque<u64>,
    rest: VecDeque<u64>,
    has_ended: bool,
    /// Whether there was no room for its next fragment, and nothing has happened since.
    is_held_back: bool,
}

/// A run.
struct World {
    now: Timestamp,
    manager: EventManager<Nothing>,
    units: Vec<ReadoutUnit<Nothing>>,
    running: Vec<bool>,
    store: Store,
    links: BTreeMap<(NodeId, NodeId), VecDeque<Message<Nothing>>>,
    feeds: Vec<Feed>,
}

/// Remains of a run.
struct Left {
    now: Timestamp,
    feeds: Vec<Feed>,
    stored: Vec<Event>,
    given_back: usize,
    received: u64,
    dropped: u64,
    next: Option<EventId>,
}

impl World {
    fn new(
        number: u32,
        (now, first): (Timestamp, EventId),
        most: u64,
        share: usize,
        feeds: Vec<Feed>,
    ) -> Self {
        let unit = |index| {
            let mut unit =
                ReadoutUnit::new(identity(NodeId::readout(index), number), readout(index, share), now);
            unit.begin_with(first);
            (0..SOURCES).for_each(|source| unit.wait_for_source(source_of(index, source)));
            unit
        };
        let manager = EventManager::new(identity(NodeId::MANAGER, number), manager(first, most), now);
        Self {
            now,
            manager,
            units: (0..READOUTS).map(unit).collect(),
            running: vec![false; usize::from(READOUTS)],
            store: Store::new(number),
            links: BTreeMap::new(),
            feeds,
        }
    }

    /// Lets the nodes send.
    fn settle(&mut self) {
        let now = self.now;
        self.manager.set_handover(true);
        self.manager.handle_timeout(now);
        let mut sent: Vec<(NodeId, Transmit<Nothing>)> = Vec::new();
        sent.extend(drain(NodeId::MANAGER, || self.manager.poll_transmit(now)));
        for (unit, running) in self.units.iter_mut().zip(&mut self.running) {
            unit.handle_timeout(now);
            while let Some(event) = unit.poll_event() {
                match event {
                    ReadoutEvent::Started { .. } => *running = true,
                    ReadoutEvent::Closed => *running = false,
                    _ => {}
                }
            }
            let node = unit.identity().node;
            sent.extend(drain(node, || unit.poll_transmit(now)));
        }
        let Store { me, channel, out, .. } = &mut self.store;
        let to = NodeId::MANAGER;
        sent.extend(out.drain(..).map(|it| (me.node, it)));
        sent.extend(drain(me.node, || {
            channel.poll_transmit(now, me).map(|message| Transmit { to, message })
        }));
        for (from, Transmit { to, message }) in sent {
            self.links.entry((from, to)).or_default().push_back(message);
        }
        while let Some(event) = self.manager.poll_event() {
            assert!(!matches!(event, ManagerEvent::BuilderLost { .. }), "nothing is lost");
        }
    }

    /// Delivers a message or a fragment: one of those that can be, as `choice` says. Without any, time passes.
    fn step(&mut self, choice: usize) {
        self.settle();
        let links = self.links.iter().filter(|(_, link)| !link.is_empty()).map(|(ends, _)| *ends);
        let links: Vec<_> = links.collect();
        let feeds: Vec<_> = (0..self.feeds.len()).filter(|index| self.gives(*index)).collect();
        // Sources and messages have the same chances, so that units run ahead of each other.
        let place = choice % (2 * links.len().max(feeds.len())).max(1);
        self.now.0 += 1_000;
        match (place.is_multiple_of(2), links.len(), feeds.len()) {
            (_, 0, 0) => self.pass_time(),
            (true, 1.., _) | (_, _, 0) => self.deliver(links[place / 2 % links.len()]),
            _ => return self.feed(feeds[place / 2 % feeds.len()]),
        }
        self.feeds.iter_mut().for_each(|feed| feed.is_held_back = false);
    }

    fn gives(&self, feed: usize) -> bool {
        let Feed { has_ended, is_held_back, .. } = self.feeds[feed];
        self.running[feed / SOURCES as usize] && !has_ended && !is_held_back
    }

    fn deliver(&mut self, (from, to): (NodeId, NodeId)) {
        let message = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("it is not empty");
        match to.role {
            Role::Manager => self.manager.handle_input(self.now, message),
            Role::Readout => self.units[usize::from(to.index)].handle_input(self.now, message),
            _ => self.store.take(self.now, message),
        }
    }

    fn feed(&mut self, index: usize) {
        let unit = &mut self.units[index / SOURCES as usize];
        let source = SourceId(u32::try_from(index).expect("there are few"));
        let Feed { held, rest, has_ended, is_held_back } = &mut self.feeds[index];
        let next = if held.is_empty() { rest } else { held };
        match next.front() {
            Some(event) => {
                if unit.handle_fragment(self.now, fragment(*event, source)).is_ok() {
                    next.pop_front();
                } else {
                    *is_held_back = true;
                }
            }
            None => {
                unit.handle_source_end(self.now, source);
                *has_ended = true;
            }
        }
    }

    fn pass_time(&mut self) {
        let mut at: Vec<_> = self.units.iter_mut().filter_map(ReadoutUnit::poll_timeout).collect();
        at.extend(self.manager.poll_timeout());
        at.extend(self.store.channel.poll_timeout());
        let next = at.into_iter().map(|deadline| deadline.at).min();
        self.now = next.map_or(self.now + Nanos::from_millis(1), |at| at.max(self.now));
    }

    /// Takes steps until the run is over.
    ///
    /// # Panics
    /// The run takes more steps than any run needs. Shrinking such an input repeats all these steps many times, so the limit is low.
    fn run(&mut self, choices: &mut impl Iterator<Item = usize>) {
        for _ in 0..MOST_STEPS {
            self.step(choices.next().expect("choices repeat"));
            if self.is_over() {
                return;
            }
        }
        panic!("run {} does not end within {MOST_STEPS} steps:\n{}", self.store.me.run, self.unsettled());
    }

    /// Describes what the run waits for.
    fn unsettled(&self) -> String {
        let mut waits = vec![format!("the event manager has finished: {}", self.manager.is_finished())];
        for unit in self.units.iter().filter(|unit| !unit.is_finished()) {
            waits.push(format!("{} holds {} events", unit.identity().node, unit.held().1));
        }
        for (event, Gathering { waits: units, .. }) in &self.store.events {
            let units: Vec<_> = units.iter().map(NodeId::to_string).collect();
            waits.push(format!("event {event} has a slot and waits for {}", units.join(" and ")));
        }
        for ((from, to), link) in self.links.iter().filter(|(_, link)| !link.is_empty()) {
            waits.push(format!("{} messages are on their way from {from} to {to}", link.len()));
        }
        for (source, feed) in self.feeds.iter().enumerate().filter(|(_, feed)| !feed.has_ended) {
            let next = feed.held.iter().chain(&feed.rest).next();
            waits.push(format!("source {source} has not ended; its next event is {next:?}"));
        }
        waits.join("\n")
    }

    fn is_over(&self) -> bool {
        self.manager.is_finished() && self.units.iter().all(ReadoutUnit::is_finished)
    }

    fn leave(mut self) -> Left {
        for unit in &mut self.units {
            for fragment in unit.take_held() {
                self.feeds[fragment.source.0 as usize].held.push_back(fragment.event.0);
            }
        }
        self.feeds.iter_mut().for_each(|feed| (feed.has_ended, feed.is_held_back) = (false, false));
        let books: Vec<_> = self.units.iter().map(ReadoutUnit::books).collect();
        Left {
            now: self.now,
            feeds: self.feeds,
            stored: self.store.stored,
            given_back: self.store.given_back,
            received: books.iter().map(|books| books.fragments.received).sum(),
            dropped: books.iter().map(|books| books.fragments.dropped_total()).sum(),
            next: self.manager.hands_over().then(|| self.manager.next_event()),
        }
    }
}

/// Returns all messages that a node sends now.
fn drain(
    node: NodeId,
    mut poll: impl FnMut() -> Option<Transmit<Nothing>>,
) -> Vec<(NodeId, Transmit<Nothing>)> {
    let sent: Vec<_> = std::iter::from_fn(|| poll().map(|it| (node, it))).take(MOST_MESSAGES + 1).collect();
    assert!(sent.len() <= MOST_MESSAGES, "{node} sends without end, at last {:?}", sent.last());
    sent
}

fn source_of(readout: u16, source: u32) -> SourceId {
    SourceId(u32::from(readout) * SOURCES + source)
}

fn fragment(event: u64, source: SourceId) -> Fragment<Nothing> {
    Fragment {
        event: EventId(event),
        source,
        time: Timestamp(event),
        checksum: None,
        processed: false,
        mark: NumberMark::default(),
        payload: Nothing,
    }
}

fn readout(index: u16, share: usize) -> ReadoutConfig {
    let source = |source| SourceConfig { id: source_of(index, source), optional: false };
    ReadoutConfig {
        sources: (0..SOURCES).map(source).collect(),
        buffer: ByteCount(1_000),
        buffer_events: share,
        max_fragment: ByteCount(10),
        announce: Announce::All,
        merge_timeout: Nanos::from_millis(100),
        longest_merge: Nanos::from_secs(10),
        wait_for_required: false,
        orphan_timeout: None,
        room_from: None,
        size_window: ReadoutConfig::SIZE_WINDOW,
        message_bytes: ByteCount(1_000),
        message_events: 4,
        request_events: 3,
        heartbeat: Nanos::from_millis(100),
        channel: CHANNEL,
    }
}

fn manager(first_event: EventId, most: u64) -> ManagerConfig {
    ManagerConfig {
        readouts: READOUTS,
        outputs: 0,
        builders: 1,
        readout_of: BTreeMap::new(),
        triggers: Triggers::Announced,
        first_event,
        max_events: Some(most),
        trigger_type: TriggerType(0),
        trigger_mix: TriggerMix::default(),
        queue_events: 100,
        batch_events: 2,
        max_attempts: 2,
        expected_event: Some(ByteCount(1)),
        requirements: Vec::new(),
        start_timeout: Nanos::from_secs(1_000),
        stop_timeout: Nanos::from_secs(1_000),
        desertion_timeout: Nanos::from_secs(1_000),
        patience: Patience { absence: Nanos::from_secs(1_000), silence: Nanos::from_secs(1_000) },
        heartbeat: Nanos::from_millis(100),
        batch_time: Nanos::from_millis(1),
        shaping: Shaping::Pull,
        channel: CHANNEL,
        shifts: None,
    }
}

/// Makes runs of `most` events until the data have ended. Returns what each has left.
fn make_runs(events: &[Vec<u64>], most: u64, share: usize, choices: &[usize]) -> Vec<Left> {
    let feed = |events: &Vec<u64>| Feed { rest: events.iter().copied().collect(), ..Feed::default() };
    let mut feeds: Vec<_> = events.iter().map(feed).collect();
    let (mut now, mut first, mut runs) = (Timestamp(0), EventId(0), Vec::new());
    let mut choices = choices.iter().copied().cycle();
    for number in 1.. {
        assert!(
            number <= MOST_RUNS,
            "{MOST_RUNS} runs have not taken all events; the next would begin with {first}"
        );
        let mut world = World::new(number, (now, first), most, share, feeds);
        world.run(&mut choices);
        let left = world.leave();
        (now, feeds) = (left.now, left.feeds.clone());
        let next = left.next;
        runs.push(left);
        match next {
            Some(next) => first = next,
            None => break,
        }
    }
    runs
}

/// Sources of one unit announce late events, which take all slots, and wait for a source of the other unit. This has no room for its
/// fragments of earlier events until the builder unit gives back an event.
#[test]
fn late_events_in_all_slots_make_way_for_the_event_that_they_wait_for() {
    let events = [
        vec![7, 14, 50, 55],
        vec![0, 3, 5, 8, 12, 14, 15, 17, 22, 24, 28, 39],
        vec![1, 2, 3, 6, 9, 10, 14, 15, 16, 17, 18, 19, 22, 25],
        vec![31, 37, 54],
    ];
    let runs = make_runs(&events, 8, 3, &[3007, 724]);
    let stored: usize = runs.iter().map(|run| run.stored.len()).sum();
    assert_eq!(stored, events.iter().map(Vec::len).sum::<usize>());
    assert!(runs.iter().any(|run| run.given_back > 0), "the case is one in which an event makes way");
}

proptest! {
    #[test]
    fn each_fragment_is_stored_in_exactly_one_run(
        events in prop::collection::vec(prop::collection::btree_set(0_u64..60, 0..60), 4),
        most in 1_u64..30,
        share in 1_usize..20,
        choices in prop::collection::vec(any::<usize>(), 1..400),
    ) {
        let events: Vec<Vec<u64>> = events.into_iter().map(|events| events.into_iter().collect()).collect();
        let all: BTreeSet<Event> =
            (0..).zip(&events).flat_map(|(source, events)| events.iter().map(move |event| (*event, source))).collect();
        let runs = make_runs(&events, most, share, &choices);
        let (mut stored, mut from) = (BTreeSet::new(), 0);
        for (count, run) in runs.iter().enumerate() {
            prop_assert_eq!(run.dropped, 0, "run {}", count + 1);
            prop_assert_eq!(run.received, run.stored.len() as u64);
            // The runs divide the events: none has events of both sides of a boundary.
            let until = run.next.map_or(u64::MAX, |next| next.0);
            prop_assert!(run.stored.iter().all(|(event, _)| (from..until).contains(event)));
            let has_enough = run.stored.iter().map(|(event, _)| event).collect::<BTreeSet<_>>().len() as u64 >= most;
            prop_assert!(has_enough || run.next.is_none());
            for fragment in &run.stored {
                prop_assert!(stored.insert(*fragment), "{fragment:?} is stored once");
            }
            from = until;
        }
        prop_assert_eq!(stored, all);
        prop_assert!(runs.last().is_some_and(|run| run.next.is_none()), "the data have ended");
    }
}
