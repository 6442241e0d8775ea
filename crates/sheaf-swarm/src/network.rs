//! The simulated network: decides whether, when and how often a message arrives.

use crate::dice::{Dice, Ratio};
use crate::options::NetworkOptions;
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};

/// Counts of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Messages passed to the network.
    pub sent: u64,
    /// Messages lost, by chance or on a cut link.
    pub lost: u64,
    /// Messages that were duplicated.
    pub duplicated: u64,
    /// Messages that were reordered.
    pub reordered: u64,
    /// Links clogged by chance or by plan.
    pub clogged: u64,
}

/// Arrival of a message: never, once or twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fate {
    /// Time of its arrival, unless it is lost.
    pub arrives: Option<Timestamp>,
    /// Time of its second arrival.
    pub again: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct MessageLink {
    slowness: u64,
    last_arrival: Timestamp,
    clogged_until: Timestamp,
    cut_until: Timestamp,
    /// Time of its first fault, random or planned.
    disturbed_since: Option<Timestamp>,
}

/// All links between all nodes.
#[derive(Clone, Debug)]
pub struct Network {
    options: NetworkOptions,
    dice: Dice,
    readouts: usize,
    builders: usize,
    nodes: usize,
    links: Vec<MessageLink>,
    counts: NetworkCounts,
}

impl Network {
    /// Creates a network of an event manager, `readouts` readout units, `builders` builders and `outputs` output nodes.
    #[must_use]
    pub fn new(seed: u64, options: NetworkOptions, readouts: u16, builders: u16, outputs: u16) -> Self {
        let nodes = 1 + usize::from(readouts) + usize::from(builders) + usize::from(outputs);
        let mut dice = Dice::new(seed, 1);
        let mut link = || MessageLink { slowness: dice.between(1, options.spread), ..MessageLink::default() };
        let links = (0..nodes * nodes).map(|_| link()).collect();
        Self {
            options,
            dice,
            readouts: usize::from(readouts),
            builders: usize::from(builders),
            nodes,
            links,
            counts: NetworkCounts::default(),
        }
    }

    /// Returns the counts of the network so far.
    #[must_use]
    pub fn counts(&self) -> NetworkCounts {
        self.counts
    }

    /// Sends a message.
    pub fn send(&mut self, now: Timestamp, from: NodeId, to: NodeId) -> Fate {
        self.counts.sent += 1;
        let index = self.link_index(from, to);
        if self.links[index].cut_until > now || self.dice.chance(self.options.loss) {
            self.counts.lost += 1;
            self.note_disturbance(index, now);
            return Fate::default();
        }
        if self.dice.chance(self.options.clog) {
            let lasts = self.dice.exponential(self.options.clog_mean);
            self.clog_link(index, now, now + lasts);
        }
        let arrives = Some(self.arrival(now, index));
        let again = self.dice.chance(self.options.duplicate).then(|| self.arrival(now, index));
        if again.is_some() {
            self.counts.duplicated += 1;
            self.note_disturbance(index, now);
        }
        Fate { arrives, again }
    }

    /// Draws the time that something small takes without any fault.
    pub fn delay(&self, dice: &mut Dice) -> Nanos {
        self.options.delay_min + dice.exponential(self.options.jitter_mean)
    }

    fn arrival(&mut self, now: Timestamp, index: usize) -> Timestamp {
        let jitter = self.dice.exponential(self.options.jitter_mean);
        let reordered = self.dice.chance(self.options.reorder);
        let detour = if reordered {
            self.counts.reordered += 1;
            self.note_disturbance(index, now);
            self.dice.time_between(Nanos::ZERO, self.options.reorder_delay)
        } else {
            Nanos::ZERO
        };
        let link = &mut self.links[index];
        let way = Nanos((self.options.delay_min.0 + jitter.0) * link.slowness + detour.0);
        let arrival = now.max(link.clogged_until) + way;
        if reordered {
            return arrival;
        }
        link.last_arrival = link.last_arrival.max(arrival);
        link.last_arrival
    }

    fn note_disturbance(&mut self, index: usize, now: Timestamp) {
        self.links[index].disturbed_since.get_or_insert(now);
    }

