//! Endpoints on lossy networks: recovery on top of a port.
//!
//! A [`LossyEndpoint`] is a [`Link`] for each peer ([`sheaf_recovery`]) over one [`DatagramPort`]; a [`Shaper`] decides
//! which link sends next, and when. Sent frames are kept, as slices of their memory, until the peer has reported all of
//! them received. Received frames are reassembled in blocks of a pool: one copy, from the port's memory to their final
//! place.
//!
//! | module | holds |
//! |---|---|
//! | this | the endpoint |
//! | `key` | the key of the run, for links without cryptography of their own |
//! | `settings` | the knobs, each with its default |
//! | `shelf` | memory for received frames |

mod key;
mod settings;
mod shelf;

pub use settings::{LossyError, LossyOptions, LossySettings};

use crate::port::datagram_bytes;
use crate::{DatagramPort, DatagramRefused};
use key::KeyProver;
use sheaf_recovery::{Arrived, Control, Down, Happened, Link, NotTaken, Origin, Refused, Sender};
use sheaf_shaping::{Shaper, Turn};
use sheaf_transport::Clock;
use sheaf_transport::peers::PeerIndex;
use sheaf_transport::{
    DownReason, Endpoint, Event, Frame, LinkStats, Refusal, SendError, TimeSlots, latest_session,
};
use sheaf_wire::datagram::{DatagramError, GreetingRefusal, Kind, LEAST_DATAGRAM_BYTES, View};
use sheaf_wire::{ByteCount, Nanos, NodeId, Timestamp};
use shelf::{Parts, Shelf};
use std::collections::VecDeque;
use std::ops::Range;
use std::task::Waker;

/// Padding after the head of a datagram.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Time that an endpoint without memory sleeps before it checks again.
const MEMORY_PAUSE: Nanos = Nanos::from_millis(1);

/// A link, and the endpoint's state about it.
#[derive(Debug)]
struct PeerLink {
    link: Link<Frame, Parts>,
    /// Time at which the link must be polled.
    due: Timestamp,
    /// Whether it changed since it was last polled.
    is_touched: bool,
}

/// An endpoint over a port that loses.
#[derive(Debug)]
pub struct LossyEndpoint<D> {
    outlet: Outlet<D>,
    clock: Clock,
    index: PeerIndex,
    peers: Vec<PeerLink>,
    /// The peers as those that are due at once are served, in reverse. Nodes begin with another one each: if all asked the same
    /// peer first, their questions would meet in its output of the switch.
    order: Vec<usize>,
    /// Taken from the end.
    touched: Vec<usize>,
    shaper: Shaper,
    shelf: Shelf,
    happened: VecDeque<Event>,
    in_round: bool,
    /// Memory for the heads of datagrams.
    buffer: Vec<u8>,
    closing: bool,
    stats: LinkStats,
}

/// Combines recovery with a port of any kind. Generic code is compiled where its types are known: this is compiled
/// here, instead of in each crate that has a port.
///
/// # Errors
/// Options that cannot work.
/// Options that cannot work.
pub fn over(port: Box<dyn DatagramPort>, options: LossyOptions) -> Result<Box<dyn Endpoint>, LossyError> {
    Ok(Box::new(LossyEndpoint::new(port, options)?))
}

