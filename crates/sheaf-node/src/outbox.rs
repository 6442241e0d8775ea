//! The way between a role's messages and a transport's frames.

use crate::parcels::{Joined, Parcels};
use crate::repeats::Repeats;
use bytes::Bytes;
use sheaf_protocol::Transmit;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_shaping::{Lanes, ShaperConfig};
use sheaf_telemetry::log_as;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, LinkStats, Refusal, SendError, TimeSlots};
use sheaf_wire::message::hello::Hello;
use sheaf_wire::message::{Body, DecodeError, Header, Message};
use sheaf_wire::{ByteCount, Nanos, NodeId, Role, SessionId, Span, Timestamp};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::mem::{Discriminant, discriminant};

mod arriving;
mod mirrors;
mod replicas;
mod versions;

pub use arriving::Arriving;
use mirrors::{MirrorLinks, StandIn};
use replicas::MemberLinks;
use versions::Versions;

/// Time for which a node that has closed waits for the last acknowledgements: an event manager for its own to leave, any other node after the
/// event manager has ended.
pub(crate) const LINGER: Nanos = Nanos::from_secs(2);

/// Maximum number of frames kept for one peer whose link is full or not up yet. Credit bounds the messages of a role,
/// so this limit is reached only for a peer that stays away. Then the oldest frame is dropped and counted; requests and
/// messages of channels are repeated later.
const BACKLOG_FRAMES: usize = 4096;

/// Number of frames that may wait for a builder unit before no further answer is taken for it
/// ([`Outbox::has_room`]). Enough for a time slot.
const WAITING_ANSWERS: usize = 64;

/// Payload of a full segment of TCP with an MTU of 1500 bytes, and its overhead on the wire: heads of TCP with a time
/// stamp, of IP and of Ethernet, checksum, preamble and gap. Larger frames have less overhead; slots are then a little
/// too long.
const SEGMENT_BYTES: usize = 1_448;
const SEGMENT_OVERHEAD_BYTES: usize = 90;

/// Frames that wait for their time slot, by builder unit.
struct Slotted {
    lanes: Lanes<Frame>,
    /// Some builder unit's link took nothing when it was tried last.
    some_closed: bool,
}

/// Counts of messages that were not sent, or not understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Messages that arrived and could not be read, or whose sender was not the peer that they came from.
    pub bad_messages: u64,
    /// Frames dropped for peers that stayed away, or when their link went down.
    pub dropped_frames: u64,
    /// Frames larger than the transport takes.
    pub too_large_frames: u64,
    /// Links refused before they came up: strangers, other runs, other releases.
    pub refused_links: u64,
    /// Messages dropped because they are of a replica of the event manager, or of a readout unit, that was succeeded.
    pub superseded_messages: u64,
    /// Rails that links lost and did without.
    pub lost_rails: u64,
    /// All that the transport has counted.
    pub transport: LinkStats,
}

/// Frames that wait for room in a link.
#[derive(Default)]
struct Backlog {
    frames: VecDeque<(Kind, Frame)>,
    /// Highest sequence number of the frames that wait. Repeated messages have no higher one.
    highest: u64,
}

/// Messages of which one makes another superfluous that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A message of a channel, which may be sent again.
    Numbered(Channel, u64),
    /// An acknowledgement alone.
    Acknowledgement,
    /// An acknowledgement of nothing: the sender lives.
    SignOfLife,
    /// The end of this session of the receiver: whatever waits for it is in vain.
    Fence(SessionId),
    /// A request for a vote. A replica has one under way.
    Vote,
    Other,
}

/// A channel between two sessions, each with numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Channel {
    sender: SessionId,
    /// The receiver's session; 0 until its first message.
    receiver: SessionId,
}

impl Channel {
    fn of(header: &Header) -> Self {
        Self { sender: header.session, receiver: header.acknowledged_session }
    }

    /// Returns whether a message of `self` with the number of one of `earlier` is its repetition.
    fn repeats(self, earlier: Self) -> bool {
        let is_same = earlier.receiver == self.receiver || earlier.receiver == SessionId(0);
        earlier.sender == self.sender && is_same
    }
}

impl Kind {
    fn of<P>(message: &Message<P>) -> Self {
        match (message.header.sequence, &message.body) {
            (0, Body::Acknowledge) if message.header.acknowledged_session == SessionId(0) => Self::SignOfLife,
            (0, Body::Acknowledge) => Self::Acknowledgement,
            (0, Body::Vote(_)) => Self::Vote,
            (0, Body::Fence(session)) => Self::Fence(*session),
            (0, _) => Self::Other,
            (sequence, _) => Self::Numbered(Channel::of(&message.header), sequence),
        }
    }

