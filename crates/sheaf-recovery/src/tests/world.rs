//! The network, and those at its ends.

use crate::{Counts, Down, Happened, Link, NotTaken, Origin, Prover, Purpose, Sender, Settings};
use sheaf_wire::datagram::{HEAD_BYTES, LEAST_DATAGRAM_BYTES, PART_BYTES, Secret};
use sheaf_wire::machine::Identity;
use sheaf_wire::mix::{GOLDEN_GAMMA, splitmix64};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Faults of the network. Probabilities are in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) loss: u64,
    pub(super) duplicate: u64,
    pub(super) reorder: u64,
    /// Rails that lose everything, as bits.
    pub(super) dead_rails: u64,
    /// Datagrams of more bytes than this are lost, where it is not 0.
    pub(super) narrow: usize,
    /// Number of datagrams in a thousand whose heads are changed.
    pub(super) damage: u64,
}

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        let value = splitmix64(self.0);
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        value
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit.max(1)
    }
}

/// One end, with everything that it has received.
#[derive(Debug)]
pub(super) struct End {
    pub(super) link: Link<Vec<u8>, Vec<u8>>,
    pub(super) received: VecDeque<(usize, Vec<u8>)>,
    pub(super) changes: Vec<Change>,
    /// Messages that the peer has reported received.
    pub(super) done: usize,
    /// Whether the driver takes messages, and has memory for more.
    pub(super) takes: bool,
    pub(super) grants: bool,
    /// The most bytes of messages that it was made to hold in parts.
    pub(super) most_held: usize,
    /// Whether its datagrams come from an address that the other does not know.
    pub(super) is_elsewhere: bool,
    held: usize,
}

/// A key that is good enough for a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixer(pub(super) u64);

impl Prover for Mixer {
    fn prove(&self, purpose: Purpose, parts: &[&[u8]]) -> Secret {
        let mut state = splitmix64(self.0 ^ purpose as u64);
        for part in parts {
            state = splitmix64(state ^ part.len() as u64);
            part.iter().for_each(|byte| state = splitmix64(state ^ u64::from(*byte)));
        }
        let mut proof = Secret::default();
        for word in proof.chunks_exact_mut(8) {
            state = splitmix64(state);
            word.copy_from_slice(&state.to_le_bytes());
        }
        proof
    }

    fn is_proof(&self, parts: &[&[u8]], proof: &Secret) -> bool {
        self.prove(Purpose::Greeting, parts) == *proof
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Up,
    Down(Down),
    Refused(crate::Refused),
}

impl End {
    pub(super) fn new(
        node: NodeId,
        run: u32,
        session: u64,
        peer: NodeId,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let me = Identity { node, run: RunNumber(run), session: SessionId(session) };
        Self {
            link: Link::new(me, peer, settings, now),
            received: VecDeque::new(),
            changes: Vec::new(),
            done: 0,
            takes: true,
            grants: true,
            most_held: 0,
            is_elsewhere: false,
            held: 0,
        }
    }

    /// The same with a key; the seed of nonces is another for each session.
    pub(super) fn with_key(mut self, key: Mixer, seed: u64) -> Self {
        let seed = Mixer(seed).prove(Purpose::Nonce, &[]);
        self.link = self.link.authenticated(Box::new(key), seed);
        self
    }

    /// Ups and downs.
    pub(super) fn ways(&self) -> Vec<Change> {
        self.changes.iter().copied().filter(|change| !matches!(change, Change::Refused(_))).collect()
    }

    fn arrives(&mut self, now: Timestamp, origin: Origin, bytes: &[u8]) -> Sender {
        let body = sheaf_wire::datagram::View::new(bytes).map_or(&[][..], |view| view.body());
        let Self { link, held, most_held, done, .. } = self;
        let store = |memory: &mut Option<Vec<u8>>, place: crate::PartRange| {
            let memory = memory.get_or_insert_with(|| {
                *held += place.total;
                *most_held = (*most_held).max(*held);
                vec![0xee; place.total]
            });
            assert_eq!(memory.len(), place.total, "a message keeps its size");
            memory[place.offset..place.offset + place.at.len()].copy_from_slice(&body[place.at]);
        };
        link.handle_datagram(now, origin, bytes, store, |_| *done += 1)
    }

