//! Supervisors over TCP: the thread that accepts connections and reads from them.

use super::links::Links;
use super::{LONGEST_WAIT, SHORT_WAIT, Shared, TriggerAccess};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sheaf_key::{DoorProof, DoorPurposes, RunKey};
use sheaf_protocol::trigger_link::LinkId;
use sheaf_tcp::SecureStream;
use sheaf_telemetry::log_as;
use sheaf_wire::message::DecodeError;
use sheaf_wire::trigger_link::{
    FromManager, FromSupervisor, HEAD_BYTES, MAX_MESSAGE_BYTES, Refusal, Trigger, declared_length,
};
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Time for which a refused connection is kept, so that the other side can read the reason.
const LINGER: Nanos = Nanos::from_secs(1);

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The thread that waits for the network.
pub(super) struct StreamServer {
    listener: TcpListener,
    access: TriggerAccess,
    shared: Arc<Shared>,
    inboxes: BTreeMap<LinkId, Inbox>,
    next: u64,
}

impl StreamServer {
    pub(super) fn new(listener: TcpListener, access: TriggerAccess, shared: Arc<Shared>) -> Self {
        Self { listener, access, shared, inboxes: BTreeMap::new(), next: 0 }
    }

    pub(super) fn run(mut self) {
        let mut room = vec![0; READ_BYTES];
        while !self.shared.stop.load(Ordering::Relaxed) {
            let ready = self.wait();
            self.accept();
            let mut has_news = false;
            for link in ready {
                if let Some(inbox) = self.inboxes.get_mut(&link) {
                    inbox.fill(&mut room);
                }
            }
            let now = self.shared.clock.now();
            let mut links = self.shared.lock();
            let access = &self.access;
            self.inboxes.retain(|link, inbox| {
                let before = inbox.handled;
                let stays = inbox.hand_over(now, *link, access, &mut links);
                has_news |= inbox.handled != before || !stays;
                stays
            });
            links.transmit(now);
            drop(links);
            if has_news {
                self.shared.waker.wake_by_ref();
            }
        }
    }

    /// Waits until something may be done, and returns the connections that have something to read.
    fn wait(&self) -> Vec<LinkId> {
        let reading: Vec<(&LinkId, &Inbox)> =
            self.inboxes.iter().filter(|(_, inbox)| inbox.reads()).collect();
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(reading.iter().map(|(_, inbox)| PollFd::new(&*inbox.stream, PollFlags::IN)));
        let is_blocked = reading.len() < self.inboxes.len() || !self.shared.lock().is_flushed();
        let limit = if reading.iter().any(|(_, inbox)| inbox.stream.has_received()) {
            Timespec { tv_sec: 0, tv_nsec: 0 }
        } else if is_blocked {
            SHORT_WAIT
        } else {
            LONGEST_WAIT
        };
        // An interruption is as good as a wake-up.
        let _ = poll(&mut fds, Some(&limit));
        let is_ready = |(fd, (_, inbox)): &(&PollFd<'_>, &(&LinkId, &Inbox))| {
            !fd.revents().is_empty() || inbox.stream.has_received()
        };
        fds[1..].iter().zip(&reading).filter(is_ready).map(|(_, (link, _))| **link).collect()
    }

    fn accept(&mut self) {
        // Any error is that of one connection, or passes.
        while let Ok((stream, _)) = self.listener.accept() {
            let link = LinkId(self.next);
            self.next += 1;
            let Ok(stream) = SecureStream::accepted(stream, self.access.tls.as_ref()) else { continue };
            let stream = Arc::new(stream);
            self.inboxes.insert(link, Inbox::new(stream.clone(), &self.access));
            self.shared.lock().add(link, stream);
        }
    }
}

/// Whether a supervisor has proven that it has the key.
#[derive(Debug)]
enum Proof {
    /// It has, or there is no key.
    Done,
    /// It has not sent a hello.
    Due(RunKey),
    /// It was asked, after it has said its name.
    Asked { door: DoorProof, name: String },
}

/// The end of a connection from which messages are read.
#[derive(Debug)]
struct Inbox {
    stream: Arc<SecureStream>,
    proof: Proof,
    bytes: Vec<u8>,
    /// Whether something has arrived, and with it the certificate.
    has_received: bool,
    /// Triggers for which there was no room.
    held: Vec<Trigger>,
    has_ended: bool,
    /// When it was refused.
    refused_at: Option<Timestamp>,
    /// Number of messages, and parts of messages, that were handed over.
    handled: u64,
}