    /// Returns whether a message of this kind replaces one of kind `earlier` that waits.
    fn replaces(self, earlier: Self) -> bool {
        match (self, earlier) {
            (Self::Numbered(channel, number), Self::Numbered(before, same)) => {
                number == same && channel.repeats(before)
            }
            _ => self == earlier,
        }
    }
}

/// An endpoint, with a place for frames that it cannot take now. A slow peer holds up only its own frames.
pub struct Outbox {
    endpoint: Box<dyn Endpoint>,
    backlog: BTreeMap<NodeId, Backlog>,
    /// Frames for builder units that wait for their time slot, where the readout unit shapes whole frames.
    lanes: Option<Slotted>,
    /// Whether an answer was not made because too many wait.
    is_held_back: Cell<bool>,
    /// Whether frames that waited have left since that was last asked.
    is_room_made: bool,
    /// Refused links, by the peer that was claimed and the reason.
    refused: Repeats<(Option<NodeId>, Discriminant<Refusal>)>,
    /// Links that went up or down, for the role to know.
    links: VecDeque<(NodeId, LinkStatus)>,
    /// Which replica of the event manager this node listens to, where there are two.
    member: Option<MemberLinks>,
    /// Mirrors of readout units, where there are some.
    mirrors: Option<MirrorLinks>,
    stands_in: Option<StandIn>,
    /// Whether this node is a replica of the event manager.
    is_replica: bool,
    /// Versions of the protocol that the peers speak.
    versions: Versions,
    stats: OutboxStats,
    /// Counts of earlier runs.
    before: OutboxStats,
}

impl OutboxStats {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            bad_messages: self.bad_messages - earlier.bad_messages,
            dropped_frames: self.dropped_frames - earlier.dropped_frames,
            too_large_frames: self.too_large_frames - earlier.too_large_frames,
            refused_links: self.refused_links - earlier.refused_links,
            superseded_messages: self.superseded_messages - earlier.superseded_messages,
            lost_rails: self.lost_rails - earlier.lost_rails,
            transport: self.transport.since(&earlier.transport),
        }
    }
}

impl Outbox {
    /// An outbox on `endpoint`, for a node in this session.
    #[must_use]
    pub fn new(endpoint: Box<dyn Endpoint>, session: SessionId) -> Self {
        Self {
            endpoint,
            backlog: BTreeMap::new(),
            lanes: None,
            is_held_back: Cell::new(false),
            is_room_made: false,
            refused: Repeats::default(),
            links: VecDeque::new(),
            member: None,
            mirrors: None,
            stands_in: None,
            is_replica: false,
            versions: Versions::new(session),
            stats: OutboxStats::default(),
            before: OutboxStats::default(),
        }
    }

    /// Begins a run: counts are those of this run from now on.
    pub(crate) fn begin_run(&mut self) {
        self.before = self.all_stats();
    }

    /// Ends the run at these links. They go on with the next run, or close.
    pub(crate) fn end_run(&mut self, hands_over: bool) {
        if hands_over {
            self.flush();
        } else {
            self.endpoint.close(LINGER);
        }
    }

    /// Shapes frames for the `builders` builder units from now on; this is readout unit `me`.
    pub(crate) fn shape_frames(&mut self, config: ShaperConfig, builders: usize, me: usize) {
        self.lanes = Some(Slotted { lanes: Lanes::new(config, builders, me), some_closed: false });
    }

    /// Takes note of how traffic is shaped from now on.
    pub(crate) fn shape(&mut self, now: Timestamp, turning: bool, epoch: Timestamp) {
        match &mut self.lanes {
            Some(slotted) => {
                slotted.lanes.shaper().turn_barrel(now, turning);
                slotted.lanes.shaper().set_epoch(epoch);
            }
            None => self.endpoint.set_time_slots(now, TimeSlots { in_force: turning, epoch }),
        }
    }

