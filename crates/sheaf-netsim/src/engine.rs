//! The simulation engines.
//!
//! | module | holds |
//! |---|---|
//! | `events` | queue of future events |
//! | `path` | messages that hold their chain of links: wormhole switching |
//! | `queue` | packets: cut-through, store-and-forward, output queues, shared memory; lossy and paused |
//! | `slotted` | fixed-size messages and a clock that ticks once for each: the models of the classic papers |
//! | `flit` | every flit in every clock cycle: the reference |
//! | `clocked`, `arbitration` | common parts of the clock-driven engines |

mod arbitration;
pub mod clocked;
pub mod events;
pub mod flit;
pub mod path;
pub mod queue;
pub mod slotted;
#[cfg(test)]
pub(crate) mod testing;

use crate::meter::Measured;
use crate::network::Network;
use crate::report::Check;
use crate::scenario::{RunLength, Scenario};
use crate::traffic::{Summary, Traffic};
use crate::units::{Picos, Rate};

/// Input of an engine.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its network.
    pub network: &'a Network,
    /// For each endpoint, whether throughput is averaged over it.
    pub receives: Vec<bool>,
    /// Number of endpoints that send data.
    pub senders: u32,
}

impl Setup<'_> {
    /// The rate of one port: of all its rails together.
    #[must_use]
    pub fn port_rate(&self) -> Rate {
        Rate(self.scenario.link.rate.0.saturating_mul(self.scenario.endpoint.rails.into()))
    }
}

/// Result of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The measurements.
    pub measured: Measured,
    /// Summary of the traffic.
    pub summary: Summary,
    /// Self-checks of the engine.
    pub checks: Vec<Check>,
}

/// Simulates one run. The traffic is behind a pointer, so that each engine is compiled once and not once for each kind of
/// traffic: that took most of the time to build this crate, and a call through the pointer is lost in the work for a message.
pub trait Engine {
    /// Reason why it cannot simulate a scenario.
    type Error;

    /// Whether it cuts messages into frames itself. If not, it gets frames as messages.
    const CUTS_FRAMES: bool;

    /// Runs `traffic` on the network of `setup` until the scenario's end.
    ///
    /// # Errors
    /// Returns the first part of the setup that the engine cannot simulate.
    fn simulate(&self, setup: &Setup<'_>, traffic: &mut dyn Traffic) -> Result<Outcome, Self::Error>;
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Not after this instant.
    pub end: Picos,
    messages: u64,
    events: u64,
}

impl Limit {
    /// Returns the limit of `length` for a number of senders.
    #[must_use]
    pub fn new(length: RunLength, senders: u32) -> Self {
        let never = Self { end: Picos::MAX, messages: u64::MAX, events: u64::MAX };
        match length {
            RunLength::Time(end) => Self { end, ..never },
            RunLength::MessagesPerSender(count) => {
                Self { messages: count.saturating_mul(senders.into()), ..never }
            }
            RunLength::Events(events) => Self { events, ..never },
        }
    }

    /// Returns whether the delivered messages and complete events are sufficient to end the run. The traffic is asked
    /// for its events only if they can end the run: this is called at every instant.
    #[must_use]
    #[inline]
    pub fn is_reached(&self, messages: u64, events: impl FnOnce() -> u64) -> bool {
        messages >= self.messages || self.events != u64::MAX && events() >= self.events
    }

    /// When a run ends in which nothing happens any more after `last`.
    #[must_use]
    pub fn end_after(&self, last: Picos) -> Picos {
        if self.end == Picos::MAX { last } else { self.end }
    }
}
