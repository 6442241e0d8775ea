//! Traffic shaping at a sender: to whom the next bytes go, and when ([`Shaper`]).
//!
//! | module | holds |
//! |---|---|
//! | this | [`Shaper`], which a sender asks, and its configuration |
//! | [`pace`] | a line's rate, kept by whoever sends: a bucket of bytes |
//! | [`fair`] | senders without slots: every peer that waits gets its share of bytes in turn |
//! | [`slot_clock`] | the event manager's clock, by which synchronised slots begin |
//! | [`lanes`] | whole messages that wait for their turn |
//! | [`barrel`] | the barrel shifter: in slot *t* source *i* serves builder *(i + t) mod n* |
//!
//! A shaper has no input or output of its own. It is told what waits for whom ([`Shaper::offer`]), answers who may send
//! how much now ([`Shaper::turn`]), and is told what went ([`Shaper::spent`]). It counts bytes as they occupy the wire,
//! and does not care whether its user sends datagrams or whole messages.
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
//! Deliberately not part of this crate: who shapes what in a run, which is decided by the roles' options and their driver.

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
    /// Who is served.
    pub policy: Policy,
}

/// Who of those for whom something waits is served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All in turn, in fair shares of bytes.
    Unshaped,
    /// The barrel shifter.
    Barrel(BarrelConfig),
}

/// Who may send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The peer, as numbered by the user.
    pub peer: usize,
    /// Bytes on the wire that may go to it. The sender sends pieces as long as they fit, and the first in any case, so
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

    /// A shaper for a user that cuts its pieces to what is left of a synchronised slot, down to pieces of `least` bytes on the
    /// wire. Without, what does not fit as a whole waits for the next turn, and the rest of the slot is lost.
    #[must_use]
    pub fn cutting_from(mut self, least: ByteCount) -> Self {
        if let Some(barrel) = &mut self.barrel {
            barrel.cut_from(least.0);
        }
        self
    }

    /// Takes note that `waiting` bytes wait for `peer` now, in place of what was said before: to be called whenever that
    /// changes, with 0 when nothing is left. Counted with or without overhead: it matters only whether it is less than
    /// a unit.
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

    /// Takes note that `peer` is there again.
    pub fn peer_back(&mut self, now: Timestamp, peer: usize) {
        self.update(now, peer, |state| state.is_lost = false);
    }

    /// Lets the barrel turn, or stops it: then all are served in fair shares, and what keeps a switch from overflowing is the
    /// builders' credit. Without effect where the policy is not the barrel.
    pub fn turn_barrel(&mut self, now: Timestamp, turning: bool) {
        if let Some(barrel) = &mut self.barrel
            && self.is_turning != turning
        {
            self.is_turning = turning;
            barrel.begin(now);
            self.wake_at = None;
        }
    }

    /// Where the barrel is synchronised: from when its slots are counted, on this node's clock.
    pub fn set_epoch(&mut self, epoch: Timestamp) {
        if let Some(barrel) = &mut self.barrel {
            barrel.set_epoch(epoch);
        }
    }

    /// Whether a barrel turns here now.
    #[must_use]
    pub fn is_turning(&self) -> bool {
        self.is_turning
    }

    /// Who may send now, and how much. `None`: nobody before [`Self::poll_timeout`], or the next call that changes something.
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

    /// Takes note of what was sent to `peer`, in bytes on the wire. What goes without a turn, an acknowledgement, is noted
    /// too: it takes from the line.
    pub fn spent(&mut self, now: Timestamp, peer: usize, wire: ByteCount) {
        if let Some(pace) = &mut self.pace {
            pace.take(now, wire);
        }
        match &mut self.barrel {
            Some(barrel) if self.is_turning => barrel.spent(now, peer, wire.0),
            _ => self.fair.spent(peer, wire.0),
        }
    }

    /// When [`Self::turn`] will have somebody, if it had nobody and nothing changes. `None`: not without a change.
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

/// The time that a slot is open for a block: what the block takes at the rate.
fn block_time(rate: ByteRate, block: u64) -> Nanos {
    rate.time_for(ByteCount(block))
}

#[cfg(test)]
mod tests;
