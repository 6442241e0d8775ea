//! Recovery between the roles and a network that loses datagrams, as in an endpoint on such a network.
//!
//! Every node has a [`Link`] to each of its peers. A message is represented by a handle: it is not encoded, but recovery receives its
//! size and decides which of its bytes belong to which datagram. So datagrams carry real heads, and handles in place of payload. On
//! arrival, the offsets reported by recovery are compared with those at which messages were divided.

use super::{Happening, Host, Post, talk};
use crate::cluster::RUN;
use crate::options::{Options, RecoveryOptions};
use crate::payload::{PayloadQueue, SimPayload};
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::{Identity, Transmit};
use sheaf_recovery::{Happened, Link, NotTaken, Origin, PartRange, Settings};
use sheaf_wire::message::Message;
use sheaf_wire::{ByteCount, Nanos, NodeId, SessionId, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// Maximum number of messages that wait for a link that is down or full. Beyond it, the oldest is dropped, as in an outbox.
const WAITING: usize = 4_096;

/// A message, with the sizes of its head and of the whole message.
#[derive(Debug)]
struct Parcel {
    message: Message<SimPayload>,
    head_bytes: usize,
    bytes: usize,
}

/// A datagram in transit.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct Datagram {
    from: NodeId,
    rail: usize,
    /// Bytes that an endpoint would send, with zeros in place of payload.
    bytes: Vec<u8>,
    /// Parts of messages that these zeros represent.
    pieces: Vec<(Rc<Parcel>, Range<usize>)>,
}

#[derive(Debug)]
struct End {
    link: Link<Rc<Parcel>, Rc<Parcel>>,
    /// Of the node.
    session: SessionId,
    waiting: VecDeque<Rc<Parcel>>,
    wake_at: Option<Timestamp>,
}

/// All ends of all links.
#[derive(Debug)]
pub(in crate::cluster) struct Links {
    settings: Settings,
    nodes: Vec<NodeId>,
    ends: BTreeMap<(NodeId, NodeId), End>,
    /// Buffer for heads.
    buffer: Vec<u8>,
}

impl Links {
    /// Creates the links of a cluster, if it has any.
    pub(super) fn new(options: &Options) -> Option<Self> {
        let RecoveryOptions { datagram, rails } = options.recovery?;
        let system = &options.system;
        let nodes = std::iter::once(NodeId::MANAGER)
            .chain((0..system.readouts).map(NodeId::readout))
            .chain((0..system.builders).map(NodeId::builder))
            .chain((0..system.outputs).map(NodeId::output));
        let settings = Settings {
            rails,
            datagram_bytes: datagram.as_usize(),
            message_bytes: ByteCount::mib(64),
            window: ByteCount::mib(128),
            flight: ByteCount::kib(64),
            queue_messages: 256,
            queue: ByteCount::mib(64),
            report_after: Nanos::from_micros(100),
            probe_min: Nanos::from_micros(500),
            ask_min: Nanos::from_micros(200),
            ask_max: Nanos::from_millis(10),
            dead_peer: options.times.peer,
            rival: options.times.peer,
        };
        Some(Self { settings, nodes: nodes.collect(), ends: BTreeMap::new(), buffer: Vec::new() })
    }
}

impl Post {
    /// Begins a node's life, which calls its peers.
    pub(in crate::cluster) fn open_links(&mut self, host: &Host) {
        let now = self.now;
        let Some(links) = &mut self.links else { return };
        let me = Identity { node: host.node, run: RUN, session: host.session };
        let peers: Vec<NodeId> =
            links.nodes.iter().copied().filter(|peer| talk(me.node.role, peer.role)).collect();
        for peer in &peers {
            let link = Link::new(me, *peer, &links.settings, now);
            links.ends.insert(
                (me.node, *peer),
                End { link, session: me.session, waiting: VecDeque::new(), wake_at: None },
            );
        }
        peers.into_iter().for_each(|peer| self.drain_link(me.node, peer));
    }

    /// Removes a node's ends of links when it goes down.
    pub(in crate::cluster) fn drop_links(&mut self, node: NodeId) {
        if let Some(links) = &mut self.links {
            links.ends.retain(|(from, _), _| *from != node);
        }
    }

    /// Passes a message to the link from its sender to its receiver.
    pub(super) fn carry_by_link(&mut self, from: NodeId, transmit: Transmit<SimPayload>) {
        let (mut head, mut payload) = (Vec::new(), PayloadQueue::default());
        transmit.message.clone().encode(&mut head, |handle| payload.0.push_back(handle));
        let payload_bytes: usize = payload.0.iter().map(|it| it.length as usize).sum();
        let (head_bytes, bytes) = (head.len(), head.len() + payload_bytes);
        let parcel = Rc::new(Parcel { message: transmit.message, head_bytes, bytes });
        let Some(links) = &mut self.links else { return };
        // A life that has ended may have sent something at its very end.
        let Some(end) = links.ends.get_mut(&(from, transmit.to)) else { return };
        if end.waiting.len() >= WAITING {
            end.waiting.pop_front();
        }
        end.waiting.push_back(parcel);
        self.drain_link(from, transmit.to);
    }