impl Inbox {
    fn new(stream: Arc<SecureStream>, access: &TriggerAccess) -> Self {
        Self {
            stream,
            proof: access.key.clone().map_or(Proof::Done, Proof::Due),
            bytes: Vec::new(),
            has_received: false,
            held: Vec::new(),
            has_ended: false,
            refused_at: None,
            handled: 0,
        }
    }

    /// Returns whether more is read: not while triggers wait for room.
    fn reads(&self) -> bool {
        self.held.is_empty() && !self.has_ended
    }

    /// Reads what has arrived, up to one message of the maximum length.
    fn fill(&mut self, room: &mut [u8]) {
        while self.bytes.len() < MAX_MESSAGE_BYTES {
            let length = room.len().min(MAX_MESSAGE_BYTES - self.bytes.len());
            match self.stream.read(&mut room[..length]) {
                Ok(0) => self.has_ended = true,
                Ok(read) => {
                    self.bytes.extend_from_slice(&room[..read]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.has_ended = true,
            }
            return;
        }
    }

    /// Hands over the messages that are complete, as far as there is room for their triggers. Returns `false` if the connection
    /// has ended.
    fn hand_over(&mut self, now: Timestamp, link: LinkId, access: &TriggerAccess, links: &mut Links) -> bool {
        if links.is_closing(link) {
            self.discard(now);
        }
        self.check_certificate(now, link, access, links);
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
            if matches!(self.proof, Proof::Asked { .. }) && self.refused_at.is_none() {
                // It was asked for the key, and left.
                links.receiver.refuse(link, Refusal::WrongKey);
            }
            links.remove(now, link);
            return false;
        }
        true
    }

    /// Refuses a connection that is not secured by a certificate for a supervisor.
    fn check_certificate(&mut self, now: Timestamp, link: LinkId, access: &TriggerAccess, links: &mut Links) {
        if let Some(problem) = self.stream.problem().filter(|_| self.refused_at.is_none()) {
            log::debug!("a connection to the trigger address: {problem}");
            self.refuse(now, link, Refusal::WrongCertificate, links);
        }
        if !self.bytes.is_empty() && !std::mem::replace(&mut self.has_received, true) {
            let is_named = access.tls.is_none() || self.stream.is_for_one_of(&access.names);
            if !is_named {
                self.refuse(now, link, Refusal::WrongCertificate, links);
            }
        }
    }

    fn refuse(&mut self, now: Timestamp, link: LinkId, refusal: Refusal, links: &mut Links) {
        self.refused_at.get_or_insert(now);
        links.receiver.refuse(link, refusal);
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
        match message.map(|message| self.admit(now, link, message, links)) {
            Ok(None) => {}
            Ok(Some(FromSupervisor::Triggers(triggers))) if links.receiver.is_supervisor(link) => {
                let room = usize::try_from(links.receiver.room()).unwrap_or(usize::MAX);
                links.receiver.note_late(triggers.len().saturating_sub(room) as u64);
                self.give(now, link, triggers, links);
            }
            Ok(Some(message)) => links.receiver.handle_input(now, link, message),
            Err(error) => {
                log::debug!("message of a trigger supervisor: {error}");
                let is_other = matches!(error, DecodeError::BadValue { field: "version", .. });
                let refusal = if is_other { Refusal::OtherVersion } else { Refusal::InvalidMessage };
                self.refuse(now, link, refusal, links);
            }
        }
    }

    /// Returns the message for the machine. Before the supervisor has proven that it has the key, the machine receives nothing; then it
    /// receives the hello.
    fn admit(
        &mut self,
        now: Timestamp,
        link: LinkId,
        message: FromSupervisor,
        links: &mut Links,
    ) -> Option<FromSupervisor> {
        match (std::mem::replace(&mut self.proof, Proof::Done), message) {
            (Proof::Done, message) => return Some(message),
            (Proof::Due(key), FromSupervisor::Hello { name }) => {
                match DoorProof::new(key, DoorPurposes::TRIGGERS) {
                    Ok(door) => {
                        links.send(link, &FromManager::Challenge(door.challenge()));
                        self.proof = Proof::Asked { door, name };
                        return None;
                    }
                    Err(error) => log_as!(
                        TRIGGER_SUPERVISOR_REFUSED, node = NodeId::MANAGER;
                        "a trigger supervisor cannot connect: {error}"
                    ),
                }
            }
            (Proof::Asked { door, name }, FromSupervisor::Answer { nonce, proof }) => {
                if let Some(own) = door.verify(&nonce, &proof) {
                    links.send(link, &FromManager::Proof(own));
                    return Some(FromSupervisor::Hello { name });
                }
            }
            (Proof::Due(_) | Proof::Asked { .. }, _) => {}
        }
        self.refuse(now, link, Refusal::WrongKey, links);
        None
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
