//! Nodes that end before the event manager tells them to.

use sheaf_node::handover::Handover;
use sheaf_node::worker::Progress;
use sheaf_node::{NodeDriver, NodeError};
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A driver that ends in good order when it is asked to leave, whatever the state of the run. The other nodes see it
/// leave.
pub(crate) struct Leaving {
    driver: Box<dyn NodeDriver>,
    leave: Arc<AtomicBool>,
}

impl Leaving {
    /// Makes `driver` end when `leave` is set.
    pub(crate) fn new(driver: Box<dyn NodeDriver>, leave: Arc<AtomicBool>) -> Self {
        Self { driver, leave }
    }
}

impl NodeDriver for Leaving {
    fn node(&self) -> NodeId {
        self.driver.node()
    }

    fn work(&mut self, now: Timestamp) -> Progress {
        if self.leave.load(Ordering::Relaxed) {
            return Progress::Finished;
        }
        self.driver.work(now)
    }

    fn wait(&mut self, timeout: Nanos) {
        self.driver.wait(timeout);
    }

    fn publish(&mut self, now: Timestamp) {
        self.driver.publish(now);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        self.driver.finish()
    }

    fn hand_over(self: Box<Self>) -> Option<Box<dyn Handover>> {
        self.driver.hand_over()
    }
}
