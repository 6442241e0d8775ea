//! The end of run control in the process of a run.

use crate::link::{Exclusions, NextRun, Order, Wish};
use std::collections::{BTreeMap, VecDeque};

/// A request to the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steer {
    /// Whether its start is held.
    Hold(bool),
    /// Whether it takes no triggers.
    Pause(bool),
    /// Which sources and nodes it excludes.
    Exclude(Exclusions),
    /// To start a node again, by name: the process of one that lives is killed.
    Recover(String),
    /// To hand over to another run.
    Switch(NextRun),
    /// To end. The second time: to drop the events in flight.
    Stop,
}

/// Follows the orders of a controller, whichever arrive, in whichever order and however often.
#[derive(Clone, Debug)]
pub struct Runner {
    followed: u64,
    wish: Wish,
    exclusions: Exclusions,
    /// Nodes that were to be started again, with the number of the order that asked for it.
    recover: BTreeMap<String, u64>,
    /// Number of the order that asked for the latest next run; 0 before the first.
    switch: u64,
    /// Number of requests to end so far.
    stops: u32,
    steers: VecDeque<Steer>,
}

impl Runner {
    /// Makes the runner of a run that begins held, or by itself, with these exclusions.
    #[must_use]
    pub fn new(is_held: bool, exclusions: Exclusions) -> Self {
        let wish = if is_held { Wish::Hold } else { Wish::Run };
        let (recover, steers) = (BTreeMap::new(), VecDeque::new());
        Self { followed: 0, wish, exclusions, recover, switch: 0, stops: 0, steers }
    }

    /// Takes an order. One that is not newer than the latest has no effect, and a run that is to end is not called back.
    pub fn handle_order(&mut self, order: Order) {
        if order.number <= self.followed {
            return;
        }
        self.followed = order.number;
        if order.exclusions != self.exclusions {
            self.exclusions.clone_from(&order.exclusions);
            self.steers.push_back(Steer::Exclude(order.exclusions));
        }
        for (node, asked) in order.recover {
            let known = self.recover.entry(node.clone()).or_insert(0);
            if asked > *known {
                *known = asked;
                self.steers.push_back(Steer::Recover(node));
            }
        }
        if let Some(next) = order.next.filter(|next| next.asked > self.switch) {
            self.switch = next.asked;
            // A run that is to end is not followed by another one.
            if !self.wish.ends() && !order.wish.ends() {
                self.steers.push_back(Steer::Switch(next));
            }
        }
        if self.wish.ends() && order.wish < self.wish {
            return;
        }
        self.wish = order.wish;
        match order.wish {
            Wish::Hold => {}
            Wish::Run => self.steers.extend([Steer::Hold(false), Steer::Pause(false)]),
            Wish::Pause => self.steers.extend([Steer::Hold(false), Steer::Pause(true)]),
            Wish::Stop => self.stop(1),
            Wish::Cut => self.stop(2),
        }
    }

    /// Returns the nodes that were to be started again so far, each with the number of the order that has asked for it last.
    #[must_use]
    pub fn asked_to_recover(&self) -> &BTreeMap<String, u64> {
        &self.recover
    }

    /// Returns the number of the latest order.
    #[must_use]
    pub fn followed(&self) -> u64 {
        self.followed
    }

    /// Returns the next thing to tell the run, if any.
    pub fn poll_steer(&mut self) -> Option<Steer> {
        self.steers.pop_front()
    }

    fn stop(&mut self, times: u32) {
        while self.stops < times {
            self.stops += 1;
            self.steers.push_back(Steer::Stop);
        }
    }
}
