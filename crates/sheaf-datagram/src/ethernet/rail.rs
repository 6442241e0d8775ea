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

/// The first pause between questions where a peer is, and the longest; it doubles. All nodes get these questions, and a
/// peer that starts says by itself where it is: they are for the case that it was not heard.
const ASK_FIRST: Duration = Duration::from_millis(1);
const ASK_LAST: Duration = Duration::from_millis(256);

/// Where a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not known.
    Unknown(Asked),
    /// Where its last frame came from.
    Learned(MacAddress),
    /// Where a frame came from that is surely its.
    Sure(MacAddress),
    /// Where the configuration says.
    Given(MacAddress),
}

/// When all were last asked where a peer is, if they were, and the pause until they are asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    at: Option<Instant>,
    pause: Duration,
}

/// Where a frame for a peer goes.
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
    pub(super) peers: Vec<Place>,
    /// From where somebody asked who may be the peer, in the same order.
    pub(super) asides: Vec<Option<MacAddress>>,
    /// Whether the interface works, as far as is known.
    pub(super) works: bool,
    /// When that was asked last.
    looked: Option<Instant>,
    /// Whether the last flush left something.
    pub(super) congested: bool,
    /// Why this way was chosen, for people.
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
            addresses
                .get(rail)
                .map_or(Place::Unknown(Asked { at: None, pause: ASK_FIRST }), |at| Place::Given(*at))
        };
        let peers = options.peers.iter().map(|peer| place(&peer.addresses)).collect();
        let asides = vec![None; options.peers.len()];
        Ok(Self { interface, wire, peers, asides, works: true, looked: None, congested: false, reason })
    }

    /// Where a frame for a peer goes now.
    pub(super) fn way(&mut self, peer: usize) -> Way {
        let asked = match &mut self.peers[peer] {
            Place::Learned(address) | Place::Sure(address) | Place::Given(address) => {
                return Way::To(*address);
            }
            Place::Unknown(asked) => asked,
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

    /// Whether datagrams to a peer go there.
    pub(super) fn is_home(&self, peer: usize, address: MacAddress) -> bool {
        match &self.peers[peer] {
            Place::Learned(home) | Place::Sure(home) | Place::Given(home) => *home == address,
            Place::Unknown(_) => false,
        }
    }

    /// The peer is surely there.
    pub(super) fn take_home(&mut self, peer: usize, address: MacAddress) {
        if !matches!(self.peers[peer], Place::Given(_)) {
            self.peers[peer] = Place::Sure(address);
        }
    }

    /// The peer may be elsewhere from now on.
    pub(super) fn leave_home(&mut self, peer: usize) {
        if let Place::Sure(address) = self.peers[peer] {
            self.peers[peer] = Place::Learned(address);
        }
    }

    /// Takes note of where a frame of a peer came from. `false`: it cannot have come from there.
    pub(super) fn learn(&mut self, peer: usize, source: MacAddress) -> bool {
        match &mut self.peers[peer] {
            Place::Given(address) => *address == source,
            // Anybody may say that it is the peer.
            Place::Sure(_) => source.is_of_one_interface(),
            place @ (Place::Learned(_) | Place::Unknown(_)) => {
                *place = Place::Learned(source);
                source.is_of_one_interface()
            }
        }
    }

    /// Has the kernel send what was put in.
    pub(super) fn flush(&mut self, stats: &mut LinkStats) {
        match self.wire.flush(stats) {
            Flushed::All => self.congested = false,
            Flushed::Refused => self.look(stats, true),
            Flushed::Part => {
                self.congested = true;
                // A driver without a cable may say that it is busy, for ever.
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

/// Opens an interface in the way that is configured, or the best one. The text says why that one.
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
            // With a program of somebody else's node there, frames for this one would not come through to a packet socket.
            Err(error @ EthernetError::InUse { .. }) => Err(error),
            Err(error) => Ok((Box::new(packet()?), error.to_string())),
        },
    }
}
