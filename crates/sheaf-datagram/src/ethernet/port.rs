//! The port: datagrams in frames, peers by their addresses, sleep.

use super::interface::Interface;
use super::rail::{Rail, Way};
use super::settings::{EthernetError, EthernetOptions};
use crate::bell::Bell;
use crate::port::datagram_bytes;
use crate::{Datagram, DatagramPort, DatagramRefused};
use rustix::event::Timespec;
use sheaf_transport::LinkStats;
use sheaf_transport::peers::PeerIndex;
use sheaf_wire::ethernet::{
    FRAME_HEAD_BYTES, FrameError, FrameHead, FrameKind, MacAddress, PORT_HEAD_BYTES, WIRE_BYTES, seal_frame,
};
use sheaf_wire::{Nanos, NodeId, RunNumber};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Datagrams, and frames that are dropped, of one turn of [`EthernetPort::poll`].
const TURN: usize = 256;

/// Maximum sleep while frames wait to be sent: the kernel does not always signal room.
const CONGESTED_SLEEP: Duration = Duration::from_micros(200);

/// The longest sleep while an interface does not work: to see that it does again.
const BROKEN_SLEEP: Duration = Duration::from_millis(20);

/// The datagram that was handed out last.
#[derive(Clone, Copy, Debug)]
struct Found {
    from: NodeId,
    peer: usize,
    source: MacAddress,
    rail: usize,
    begin: usize,
    bytes: usize,
}

/// Interface and mode of a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailReport {
    /// The interface.
    pub interface: String,
    /// Its address.
    pub address: MacAddress,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// The way that frames go, for people: `AF_XDP, native, copy, 1 of its queues`.
    pub way: String,
    /// Reason for this backend, for people.
    pub reason: String,
}

/// A node's place on one or several Ethernet networks. See the [module](super).
#[derive(Debug)]
pub struct EthernetPort {
    node: NodeId,
    run: RunNumber,
    ethertype: u16,
    busy_poll: Duration,
    index: PeerIndex,
    rails: Vec<Rail>,
    max_datagram_bytes: usize,
    receive_room_bytes: usize,
    bell: Arc<Bell>,
    stats: LinkStats,
    /// The current rail, and the rest of this turn.
    turn: usize,
    left: usize,
    /// A rail had no room for a datagram since the last wait.
    refused: bool,
    /// The datagram that was handed out last.
    last: Option<Found>,
}

impl EthernetPort {
    /// Opens the interfaces and announces this node on each.
    ///
    /// # Errors
    /// Describes the error in the options, an interface, or the permissions; see [`EthernetError`]. An interface or
    /// queue that is in use is retried for 1.5 s.
    pub fn new(options: EthernetOptions) -> Result<Self, EthernetError> {
        options.check()?;
        let index =
            PeerIndex::new(options.peers.iter().map(|peer| peer.node)).map_err(EthernetError::NamedTwice)?;
        let interfaces =
            options.interfaces.iter().map(|name| Interface::open(name)).collect::<Result<Vec<_>, _>>()?;
        let usable =
            interfaces.iter().map(|interface| options.settings.usable_mtu(&interface.name, interface.mtu));
        let usable = usable.collect::<Result<Vec<_>, _>>()?;
        // A datagram may take any rail.
        let mtu = usable.into_iter().min().ok_or(EthernetError::BadRails(0))?;
        let mut rails = Vec::with_capacity(interfaces.len());
        for (rail, interface) in interfaces.into_iter().enumerate() {
            rails.push(Rail::open(&options, rail, interface, mtu)?);
        }
        let bell = Bell::new().map_err(|error| EthernetError::Io {
            what: "make an event counter for the rails",
            name: options.interfaces.join(", "),
            source: error.into(),
        })?;
        let max_datagram_bytes = mtu - PORT_HEAD_BYTES;
        let mut port = Self {
            node: options.node,
            run: options.run,
            ethertype: options.settings.ethertype,
            busy_poll: options.settings.busy_poll.to_std(),
            index,
            receive_room_bytes: options.settings.frame_slots as usize * max_datagram_bytes,
            rails,
            max_datagram_bytes,
            bell: Arc::new(bell),
            stats: LinkStats::default(),
            turn: 0,
            left: TURN,
            refused: false,
            last: None,
        };
        for rail in 0..port.rails.len() {
            port.announce(rail, MacAddress::BROADCAST, None, true);
        }
        port.flush();
        Ok(port)
    }

