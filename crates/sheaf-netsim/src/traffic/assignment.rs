//! Assignment of events to builders, and the times of events.

use super::chance::{Purpose, bits, one_of, unit};
use crate::scenario::Assignment;
use crate::units::Picos;

/// Gives events to builders.
#[derive(Clone, Debug)]
pub struct Assigner {
    policy: Assignment,
    seed: u64,
    /// Unfinished events of each builder.
    open: Vec<u32>,
    /// Start of the search for the least loaded builder, so that ties do not always go to the first.
    turn: u32,
}

impl Assigner {
    /// For `builders` builders.
    #[must_use]
    pub fn new(policy: Assignment, builders: u32, seed: u64) -> Self {
        Self { policy, seed, open: vec![0; builders as usize], turn: 0 }
    }

    /// The builder of a new event.
    pub fn assign(&mut self, event: u64) -> u32 {
        let builders = u32::try_from(self.open.len()).expect("builders are numbered by u32");
        let builder = match self.policy {
            Assignment::RoundRobin => u32::try_from(event % u64::from(builders)).unwrap_or(0),
            Assignment::Random => one_of(bits(self.seed, Purpose::Assignment, event, 0), builders),
            Assignment::LeastLoaded => {
                let from_turn = (self.turn..builders).chain(0..self.turn);
                let least = from_turn.min_by_key(|builder| self.open[*builder as usize]).unwrap_or(0);
                self.turn = (least + 1) % builders;
                least
            }
        };
        self.open[builder as usize] += 1;
        builder
    }

    /// An event of `builder` has ended.
    pub fn ended(&mut self, builder: u32) {
        self.open[builder as usize] -= 1;
    }
}

/// When events come: by chance at a mean rate (a Poisson process, as triggers are), or as soon as they may.
#[derive(Clone, Debug)]
pub struct Triggers {
    /// Mean time between two, in picoseconds; `None`: no limit.
    period: Option<f64>,
    seed: u64,
    /// Events that have come.
    count: u64,
    /// When the next comes.
    next: Picos,
    /// The same, unrounded, so that the rate is met in the long run.
    clock: f64,
}

impl Triggers {
    /// At `event_rate` events per second, or without limit.
    #[must_use]
    pub fn new(event_rate: Option<f64>, seed: u64) -> Self {
        let period = event_rate.map(|rate| 1e12 / rate);
        let mut triggers = Self { period, seed, count: 0, next: Picos::ZERO, clock: 0.0 };
        triggers.draw();
        triggers
    }

    /// Returns whether events occur as soon as they may.
    #[must_use]
    pub fn are_free(&self) -> bool {
        self.period.is_none()
    }

    /// Returns the number of events until `now`; unlimited without a rate.
    pub fn count(&mut self, now: Picos) -> u64 {
        if self.are_free() {
            return u64::MAX;
        }
        while self.next <= now {
            self.count += 1;
            self.draw();
        }
        self.count
    }

    /// Returns the number of events counted.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.count
    }

    /// When the event after those counted comes.
    #[must_use]
    pub fn next(&self) -> Picos {
        self.next
    }

    fn draw(&mut self) {
        if let Some(period) = self.period {
            self.clock += -period * libm::log(unit(bits(self.seed, Purpose::Trigger, self.count, 0)));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive and below 2^64 ps"
            )]
            let next = self.clock as u64;
            self.next = Picos(next);
        }
    }
}

#[cfg(test)]
mod tests;
