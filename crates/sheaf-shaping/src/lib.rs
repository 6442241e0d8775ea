//! Traffic shaping at a sender: destination and time of the next bytes ([`Shaper`]).
//!
//! | module | holds |
//! |---|---|
//! | this | [`Shaper`], which a sender asks, and its configuration |
//! | [`pace`] | a line's rate: a token bucket of bytes |
//! | [`fair`] | senders without slots: waiting peers get equal shares of bytes in turn |
//! | [`slot_clock`] | the event manager's clock, which defines synchronised slots |
//! | [`lanes`] | whole messages that wait for their turn |
//! | [`barrel`] | the barrel shifter: in slot *t* source *i* serves builder *(i + t) mod n* |
//!
//! A shaper does no I/O. Its caller states how much waits for each peer ([`Shaper::offer`]), asks which peer may be sent
//! how much now ([`Shaper::turn`]), and reports what it sent ([`Shaper::spent`]). It counts bytes on the wire, and
//! works for datagrams and whole messages alike.
//!
//! ```
//! # use sheaf_shaping::{Policy, Shaper, ShaperConfig};
//! # use sheaf_wire::{ByteCount, ByteRate, Timestamp};
//! let config = ShaperConfig {
//!     line_rate: ByteRate::from_bits(1_000_000_000),
//!     burst: ByteCount::kib(18),
//!     unit: ByteCount(1_538),
//!     policy: Policy::Unshaped,
//! };
//! let now = Timestamp(0);
//! let mut shaper = Shaper::new(config, 2, 0);
//! shaper.offer(now, 1, ByteCount(2_000));
//! while let Some(turn) = shaper.turn(now) {
//!     // Datagrams to `turn.peer` while they fit into `turn.bytes`, the first in any case; for each:
//!     shaper.spent(now, turn.peer, ByteCount(1_538));
//!     // What still waits there:
//!     shaper.offer(now, turn.peer, ByteCount(0));
//! }
//! // Nobody waits, or the line is busy until:
//! assert_eq!(shaper.poll_timeout(), None);
//! ```
//!
//! Deliberately not part of this crate: the shaping policy of a run, which is set by the roles' options and their
//! driver.

#![forbid(unsafe_code)]

pub mod barrel;
pub mod fair;
pub mod lanes;
pub mod pace;
pub mod slot_clock;

use barrel::Barrel;
pub use barrel::{BarrelConfig, SlotSchedule};
use fair::Fair;
pub use lanes::Lanes;
use pace::Pace;
use sheaf_wire::{ByteCount, ByteRate, Nanos, Timestamp};
pub use slot_clock::SlotClock;

/// Shaping of a sender's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperConfig {
    /// Rate of the sender's line, all rails together, as bytes on the wire; no pacing if `None`.
    pub line_rate: Option<ByteRate>,
    /// Bytes that may leave at once after a pause, beyond the rate. At least `unit`.
    pub burst: ByteCount,
    /// The largest piece that the user sends, on the wire: a datagram, or a message. A turn is not given before the whole
    /// of it may go, unless less waits.
    pub unit: ByteCount,
    /// Order in which peers are served.
    pub policy: Policy,
}

/// Order in which waiting peers are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All in turn, in fair shares of bytes.
    Unshaped,
    /// The barrel shifter.
    Barrel(BarrelConfig),
}

/// Permission to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The peer, as numbered by the user.
    pub peer: usize,
    /// Bytes on the wire that may be sent to it. The sender sends pieces while they fit, and the first in any case, so
    /// that a turn always makes progress; an excess is taken from later turns.
    pub bytes: ByteCount,
    /// The largest piece that may go: a unit, or less where what is left of a slot must not be exceeded and the sender cuts
    /// pieces to it ([`Shaper::cutting_from`]).
    pub piece: ByteCount,
}