    /// Returns the interface and mode of each rail, with the reason for it, for the log.
    pub fn rail_reports(&self) -> impl Iterator<Item = RailReport> {
        self.rails.iter().map(|rail| RailReport {
            interface: rail.interface.name.clone(),
            address: rail.interface.address,
            mtu: rail.interface.mtu,
            way: rail.wire.describe(),
            reason: rail.reason.clone(),
        })
    }

    /// A head of this node's.
    fn head(&self, rail: usize, kind: FrameKind, destination: MacAddress, to: Option<NodeId>) -> FrameHead {
        FrameHead {
            destination,
            source: self.rails[rail].interface.address,
            kind,
            wants_answer: false,
            rail: rail as u8,
            run: self.run,
            from: self.node,
            to,
        }
    }

    /// Announces this node's address. A lost announcement is repeated when a peer asks.
    fn announce(&mut self, rail: usize, destination: MacAddress, to: Option<NodeId>, wants_answer: bool) {
        let head = FrameHead { wants_answer, ..self.head(rail, FrameKind::Address, destination, to) };
        let ethertype = self.ethertype;
        self.rails[rail].wire.put(0, FRAME_HEAD_BYTES, &mut |frame| {
            head.write(ethertype, 0, frame);
            seal_frame(head.run, frame);
        });
    }

    /// Checks the frame that a rail has just received. A frame that is not a datagram for this node is counted, or
    /// answered.
    fn check(&mut self, rail: usize) -> Option<Found> {
        let parsed = FrameHead::parse(self.ethertype, self.run, self.rails[rail].wire.frame());
        let (head, bytes) = match parsed {
            Ok((head, datagram)) => (head, datagram.len()),
            Err(error) => {
                self.count_error(error);
                return None;
            }
        };
        if head.to.is_some_and(|to| to != self.node) {
            self.stats.datagrams_misdirected += 1;
            return None;
        }
        if usize::from(head.rail) != rail {
            self.stats.datagrams_crossed += 1;
            return None;
        }
        let Some(peer) = self.index.place(head.from) else {
            self.stats.datagrams_of_strangers += 1;
            return None;
        };
        if !self.rails[rail].learn(peer, head.source) {
            self.stats.datagrams_of_strangers += 1;
            return None;
        }
        if head.wants_answer {
            self.announce(rail, head.source, Some(head.from), false);
            // The asking node may send nothing until it has the answer: do not wait for the next flush of a node that
            // may have nothing to send.
            self.rails[rail].flush(&mut self.stats);
        }
        // A broadcast frame is never a datagram.
        (head.kind == FrameKind::Datagram && head.to.is_some()).then_some(Found {
            from: head.from,
            peer,
            source: head.source,
            rail,
            begin: FRAME_HEAD_BYTES,
            bytes,
        })
    }

