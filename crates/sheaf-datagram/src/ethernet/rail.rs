//! A rail: an interface, the way through it, and where the peers are on that network.

use super::interface::Interface;
use super::packet::PacketWire;
use super::settings::{Backend, EthernetError, EthernetOptions};
use super::wire::{Flushed, Wire};
use super::xdp::{Copying, XdpWire};
use sheaf_transport::LinkStats;
use sheaf_wire::ethernet::MacAddress;
use std::time::{Duration, Instant};

/// Interval at which an interface that failed is checked for recovery, and a congested one for its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// First interval between requests for a peer's address, and the longest; it doubles. All nodes receive these requests,
/// and a starting peer announces itself: they are for the case that the announcement was lost.
const ASK_FIRST: Duration = Duration::from_millis(1);
const ASK_LAST: Duration = Duration::from_millis(256);

/// Address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerAddress {
    /// Not known.
    Unknown(Asked),
    /// Source of its last frame.
    Learned(MacAddress),
    /// Source of a frame that is proven to be its own.
    Sure(MacAddress),
    /// Address in the configuration.
    Given(MacAddress),
}

/// When all were last asked where a peer is, if they were, and the pause until they are asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    at: Option<Instant>,
    pause: Duration,
}

/// Destination of a frame for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// There.
    To(MacAddress),
    /// Nowhere: that is not known, and it is time to ask.
    Ask,
    /// Nowhere: that is not known, and was asked a moment ago.
    Wait,
}

/// A rail.
#[derive(Debug)]
pub(super) struct Rail {
    pub(super) interface: Interface,
    pub(super) wire: Box<dyn Wire>,
    /// By the peer's place in the list.
    pub(super) peers: Vec<PeerAddress>,
    /// Source of the last request of a node that may be the peer, in the same order.
    pub(super) asides: Vec<Option<MacAddress>>,
    /// Whether the interface works, as far as known.
    pub(super) works: bool,
    /// When that was asked last.
    looked: Option<Instant>,
    /// Whether the last flush left frames.
    pub(super) congested: bool,
    /// Reason for this backend, for people.
    pub(super) reason: String,
}

impl Rail {
    pub(super) fn open(
        options: &EthernetOptions,
        rail: usize,
        interface: Interface,
        mtu: usize,
    ) -> Result<Self, EthernetError> {
        let (wire, reason) = open_wire(options, &interface, mtu)?;
        let place = |addresses: &[MacAddress]| {
            addresses.get(rail).map_or(PeerAddress::Unknown(Asked { at: None, pause: ASK_FIRST }), |at| {
                PeerAddress::Given(*at)
            })
        };
        let peers = options.peers.iter().map(|peer| place(&peer.addresses)).collect();
        let asides = vec![None; options.peers.len()];
        Ok(Self { interface, wire, peers, asides, works: true, looked: None, congested: false, reason })
    }

    /// Returns the destination of a frame for a peer now.
    pub(super) fn way(&mut self, peer: usize) -> Way {
        let asked = match &mut self.peers[peer] {
            PeerAddress::Learned(address) | PeerAddress::Sure(address) | PeerAddress::Given(address) => {
                return Way::To(*address);
            }
            PeerAddress::Unknown(asked) => asked,
        };
        let now = Instant::now();
        if let Some(at) = asked.at {
            if now.duration_since(at) < asked.pause {
                return Way::Wait;
            }
            asked.pause = ASK_LAST.min(2 * asked.pause);
        }
        asked.at = Some(now);
        Way::Ask
    }

    /// Returns whether datagrams to a peer are sent to this address.
    pub(super) fn is_home(&self, peer: usize, address: MacAddress) -> bool {
        match &self.peers[peer] {
            PeerAddress::Learned(home) | PeerAddress::Sure(home) | PeerAddress::Given(home) => {
                *home == address
            }
            PeerAddress::Unknown(_) => false,
        }
    }

    /// The peer is surely there.
    pub(super) fn take_home(&mut self, peer: usize, address: MacAddress) {
        if !matches!(self.peers[peer], PeerAddress::Given(_)) {
            self.peers[peer] = PeerAddress::Sure(address);
        }
    }

    /// The peer may be elsewhere from now on.
    pub(super) fn leave_home(&mut self, peer: usize) {
        if let PeerAddress::Sure(address) = self.peers[peer] {
            self.peers[peer] = PeerAddress::Learned(address);
        }
    }

    /// Takes note of where a frame of a peer came from. `false`: it cannot have come from there.
    pub(super) fn learn(&mut self, peer: usize, source: MacAddress) -> bool {
        match &mut self.peers[peer] {
            PeerAddress::Given(address) => *address == source,
            // Any node may claim to be the peer.
            PeerAddress::Sure(_) => source.is_of_one_interface(),
            place @ (PeerAddress::Learned(_) | PeerAddress::Unknown(_)) => {
                *place = PeerAddress::Learned(source);
                source.is_of_one_interface()
            }
        }
    }

    /// Makes the kernel send the queued frames.
    pub(super) fn flush(&mut self, stats: &mut LinkStats) {
        match self.wire.flush(stats) {
            Flushed::All => self.congested = false,
            Flushed::Refused => self.look(stats, true),
            Flushed::Part => {
                self.congested = true;
                // A driver without a cable may report forever that it is busy.
                self.look(stats, false);
            }
        }
    }

    /// Finds out whether the interface works, if it is time to (`at_once`: it is).
    pub(super) fn look(&mut self, stats: &mut LinkStats, at_once: bool) {
        let now = Instant::now();
        if !at_once && self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        stats.system_calls += 2;
        let works = self.interface.works();
        if works != self.works {
            self.works = works;
            stats.rails_up += u64::from(works);
            stats.rails_down += u64::from(!works);
        }
    }
}

/// Opens an interface with the configured backend, or the best one. The text is the reason for it.
fn open_wire(
    options: &EthernetOptions,
    interface: &Interface,
    mtu: usize,
) -> Result<(Box<dyn Wire>, String), EthernetError> {
    let settings = &options.settings;
    let packet = || PacketWire::open(interface, options.node, settings.ethertype, mtu, settings.frame_slots);
    let xdp = |copying| XdpWire::open(interface, settings, mtu, copying);
    let configured = || "configured".to_owned();
    match settings.backend {
        Backend::Packet => Ok((Box::new(packet()?), configured())),
        Backend::Xdp => Ok((Box::new(xdp(Copying::Allowed)?), configured())),
        Backend::Auto => match xdp(Copying::Refused) {
            Ok(wire) => Ok((Box::new(wire), "the driver hands over frames without a copy".to_owned())),
            // If the program of another node is attached there, a packet socket would not receive frames for this one.
            Err(error @ EthernetError::InUse { .. }) => Err(error),
            Err(error) => Ok((Box::new(packet()?), error.to_string())),
        },
    }
}
