//! The connections of a trigger door: messages from and to the machine.

use sheaf_protocol::trigger_link::{LinkId, Receiver};
use sheaf_wire::message::DecodeError;
use sheaf_wire::trigger_link::{
    FromManager, FromSupervisor, HEAD_BYTES, MAX_MESSAGE_BYTES, Refusal, Trigger, declared_length,
};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

/// Time for which a refused connection is kept, so that the other side can read the reason.
const LINGER: Nanos = Nanos::from_secs(1);

/// The receiver, and the ends of its connections to which it writes.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) receiver: Receiver,
    outboxes: BTreeMap<LinkId, Outbox>,
}

#[derive(Debug)]
struct Outbox {
    stream: TcpStream,
    unsent: Vec<u8>,
    /// The last message was written.
    is_closing: bool,
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
        if self.is_closing {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }
}

impl Links {
    pub(super) fn new(receiver: Receiver) -> Self {
        Self { receiver, outboxes: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, link: LinkId, stream: TcpStream) {
        self.outboxes.insert(link, Outbox { stream, unsent: Vec::new(), is_closing: false });
        self.receiver.handle_connection(link);
    }

    /// Returns whether all messages were written.
    pub(super) fn is_flushed(&self) -> bool {
        self.outboxes.values().all(|outbox| outbox.unsent.is_empty())
    }

    /// Writes what is due, as far as the connections take it.
    pub(super) fn transmit(&mut self, now: Timestamp) {
        self.outboxes.values_mut().for_each(Outbox::flush);
        while self.is_flushed()
            && let Some((link, message)) = self.receiver.poll_transmit(now)
        {
            if let Some(outbox) = self.outboxes.get_mut(&link) {
                outbox.is_closing |= matches!(message, FromManager::Refused { .. });
                outbox.unsent = message.emit();
                outbox.flush();
            }
        }
    }

    /// Returns whether the last message to a connection was written, or is to be written.
    fn is_closing(&self, link: LinkId) -> bool {
        self.outboxes.get(&link).is_some_and(|outbox| outbox.is_closing)
    }

    fn remove(&mut self, now: Timestamp, link: LinkId) {
        self.outboxes.remove(&link);
        self.receiver.handle_disconnection(now, link);
    }
}

/// The end of a connection from which messages are read.
#[derive(Debug)]
pub(super) struct Inbox {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// Triggers for which there was no room.
    held: Vec<Trigger>,
    has_ended: bool,
    /// When it was refused.
    refused_at: Option<Timestamp>,
    handled: u64,
}

impl Inbox {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, bytes: Vec::new(), held: Vec::new(), has_ended: false, refused_at: None, handled: 0 }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns whether more is read: not while triggers wait for room.
    pub(super) fn reads(&self) -> bool {
        self.held.is_empty() && !self.has_ended
    }

    /// Returns the number of messages, and parts of messages, that were handed over.
    pub(super) fn handled(&self) -> u64 {
        self.handled
    }

    /// Reads what has arrived, up to one message of the maximum length.
    pub(super) fn fill(&mut self) {
        let room = MAX_MESSAGE_BYTES.saturating_sub(self.bytes.len());
        match (&self.stream).take(room as u64).read_to_end(&mut self.bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.has_ended = true,
            // As much as was asked for may be all that there is room for.
            Ok(read) => self.has_ended = read < room,
        }
    }

    /// Hands over the messages that are complete, as far as there is room for their triggers. Returns `false` if the connection
    /// has ended.
    pub(super) fn hand_over(&mut self, now: Timestamp, link: LinkId, links: &mut Links) -> bool {
        if links.is_closing(link) {
            self.discard(now);
        }
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.give(now, link, held, links);
        }
        let mut start = 0;
        while self.held.is_empty() && self.refused_at.is_none() {
            match next_message(&self.bytes[start..]) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    let message = FromSupervisor::read(&self.bytes[start..start + length]);
                    start += length;
                    self.take(now, link, message, links);
                }
                Err(error) => self.take(now, link, Err(error), links),
            }
        }
        self.bytes.drain(..start);
        if self.has_ended && self.held.is_empty() {
            links.remove(now, link);
            return false;
        }
        true
    }

    /// Discards what has arrived after a refusal, and ends the connection after a while.
    fn discard(&mut self, now: Timestamp) {
        self.held.clear();
        self.bytes.clear();
        let since = *self.refused_at.get_or_insert(now);
        self.has_ended |= now.since(since) > LINGER;
    }

    fn take(
        &mut self,
        now: Timestamp,
        link: LinkId,
        message: Result<FromSupervisor, DecodeError>,
        links: &mut Links,
    ) {
        self.handled += 1;
        match message {
            Ok(FromSupervisor::Triggers(triggers)) if links.receiver.is_supervisor(link) => {
                let room = usize::try_from(links.receiver.room()).unwrap_or(usize::MAX);
                links.receiver.note_late(triggers.len().saturating_sub(room) as u64);
                self.give(now, link, triggers, links);
            }
            Ok(message) => links.receiver.handle_input(now, link, message),
            Err(error) => {
                self.refused_at = Some(now);
                log::debug!("message of a trigger supervisor: {error}");
                let is_other = matches!(error, DecodeError::BadValue { field: "version", .. });
                let refusal = if is_other { Refusal::OtherVersion } else { Refusal::InvalidMessage };
                links.receiver.refuse(link, refusal);
            }
        }
    }

    /// Hands over triggers as far as there is room, and keeps the others.
    fn give(&mut self, now: Timestamp, link: LinkId, mut triggers: Vec<Trigger>, links: &mut Links) {
        let room = usize::try_from(links.receiver.room()).unwrap_or(usize::MAX).min(triggers.len());
        self.held = triggers.split_off(room);
        if !triggers.is_empty() {
            self.handled += 1;
            links.receiver.handle_input(now, link, FromSupervisor::Triggers(triggers));
        }
    }
}

/// Returns the length of the next message, if it is complete.
fn next_message(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let length = declared_length(head)?;
    Ok((bytes.len() >= length).then_some(length))
}