    fn take_events(&mut self, now: Timestamp) {
        while self.takes
            && let Some(happened) = self.link.poll_event()
        {
            match happened {
                Happened::Up => self.changes.push(Change::Up),
                Happened::Down(why) => self.changes.push(Change::Down(why)),
                Happened::Refused(why) => self.changes.push(Change::Refused(why)),
                Happened::Message(arrived) => {
                    let bytes = arrived.memory.unwrap_or_default();
                    self.held -= bytes.len();
                    assert_eq!(bytes.len(), arrived.bytes, "a whole message");
                    self.received.push_back((arrived.head_bytes, bytes));
                }
            }
        }
        if self.grants {
            self.link.grant(now);
        }
    }
}

/// A datagram in flight: its destination, its rail, its bytes.
type Flying = (usize, usize, Vec<u8>);

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) ends: [End; 2],
    /// The second end, started a second time.
    pub(super) rival: Option<End>,
    pub(super) faults: Faults,
    pub(super) dice: Dice,
    wire: BTreeMap<(Timestamp, u64), Flying>,
    sent: u64,
    /// Message bytes in datagrams of data that were lost.
    pub(super) bytes_lost: u64,
    pub(super) settings: Settings,
    /// Whether drivers ask for datagrams of any size, as slots have room.
    pub(super) cuts: bool,
    /// All datagrams that were sent, if they are wanted.
    pub(super) recorded: Option<Vec<Flying>>,
}

impl World {
    pub(super) fn new(seed: u64, settings: Settings, faults: Faults) -> Self {
        let now = Timestamp(1_000_000);
        let (one, other) = (NodeId::readout(0), NodeId::builder(0));
        Self {
            now,
            ends: [
                End::new(one, 7, 100, other, &settings, now),
                End::new(other, 7, 200, one, &settings, now),
            ],
            rival: None,
            faults,
            dice: Dice(seed),
            wire: BTreeMap::new(),
            sent: 0,
            bytes_lost: 0,
            settings,
            cuts: false,
            recorded: None,
        }
    }

    /// A world whose ends have met.
    pub(super) fn met(seed: u64, settings: Settings, faults: Faults) -> Self {
        let mut world = Self::new(seed, settings, faults);
        world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
        world
    }

    fn transmit(&mut self, from: usize, rail: usize, bytes: Vec<u8>, message_bytes: u64) {
        assert!(bytes.len() <= self.settings.datagram_bytes, "no datagram is too large");
        if let Some(recorded) = &mut self.recorded {
            recorded.push((1 - from, rail, bytes.clone()));
        }
        let faults = self.faults;
        let is_lost = self.dice.below(1000) < faults.loss
            || faults.dead_rails >> rail & 1 == 1
            || faults.narrow > 0 && bytes.len() > faults.narrow;
        if is_lost {
            self.bytes_lost += message_bytes;
            return;
        }
        let copies = 1 + u64::from(self.dice.below(1000) < faults.duplicate);
        for _ in 0..copies {
            let detour = if self.dice.below(1000) < faults.reorder { self.dice.below(500_000) } else { 0 };
            let mut bytes = bytes.clone();
            if self.dice.below(1000) < faults.damage {
                // Other layers protect the bytes after the heads.
                let heads = HEAD_BYTES + if bytes[1] == 0 { 0 } else { PART_BYTES };
                let place = self.dice.below(bytes.len().min(heads) as u64) as usize;
                bytes[place] ^= 1 << self.dice.below(8);
            }
            self.sent += 1;
            let at = self.now + Nanos(50_000 + detour);
            self.wire.insert((at, self.sent), (1 - from, rail, bytes));
        }
    }

    /// Sends all datagrams of an end.
    fn drain(&mut self, end: usize) {
        let now = self.now;
        let mut buffer = Vec::new();
        self.ends[end].take_events(now);
        while let Some(control) = self.ends[end].link.poll_control(now, &mut buffer) {
            let mut bytes = buffer.clone();
            bytes.resize(bytes.len() + control.padding, 0);
            if let Some(rival) = self.rival.as_mut().filter(|_| end == 0 && control.is_aside) {
                rival.arrives(now, Origin::home(control.rail), &bytes);
                continue;
            }
            self.transmit(end, control.rail, bytes, 0);
        }
        loop {
            let whole = self.settings.datagram_bytes;
            let most = if self.cuts { self.dice.below(whole as u64) as usize } else { whole };
            let Some(departing) = self.ends[end].link.poll_datagram_within(now, most, &mut buffer) else {
                break;
            };
            let (rail, mut bytes) = (departing.rail, buffer.clone());
            for (message, range) in departing.pieces() {
                bytes.extend_from_slice(&message[range]);
            }
            let message_bytes = (bytes.len() - buffer.len()) as u64;
            assert!(
                bytes.len() <= most.max(LEAST_DATAGRAM_BYTES),
                "no datagram is larger than what it may be"
            );
            self.transmit(end, rail, bytes, message_bytes);
        }
    }