impl<D: DatagramPort> LossyEndpoint<D> {
    /// An endpoint on a port; it begins to ask for its peers when it is first flushed.
    ///
    /// # Errors
    /// Options that cannot work.
    pub fn new(port: D, options: LossyOptions) -> Result<Self, LossyError> {
        let shaper = options.shaper(&port);
        let LossyOptions { key, identity, peers, settings, place, .. } = options;
        if port.max_datagram_bytes() < LEAST_DATAGRAM_BYTES {
            return Err(LossyError::SmallDatagrams(port.max_datagram_bytes()));
        }
        if peers.contains(&identity.node) || port.node() != identity.node {
            return Err(LossyError::NamedTwice(identity.node));
        }
        let index = PeerIndex::new(peers.iter().copied()).map_err(LossyError::NamedTwice)?;
        let (clock, recovery) = (Clock::new(), settings.recovery(&port, peers.len())?);
        let now = clock.now();
        let least = least_piece(&port);
        let shaper = Shaper::new(shaper, peers.len(), place).cutting_from(least);
        let link = |node| -> Result<Link<Frame, Parts>, LossyError> {
            let link = Link::new(identity, node, &recovery, now);
            let Some(key) = &key else { return Ok(link) };
            Ok(link.authenticated(Box::new(KeyProver(key.clone())), sheaf_key::nonce()?))
        };
        let peer = |node| -> Result<PeerLink, LossyError> {
            Ok(PeerLink { link: link(node)?, due: Timestamp::ZERO, is_touched: false })
        };
        Ok(Self {
            outlet: Outlet { port, stuck: None, bytes_copied: 0 },
            clock,
            index,
            order: (0..peers.len()).rev().map(|step| (place + 1 + step) % peers.len()).collect(),
            touched: Vec::new(),
            peers: peers.into_iter().map(peer).collect::<Result<_, _>>()?,
            shaper,
            shelf: Shelf::new(settings.block_bytes.as_usize(), settings.blocks),
            happened: VecDeque::new(),
            in_round: false,
            buffer: Vec::new(),
            closing: false,
            stats: LinkStats::default(),
        })
    }

    /// The port.
    pub fn port(&mut self) -> &mut D {
        &mut self.outlet.port
    }

    fn touch(&mut self, place: usize) {
        if !std::mem::replace(&mut self.peers[place].is_touched, true) {
            self.touched.push(place);
        }
    }

    /// Handles everything that is due, and sends what may be sent.
    fn drive(&mut self) {
        let now = self.clock.now();
        self.grant(now);
        for at in 0..self.order.len() {
            let place = self.order[at];
            if self.peers[place].due <= now {
                self.peers[place].link.handle_timeout(now);
                self.touch(place);
            }
        }
        self.unstick();
        while let Some(place) = self.touched.pop() {
            self.peers[place].is_touched = false;
            self.control(now, place);
            self.offer(now, place);
            self.collect(place);
        }
        while self.outlet.stuck.is_none()
            && let Some(turn) = self.shaper.turn(now)
        {
            self.serve(now, turn);
        }
    }

    /// Grants a new window for what was taken, if there is memory.
    fn grant(&mut self, now: Timestamp) {
        if self.shelf.is_starved() && !self.shelf.has_room() {
            return;
        }
        for place in 0..self.peers.len() {
            if self.peers[place].link.is_withholding() {
                self.peers[place].link.grant(now);
                self.touch(place);
            }
        }
    }

    /// Sends the control datagrams of a link. Requests to identify keep to the line's rate: all nodes of a system begin
    /// with them at once, one for each peer.
    fn control(&mut self, now: Timestamp, place: usize) {
        while self.outlet.stuck.is_none() {
            let link = &mut self.peers[place].link;
            if let Some(at) = self.shaper.line_has_room_at(now) {
                link.ask_not_before(at);
            }
            let Some(control) = link.poll_control(now, &mut self.buffer) else { break };
            self.send_control(now, place, &control);
        }
    }