    /// When [`Self::flush_slots`] has something to do, if nothing else happens.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.lanes.as_ref().and_then(|slotted| slotted.lanes.poll_timeout())
    }

    /// Returns whether another answer may be made for a builder unit.
    pub(crate) fn has_room(&self, builder: u16) -> bool {
        let waiting = match &self.lanes {
            Some(slotted) => slotted.lanes.len_of(usize::from(builder)),
            None => self.backlog.get(&NodeId::builder(builder)).map_or(0, |waiting| waiting.frames.len()),
        };
        let has_room = waiting < WAITING_ANSWERS;
        if !has_room {
            self.is_held_back.set(true);
        }
        has_room
    }

    /// Returns whether a builder unit may have room again that had [none](Self::has_room).
    pub(crate) fn take_room_made(&mut self) -> bool {
        std::mem::take(&mut self.is_room_made) && self.is_held_back.take()
    }

    /// Sends the frames whose slot it is.
    pub(crate) fn flush_slots(&mut self, now: Timestamp) {
        let Some(Slotted { lanes, some_closed }) = &mut self.lanes else {
            return;
        };
        if std::mem::take(some_closed) {
            lanes.open_all(now);
        }
        while let Some((builder, frame, wire)) = lanes.pop(now) {
            let to = NodeId::builder(u16::try_from(builder).unwrap_or(u16::MAX));
            match self.endpoint.send(to, frame) {
                Ok(()) => {
                    lanes.sent(now, builder, wire);
                    self.is_room_made = true;
                }
                Err(SendError::Full(frame) | SendError::NotConnected(frame)) => {
                    lanes.put_back(now, builder, frame, wire);
                    *some_closed = true;
                }
                Err(error) => refuse(&mut self.stats, &*self.endpoint, to, &error),
            }
        }
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    /// Returns the counts of failures in this run so far.
    #[must_use]
    pub fn stats(&self) -> OutboxStats {
        self.all_stats().since(&self.before)
    }

    fn all_stats(&self) -> OutboxStats {
        let transport = self.endpoint.stats();
        OutboxStats { lost_rails: transport.rails_down, transport, ..self.stats }
    }

    /// Sends a message, or keeps it for later.
    ///
    /// An acknowledgement replaces one at the end of the backlog, since each is cumulative. A repeated message, or a repeated
    /// request for a vote, replaces an earlier copy that still waits. Otherwise the repetitions of a node would fill the link
    /// of a slow peer, and important messages would wait behind them. The end of a session of the peer replaces all messages
    /// of channels with it: the session would work in vain until the last of them was sent.
    pub fn send(&mut self, transmit: Transmit<Bytes>) {
        let Transmit { to, message } = self.address(transmit);
        let kind = Kind::of(&message);
        self.send_or_keep(to, frame_of(message), kind);
    }

    /// Sends a message whose payload lies in `parcels`, or keeps it for later.
    pub(crate) fn send_from(&mut self, now: Timestamp, parcels: &Parcels, transmit: Transmit<Span>) {
        self.send_prepared(now, Prepared::new(parcels, self.address(transmit)));
    }

    /// Sends a message that was prepared, or keeps it for later. It goes to whoever acts for its receiver now.
    pub(crate) fn send_prepared(&mut self, now: Timestamp, prepared: Prepared) {
        let Prepared { to, frame, kind } = prepared;
        let is_for_manager = to.role == Role::Manager;
        let active = self.member.as_ref().filter(|_| is_for_manager).map(|links| links.member.active());
        self.shape_or_send(now, active.unwrap_or(to), frame, kind);
    }

    /// Prepares a message whose payload lies in `parcels`, to be sent later: it keeps the payload.
    pub(crate) fn prepare(&self, parcels: &Parcels, transmit: Transmit<Span>) -> Prepared {
        Prepared::new(parcels, self.address(transmit))
    }

    /// As [`Self::send`], for messages that are shaped where messages are.
    pub(crate) fn send_shaped(&mut self, now: Timestamp, transmit: Transmit<Bytes>) {
        let Transmit { to, message } = self.address(transmit);
        let kind = Kind::of(&message);
        self.shape_or_send(now, to, frame_of(message), kind);
    }

    fn shape_or_send(&mut self, now: Timestamp, to: NodeId, frame: Frame, kind: Kind) {
        let is_parted = self.is_parted_from(to);
        match &mut self.lanes {
            Some(slotted) if to.role == Role::Builder && !is_parted => {
                let builder = usize::from(to.index);
                if slotted.lanes.len_of(builder) >= BACKLOG_FRAMES {
                    self.stats.dropped_frames += 1;
                    return;
                }
                let segments = frame.bytes().div_ceil(SEGMENT_BYTES);
                let wire = ByteCount::from(frame.bytes() + segments * SEGMENT_OVERHEAD_BYTES);
                slotted.lanes.push(now, builder, frame, wire);
            }
            _ => self.send_or_keep(to, frame, kind),
        }
    }

    fn send_or_keep(&mut self, to: NodeId, frame: Frame, kind: Kind) {
        if self.is_parted_from(to) {
            self.stats.dropped_frames += 1;
            return;
        }
        match self.backlog.get_mut(&to) {
            Some(waiting) if !waiting.frames.is_empty() => {
                if self.is_replica && kind == Kind::SignOfLife {
                    // What waits for a slow voter says the same. Signs of life would displace it.
                    return;
                }
                waiting.keep(frame, kind, &mut self.stats);
            }
            _ => self.send_frame(to, frame, kind),
        }
    }

    fn send_frame(&mut self, to: NodeId, frame: Frame, kind: Kind) {
        match self.endpoint.send(to, frame) {
            Ok(()) => {}
            Err(SendError::Full(frame) | SendError::NotConnected(frame)) => {
                self.backlog.entry(to).or_default().keep(frame, kind, &mut self.stats);
            }
            Err(error) => refuse(&mut self.stats, &*self.endpoint, to, &error),
        }
    }

    /// Offers kept frames again and pushes everything toward the network.
    pub fn flush(&mut self) {
        for (to, waiting) in &mut self.backlog {
            while let Some((kind, frame)) = waiting.frames.pop_front() {
                if let Err(error) = self.endpoint.send(*to, frame) {
                    waiting.frames.push_front((kind, error.into_frame()));
                    break;
                }
                self.is_room_made = true;
            }
        }
        self.endpoint.flush();
    }

    /// The next message that arrived, if it can be read.
    pub fn poll<P: Arriving>(&mut self) -> Option<Message<P>> {
        self.poll_by(P::decode)
    }

    /// The next message that arrived, if it can be read. Its payload is copied to `parcels`.
    pub(crate) fn poll_into(&mut self, parcels: &mut Parcels) -> Option<Message<Span>> {
        self.poll_by(|frame| arriving::keep(parcels, frame))
    }

    fn poll_by<P: Arriving>(
        &mut self,
        mut decode: impl FnMut(Frame) -> Result<Message<P>, DecodeError>,
    ) -> Option<Message<P>> {
        while let Some(event) = self.endpoint.poll() {
            match event {
                Event::Received { from, frame } if self.acts_for(from) => self.turn_away(frame),
                Event::Received { from, frame } if Hello::is_begun_by(&frame.head) => {
                    self.hear_hello(from, &frame.head);
                }
                Event::Received { from, .. } if self.is_parted_from(from) => {}
                Event::Received { from, frame } => {
                    let message = self.check(from, decode(frame));
                    let message = message.and_then(|message| self.admit(from, message));
                    if let Some(message) = message.and_then(|message| self.admit_unit(from, message)) {
                        return Some(message);
                    }
                }
                Event::PeerUp { peer } => {
                    log::debug!("{}: link to {peer} is up", self.endpoint.node());
                    self.say_hello(peer);
                    self.note_link(peer, LinkStatus::Up);
                }
                Event::PeerDown { peer, reason } => self.peer_down(peer, reason),
                Event::Refused { peer, reason } => self.refused(peer, reason),
            }
        }
        None
    }

    /// Returns the next link that went up or down. It is to be taken after the messages: what has arrived was sent
    /// before the link went down, or the peer has reconnected since.
    pub fn poll_link(&mut self) -> Option<(NodeId, LinkStatus)> {
        self.links.pop_front()
    }

    fn check<P>(&mut self, from: NodeId, read: Result<Message<P>, DecodeError>) -> Option<Message<P>> {
        match read {
            Ok(message) if self.is_of(from, message.header.sender) => return Some(message),
            Ok(message) => {
                let (node, claimed) = (self.endpoint.node(), message.header.sender);
                log_as!(
                    MESSAGE_BAD, node = node, peer = from;
                    "{node}: a message from {from} claims to be from {claimed}; dropped"
                );
            }
            Err(DecodeError::WrongVersion(version)) => self.judge(from, &Hello::unsaid(version)),
            Err(error) => log_as!(
                MESSAGE_BAD, node = self.endpoint.node(), peer = from;
                "{}: a message from {from} was dropped: {error}", self.endpoint.node()
            ),
        }
        self.stats.bad_messages += 1;
        None
    }

    fn peer_down(&mut self, peer: NodeId, reason: DownReason) {
        if reason != DownReason::Closed {
            log_as!(
                LINK_DOWN, node = self.endpoint.node(), peer = peer;
                "{}: link to {peer} is down: {reason}", self.endpoint.node()
            );
        }
        if !self.forget_parting(peer) {
            self.note_link(peer, LinkStatus::Down);
        }
        self.drop_waiting(peer);
    }

    /// Drops what waits for a peer.
    fn drop_waiting(&mut self, peer: NodeId) {
        let waiting = self.backlog.remove(&peer).unwrap_or_default();
        self.is_room_made = true;
        self.stats.dropped_frames += waiting.frames.len() as u64;
        if let Some(slotted) = self.lanes.as_mut().filter(|_| peer.role == Role::Builder) {
            self.stats.dropped_frames += slotted.lanes.take(usize::from(peer.index)).len() as u64;
        }
    }

    /// Counts a refused link, and logs it unless it repeats what was logged.
    fn refused(&mut self, peer: Option<NodeId>, reason: Refusal) {
        self.stats.refused_links += 1;
        // Without the values of the reason: a stranger chooses them.
        let Some(times) = self.refused.note((peer, discriminant(&reason))) else { return };
        let name = peer.map_or_else(|| "a stranger".to_owned(), |peer| peer.to_string());
        log_as!(
            LINK_REFUSED, node = self.endpoint.node(), peer = name;
            "{}: no link with {name}: {reason}{times}", self.endpoint.node()
        );
    }
}

