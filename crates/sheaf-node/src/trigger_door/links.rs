//! State that the two threads of a trigger door share: the machine, and the ends of its connections to which it writes.

use super::datagrams::Datagrams;
use sheaf_protocol::trigger_link::{LinkId, LinkReport, Receiver};
use sheaf_tcp::SecureStream;
use sheaf_wire::Timestamp;
use sheaf_wire::trigger_link::FromManager;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

/// The receiver, and the ends of its connections to which it writes.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) receiver: Receiver,
    outboxes: BTreeMap<LinkId, Outbox>,
    pub(super) datagrams: Option<Datagrams>,
}

#[derive(Debug)]
struct Outbox {
    stream: Arc<SecureStream>,
    unsent: Vec<u8>,
    /// The last message was written.
    is_closing: bool,
    has_ended: bool,
}

impl Outbox {
    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(written) if written > 0 => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The reader sees the end of the connection.
                Ok(_) | Err(_) => self.unsent.clear(),
            }
        }
        let is_blocked = self.stream.flush().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        if self.is_closing && !is_blocked && !std::mem::replace(&mut self.has_ended, true) {
            self.stream.end();
        }
    }

    fn is_flushed(&self) -> bool {
        self.unsent.is_empty() && (self.has_ended || !self.stream.has_unsent())
    }
}

impl Links {
    pub(super) fn new(receiver: Receiver, datagrams: Option<Datagrams>) -> Self {
        Self { receiver, outboxes: BTreeMap::new(), datagrams }
    }

    pub(super) fn add(&mut self, link: LinkId, stream: Arc<SecureStream>) {
        self.outboxes
            .insert(link, Outbox { stream, unsent: Vec::new(), is_closing: false, has_ended: false });
        self.receiver.handle_connection(link);
    }

    /// Returns whether all messages were written, and over datagrams acknowledged.
    pub(super) fn is_flushed(&self) -> bool {
        self.outboxes.values().all(Outbox::is_flushed)
            && self.datagrams.as_ref().is_none_or(|datagrams| datagrams.door.is_flushed())
    }

    /// Writes what is due, as far as the connections take it.
    pub(super) fn transmit(&mut self, now: Timestamp) {
        if let Some(datagrams) = &mut self.datagrams {
            return datagrams.transmit(now, &mut self.receiver);
        }
        self.outboxes.values_mut().for_each(Outbox::flush);
        while self.is_flushed()
            && let Some((link, message)) = self.receiver.poll_transmit(now)
        {
            self.send(link, &message);
        }
    }

    /// Sends a message to a connection.
    pub(super) fn send(&mut self, link: LinkId, message: &FromManager) {
        if let Some(outbox) = self.outboxes.get_mut(&link) {
            outbox.is_closing |= matches!(message, FromManager::Refused { .. });
            outbox.unsent.extend_from_slice(&message.emit());
            outbox.flush();
        }
    }

    /// Returns whether the last message to a connection was written, or is to be written.
    pub(super) fn is_closing(&self, link: LinkId) -> bool {
        self.outboxes.get(&link).is_some_and(|outbox| outbox.is_closing)
    }

    pub(super) fn remove(&mut self, now: Timestamp, link: LinkId) {
        self.outboxes.remove(&link);
        self.receiver.handle_disconnection(now, link);
    }

    /// Returns the account of the run.
    pub(super) fn report(&self, now: Timestamp) -> LinkReport {
        let datagrams = self.datagrams.as_ref().map(|datagrams| datagrams.door.counts());
        LinkReport { datagrams, ..self.receiver.report(now) }
    }
}