    /// Tells the shaper how much waits for a peer, and records when the link must be polled.
    fn offer(&mut self, now: Timestamp, place: usize) {
        let peer = &mut self.peers[place];
        let (waiting, may_send) = peer.link.waiting();
        peer.due = peer.link.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at);
        self.shaper.offer(now, place, ByteCount(waiting));
        self.shaper.back_pressure(now, place, !may_send);
    }

    /// Sends datagrams to a peer whose turn it is.
    fn serve(&mut self, now: Timestamp, turn: Turn) {
        let (place, mut left) = (turn.peer, turn.bytes.0);
        let most = turn.piece.as_usize().saturating_sub(self.outlet.port.wire_overhead_bytes());
        loop {
            let Self { peers, buffer, outlet, shaper, .. } = self;
            let link = &mut peers[place].link;
            let to = link.peer();
            let Some(departing) = link.poll_datagram_within(now, most, buffer) else { break };
            let mut pieces: Vec<&[u8]> = Vec::with_capacity(8);
            departing.pieces().for_each(|(frame, range)| slices(frame, range, &mut pieces));
            let rail = departing.rail;
            let wire = outlet.send(to, rail, buffer, &pieces);
            shaper.spent(now, place, ByteCount(wire));
            left = left.saturating_sub(wire);
            // The next one is at most as large; a datagram that is too large for the turn waits for another turn.
            if outlet.stuck.is_some() || left < wire {
                break;
            }
        }
        self.offer(now, place);
    }

    /// Sends a datagram without message bytes, whose head is in the buffer.
    fn send_control(&mut self, now: Timestamp, place: usize, control: &Control) {
        let Self { peers, buffer, outlet, shaper, .. } = self;
        let (to, rail) = (peers[place].link.peer(), control.rail);
        let wire = if control.is_aside {
            outlet.send_aside(to, rail, buffer)
        } else {
            outlet.send(to, rail, buffer, &[&ZEROS[..control.padding.min(ZEROS.len())]])
        };
        shaper.spent(now, place, ByteCount(wire));
    }

    /// Offers the datagram again that the port did not take. Others wait behind it.
    fn unstick(&mut self) {
        if self.outlet.unstick() {
            (0..self.peers.len()).for_each(|place| self.touch(place));
        }
    }

    /// Takes the next datagram that arrived. `false` at the end of the port's turn.
    fn take_datagram(&mut self) -> bool {
        let Self { outlet, peers, index, shelf, clock, stats, happened, .. } = self;
        let has_own_addresses = outlet.port.has_own_addresses();
        let Some(datagram) = outlet.port.poll() else { return false };
        let Some(place) = index.place(datagram.from) else {
            stats.datagrams_of_strangers += 1;
            return true;
        };
        let view = View::new(datagram.bytes);
        if let Err(DatagramError::WrongVersion(version)) = view {
            // Both sides ask, so both see it.
            stats.datagrams_of_other_versions += 1;
            let reason = Refusal::WrongVersion(version.into());
            happened.push_back(Event::Refused { peer: Some(datagram.from), reason });
            return true;
        }
        let body = view.as_ref().map_or(&[][..], View::body);
        let store = |parts: &mut Option<Parts>, place: sheaf_recovery::PartRange| {
            let parts = parts.get_or_insert_with(|| shelf.begin(place.total));
            parts.put(place.offset, &body[place.at]);
        };
        let link = &mut peers[place].link;
        if view.is_ok_and(|view| matches!(view.head().kind, Kind::Question | Kind::Answer)) {
            link.bound_sessions(latest_session());
        }
        let ends_earlier = datagram.is_home && has_own_addresses;
        let origin = Origin { rail: datagram.rail, is_home: datagram.is_home, ends_earlier };
        match link.handle_datagram(clock.now(), origin, datagram.bytes, store, drop) {
            Sender::Unknown => {}
            Sender::Asks => outlet.port.note_aside(),
            Sender::IsPeer => outlet.port.take_home(),
        }
        self.touch(place);
        self.collect(place);
        true
    }

    /// Handles the events of a link.
    fn collect(&mut self, place: usize) {
        let now = self.clock.now();
        while let Some(happened) = self.peers[place].link.poll_event() {
            let peer = self.peers[place].link.peer();
            self.happened.push_back(match happened {
                Happened::Message(arrived) => Event::Received { from: peer, frame: frame(arrived) },
                Happened::Up => {
                    self.shaper.peer_back(now, place);
                    Event::PeerUp { peer }
                }
                Happened::Down(why) => {
                    self.shaper.peer_lost(now, place);
                    self.outlet.port.leave_home(peer);
                    Event::PeerDown { peer, reason: reason(why) }
                }
                Happened::Refused(why) => Event::Refused { peer: Some(peer), reason: refusal(why) },
            });
        }
    }

    /// When something is to be done although nothing arrives.
    fn due(&self) -> Timestamp {
        let links = self.peers.iter().map(|peer| peer.due).min();
        let due = links.into_iter().chain(self.shaper.poll_timeout()).min().unwrap_or(Timestamp::MAX);
        let withholds = self.shelf.is_starved() && self.peers.iter().any(|peer| peer.link.is_withholding());
        if withholds { due.min(self.clock.now() + MEMORY_PAUSE) } else { due }
    }

    /// Sleeps until the port has something, or it is time for something.
    fn sleep(&mut self, timeout: Nanos) {
        let until = self.due().since(self.clock.now());
        self.outlet.port.wait(timeout.min(until));
    }
}

