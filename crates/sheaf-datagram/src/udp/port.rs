//! The port.

use super::framing::{self, MAGIC, PREFIX_BYTES, PrefixBytes, VERSION};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::settings::{UdpError, UdpOptions, UdpSettings};
use crate::bell::Bell;
use crate::port::datagram_bytes;
use crate::{Datagram, DatagramPort, DatagramRefused};
use rustix::event::{PollFd, PollFlags, Timespec};
use sheaf_transport::LinkStats;
use sheaf_transport::peers::PeerIndex;
use sheaf_wire::{Nanos, NodeId};
use socket2::SockRef;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::Waker;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// Bytes of the headers of IPv4 and IPv6, and of UDP.
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;

/// Overhead of Ethernet for a packet: preamble and start (8), header (14), check sequence (4), gap (12).
const ETHERNET_BYTES: usize = 38;

/// The largest payload of UDP over IPv4.
const MOST_BYTES: usize = 65_507;

const MAX_RAILS: usize = 64;

/// The kernel charges a waiting packet for the memory that it takes, about twice its bytes where it is large, and this much in
/// any case.
const KERNEL_OVERHEAD: usize = 2;

/// Maximum duration of a sleep, limited by the kernel's argument.
const LONGEST_SLEEP: Nanos = Nanos::from_secs(3_600);

/// A rail: a socket, and the datagrams on their way through it.
#[derive(Debug)]
struct Rail {
    socket: UdpSocket,
    outgoing: Outgoing,
    incoming: Incoming,
}

/// A peer.
#[derive(Debug)]
struct Peer {
    node: NodeId,
    /// Its addresses, by rail, as far as known.
    addresses: Vec<Option<SocketAddr>>,
    /// Whether the addresses were configured instead of learned from its links.
    is_fixed: bool,
    /// Addresses from which a node that may be this peer has asked, by rail.
    asides: Vec<Option<SocketAddr>>,
}

/// Source of the datagram that was handed out last.
#[derive(Clone, Copy, Debug)]
struct Source {
    peer: usize,
    rail: usize,
    address: SocketAddr,
}

/// A node's place on networks that carry UDP.
#[derive(Debug)]
pub struct UdpPort {
    node: NodeId,
    rails: Vec<Rail>,
    index: PeerIndex,
    peers: Vec<Peer>,
    datagram_bytes: usize,
    wire_overhead_bytes: usize,
    receive_room: usize,
    bell: Arc<Bell>,
    /// The rail whose turn it is in this round; how often each may still ask the kernel.
    at: usize,
    /// Whether the rail `at` was read in this round.
    was_read: bool,
    /// Whether a round left datagrams in the kernel.
    has_more: bool,
    last: Option<Source>,
    stats: LinkStats,
}

impl UdpPort {
    /// A port on bound sockets.
    ///
    /// # Errors
    /// Options that cannot work, or sockets that cannot be set up.
    pub fn new(options: UdpOptions) -> Result<Self, UdpError> {
        let UdpOptions { node, sockets, peers, settings } = options;
        let rails = sockets.len();
        if !(1..=MAX_RAILS).contains(&rails) {
            return Err(UdpError::WrongSockets(rails));
        }
        if !(576..=65_535).contains(&settings.mtu_bytes) {
            return Err(UdpError::WrongMtu(settings.mtu_bytes));
        }
        let nodes = peers.iter().map(|peer| peer.node);
        let index = PeerIndex::new(nodes.chain([node])).map_err(UdpError::NamedTwice)?;
        for peer in &peers {
            let addresses = peer.addresses.len();
            if addresses != 0 && addresses != rails {
                return Err(UdpError::WrongAddresses { node: peer.node, addresses, rails });
            }
        }
        let peers = peers.into_iter().map(|peer| Peer {
            node: peer.node,
            is_fixed: !peer.addresses.is_empty(),
            asides: vec![None; rails],
            addresses: if peer.addresses.is_empty() {
                vec![None; rails]
            } else {
                peer.addresses.into_iter().map(Some).collect()
            },
        });
        let failed = |what| move |source| UdpError::Io { what, source };
        let mut receive_room = usize::MAX;
        let mut headers = IPV4_BYTES + UDP_BYTES;
        for socket in &sockets {
            let room = set_up(socket, &settings).map_err(failed("set up the socket"))?;
            receive_room = receive_room.min(room);
            let address = socket.local_addr().map_err(failed("read the socket's address"))?;
            if address.is_ipv6() {
                headers = IPV6_BYTES + UDP_BYTES;
            }
        }
        let bell = Bell::new().map_err(|errno| failed("create the waker")(errno.into()))?;
        let datagram_bytes = (settings.mtu_bytes - headers).min(MOST_BYTES) - PREFIX_BYTES;
        let rail =
            |socket| Rail { socket, outgoing: Outgoing::default(), incoming: Incoming::new(datagram_bytes) };
        Ok(Self {
            node,
            rails: sockets.into_iter().map(rail).collect(),
            index,
            peers: peers.collect(),
            datagram_bytes,
            wire_overhead_bytes: ETHERNET_BYTES + headers + PREFIX_BYTES,
            receive_room,
            bell: Arc::new(bell),
            at: 0,
            was_read: false,
            has_more: false,
            last: None,
            stats: LinkStats::default(),
        })
    }

