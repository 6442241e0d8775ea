//! Liveness: the signs of life that each node has received from its peers, observed independently.
//!
//! The rules are those of [`sheaf_protocol::liveness`], with and without reported links. The event manager gives up a builder's
//! session only after the configured time without a sign of life, and no later than its next check. A builder gives up a readout
//! unit only while it receives messages of others.

use crate::options::Options;
use crate::violation::{Violation, violation};
use sheaf_protocol::liveness::{LinkStatus, Patience};
use sheaf_wire::{Nanos, NodeId, Role, SessionId, Timestamp};
use std::collections::BTreeMap;

/// State of a link as reported to the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Link {
    #[default]
    Unknown,
    Up,
    DownSince(Timestamp),
}

/// Signs of life that a node has received from a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    /// Latest session that sent a message, and latest one that has ended.
    session: SessionId,
    over: SessionId,
    last: Option<Timestamp>,
    link: Link,
    /// Whether it counted as lost by its signs of life, while messages of others were received.
    was_lost: bool,
}

impl Signs {
    fn quiet_since(&self, born: Timestamp) -> Timestamp {
        match self.link {
            Link::DownSince(since) => since,
            Link::Unknown | Link::Up => self.last.unwrap_or(born),
        }
    }

    fn lost_at(&self, born: Timestamp, patience: Patience) -> Timestamp {
        let is_absent = match self.link {
            Link::DownSince(_) => true,
            Link::Unknown => self.last.is_none(),
            Link::Up => false,
        };
        self.quiet_since(born) + if is_absent { patience.absence } else { patience.silence }
    }
}

/// All nodes, as their peers see them.
#[derive(Clone, Debug, Default)]
pub struct LifeRecord {
    /// By observer and peer.
    signs: BTreeMap<(NodeId, NodeId), Signs>,
    /// Begin of the current life of each observer.
    born: BTreeMap<NodeId, Timestamp>,
    /// Time of the event manager's next check for lost peers.
    look_at: Option<Timestamp>,
}

/// Interval between two checks of the event manager.
fn between_looks(options: &Options) -> Nanos {
    Nanos(options.times.patience().absence.0 / 4)
}

impl LifeRecord {
    /// Records the begin of a node's life.
    pub(crate) fn begin(&mut self, now: Timestamp, node: NodeId) {
        self.signs.retain(|(observer, _), _| *observer != node);
        self.born.insert(node, now);
    }

    /// Records the arrival of a message.
    pub(crate) fn see_word(
        &mut self,
        now: Timestamp,
        options: &Options,
        (observer, peer): (NodeId, NodeId),
        session: SessionId,
    ) {
        self.note_loss(now, options, observer, peer);
        let signs = self.signs.entry((observer, peer)).or_default();
        if session >= signs.session && session > signs.over {
            (signs.session, signs.last) = (session, Some(now));
            if matches!(signs.link, Link::DownSince(_)) {
                signs.link = Link::Unknown;
            }
        }
    }

    /// Records a report of a node's link to a peer.
    pub(crate) fn see_link(
        &mut self,
        now: Timestamp,
        options: &Options,
        (observer, peer): (NodeId, NodeId),
        link: LinkStatus,
    ) {
        self.note_loss(now, options, observer, peer);
        let signs = self.signs.entry((observer, peer)).or_default();
        match (link, signs.link) {
            (LinkStatus::Up, _) => (signs.link, signs.last) = (Link::Up, Some(now)),
            (LinkStatus::Down, Link::DownSince(_)) => {}
            (LinkStatus::Down, Link::Unknown | Link::Up) => signs.link = Link::DownSince(now),
        }
    }

    /// Returns the latest session of a peer from which an observer has received a message in its current session.
    pub(crate) fn latest_session(&self, observer: NodeId, peer: NodeId) -> SessionId {
        self.signs.get(&(observer, peer)).copied().unwrap_or_default().session
    }

    /// Simulates that the event manager does anything. Time in which it was stalled itself does not count as silence: its check for lost
    /// peers is overdue then.
    pub(crate) fn see_turn(&mut self, now: Timestamp, options: &Options) {
        let between = between_looks(options);
        let look_at = self.look_at.get_or_insert(Timestamp::ZERO + between);
        if now.since(*look_at) < between {
            return;
        }
        *look_at = now;
        let of_manager = self.signs.range_mut((NodeId::MANAGER, NodeId::MANAGER)..);
        for (_, signs) in of_manager.take_while(|((observer, _), _)| *observer == NodeId::MANAGER) {
            signs.last = signs.last.map(|last| last.max(now));
            if let Link::DownSince(since) = &mut signs.link {
                *since = now.max(*since);
            }
        }
    }

    /// Simulates the event manager's check for lost peers, if it is due.
    pub(crate) fn see_look(&mut self, now: Timestamp, options: &Options) -> bool {
        self.see_turn(now, options);
        let is_due = self.look_at.is_some_and(|look_at| look_at <= now);
        if is_due {
            self.look_at = Some(now + between_looks(options));
        }
        is_due
    }

    /// Returns the sessions of builders that the event manager has met, that are lost, and that it has not given up.
    pub(crate) fn overdue(&self, now: Timestamp, options: &Options) -> Vec<(NodeId, SessionId)> {
        let patience = options.times.patience();
        let is_overdue =
            |signs: &Signs| signs.session > signs.over && signs.lost_at(Timestamp::ZERO, patience) <= now;
        let of_manager = self.signs.range((NodeId::MANAGER, NodeId::MANAGER)..);
        of_manager
            .take_while(|((observer, _), _)| *observer == NodeId::MANAGER)
            .filter(|((_, peer), signs)| peer.role == Role::Builder && is_overdue(signs))
            .map(|((_, peer), signs)| (*peer, signs.session))
            .collect()
    }