    /// Advances to the next event, or by `most`.
    pub(super) fn step(&mut self, most: Nanos) {
        for end in 0..2 {
            self.drain(end);
        }
        self.drain_rival();
        let deadlines = self.ends.iter().filter_map(|end| end.link.poll_timeout()).map(|it| it.at);
        let next = self.wire.first_key_value().map(|((at, _), _)| *at);
        let next = deadlines.chain(next).min().unwrap_or(Timestamp::MAX);
        // A deadline that has passed and does not go away would stop the time: a real driver would spin.
        self.now = next.min(self.now + most).max(self.now + Nanos(1));
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, rail, bytes) = entry.remove();
            let is_home = !self.ends[1 - to].is_elsewhere;
            self.ends[to].arrives(self.now, Origin { rail, is_home, ends_earlier: is_home }, &bytes);
        }
        for end in 0..2 {
            self.ends[end].link.handle_timeout(self.now);
            self.drain(end);
        }
    }

    /// Sends all datagrams of the rival to the first end.
    fn drain_rival(&mut self) {
        let (now, mut buffer) = (self.now, Vec::new());
        let Some(rival) = &mut self.rival else { return };
        rival.link.handle_timeout(now);
        rival.take_events(now);
        while let Some(control) = rival.link.poll_control(now, &mut buffer) {
            buffer.resize(buffer.len() + control.padding, 0);
            let origin = Origin { rail: control.rail, is_home: false, ends_earlier: false };
            self.ends[0].arrives(now, origin, &buffer);
        }
    }

    /// Gives both ends a key.
    pub(super) fn with_key(mut self, key: Mixer) -> Self {
        self.ends = self.ends.map(|end| {
            let seed = u64::from(end.link.peer().to_code());
            end.with_key(key, seed)
        });
        self
    }

    /// Puts a datagram before an end, past the network.
    pub(super) fn inject(&mut self, to: usize, rail: usize, bytes: &[u8]) {
        self.inject_from(to, Origin::home(rail), bytes);
    }

    /// Puts a datagram of this origin before an end, past the network.
    pub(super) fn inject_from(&mut self, to: usize, origin: Origin, bytes: &[u8]) -> Sender {
        let now = self.now;
        let sender = self.ends[to].arrives(now, origin, bytes);
        self.drain(to);
        sender
    }

    /// Steps until the condition holds.
    pub(super) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let watchdog = self.now + Nanos::from_secs(600);
        let mut steps = 0_u64;
        while !holds(self) {
            steps += 1;
            assert!(
                self.now < watchdog && steps < 5_000_000,
                "still waiting for {what}: {:?}",
                self.counts()
            );
            self.step(Nanos::from_millis(10));
        }
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            self.step(end.since(self.now));
        }
    }

    pub(super) fn counts(&self) -> [Counts; 2] {
        [self.ends[0].link.counts(), self.ends[1].link.counts()]
    }

    /// Takes a message from end `from`, if the link has room.
    pub(super) fn send(&mut self, from: usize, message: &Message) -> Result<(), NotTaken> {
        let now = self.now;
        let bytes = message.content();
        let (head, total) = (message.head, bytes.len());
        let taken = self.ends[from].link.send(now, bytes.clone(), head, total);
        taken.map_err(|(why, back)| {
            assert_eq!(back, bytes, "a message that is not taken is given back");
            why
        })
    }

    /// Sends all messages from an end, and continues until they have arrived; returns them in order of arrival.
    pub(super) fn carry(&mut self, from: usize, messages: &[Message]) {
        let mut next = 0;
        let mut open: Vec<Message> = Vec::new();
        let mut arrived = 0;
        self.until("all messages", |world| {
            while let Some(message) = messages.get(next) {
                match world.send(from, message) {
                    Ok(()) => {
                        open.push(*message);
                        next += 1;
                    }
                    Err(NotTaken::Full) => break,
                    Err(why) => panic!("{why}"),
                }
            }
            while let Some((head, bytes)) = world.ends[1 - from].received.pop_front() {
                let place = open.iter().position(|it| it.head == head && it.content() == bytes);
                open.swap_remove(place.expect("every message arrives as it was sent, and once"));
                arrived += 1;
            }
            arrived == messages.len() && world.ends[from].link.unfinished() == 0
        });
        assert!(open.is_empty());
    }
}

/// A message with unique content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) seed: u64,
    pub(super) head: usize,
    pub(super) payload: usize,
}

impl Message {
    pub(super) fn content(&self) -> Vec<u8> {
        let mut dice = Dice(self.seed);
        let bytes = self.head + self.payload;
        let mut content: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| dice.roll().to_le_bytes()).collect();
        content.truncate(bytes);
        content
    }
}

/// Messages of all sizes, empty ones included.
pub(super) fn messages(seed: u64, count: u64, most: u64) -> Vec<Message> {
    let mut dice = Dice(seed);
    (0..count)
        .map(|number| {
            let size = if dice.below(8) == 0 { most } else { 1 + most / 16 };
            let bytes = dice.below(size + 1);
            let head = dice.below(bytes.min(60) + 1);
            Message { seed: seed ^ number << 20, head: head as usize, payload: (bytes - head) as usize }
        })
        .collect()
}