/// The port, and a datagram that it did not take.
#[derive(Debug)]
struct Outlet<D> {
    port: D,
    /// A composed datagram that the port did not take: its destination, its rail, and its bytes.
    stuck: Option<(NodeId, usize, Vec<u8>)>,
    bytes_copied: u64,
}

impl<D: DatagramPort> Outlet<D> {
    /// Sends a datagram; returns its size on the wire. A full port is flushed; a datagram that it does not take even
    /// then is kept.
    fn send(&mut self, to: NodeId, rail: usize, head: &[u8], payload: &[&[u8]]) -> u64 {
        let mut taken = self.port.send(to, rail, head, payload);
        if taken == Err(DatagramRefused::Full) {
            self.port.flush();
            taken = self.port.send(to, rail, head, payload);
        }
        if taken == Err(DatagramRefused::Full) {
            let all = [&[head], payload].concat().concat();
            self.bytes_copied += all.len() as u64;
            self.stuck = Some((to, rail, all));
        }
        // Of any other refusal recovery learns as of a loss.
        let bytes = datagram_bytes(head, payload);
        (bytes + self.port.wire_overhead_bytes()) as u64
    }

    /// Sends an answer to a node that asks from another address; returns its size on the wire. If the port does not
    /// take it, it is lost, as any datagram may be.
    fn send_aside(&mut self, to: NodeId, rail: usize, head: &[u8]) -> u64 {
        let _ = self.port.send_aside(to, rail, head);
        (head.len() + self.port.wire_overhead_bytes()) as u64
    }

    /// Offers the kept datagram again. Returns whether there was one and it was taken.
    fn unstick(&mut self) -> bool {
        let Some((to, rail, bytes)) = self.stuck.take() else { return false };
        if self.port.send(to, rail, &bytes, &[]) == Err(DatagramRefused::Full) {
            self.stuck = Some((to, rail, bytes));
        }
        self.stuck.is_none()
    }
}

/// Returns the size on the wire of the smallest datagram that is cut to the rest of a slot: its heads are a small part
/// of it.
fn least_piece(port: &impl DatagramPort) -> ByteCount {
    let overhead = port.wire_overhead_bytes();
    ByteCount::from((port.max_datagram_bytes() / 8).max(LEAST_DATAGRAM_BYTES) + overhead)
}

/// Adds the pieces that make up a range of a frame, head and payload counted together.
fn slices<'a>(frame: &'a Frame, range: Range<usize>, to: &mut Vec<&'a [u8]>) {
    let mut start = 0;
    for piece in std::iter::once(&frame.head).chain(&frame.payload) {
        let end = start + piece.len();
        let (from, until) = (range.start.max(start), range.end.min(end));
        if from < until {
            to.push(&piece[from - start..until - start]);
        }
        if end >= range.end {
            return;
        }
        start = end;
    }
}

/// A frame that arrived.
fn frame(arrived: Arrived<Parts>) -> Frame {
    let Some(parts) = arrived.memory else { return Frame::default() };
    let mut payload = parts.finish();
    let head = payload.split_to(arrived.head_bytes.min(payload.len()));
    Frame::new(head, Some(payload).filter(|payload| !payload.is_empty()))
}

fn reason(why: Down) -> DownReason {
    match why {
        Down::Closed => DownReason::Closed,
        Down::Lost => DownReason::Lost,
        Down::Replaced => DownReason::Replaced,
    }
}

fn refusal(why: Refused) -> Refusal {
    match why {
        Refused::FullSize { rail, bytes } => Refusal::NarrowPath { rail, bytes },
        Refused::Greeting { why, run, session } => match why {
            GreetingRefusal::WrongRun => Refusal::WrongRun(run),
            GreetingRefusal::WrongRails => Refusal::WrongRails,
            GreetingRefusal::WrongDatagramBytes => Refusal::WrongDatagramBytes,
            GreetingRefusal::Stale => Refusal::StaleSession(session),
            GreetingRefusal::Future => Refusal::FutureSession(session),
            GreetingRefusal::InUse => Refusal::InUse,
            GreetingRefusal::KeyOnOneSide => Refusal::KeyOnOneSide,
            GreetingRefusal::WrongKey => Refusal::WrongKey,
            // Repeats its request on its own, and is not reported as refused.
            GreetingRefusal::Unproven => Refusal::Other(GreetingRefusal::Unproven.code()),
            GreetingRefusal::Other(code) => Refusal::Other(code),
        },
    }
}