    /// Records that the event manager gives up a session of a builder, without a later session or the end of the run as a reason.
    ///
    /// # Errors
    /// If that is too early.
    pub(crate) fn see_given_up(
        &mut self,
        now: Timestamp,
        options: &Options,
        builder: NodeId,
        session: SessionId,
    ) -> Result<(), Violation> {
        let signs = self.signs.entry((NodeId::MANAGER, builder)).or_default();
        signs.over = signs.over.max(session);
        if signs.session > session {
            return Ok(());
        }
        let lost_at = signs.lost_at(Timestamp::ZERO, options.times.patience());
        if now < lost_at {
            let last = signs.last;
            return Err(violation!(
                "{builder}/{session} is given up at {now}, too early: the last sign of it was at {last:?}"
            ));
        }
        Ok(())
    }

    /// Returns whether a builder or the event manager may have given up a readout unit in its current life.
    pub(crate) fn may_be_lost(
        &self,
        now: Timestamp,
        options: &Options,
        observer: NodeId,
        readout: NodeId,
    ) -> bool {
        let was_lost = self.signs.get(&(observer, readout)).is_some_and(|signs| signs.was_lost);
        was_lost || self.is_lost(now, options, observer, readout)
    }

    /// Returns whether the event manager has never heard of a node, or has no living session of it.
    pub(crate) fn is_missing(&self, now: Timestamp, options: &Options, node: NodeId) -> bool {
        let signs = self.signs.get(&(NodeId::MANAGER, node)).copied().unwrap_or_default();
        let lives = signs.session > signs.over;
        !lives || signs.lost_at(Timestamp::ZERO, options.times.patience()) <= now
    }

    /// Returns whether a node has received a message of a peer within this time, and its link is not down.
    pub(crate) fn is_heard(&self, now: Timestamp, observer: NodeId, peer: NodeId, within: Nanos) -> bool {
        let signs = self.signs.get(&(observer, peer)).copied().unwrap_or_default();
        signs.last.is_some_and(|last| now.since(last) <= within) && !matches!(signs.link, Link::DownSince(_))
    }

    /// Records, before a new sign of life of a readout unit, whether it counted as lost until now.
    fn note_loss(&mut self, now: Timestamp, options: &Options, observer: NodeId, peer: NodeId) {
        let judges = matches!(observer.role, Role::Builder | Role::Manager);
        if judges && peer.role == Role::Readout && self.is_lost(now, options, observer, peer) {
            self.signs.entry((observer, peer)).or_default().was_lost = true;
        }
    }

    fn is_lost(&self, now: Timestamp, options: &Options, observer: NodeId, readout: NodeId) -> bool {
        let born = self.born.get(&observer).copied().unwrap_or_default();
        let of = |peer| self.signs.get(&(observer, peer)).copied().unwrap_or_default();
        let signs = of(readout);
        // A builder that hears nobody may be cut off itself.
        let may_judge =
            observer == NodeId::MANAGER || of(NodeId::MANAGER).last >= Some(signs.quiet_since(born));
        may_judge && signs.lost_at(born, options.times.patience()) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILDER: NodeId = NodeId::builder(0);
    const READOUT: NodeId = NodeId::readout(0);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp(milliseconds * 1_000_000)
    }

    /// Returns whether a builder may be given up at this time, with a timeout of 50 ms.
    fn is_right(lives: &LifeRecord, time: u64) -> bool {
        lives.clone().see_given_up(at(time), &Options::default(), BUILDER, SessionId(1)).is_ok()
    }

    #[test]
    fn a_builder_is_not_given_up_before_its_time_is_over() {
        let (mut lives, options) = (LifeRecord::default(), Options::default());
        lives.see_word(at(100), &options, (NodeId::MANAGER, BUILDER), SessionId(1));
        assert!(!is_right(&lives, 149) && is_right(&lives, 150));
        // A later session implies that the previous one has ended.
        lives.see_word(at(110), &options, (NodeId::MANAGER, BUILDER), SessionId(2));
        assert!(is_right(&lives, 110));
    }

    #[test]
    fn no_node_counts_as_silent_while_the_event_manager_is_stalled() {
        let (mut lives, options) = (LifeRecord::default(), Options::default());
        lives.see_word(at(1), &options, (NodeId::MANAGER, BUILDER), SessionId(1));
        lives.see_look(at(13), &options);
        assert!(is_right(&lives, 51));
        // It handles a message before the check that is due.
        lives.see_turn(at(150), &options);
        assert!(!is_right(&lives, 199) && is_right(&lives, 200));
        lives.see_look(at(151), &options);
        assert!(is_right(&lives, 200));
    }

    #[test]
    fn a_builder_that_is_cut_off_itself_may_not_judge_a_readout_unit() {
        let (mut lives, options) = (LifeRecord::default(), Options::default());
        lives.begin(at(0), BUILDER);
        lives.see_word(at(10), &options, (BUILDER, NodeId::MANAGER), SessionId(1));
        lives.see_word(at(11), &options, (BUILDER, READOUT), SessionId(1));
        let may = |lives: &LifeRecord, time| lives.may_be_lost(at(time), &options, BUILDER, READOUT);
        assert!(!may(&lives, 2_000));
        lives.see_word(at(12), &options, (BUILDER, NodeId::MANAGER), SessionId(1));
        assert!(!may(&lives, 60) && may(&lives, 61));
        // An event may have been given up before the unit sent a message again.
        lives.see_word(at(500), &options, (BUILDER, READOUT), SessionId(1));
        assert!(may(&lives, 501));
    }
}