/// State of a peer.
#[derive(Clone, Copy, Debug, Default)]
struct PeerTraffic {
    /// Bytes that wait for it, as last offered.
    waiting: u64,
    /// It takes nothing now.
    is_pressed: bool,
    /// It is not there.
    is_lost: bool,
}

impl PeerTraffic {
    fn is_served(&self) -> bool {
        self.waiting > 0 && !self.is_pressed && !self.is_lost
    }
}

/// See the [module](self). One for an endpoint.
#[derive(Clone, Debug)]
pub struct Shaper {
    unit: u64,
    peers: Vec<PeerTraffic>,
    /// Peers in state `is_served`.
    served: usize,
    pace: Option<Pace>,
    fair: Fair,
    /// The barrel, where that is the policy, and whether it turns.
    barrel: Option<Barrel>,
    is_turning: bool,
    wake_at: Option<Timestamp>,
}

impl Shaper {
    /// A shaper of the traffic to `peers` peers. Where the policy is the barrel, peers below its number of builders are
    /// these builders, in order, and those above are served before all others whatever the slot: the event manager.
    /// `me` is the sender's place in the barrel.
    #[must_use]
    pub fn new(config: ShaperConfig, peers: usize, me: usize) -> Self {
        let unit = config.unit.0.max(1);
        let barrel = match config.policy {
            Policy::Unshaped => None,
            Policy::Barrel(barrel) => Some(Barrel::new(barrel, config.line_rate, unit, me)),
        };
        Self {
            unit,
            peers: vec![PeerTraffic::default(); peers],
            served: 0,
            pace: config.line_rate.map(|rate| Pace::new(rate, ByteCount(config.burst.0.max(unit)))),
            fair: Fair::new(peers, unit),
            is_turning: barrel.is_some(),
            barrel,
            wake_at: None,
        }
    }

    /// Makes a shaper for a user that cuts its pieces to the rest of a synchronised slot, down to pieces of `least`
    /// bytes on the wire. Otherwise a piece that does not fit as a whole waits for the next turn, and the rest of the
    /// slot is unused.
    #[must_use]
    pub fn cutting_from(mut self, least: ByteCount) -> Self {
        if let Some(barrel) = &mut self.barrel {
            barrel.cut_from(least.0);
        }
        self
    }

    /// Sets the number of bytes that wait for `peer`, replacing the earlier value: to be called whenever it changes,
    /// with 0 when nothing is left. With or without overhead: it matters only whether it is less than a unit.
    pub fn offer(&mut self, now: Timestamp, peer: usize, waiting: ByteCount) {
        self.update(now, peer, |state| state.waiting = waiting.0);
    }

    /// Takes note that the link to `peer` takes nothing now (`pressed`), or takes something again.
    pub fn back_pressure(&mut self, now: Timestamp, peer: usize, pressed: bool) {
        self.update(now, peer, |state| state.is_pressed = pressed);
    }

    /// Takes note that `peer` is not there: nothing is sent to it, and its slots stay empty.
    pub fn peer_lost(&mut self, now: Timestamp, peer: usize) {
        self.update(now, peer, |state| state.is_lost = true);
    }

    /// Records that `peer` has returned.
    pub fn peer_back(&mut self, now: Timestamp, peer: usize) {
        self.update(now, peer, |state| state.is_lost = false);
    }

    /// Starts or stops the barrel shifter: while it is stopped, all peers are served in fair shares, and the builders'
    /// credit protects the switch. Has no effect unless the policy is the barrel.
    pub fn turn_barrel(&mut self, now: Timestamp, turning: bool) {
        if let Some(barrel) = &mut self.barrel
            && self.is_turning != turning
        {
            self.is_turning = turning;
            barrel.begin(now);
            self.wake_at = None;
        }
    }

    /// Sets the start of a synchronised barrel's slots, on this node's clock.
    pub fn set_epoch(&mut self, epoch: Timestamp) {
        if let Some(barrel) = &mut self.barrel {
            barrel.set_epoch(epoch);
        }
    }