impl<D: DatagramPort> Endpoint for LossyEndpoint<D> {
    fn node(&self) -> NodeId {
        self.outlet.port.node()
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        let Some(place) = self.index.place(to) else {
            self.stats.refused_unknown_peer += 1;
            return Err(SendError::UnknownPeer(frame));
        };
        let (head, bytes) = (frame.head.len(), frame.bytes());
        let now = self.clock.now();
        match self.peers[place].link.send(now, frame, head, bytes) {
            Ok(()) => {
                self.stats.frames_sent += 1;
                self.stats.bytes_sent += bytes as u64;
                self.touch(place);
                Ok(())
            }
            Err((NotTaken::Full, frame)) => {
                self.stats.refused_full += 1;
                Err(SendError::Full(frame))
            }
            Err((NotTaken::NotUp, frame)) => {
                self.stats.refused_not_connected += 1;
                Err(SendError::NotConnected(frame))
            }
            Err((NotTaken::TooLarge(limit), frame)) => {
                self.stats.refused_too_large += 1;
                Err(SendError::TooLarge { frame, limit })
            }
        }
    }

    fn flush(&mut self) {
        self.drive();
        self.outlet.port.flush();
    }

    fn poll(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.happened.pop_front() {
                if let Event::Received { frame, .. } = &event {
                    self.stats.frames_received += 1;
                    self.stats.bytes_received += frame.bytes() as u64;
                }
                return Some(event);
            }
            self.in_round = self.take_datagram();
            if !self.in_round {
                return None;
            }
        }
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        if !self.in_round && self.happened.is_empty() {
            self.sleep(timeout);
        }
    }

    fn waker(&self) -> Waker {
        self.outlet.port.waker()
    }

    fn set_time_slots(&mut self, now: Timestamp, slots: TimeSlots) {
        self.shaper.turn_barrel(now, slots.in_force);
        self.shaper.set_epoch(slots.epoch);
    }

    fn stats(&self) -> LinkStats {
        let mut stats = self.outlet.port.stats();
        stats += self.stats;
        for peer in &self.peers {
            let counts = peer.link.counts();
            stats.frames_lost += counts.messages_lost;
            stats.links_up += counts.links_up;
            stats.links_down += counts.links_down;
            stats.links_refused += counts.refused;
            stats.links_unproven += counts.unproven;
            stats.rails_up += counts.rails_up;
            stats.rails_down += counts.rails_down;
            stats.datagrams_sent += counts.datagrams_sent;
            stats.datagrams_received += counts.datagrams_received;
            stats.datagrams_lost += counts.datagrams_lost;
            stats.bytes_repeated += counts.bytes_repeated;
            stats.datagrams_duplicate += counts.duplicates;
            stats.bytes_in_vain += counts.bytes_in_vain;
            stats.datagrams_stale += counts.stale;
            stats.datagrams_damaged += counts.damaged;
            stats.datagrams_malformed += counts.malformed;
            stats.datagrams_beyond_window += counts.beyond_window;
            stats.reports_sent += counts.reports_sent;
            stats.probes += counts.probes;
        }
        stats.memory_exhausted += self.shelf.starvations();
        stats.bytes_copied += self.shelf.bytes_copied() + self.outlet.bytes_copied;
        stats
    }

    fn close(&mut self, linger: Nanos) {
        self.closing = true;
        let deadline = self.clock.now() + linger;
        for place in 0..self.peers.len() {
            self.peers[place].link.close(self.clock.now());
            self.touch(place);
        }
        let mut arrived = VecDeque::new();
        loop {
            while self.take_datagram() {
                arrived.append(&mut self.happened);
            }
            self.flush();
            arrived.append(&mut self.happened);
            let left = deadline.since(self.clock.now());
            if self.peers.iter().all(|peer| peer.link.is_over()) || left == Nanos::ZERO {
                break;
            }
            self.sleep(left);
        }
        for place in 0..self.peers.len() {
            if !self.peers[place].link.is_over() {
                self.peers[place].link.abandon(self.clock.now());
                self.collect(place);
            }
        }
        self.outlet.port.flush();
        arrived.append(&mut self.happened);
        self.happened = arrived;
    }
}

#[cfg(test)]
mod tests;
