//! Liveness of a peer, judged by signs of life and never by its progress.
//!
//! There are two kinds of signs. A **message** of the peer, heartbeats included, shows that it lives and runs. Its
//! **link** shows the knowledge of the kernel or the transport: while it is up, the peer's process exists, even if it
//! is stopped, swapped out or starved of processor time; when it goes down, the process has ended or cannot be reached.
//! A driver reports links ([`LinkStatus`]); without such reports, only messages count.
//!
//! | link | the peer is given up |
//! |---|---|
//! | down | after [`Patience::absence`]: it may return, but nothing indicates that it will |
//! | up | after silence for [`Patience::silence`]: a process that was stopped for that long does not return without
//! help |
//! | unknown | as with a link that is up; a peer that has never sent a message, as with one that is down |

use serde::{Deserialize, Serialize};
use sheaf_wire::{Nanos, Timestamp};

/// State of the link to a peer, as the driver of a role reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkStatus {
    /// The peer's process exists and can be reached.
    Up,
    /// The connection is closed or broken.
    Down,
}

/// Limits after which a peer is given up. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience {
    /// Time that a peer whose link is down may take to return.
    pub absence: Nanos,
    /// Time for which a peer whose link is up may be silent.
    pub silence: Nanos,
}

impl Patience {
    /// Never gives a peer up: for a node whose end comes with that of the peer in another way.
    pub const UNLIMITED: Self = Self { absence: Nanos::MAX, silence: Nanos::MAX };
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum LinkState {
    #[default]
    Unknown,
    Up,
    DownSince(Timestamp),
}

/// Signs of life of a peer. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Liveness {
    /// Time of the last sign of life: a message, or a link that came up.
    sign_at: Option<Timestamp>,
    link: LinkState,
}

impl Liveness {
    /// Records a message of the peer.
    #[inline]
    pub fn note_message(&mut self, now: Timestamp) {
        self.sign_at = Some(now);
        if matches!(self.link, LinkState::DownSince(_)) {
            self.link = LinkState::Unknown;
        }
    }

    /// Records the state of the link to the peer.
    pub fn note_link(&mut self, now: Timestamp, link: LinkStatus) {
        self.link = match (link, self.link) {
            (LinkStatus::Up, _) => {
                self.sign_at = Some(now);
                LinkState::Up
            }
            (LinkStatus::Down, down @ LinkState::DownSince(_)) => down,
            (LinkStatus::Down, LinkState::Unknown | LinkState::Up) => LinkState::DownSince(now),
        };
    }

    /// Restarts the peer's timeouts, because this node was stalled itself and has not polled.
    pub fn excuse(&mut self, now: Timestamp) {
        self.sign_at = self.sign_at.max(self.sign_at.map(|_| now));
        if let LinkState::DownSince(since) = &mut self.link {
            *since = now.max(*since);
        }
    }

    /// Extends the peer's timeouts by `stall`, the time for which this node was stalled itself and has not polled. A node that is
    /// often stalled for a short time still finds a peer silent, which it would not if each stall restarted the timeouts.
    pub fn extend(&mut self, now: Timestamp, stall: Nanos) {
        self.excuse(now.min(self.quiet_since(now) + stall));
    }

    /// Returns the time of the last sign of life.
    #[must_use]
    pub fn sign_at(&self) -> Option<Timestamp> {
        self.sign_at
    }

    /// Returns whether the link is known to be up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.link == LinkState::Up
    }

    /// Returns whether the link is known to be down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        matches!(self.link, LinkState::DownSince(_))
    }

    /// Returns the time since which there has been no sign of the peer. `born` is the time when waiting for it began.
    #[must_use]
    pub fn quiet_since(&self, born: Timestamp) -> Timestamp {
        match self.link {
            LinkState::DownSince(since) => since,
            LinkState::Unknown | LinkState::Up => self.sign_at.unwrap_or(born),
        }
    }

    /// Returns the time at which the peer is given up without a further sign. `born` is the time when waiting for it began.
    #[must_use]
    pub fn lost_at(&self, born: Timestamp, patience: Patience) -> Timestamp {
        let limit = match (self.link, self.sign_at) {
            (LinkState::DownSince(_), _) | (LinkState::Unknown, None) => patience.absence,
            (LinkState::Unknown | LinkState::Up, _) => patience.silence,
        };
        Timestamp(self.quiet_since(born).0.saturating_add(limit.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { absence: Nanos(3), silence: Nanos(60) };
    const BORN: Timestamp = Timestamp(100);

    fn lost_at(liveness: &Liveness) -> u64 {
        liveness.lost_at(BORN, PATIENCE).0
    }

    #[test]
    fn a_peer_whose_link_is_up_has_the_long_timeout_and_one_whose_link_is_down_the_short_one() {
        let mut peer = Liveness::default();
        assert_eq!(lost_at(&peer), 103, "the peer never appeared");
        peer.note_link(Timestamp(110), LinkStatus::Up);
        assert_eq!(lost_at(&peer), 170, "it lives, but has not sent a message yet");
        peer.note_message(Timestamp(120));
        assert_eq!(lost_at(&peer), 180);
        peer.note_link(Timestamp(150), LinkStatus::Down);
        assert_eq!(lost_at(&peer), 153);
        peer.note_link(Timestamp(152), LinkStatus::Down);
        assert_eq!(lost_at(&peer), 153, "it has been down since");
        peer.note_link(Timestamp(152), LinkStatus::Up);
        assert_eq!(lost_at(&peer), 212);
    }

    #[test]
    fn unlimited_patience_gives_nobody_up() {
        let mut peer = Liveness::default();
        assert_eq!(peer.lost_at(BORN, Patience::UNLIMITED), Timestamp(u64::MAX), "it has never appeared");
        peer.note_link(Timestamp(110), LinkStatus::Down);
        assert_eq!(peer.lost_at(BORN, Patience::UNLIMITED), Timestamp(u64::MAX));
    }

    #[test]
    fn without_links_only_messages_count() {
        let mut peer = Liveness::default();
        peer.note_message(Timestamp(120));
        assert_eq!(lost_at(&peer), 180);
        peer.note_link(Timestamp(130), LinkStatus::Down);
        peer.note_message(Timestamp(131));
        assert_eq!(lost_at(&peer), 191, "a message is a sign of life even after the link went down");
    }

    #[test]
    fn a_node_that_was_stalled_itself_restarts_the_timeouts() {
        let mut peer = Liveness::default();
        peer.note_message(Timestamp(120));
        peer.excuse(Timestamp(170));
        assert_eq!(lost_at(&peer), 230);
        peer.note_link(Timestamp(180), LinkStatus::Down);
        peer.excuse(Timestamp(190));
        assert_eq!(lost_at(&peer), 193);
        assert_eq!(peer.quiet_since(BORN), Timestamp(190));
    }

    #[test]
    fn a_node_that_is_often_stalled_still_finds_a_peer_silent() {
        let mut peer = Liveness::default();
        peer.extend(Timestamp(101), Nanos(1));
        assert_eq!(lost_at(&peer), 103, "the peer never appeared");
        peer.note_message(Timestamp(120));
        for now in (130..=240).step_by(10) {
            peer.extend(Timestamp(now), Nanos(5));
        }
        assert_eq!(lost_at(&peer), 240, "the node was stalled half of the time");
        peer.extend(Timestamp(250), Nanos(1_000));
        assert_eq!(lost_at(&peer), 310, "as if the last sign came just now");
        peer.note_link(Timestamp(260), LinkStatus::Down);
        peer.extend(Timestamp(262), Nanos(1));
        assert_eq!(lost_at(&peer), 264);
    }
}