    /// Puts a datagram into a frame of the rail that `frame_head` names.
    fn put(
        &mut self,
        peer: usize,
        frame_head: FrameHead,
        head: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), DatagramRefused> {
        let bytes = datagram_bytes(head, payload);
        let ethertype = self.ethertype;
        let taken =
            self.rails[usize::from(frame_head.rail)].wire.put(peer, FRAME_HEAD_BYTES + bytes, &mut |frame| {
                frame_head.write(ethertype, bytes, frame);
                let mut at = FRAME_HEAD_BYTES;
                for piece in std::iter::once(&head).chain(payload) {
                    frame[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
                seal_frame(frame_head.run, frame);
            });
        if !taken {
            self.stats.refused_full += 1;
            self.refused = true;
            return Err(DatagramRefused::Full);
        }
        Ok(())
    }

    fn count_error(&mut self, error: FrameError) {
        let counter = match error {
            FrameError::Stranger { .. } => &mut self.stats.datagrams_of_strangers,
            FrameError::Truncated { .. } => &mut self.stats.datagrams_truncated,
            FrameError::Stale { .. } => &mut self.stats.datagrams_stale,
            FrameError::Version(_) => &mut self.stats.datagrams_of_other_versions,
            FrameError::Damaged { .. } => &mut self.stats.datagrams_damaged,
            FrameError::BadField { .. } => &mut self.stats.datagrams_malformed,
        };
        *counter += 1;
    }

    /// The next datagram of this turn, if any: rails one after the other.
    fn find(&mut self) -> Option<Found> {
        let mut empty = 0;
        while empty < self.rails.len() && self.left > 0 {
            let rail = self.turn;
            if !self.rails[rail].wire.next(&mut self.stats) {
                empty += 1;
                self.turn = (rail + 1) % self.rails.len();
                continue;
            }
            self.left -= 1;
            empty = 0;
            if let Some(found) = self.check(rail) {
                // The next one from another rail: none of them waits for a busy one.
                self.turn = (rail + 1) % self.rails.len();
                return Some(found);
            }
        }
        self.left = TURN;
        None
    }

    fn has_frame(&mut self) -> bool {
        self.rails.iter_mut().any(|rail| rail.wire.has_frame())
    }

    /// Polls for as long as configured; returns `true` if there is something.
    fn look_on(&mut self, timeout: Duration) -> bool {
        let span = self.busy_poll.min(timeout);
        if span.is_zero() {
            return false;
        }
        let began = Instant::now();
        while began.elapsed() < span {
            if self.has_frame() || self.bell.answer() {
                return true;
            }
            for rail in self.rails.iter().filter(|rail| rail.works) {
                rail.wire.drive(&mut self.stats);
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until a frame comes, the bell rings, or `timeout` has passed.
    fn sleep(&mut self, timeout: Duration) {
        let mut sockets = Vec::new();
        // An interface that does not work leaves an error at its socket, which would end every sleep.
        for rail in self.rails.iter().filter(|rail| rail.works) {
            rail.wire.sockets(&mut sockets);
        }
        let seconds = timeout.as_secs().min(3600);
        let timeout = Timespec { tv_sec: seconds.cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
        let is_broken = self.bell.sleep(sockets, Some(&timeout), &mut self.stats);
        if is_broken {
            for rail in &mut self.rails {
                // Takes the error from the socket.
                rail.wire.drive(&mut self.stats);
                rail.look(&mut self.stats, true);
            }
        }
    }
}

impl DatagramPort for EthernetPort {
    fn node(&self) -> NodeId {
        self.node
    }

    fn rails(&self) -> usize {
        self.rails.len()
    }

    fn max_datagram_bytes(&self) -> usize {
        self.max_datagram_bytes
    }

    fn wire_overhead_bytes(&self) -> usize {
        FRAME_HEAD_BYTES + WIRE_BYTES
    }

    fn receive_room_bytes(&self) -> usize {
        self.receive_room_bytes
    }

    fn send(
        &mut self,
        to: NodeId,
        rail: usize,
        head: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), DatagramRefused> {
        let Some(peer) = self.index.place(to) else {
            self.stats.refused_unknown_peer += 1;
            return Err(DatagramRefused::UnknownPeer);
        };
        let bytes = datagram_bytes(head, payload);
        if bytes > self.max_datagram_bytes {
            self.stats.refused_too_large += 1;
            return Err(DatagramRefused::TooLarge { bytes, limit: self.max_datagram_bytes });
        }
        let own = &mut self.rails[rail];
        if !own.works {
            own.look(&mut self.stats, false);
            if !own.works {
                return Err(DatagramRefused::RailDown(rail));
            }
        }
        let destination = match own.way(peer) {
            Way::To(destination) => destination,
            // A datagram to all would be one on every cable, from everybody to everybody where all start at once.
            way @ (Way::Ask | Way::Wait) => {
                if way == Way::Ask {
                    self.announce(rail, MacAddress::BROADCAST, Some(to), true);
                }
                self.stats.datagrams_unaddressed += 1;
                return Ok(());
            }
        };
        self.put(peer, self.head(rail, FrameKind::Datagram, destination, Some(to)), head, payload)
    }

    fn send_aside(&mut self, to: NodeId, rail: usize, head: &[u8]) -> Result<(), DatagramRefused> {
        let Some(peer) = self.index.place(to) else { return Err(DatagramRefused::UnknownPeer) };
        let Some(destination) = self.rails[rail].asides[peer] else { return Ok(()) };
        self.put(peer, self.head(rail, FrameKind::Datagram, destination, Some(to)), head, &[])
    }

    fn note_aside(&mut self) {
        if let Some(Found { peer, rail, source, .. }) = self.last {
            self.rails[rail].asides[peer] = Some(source);
        }
    }

    fn take_home(&mut self) {
        if let Some(Found { peer, rail, source, .. }) = self.last {
            self.rails[rail].take_home(peer, source);
        }
    }

    fn leave_home(&mut self, peer: NodeId) {
        if let Some(peer) = self.index.place(peer) {
            self.rails.iter_mut().for_each(|rail| rail.leave_home(peer));
        }
    }

    fn has_own_addresses(&self) -> bool {
        false
    }

    fn flush(&mut self) {
        for rail in &mut self.rails {
            rail.flush(&mut self.stats);
        }
    }

    fn poll(&mut self) -> Option<Datagram<'_>> {
        let found = self.find()?;
        self.last = Some(found);
        let Found { from, peer, source, rail, begin, bytes } = found;
        let is_home = self.rails[rail].is_home(peer, source);
        let frame = self.rails[rail].wire.frame();
        Some(Datagram { from, rail, is_home, bytes: &frame[begin..begin + bytes] })
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        let mut timeout = timeout.to_std();
        for rail in &mut self.rails {
            if !rail.works {
                rail.look(&mut self.stats, false);
                timeout = timeout.min(BROKEN_SLEEP);
            } else if rail.congested {
                timeout = timeout.min(CONGESTED_SLEEP);
            }
        }
        if std::mem::take(&mut self.refused) {
            timeout = timeout.min(CONGESTED_SLEEP);
        }
        if self.has_frame() || self.bell.answer() || timeout.is_zero() || self.look_on(timeout) {
            return;
        }
        if self.bell.lie_down() {
            self.sleep(timeout);
        }
        self.bell.answer();
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.bell))
    }

    fn stats(&self) -> LinkStats {
        let mut stats = self.stats;
        stats.datagrams_overrun += self.rails.iter().map(|rail| rail.wire.overruns()).sum::<u64>();
        stats
    }
}

#[cfg(test)]
impl EthernetPort {
    /// The frame that was received last by a rail.
    pub(super) fn last_frame(&self, rail: usize) -> &[u8] {
        self.rails[rail].wire.frame()
    }

    /// Returns whether datagrams to the first peer are sent to this address by a rail.
    pub(super) fn is_home(&self, rail: usize, address: MacAddress) -> bool {
        self.rails[rail].is_home(0, address)
    }

    /// Returns whether the addresses of all peers on a rail are known.
    pub(super) fn knows_all(&self, rail: usize) -> bool {
        use super::rail::PeerAddress;
        self.rails[rail].peers.iter().all(|place| !matches!(place, PeerAddress::Unknown(_)))
    }
}
