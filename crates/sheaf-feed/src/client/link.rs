//! A connection to a readout unit of the same host.

use super::FeedError;
use sheaf_shm::door::{Hello, Visit, VisitError, Visited};
use sheaf_wire::Nanos;
use std::path::Path;

/// Messages in both directions, in order.
#[derive(Debug)]
pub(super) struct Link {
    visit: Visit,
    /// The last message found no room in the ring.
    is_full: bool,
    unsent: Option<Vec<u8>>,
}

/// Returns whether a readout unit may accept clients later.
pub(super) fn may_come(error: &VisitError) -> bool {
    matches!(error, VisitError::NobodyThere { .. } | VisitError::Closed)
}

impl Link {
    pub(super) fn connect(socket: &Path) -> Result<Self, VisitError> {
        let hello = Hello { pid: std::process::id(), content: Vec::new() };
        let visit = Visit::meet(socket, &hello)?;
        Ok(Self { visit, is_full: false, unsent: None })
    }

    /// Sends a message of fragments. Returns `false` if there is no room now.
    pub(super) fn send(&mut self, message: &[u8]) -> bool {
        if self.unsent.is_some() {
            return false;
        }
        let sent = self.visit.push(&[message]);
        self.is_full = !sent;
        self.visit.flush();
        sent
    }

    /// Sends a message, or keeps it until there is room. There must be no message that is kept.
    pub(super) fn send_or_keep(&mut self, message: Vec<u8>) {
        if !self.send(&message) {
            self.unsent = Some(message);
        }
    }

    /// Sends the message that was kept, if there is room now.
    pub(super) fn flush_unsent(&mut self) {
        self.is_full = false;
        if let Some(message) = self.unsent.take() {
            self.send_or_keep(message);
        }
    }

    /// Returns whether the last message found no room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the length of the longest message.
    pub(super) fn longest(&self) -> usize {
        self.visit.longest()
    }

    /// Copies the next message of the readout unit to `message`. Returns `false` if there is none.
    pub(super) fn take(&mut self, message: &mut Vec<u8>) -> Result<bool, FeedError> {
        match self.visit.take(message) {
            Ok(Visited::Record) => Ok(true),
            Ok(Visited::Nothing) => Ok(false),
            Err(VisitError::Closed) => Err(FeedError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// Sleeps until there may be a message, the connection ends, or `timeout` has passed.
    pub(super) fn wait(&mut self, timeout: Nanos) {
        self.visit.wait(timeout);
    }
}