/// A message with its receiver, as the transport takes it.
pub(crate) struct Prepared {
    to: NodeId,
    frame: Frame,
    kind: Kind,
}

impl Prepared {
    fn new(parcels: &Parcels, transmit: Transmit<Span>) -> Self {
        let kind = Kind::of(&transmit.message);
        let mut head = Vec::new();
        let mut joined = Joined::new(parcels);
        transmit.message.encode(&mut head, |span| joined.push(span));
        let frame = Frame { head: head.into(), payload: joined.finish() };
        Self { to: transmit.to, frame, kind }
    }
}

/// A message as the transport takes it.
fn frame_of(message: Message<Bytes>) -> Frame {
    let pieces = message.body.payload_pieces();
    let mut head = Vec::new();
    let mut payload = VecDeque::with_capacity(pieces);
    message.encode(&mut head, |piece| payload.push_back(piece));
    Frame { head: head.into(), payload }
}

/// A frame that never will be sent.
fn refuse(stats: &mut OutboxStats, endpoint: &dyn Endpoint, to: NodeId, error: &SendError) {
    if matches!(error, SendError::TooLarge { .. }) {
        stats.too_large_frames += 1;
        log_as!(
            MESSAGE_TOO_LONG, node = endpoint.node(), peer = to;
            "{}: to {to}: {error}; raise transport.max_frame_bytes", endpoint.node()
        );
    } else {
        stats.dropped_frames += 1;
    }
}

