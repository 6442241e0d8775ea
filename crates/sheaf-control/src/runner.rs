//! The end of run control in the process of a run.

use crate::link::{Order, Wish};
use std::collections::{BTreeSet, VecDeque};

/// A request to the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steer {
    /// Whether its start is held.
    Hold(bool),
    /// Whether it takes no triggers.
    Pause(bool),
    /// Which sources it excludes.
    Exclude(BTreeSet<u32>),
    /// To end. The second time: to drop the events in flight.
    Stop,
}

/// Follows the orders of a controller, whichever arrive, in whichever order and however often.
#[derive(Clone, Debug)]
pub struct Runner {
    followed: u64,
    wish: Wish,
    excluded: BTreeSet<u32>,
    /// Number of requests to end so far.
    stops: u32,
    steers: VecDeque<Steer>,
}

impl Runner {
    /// Makes the runner of a run that begins held, or by itself, without these sources.
    #[must_use]
    pub fn new(is_held: bool, excluded: BTreeSet<u32>) -> Self {
        let wish = if is_held { Wish::Hold } else { Wish::Run };
        Self { followed: 0, wish, excluded, stops: 0, steers: VecDeque::new() }
    }

    /// Takes an order. One that is not newer than the latest has no effect, and a run that is to end is not called back.
    pub fn handle_order(&mut self, order: Order) {
        if order.number <= self.followed {
            return;
        }
        self.followed = order.number;
        if order.excluded != self.excluded {
            self.excluded.clone_from(&order.excluded);
            self.steers.push_back(Steer::Exclude(order.excluded));
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