    /// Returns the local address of a rail's socket; `None` if there is no such rail.
    #[must_use]
    pub fn local_address(&self, rail: usize) -> Option<SocketAddr> {
        self.rails.get(rail)?.socket.local_addr().ok()
    }

    /// Changes where a peer is, from the next datagram on. Does nothing for a node that is not a peer.
    pub fn set_addresses(&mut self, peer: NodeId, addresses: &[SocketAddr]) {
        let place = self.index.place(peer);
        if let Some(peer) = place.and_then(|place| self.peers.get_mut(place)) {
            peer.is_fixed = !addresses.is_empty();
            for (rail, address) in peer.addresses.iter_mut().enumerate() {
                *address = addresses.get(rail).copied();
            }
        }
    }

    /// Returns the sender of the datagram in a slot, if it is a peer, and whether it came from the peer's address.
    fn sender(&mut self, rail: usize, slot: usize) -> Option<(NodeId, bool)> {
        let (received, bytes) = self.rails[rail].incoming.slot(slot);
        if received.is_cut {
            self.stats.datagrams_malformed += 1;
            return None;
        }
        let known = framing::parse(bytes).filter(|(_, by, _)| *by == rail);
        let place = known.and_then(|(node, ..)| self.index.place(node));
        let peer = place.and_then(|place| self.peers.get(place).map(|peer| (place, peer)));
        let (Some((place, peer)), Some(address)) = (peer, received.from) else {
            self.stats.datagrams_of_strangers += 1;
            return None;
        };
        let is_home = peer.addresses[rail].is_some_and(|home| is_same(home, address));
        if peer.is_fixed && !is_home {
            self.stats.datagrams_of_strangers += 1;
            return None;
        }
        self.last = Some(Source { peer: place, rail, address });
        Some((peer.node, is_home))
    }

    /// Takes a datagram for an address of a peer, if it is known.
    fn put(
        &mut self,
        to: NodeId,
        rail: usize,
        address: impl FnOnce(&Peer) -> Option<SocketAddr>,
        head: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), DatagramRefused> {
        let peer = self.index.place(to).and_then(|place| self.peers.get(place));
        let Some(peer) = peer else { return Err(DatagramRefused::UnknownPeer) };
        let bytes = datagram_bytes(head, payload);
        if bytes > self.datagram_bytes {
            return Err(DatagramRefused::TooLarge { bytes, limit: self.datagram_bytes });
        }
        let Some(it) = self.rails.get_mut(rail) else { return Err(DatagramRefused::RailDown(rail)) };
        // The address of a peer that has not sent anything is unknown: the datagram is lost, as any may be.
        let Some(address) = address(peer) else { return Ok(()) };
        let node = U32::new(self.node.to_code());
        let prefix = PrefixBytes { magic: MAGIC, version: VERSION, rail: rail as u8, node };
        if it.outgoing.push(&it.socket, address, &[prefix.as_bytes(), head], payload, &mut self.stats) {
            Ok(())
        } else {
            Err(DatagramRefused::Full)
        }
    }

