//! Nodes that end before the event manager tells them to.

use sheaf_node::worker::Progress;
use sheaf_node::{Agent, NodeError};
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An agent that ends in good order when it is asked to leave, whatever the state of the run. The other nodes see it
/// leave.
pub(crate) struct Leaving {
    agent: Box<dyn Agent>,
    leave: Arc<AtomicBool>,
}

impl Leaving {
    /// Makes `agent` end when `leave` is set.
    pub(crate) fn new(agent: Box<dyn Agent>, leave: Arc<AtomicBool>) -> Self {
        Self { agent, leave }
    }
}

impl Agent for Leaving {
    fn node(&self) -> NodeId {
        self.agent.node()
    }

    fn work(&mut self, now: Timestamp) -> Progress {
        if self.leave.load(Ordering::Relaxed) {
            return Progress::Finished;
        }
        self.agent.work(now)
    }

    fn wait(&mut self, timeout: Nanos) {
        self.agent.wait(timeout);
    }

    fn publish(&mut self, now: Timestamp) {
        self.agent.publish(now);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        self.agent.finish()
    }
}