    /// Returns the time of the first fault of the link between two nodes, in either direction.
    #[must_use]
    pub fn disturbed_since(&self, one: NodeId, other: NodeId) -> Option<Timestamp> {
        let there = self.links[self.link_index(one, other)].disturbed_since;
        let back = self.links[self.link_index(other, one)].disturbed_since;
        there.into_iter().chain(back).min()
    }

    /// Delays all messages from `from` to `to` until then.
    pub fn clog(&mut self, from: NodeId, to: NodeId, now: Timestamp, until: Timestamp) {
        let index = self.link_index(from, to);
        self.clog_link(index, now, until);
    }

    fn clog_link(&mut self, index: usize, now: Timestamp, until: Timestamp) {
        self.counts.clogged += 1;
        self.note_disturbance(index, now);
        let link = &mut self.links[index];
        link.clogged_until = link.clogged_until.max(until);
    }

    /// Loses all messages from `from` to `to` until then.
    pub fn cut(&mut self, from: NodeId, to: NodeId, now: Timestamp, until: Timestamp) {
        let index = self.link_index(from, to);
        self.note_disturbance(index, now);
        let link = &mut self.links[index];
        link.cut_until = link.cut_until.max(until);
    }

    /// Disables random faults from now on.
    pub fn heal(&mut self) {
        let NetworkOptions { loss, duplicate, reorder, clog, .. } = &mut self.options;
        for ratio in [loss, duplicate, reorder, clog] {
            *ratio = Ratio::NEVER;
        }
    }

    fn link_index(&self, from: NodeId, to: NodeId) -> usize {
        self.node_index(from) * self.nodes + self.node_index(to)
    }

    fn node_index(&self, node: NodeId) -> usize {
        match node.role {
            Role::Manager => 0,
            Role::Readout => 1 + usize::from(node.index),
            Role::Builder => 1 + self.readouts + usize::from(node.index),
            Role::Output => 1 + self.readouts + self.builders + usize::from(node.index),
            Role::Mirror => unreachable!("a simulated cluster has no mirrors"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(adjust: impl FnOnce(&mut NetworkOptions)) -> Vec<Fate> {
        let mut options = NetworkOptions::default();
        adjust(&mut options);
        let mut network = Network::new(1, options, 1, 1, 0);
        (0..1_000)
            .map(|step| network.send(Timestamp(step * 1_000), NodeId::MANAGER, NodeId::builder(0)))
            .collect()
    }

    #[test]
    fn a_link_without_faults_keeps_order_and_loses_nothing() {
        let fates = arrivals(|_| {});
        assert!(fates.iter().all(|fate| fate.arrives.is_some() && fate.again.is_none()));
        assert!(fates.is_sorted_by_key(|fate| fate.arrives));
    }

    #[test]
    fn each_fault_shows() {
        let lost = arrivals(|options| options.loss = Ratio::percent(10));
        assert!((60..140).contains(&lost.iter().filter(|fate| fate.arrives.is_none()).count()));
        let twice = arrivals(|options| options.duplicate = Ratio::percent(10));
        assert!((60..140).contains(&twice.iter().filter(|fate| fate.again.is_some()).count()));
        let mixed = arrivals(|options| options.reorder = Ratio::percent(10));
        assert!(!mixed.is_sorted_by_key(|fate| fate.arrives));
        let clogged = arrivals(|options| options.clog = Ratio::percent(1));
        let late = |(step, fate): (usize, &Fate)| {
            fate.arrives.is_some_and(|at| at.0 > step as u64 * 1_000 + 1_000_000)
        };
        assert!(clogged.iter().enumerate().any(late));
    }

    #[test]
    fn a_cut_link_loses_until_it_is_whole() {
        let mut network = Network::new(1, NetworkOptions::default(), 1, 1, 0);
        network.cut(NodeId::MANAGER, NodeId::builder(0), Timestamp(0), Timestamp(500));
        assert_eq!(network.send(Timestamp(499), NodeId::MANAGER, NodeId::builder(0)), Fate::default());
        assert!(network.send(Timestamp(499), NodeId::builder(0), NodeId::MANAGER).arrives.is_some());
        assert!(network.send(Timestamp(500), NodeId::MANAGER, NodeId::builder(0)).arrives.is_some());
    }
}
