//! Two transports behind one endpoint: shared memory for peers on this host, TCP for the others.
//!
//! A node has an endpoint of each kind, combined here into one: each peer belongs to exactly one. A round is a round of
//! each; a sleep is one sleep for both, in the kernel, on the readiness of both ([`PollableEndpoint`]).

use crate::peers::PeerIndex;
use crate::{Endpoint, Event, Frame, LinkStats, SendError};
use rustix::event::{PollFd, PollFlags, Timespec};
use sheaf_wire::{Nanos, NodeId};
use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::task::Waker;
use std::time::Duration;

/// An endpoint whose sleep can be shared: it returns whether it may sleep, and which file descriptor ends the sleep.
pub trait PollableEndpoint: Endpoint + Debug {
    /// The nodes that this one may talk to.
    fn peers(&self) -> Vec<NodeId>;

    /// Announces a sleep of at most `timeout`, which [`readiness`](Self::readiness) ends; returns how long it may last,
    /// or `None` if there is something to do first.
    fn lie_down(&mut self, timeout: Nanos) -> Option<Duration>;

    /// Becomes readable when there is something to do.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Ends a sleep that was announced.
    fn get_up(&mut self);
}

/// A node's place in two networks.
#[derive(Debug)]
pub struct MixedEndpoint {
    near: Box<dyn PollableEndpoint>,
    far: Box<dyn PollableEndpoint>,
    /// The peers of the near endpoint.
    near_peers: PeerIndex,
    /// Whether this round has reached the far endpoint.
    is_at_far: bool,
    sleeps: u64,
    wake_ups: u64,
}

/// Two endpoints that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixedError {
    /// They are not one node's.
    #[error("one endpoint is of {0}, the other of {1}; both must be of the same node")]
    TwoNodes(NodeId, NodeId),
    /// A peer belongs to both.
    #[error("{0} is a peer of both endpoints; choose one")]
    TwoWays(NodeId),
}

impl MixedEndpoint {
    /// Makes one endpoint of two.
    ///
    /// # Errors
    /// If they are not of the same node, or have a peer in common.
    pub fn new(near: Box<dyn PollableEndpoint>, far: Box<dyn PollableEndpoint>) -> Result<Self, MixedError> {
        if near.node() != far.node() {
            return Err(MixedError::TwoNodes(near.node(), far.node()));
        }
        let near_peers = PeerIndex::new(near.peers()).map_err(MixedError::TwoWays)?;
        if let Some(twice) = far.peers().into_iter().find(|peer| near_peers.place(*peer).is_some()) {
            return Err(MixedError::TwoWays(twice));
        }
        Ok(Self { near, far, near_peers, is_at_far: false, sleeps: 0, wake_ups: 0 })
    }

    /// Sleeps on both. `true` if there was something.
    fn sleep(&mut self, timeout: Option<Timespec>) -> bool {
        let (near, far) = (self.near.readiness(), self.far.readiness());
        let mut both =
            [PollFd::from_borrowed_fd(near, PollFlags::IN), PollFd::from_borrowed_fd(far, PollFlags::IN)];
        // A signal ends the sleep early; the following polls find nothing.
        rustix::event::poll(&mut both, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl Endpoint for MixedEndpoint {
    fn node(&self) -> NodeId {
        self.near.node()
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        match self.near_peers.place(to) {
            Some(_) => self.near.send(to, frame),
            None => self.far.send(to, frame),
        }
    }

    fn flush(&mut self) {
        self.near.flush();
        self.far.flush();
    }

    fn poll(&mut self) -> Option<Event> {
        if !self.is_at_far {
            let event = self.near.poll();
            if event.is_some() {
                return event;
            }
            self.is_at_far = true;
        }
        let event = self.far.poll();
        self.is_at_far = event.is_some();
        event
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        // A round that was interrupted at the far endpoint continues there: the near one is not polled before.
        let Some(longest) = self.far.lie_down(timeout) else { return };
        let Some(longest_of_near) = self.near.lie_down(timeout) else {
            self.far.get_up();
            return;
        };
        let longest = longest_of_near.min(longest);
        self.sleeps += 1;
        let woken = self.sleep(Timespec::try_from(longest).ok());
        self.wake_ups += u64::from(woken);
        self.near.get_up();
        self.far.get_up();
    }

    fn waker(&self) -> Waker {
        // Ends a sleep on both.
        self.near.waker()
    }

    fn stats(&self) -> LinkStats {
        let mut stats = self.near.stats();
        stats += self.far.stats();
        stats.sleeps += self.sleeps;
        stats.system_calls += self.sleeps;
        stats.wake_ups += self.wake_ups;
        stats
    }

    fn close(&mut self, linger: Nanos) {
        self.near.close(linger);
        self.far.close(linger);
    }
}