    /// Handles the arrival of a datagram.
    pub(in crate::cluster) fn take_datagram(&mut self, to: NodeId, datagram: Datagram) {
        let now = self.now;
        let Datagram { from, rail, bytes, pieces } = datagram;
        let Some(links) = &mut self.links else { return };
        let Some(end) = links.ends.get_mut(&(to, from)) else { return };
        let mut wrong = None;
        let store = |memory: &mut Option<Rc<Parcel>>, place: PartRange| {
            let mut at = 0;
            let piece = pieces.iter().find(|(_, range)| {
                let here = at == place.at.start && range.len() == place.at.len();
                at += range.len();
                here && range.start == place.offset
            });
            match piece {
                Some((parcel, _)) if parcel.bytes == place.total => {
                    let known = memory.get_or_insert_with(|| parcel.clone());
                    if !Rc::ptr_eq(known, parcel) {
                        wrong = Some(format!("recovery mixes two messages of {from}"));
                    }
                }
                _ => wrong = Some(format!("recovery puts bytes of {from} to a wrong place: {place:?}")),
            }
        };
        end.link.handle_datagram(now, Origin::home(rail), &bytes, store, drop);
        let counts = end.link.counts();
        let is_misread = counts.malformed + counts.damaged > 0;
        if let Some(text) = wrong.or_else(|| is_misread.then(|| "recovery misreads a datagram".into())) {
            self.codec_failure = Some(text);
        }
        self.drain_link(to, from);
    }

    /// Handles a deadline of a link end.
    pub(in crate::cluster) fn wake_link(&mut self, node: NodeId, peer: NodeId, planned: Timestamp) {
        let now = self.now;
        let end = self.links.as_mut().and_then(|links| links.ends.get_mut(&(node, peer)));
        let Some(end) = end.filter(|end| end.wake_at == Some(planned)) else { return };
        end.wake_at = None;
        end.link.handle_timeout(now);
        self.drain_link(node, peer);
    }

    /// Sends the pending datagrams of a link end, and delivers arrived messages.
    fn drain_link(&mut self, node: NodeId, peer: NodeId) {
        let now = self.now;
        let Some(mut links) = self.links.take() else { return };
        let Links { ends, buffer, .. } = &mut links;
        if let Some(end) = ends.get_mut(&(node, peer)) {
            while let Some(parcel) = end.waiting.pop_front() {
                let (head, bytes) = (parcel.head_bytes, parcel.bytes);
                if let Err((why, parcel)) = end.link.send(now, parcel, head, bytes) {
                    assert!(!matches!(why, NotTaken::TooLarge(_)), "messages of a cluster are small");
                    end.waiting.push_front(parcel);
                    break;
                }
            }
            self.take_events(node, peer, end);
            end.link.grant(now);
            while let Some(control) = end.link.poll_control(now, buffer) {
                let mut bytes = buffer.clone();
                bytes.resize(bytes.len() + control.padding, 0);
                self.fly(peer, Datagram { from: node, rail: control.rail, bytes, pieces: Vec::new() });
            }
            while let Some(departing) = end.link.poll_datagram(now, buffer) {
                let pieces: Vec<_> =
                    departing.pieces().map(|(parcel, range)| (parcel.clone(), range)).collect();
                let payload: usize = pieces.iter().map(|(_, range)| range.len()).sum();
                let mut bytes = buffer.clone();
                bytes.resize(bytes.len() + payload, 0);
                self.fly(peer, Datagram { from: node, rail: departing.rail, bytes, pieces });
            }
            self.arm_link(node, peer, end);
        }
        self.links = Some(links);
    }

    /// Handles the events of a link: delivers arrived messages, sends those that waited for it, discards those of an earlier life,
    /// and passes on that it is up or down.
    fn take_events(&mut self, node: NodeId, peer: NodeId, end: &mut End) {
        while let Some(happened) = end.link.poll_event() {
            match happened {
                Happened::Message(arrived) => match arrived.memory {
                    Some(parcel)
                        if (arrived.head_bytes, arrived.bytes) == (parcel.head_bytes, parcel.bytes) =>
                    {
                        let message = Box::new(parcel.message.clone());
                        self.plan(self.now, Happening::Arrival(node, message));
                    }
                    _ => self.codec_failure = Some("recovery hands out a message that is not whole".into()),
                },
                Happened::Down(_) => {
                    end.waiting.clear();
                    self.report_recovered_link((node, end.session), peer, LinkStatus::Down);
                }
                Happened::Up => self.report_recovered_link((node, end.session), peer, LinkStatus::Up),
                Happened::Refused(_) => {}
            }
        }
    }

    /// Passes a datagram to the network.
    fn fly(&mut self, to: NodeId, datagram: Datagram) {
        let fate = self.network.send(self.now, datagram.from, to);
        if let Some(again) = fate.again {
            self.plan(again, Happening::Datagram(to, Box::new(datagram.clone())));
        }
        if let Some(arrives) = fate.arrives {
            self.plan(arrives, Happening::Datagram(to, Box::new(datagram)));
        }
    }

    fn arm_link(&mut self, node: NodeId, peer: NodeId, end: &mut End) {
        // Messages that wait for a full link are sent when a report arrives; those that wait for one that is down, when it is up.
        let Some(deadline) = end.link.poll_timeout() else { return };
        let at = deadline.at.max(self.now + Nanos(1));
        if end.wake_at.is_none_or(|planned| at < planned) {
            end.wake_at = Some(at);
            self.plan(at, Happening::Link(node, peer, at));
        }
    }
}
