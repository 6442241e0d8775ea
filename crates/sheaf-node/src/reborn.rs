//! A builder that begins a new life when the event manager has given it up.

use crate::handover::Handover;
use crate::worker::{NodeDriver, NodeError, Progress};
use sheaf_telemetry::log_as;
use sheaf_wire::{Nanos, NodeId, Timestamp};

/// Makes the next life of a node, with a session of its own.
pub type NextLife = Box<dyn FnMut() -> Result<Box<dyn NodeDriver>, NodeError> + Send>;

/// A node that starts anew with a new session after it was fenced, like a process that is restarted. What it had and
/// did not report is built elsewhere, and it takes part in the run as before.
pub struct Reborn {
    node: NodeId,
    /// `None` after a life that could not begin.
    life: Option<Box<dyn NodeDriver>>,
    next: NextLife,
    ended: Option<Result<(), NodeError>>,
}

impl Reborn {
    /// Begins the first session.
    ///
    /// # Errors
    /// Why it cannot begin.
    pub fn new(node: NodeId, mut next: NextLife) -> Result<Self, NodeError> {
        let life = Some(next()?);
        Ok(Self { node, life, next, ended: None })
    }
}

impl NodeDriver for Reborn {
    fn node(&self) -> NodeId {
        self.node
    }

    fn work(&mut self, now: Timestamp) -> Progress {
        let Some(life) = &mut self.life else { return Progress::Finished };
        let progress = life.work(now);
        if progress != Progress::Finished {
            return progress;
        }
        let ended = life.finish();
        if let Err(error @ NodeError::Fenced(_)) = ended {
            // A node's place in a network becomes free when its endpoint is dropped.
            self.life = None;
            log_as!(SESSION_RESTARTED, node = self.node; "{error}; it begins a new session");
            match (self.next)() {
                Ok(life) => {
                    self.life = Some(life);
                    return Progress::Busy;
                }
                Err(error) => self.ended = Some(Err(error)),
            }
        } else {
            self.ended = Some(ended);
        }
        Progress::Finished
    }

    fn wait(&mut self, timeout: Nanos) {
        if let Some(life) = &mut self.life {
            life.wait(timeout);
        }
    }

    fn publish(&mut self, now: Timestamp) {
        if let Some(life) = &mut self.life {
            life.publish(now);
        }
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        let leaves = |life: &mut Box<dyn NodeDriver>| life.finish();
        self.ended.take().or_else(|| self.life.as_mut().map(leaves)).unwrap_or(Ok(()))
    }

    fn hand_over(self: Box<Self>) -> Option<Box<dyn Handover>> {
        self.life.and_then(NodeDriver::hand_over)
    }
}