impl Backlog {
    /// Keeps a frame; the oldest makes room where there are too many.
    fn keep(&mut self, frame: Frame, kind: Kind, stats: &mut OutboxStats) {
        if let Kind::Fence(session) = kind {
            let is_of_it =
                |kind: &Kind| matches!(kind, Kind::Numbered(channel, _) if channel.receiver == session);
            self.frames.retain(|(kind, _)| !is_of_it(kind));
        }
        if let Some((waiting_kind, waiting)) = self.superfluous(kind) {
            (*waiting_kind, *waiting) = (kind, frame);
            return;
        }
        if self.frames.len() >= BACKLOG_FRAMES {
            self.frames.pop_front();
            stats.dropped_frames += 1;
        }
        if self.frames.is_empty() {
            self.highest = 0;
        }
        if let Kind::Numbered(_, sequence) = kind {
            self.highest = self.highest.max(sequence);
        }
        self.frames.push_back((kind, frame));
    }

    /// The waiting frame that one of this kind replaces.
    fn superfluous(&mut self, kind: Kind) -> Option<&mut (Kind, Frame)> {
        match kind {
            Kind::Acknowledgement | Kind::SignOfLife => {
                self.frames.back_mut().filter(|(last, _)| *last == kind)
            }
            Kind::Numbered(_, sequence) if sequence > self.highest => None,
            Kind::Numbered(..) | Kind::Fence(_) | Kind::Vote => {
                self.frames.iter_mut().find(|(earlier, _)| kind.replaces(*earlier))
            }
            Kind::Other => None,
        }
    }
}

#[cfg(test)]
mod tests;