    fn sleep(&mut self, timeout: Option<Timespec>) {
        let files = self.rails.iter().map(|rail| {
            let room = if rail.outgoing.is_full { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(rail.socket.as_fd(), PollFlags::IN | room)
        });
        // Errors of a socket show when it is used.
        self.bell.sleep(files.collect(), timeout.as_ref(), &mut self.stats);
    }
}

/// Returns whether two addresses belong to the same socket; IPv6 scope and flow do not count.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.ip() == other.ip() && one.port() == other.port()
}

/// Sets a socket up; how many bytes of datagrams it holds.
fn set_up(socket: &UdpSocket, settings: &UdpSettings) -> std::io::Result<usize> {
    socket.set_nonblocking(true)?;
    let options = SockRef::from(socket);
    if let Some(bytes) = settings.send_buffer {
        options.set_send_buffer_size(bytes.as_usize())?;
    }
    if let Some(bytes) = settings.receive_buffer {
        // Beyond the system's maximum only where the process may; else as much as there is.
        let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, bytes.as_usize());
        if forced.is_err() {
            options.set_recv_buffer_size(bytes.as_usize())?;
        }
    }
    // The kernel reports twice the requested size, and charges for its own structures.
    Ok(options.recv_buffer_size()? / 2 / KERNEL_OVERHEAD)
}

impl DatagramPort for UdpPort {
    fn node(&self) -> NodeId {
        self.node
    }

    fn rails(&self) -> usize {
        self.rails.len()
    }

    fn max_datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    fn wire_overhead_bytes(&self) -> usize {
        self.wire_overhead_bytes
    }

    fn receive_room_bytes(&self) -> usize {
        self.receive_room
    }

    fn send(
        &mut self,
        to: NodeId,
        rail: usize,
        head: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), DatagramRefused> {
        self.put(to, rail, |peer| peer.addresses[rail], head, payload)
    }

    fn send_aside(&mut self, to: NodeId, rail: usize, head: &[u8]) -> Result<(), DatagramRefused> {
        self.put(to, rail, |peer| peer.asides[rail], head, &[])
    }

    fn note_aside(&mut self) {
        if let Some(Source { peer, rail, address }) = self.last {
            self.peers[peer].asides[rail] = Some(address);
        }
    }

    fn take_home(&mut self) {
        if let Some(Source { peer, rail, address }) = self.last
            && !self.peers[peer].is_fixed
        {
            self.peers[peer].addresses[rail] = Some(address);
        }
    }

    // Only `take_home` sets an address, so nothing uncertain is stored.
    fn leave_home(&mut self, _: NodeId) {}

    fn has_own_addresses(&self) -> bool {
        true
    }

    fn flush(&mut self) {
        for rail in &mut self.rails {
            rail.outgoing.flush(&rail.socket, &mut self.stats);
        }
    }

    fn poll(&mut self) -> Option<Datagram<'_>> {
        while self.at < self.rails.len() {
            let rail = self.at;
            if let Some(slot) = self.rails[rail].incoming.next() {
                let Some((from, is_home)) = self.sender(rail, slot) else { continue };
                let (_, bytes) = self.rails[rail].incoming.slot(slot);
                return Some(Datagram { from, rail, is_home, bytes: &bytes[PREFIX_BYTES..] });
            }
            // Each rail is read once in a round.
            if self.was_read {
                self.was_read = false;
                self.at += 1;
            } else {
                let it = &mut self.rails[rail];
                self.has_more |= it.incoming.fill(&it.socket, &mut self.stats);
                self.was_read = true;
            }
        }
        self.at = 0;
        None
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        let rung = self.bell.answer();
        let in_round = self.at > 0 || self.was_read;
        if std::mem::take(&mut self.has_more) || rung || in_round || timeout == Nanos::ZERO {
            return;
        }
        if self.bell.lie_down() {
            self.sleep(Timespec::try_from(timeout.min(LONGEST_SLEEP).to_std()).ok());
        }
        self.bell.answer();
    }

    fn waker(&self) -> Waker {
        Waker::from(self.bell.clone())
    }

    fn stats(&self) -> LinkStats {
        self.stats
    }
}