    /// Returns whether a barrel shifter is running here.
    #[must_use]
    pub fn is_turning(&self) -> bool {
        self.is_turning
    }

    /// Returns which peer may be sent how much now. `None`: none before [`Self::poll_timeout`], or the next call that
    /// changes something.
    pub fn turn(&mut self, now: Timestamp) -> Option<Turn> {
        self.wake_at = None;
        if self.served == 0 {
            return None;
        }
        let room = match &self.pace {
            None => u64::MAX,
            Some(pace) => pace.room(now),
        };
        let unit = self.unit;
        let choice = match &mut self.barrel {
            Some(barrel) if self.is_turning => {
                let builders = barrel.builders();
                let express = (builders..self.peers.len()).find(|peer| self.peers[*peer].is_served());
                match express {
                    Some(peer) => Ok((peer, unit, unit)),
                    None => barrel
                        .choose(now, |peer| {
                            let peer = &self.peers[peer];
                            barrel::Waiting {
                                bytes: if peer.is_lost { 0 } else { peer.waiting },
                                is_pressed: peer.is_pressed,
                            }
                        })
                        .map(|(peer, bytes)| (peer, bytes, barrel.largest_piece(bytes))),
                }
            }
            _ => {
                let peers = &self.peers;
                self.fair
                    .choose(|peer| if peers[peer].is_served() { peers[peer].waiting } else { 0 })
                    .map(|(peer, bytes)| (peer, bytes, unit))
                    .ok_or(None)
            }
        };
        match choice {
            Err(wake_at) => {
                self.wake_at = wake_at;
                None
            }
            Ok((peer, bytes, piece)) => {
                let needed = self.peers[peer].waiting.min(piece);
                if room < needed {
                    self.wake_at = self.pace.as_ref().map(|pace| pace.has_room_at(ByteCount(needed)));
                    return None;
                }
                Some(Turn { peer, bytes: ByteCount(bytes.min(room)), piece: ByteCount(piece) })
            }
        }
    }

    /// From when on a whole unit may go that needs no turn, if nothing goes before. `None`: now, or the line has no rate.
    #[must_use]
    pub fn line_has_room_at(&self, now: Timestamp) -> Option<Timestamp> {
        let at = self.pace.as_ref()?.has_room_at(ByteCount(self.unit));
        (at > now).then_some(at)
    }

    /// Records the bytes that were sent to `peer`, on the wire. Data sent without a turn, such as acknowledgements,
    /// count too: they use the line.
    pub fn spent(&mut self, now: Timestamp, peer: usize, wire: ByteCount) {
        if let Some(pace) = &mut self.pace {
            pace.take(now, wire);
        }
        match &mut self.barrel {
            Some(barrel) if self.is_turning => barrel.spent(now, peer, wire.0),
            _ => self.fair.spent(peer, wire.0),
        }
    }

    /// Returns when [`Self::turn`] will return a peer, if it returned none and nothing changes. `None`: not without a
    /// change.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.wake_at
    }

    /// Slots of the barrel that have passed, and how many of them carried nothing.
    #[must_use]
    pub fn slots_passed(&self) -> (u64, u64) {
        self.barrel.as_ref().map_or((0, 0), Barrel::slots_passed)
    }

    fn update(&mut self, now: Timestamp, peer: usize, change: impl FnOnce(&mut PeerTraffic)) {
        let state = &mut self.peers[peer];
        let before = state.is_served();
        change(state);
        match (before, state.is_served()) {
            (false, true) => {
                if self.served == 0
                    && let Some(barrel) = &mut self.barrel
                {
                    barrel.catch_up(now);
                }
                self.served += 1;
                self.fair.join(peer);
            }
            (true, false) => {
                self.served -= 1;
            }
            _ => {}
        }
    }
}

/// Returns the duration of a slot: the time of a block at the rate.
fn block_time(rate: ByteRate, block: u64) -> Nanos {
    rate.time_for(ByteCount(block))
}

#[cfg(test)]
mod tests;
