//! Some peers through shared memory, the others over TCP.
//!
//! A node has an endpoint of each kind, and this makes one of them: each peer belongs to exactly one. A round is a round
//! of each; a sleep is one sleep for both, in the kernel, on the readiness of both.

use crate::peers::PeerIndex;
use crate::shm::ShmEndpoint;
use crate::tcp::TcpEndpoint;
use crate::{Endpoint, Event, Frame, LinkStats, SendError};
use rustix::event::{PollFd, PollFlags, Timespec};
use sheaf_wire::{Nanos, NodeId};
use std::task::Waker;

/// A node's place in two networks.
#[derive(Debug)]
pub struct MixedEndpoint {
    shm: ShmEndpoint,
    tcp: TcpEndpoint,
    /// The peers that share memory with this node.
    near: PeerIndex,
    /// Whether this round has come to TCP.
    at_tcp: bool,
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
    #[error("{0} is a peer both through shared memory and over TCP; choose one")]
    TwoWays(NodeId),
}

impl MixedEndpoint {
    /// Makes one endpoint of two.
    ///
    /// # Errors
    /// If they are not of the same node, or have a peer in common.
    pub fn new(shm: ShmEndpoint, tcp: TcpEndpoint) -> Result<Self, MixedError> {
        if shm.node() != tcp.node() {
            return Err(MixedError::TwoNodes(shm.node(), tcp.node()));
        }
        let near = PeerIndex::new(shm.peers()).map_err(MixedError::TwoWays)?;
        if let Some(twice) = tcp.peers().find(|peer| near.place(*peer).is_some()) {
            return Err(MixedError::TwoWays(twice));
        }
        Ok(Self { shm, tcp, near, at_tcp: false, sleeps: 0, wake_ups: 0 })
    }

    /// Sleeps on both. `true` if there was something.
    fn sleep(&mut self, timeout: Option<Timespec>) -> bool {
        let (shm, tcp) = (self.shm.readiness(), self.tcp.readiness());
        let mut both =
            [PollFd::from_borrowed_fd(shm, PollFlags::IN), PollFd::from_borrowed_fd(tcp, PollFlags::IN)];
        // A signal ends the sleep early; the looks behind it find nothing then.
        rustix::event::poll(&mut both, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl Endpoint for MixedEndpoint {
    fn node(&self) -> NodeId {
        self.shm.node()
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        match self.near.place(to) {
            Some(_) => self.shm.send(to, frame),
            None => self.tcp.send(to, frame),
        }
    }

    fn flush(&mut self) {
        self.shm.flush();
        self.tcp.flush();
    }

    fn poll(&mut self) -> Option<Event> {
        if !self.at_tcp {
            let event = self.shm.poll();
            if event.is_some() {
                return event;
            }
            self.at_tcp = true;
        }
        let event = self.tcp.poll();
        self.at_tcp = event.is_some();
        event
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        // A round that was left at TCP goes on there: nothing of shared memory is looked at before.
        let Some(longest) = self.tcp.lie_down(timeout) else { return };
        let Some(longest_of_shm) = self.shm.lie_down(timeout) else {
            self.tcp.get_up();
            return;
        };
        let longest = longest_of_shm.map_or(longest, |it| it.min(longest));
        self.sleeps += 1;
        let woken = self.sleep(Timespec::try_from(longest).ok());
        self.wake_ups += u64::from(woken);
        self.shm.get_up();
        self.tcp.get_up();
    }

    fn waker(&self) -> Waker {
        // Ends a sleep on both.
        self.shm.waker()
    }

    fn stats(&self) -> LinkStats {
        let mut stats = self.shm.stats();
        stats += self.tcp.stats();
        stats.sleeps += self.sleeps;
        stats.system_calls += self.sleeps;
        stats.wake_ups += self.wake_ups;
        stats
    }

    fn close(&mut self, linger: Nanos) {
        self.shm.close(linger);
        self.tcp.close(linger);
    }
}
