//! The side of a readout unit: its clients, and what they have sent.

use crate::queue::{Queue, Received};
use log::{info, warn};
use sheaf_buffer::Memory;
use sheaf_protocol::feed::{ClientId, Server, ServerEvent};
use sheaf_shm::door::{Door, DoorNews, DoorRefusal, Guest};
use sheaf_wire::feed::{
    ClientMessage, FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, Fragments, FragmentsHead, Phase, Refusal,
};
use sheaf_wire::message::DecodeError;
use sheaf_wire::{NodeId, SourceId, Timestamp};
use std::collections::BTreeMap;

/// The clients of a readout unit, and what they have sent.
#[derive(Debug)]
pub(crate) struct Feed<M: Memory> {
    node: NodeId,
    awaited: Vec<SourceId>,
    max_message: usize,
    server: Server,
    door: Door,
    /// The thread of the readout unit may be asleep.
    sleeps: bool,
    /// Time of the last round.
    worked_at: Option<Timestamp>,
    clients: BTreeMap<ClientId, Connection>,
    queues: Vec<Queue<M>>,
    /// Connections that were closed, by reason.
    refused: [u64; Refusal::ALL.len()],
    refused_at_door: [u64; DoorRefusal::ALL.len()],
}

/// The connection to a client.
#[derive(Debug)]
struct Connection {
    guest: Box<Guest>,
    /// The last message of the client.
    message: Vec<u8>,
    /// It was not handled for lack of memory.
    waits: bool,
    /// The client has gone; messages of it may be left.
    has_left: bool,
    /// A message for the client that found no room.
    unsent: Option<Vec<u8>>,
}

/// State of a connection after a message.
enum Next {
    /// There may be more.
    More,
    /// Nothing now.
    Nothing,
    /// The client has gone, and all that it sent was handled.
    Gone,
}

impl<M: Memory> Feed<M> {
    pub(crate) fn new(
        (node, awaited): (NodeId, Vec<SourceId>),
        server: Server,
        door: Door,
        queues: Vec<Queue<M>>,
        max_message: usize,
    ) -> Self {
        Self {
            node,
            awaited,
            max_message,
            server,
            door,
            sleeps: false,
            worked_at: None,
            clients: BTreeMap::new(),
            queues,
            refused: [0; Refusal::ALL.len()],
            refused_at_door: [0; DoorRefusal::ALL.len()],
        }
    }

    /// Does what is due, at most once for each time.
    pub(crate) fn work(&mut self, now: Timestamp) {
        if self.worked_at != Some(now) {
            self.worked_at = Some(now);
            self.exchange();
        }
    }

    /// Takes what clients have sent, as far as there is memory, and answers.
    fn exchange(&mut self) {
        if std::mem::take(&mut self.sleeps) {
            self.door.get_up();
        }
        self.take_news();
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        for id in clients {
            loop {
                match self.take_message(id) {
                    Next::More => {}
                    Next::Nothing => break,
                    Next::Gone => {
                        self.clients.remove(&id);
                        self.server.handle_disconnection(id);
                        break;
                    }
                }
            }
        }
        self.take_events();
        self.transmit();
        self.note_refused_at_door();
    }

    /// Announces that the thread is about to sleep. Returns `false` if there is something new.
    pub(crate) fn prepare_to_sleep(&mut self) -> bool {
        let quiet = self.door.lie_down();
        self.sleeps = true;
        // What a client has sent before it could see that the thread sleeps.
        let before = self.received();
        self.worked_at = None;
        self.exchange_and_sleep();
        quiet && self.received() == before
    }

    fn exchange_and_sleep(&mut self) {
        let sleeps = std::mem::replace(&mut self.sleeps, false);
        self.exchange();
        self.sleeps = sleeps;
    }

    fn received(&self) -> u64 {
        let progress = self.queues.iter().filter_map(|queue| self.server.progress(queue.id()));
        progress.map(|progress| progress.received + u64::from(progress.ended)).sum()
    }

    /// Returns whether the run may start: all sources that are awaited have a client.
    pub(crate) fn is_ready(&mut self) -> bool {
        let awaited = &self.awaited;
        self.server.is_complete(|source| !awaited.contains(&source))
    }

    /// Starts the run, unless it has started.
    pub(crate) fn start(&mut self) {
        if self.server.phase() == Phase::Waiting {
            self.enter(Phase::Running);
        }
    }

    /// Enters a phase of the run, and tells all clients.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.server.handle_phase(phase);
        self.exchange();
    }

    /// Returns the fragments of a source that wait.
    pub(crate) fn queue(&mut self, index: usize) -> &mut Queue<M> {
        &mut self.queues[index]
    }

    /// Returns whether a source sends nothing more.
    pub(crate) fn has_ended(&self, source: SourceId) -> bool {
        self.server.progress(source).is_some_and(|progress| progress.ended)
    }

    /// Takes note that the readout unit has accepted the next fragments of a source.
    pub(crate) fn handle_accepted(&mut self, index: usize, fragments: usize) {
        let queue = &mut self.queues[index];
        let bytes = queue.accept(fragments);
        self.server.handle_accepted(queue.id(), fragments as u64, bytes);
    }

    fn take_news(&mut self) {
        while let Some(news) = self.door.poll() {
            match news {
                DoorNews::Entered(guest) => {
                    let id = ClientId(guest.id.0);
                    let connection = Connection {
                        guest,
                        message: Vec::new(),
                        waits: false,
                        has_left: false,
                        unsent: None,
                    };
                    self.clients.insert(id, connection);
                    self.server.handle_connection(id);
                }
                DoorNews::Left(guest) => {
                    if let Some(client) = self.clients.get_mut(&ClientId(guest.0)) {
                        client.has_left = true;
                    }
                }
            }
        }
    }

    /// Handles the next message of a client, if there is one and memory for it.
    fn take_message(&mut self, id: ClientId) -> Next {
        let Some(client) = self.clients.get_mut(&id) else { return Next::Nothing };
        if !client.waits {
            match client.guest.take(&mut client.message) {
                Some(true) => {}
                Some(false) if client.has_left => return Next::Gone,
                Some(false) => return Next::Nothing,
                None => {
                    self.server.refuse(id, Refusal::InvalidMessage, None);
                    return if self.clients[&id].has_left { Next::Gone } else { Next::Nothing };
                }
            }
        }
        // Taken out, so that it can be read while the rest of this struct changes.
        let message = std::mem::take(&mut client.message);
        let waits = self.handle_message(id, &message);
        if let Some(client) = self.clients.get_mut(&id) {
            (client.message, client.waits) = (message, waits);
        }
        if waits { Next::Nothing } else { Next::More }
    }

    /// Handles a message of a client. Returns `true` if there is no memory for it now.
    fn handle_message(&mut self, id: ClientId, message: &[u8]) -> bool {
        match ClientMessage::read(message) {
            Ok(ClientMessage::Fragments(head, fragments)) => {
                self.handle_fragments(id, message.len(), head, fragments)
            }
            Ok(ClientMessage::Control(control)) => {
                self.server.handle_input(id, control);
                false
            }
            Err(DecodeError::BadValue { field: "version", .. }) => {
                self.server.refuse(id, Refusal::OtherVersion, None);
                false
            }
            Err(_) => {
                self.server.refuse(id, Refusal::InvalidMessage, None);
                false
            }
        }
    }

    fn handle_fragments(
        &mut self,
        id: ClientId,
        length: usize,
        head: FragmentsHead,
        fragments: Fragments<'_>,
    ) -> bool {
        if !self.server.has_joined(id) {
            self.server.refuse(id, Refusal::InvalidMessage, None);
            return false;
        }
        let Ok(admission) = self.server.admit(id, &head) else { return false };
        let heads = (head.count as usize).saturating_mul(FRAGMENT_HEAD_BYTES);
        let payload = length.checked_sub(FRAGMENTS_HEAD_BYTES + heads);
        let Some(payload) = payload.filter(|_| length <= self.max_message) else {
            self.server.refuse(id, Refusal::InvalidMessage, Some(head.source));
            return false;
        };
        let Some(queue) = self.queues.iter_mut().find(|queue| queue.id() == head.source) else {
            return false;
        };
        let max_fragment = self.server.max_fragment();
        match queue.receive(payload, admission, max_fragment, fragments) {
            Received::NoMemory => true,
            Received::Refused(refusal) => {
                self.server.refuse(id, refusal, Some(head.source));
                false
            }
            Received::Nothing => false,
            Received::Stored { fragments, bytes, last_event } => {
                self.server.handle_received(head.source, fragments, bytes, last_event);
                false
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.server.poll_event() {
            let node = self.node;
            match event {
                ServerEvent::Joined { name, sources, .. } => {
                    info!("{node}: {name} feeds {}", list(&sources));
                    for source in sources {
                        self.with_queue(source, Queue::note_back);
                    }
                }
                ServerEvent::Gone(source) => {
                    warn!(
                        "{node}: the program that feeds source {source} has gone; another may take its place"
                    );
                    self.with_queue(source, Queue::note_gone);
                }
                ServerEvent::Ended(source) => info!("{node}: source {source} has ended"),
                ServerEvent::Declined { name, reason } => {
                    if let Some(queue) = self.queues.first_mut() {
                        queue.note_declined(name, reason);
                    }
                }
                ServerEvent::Refused { name, refusal, source, .. } => {
                    self.refused[refusal.index()] += 1;
                    let name = if name.is_empty() { "a program" } else { &name };
                    match source {
                        Some(source) => {
                            warn!("{node}: closes the connection to {name}, source {source}: {refusal}")
                        }
                        None => warn!("{node}: closes the connection to {name}: {refusal}"),
                    }
                }
            }
        }
    }

    fn with_queue(&mut self, source: SourceId, act: impl FnOnce(&mut Queue<M>)) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.id() == source) {
            act(queue);
        }
    }

    /// Sends each client what is due, as far as its ring has room.
    fn transmit(&mut self) {
        for (id, client) in &mut self.clients {
            if client.has_left {
                continue;
            }
            loop {
                let message =
                    client.unsent.take().or_else(|| self.server.poll_transmit(*id).map(|it| it.emit()));
                let Some(message) = message else { break };
                if !client.guest.push(&[&message]) {
                    client.unsent = Some(message);
                    break;
                }
            }
            client.guest.flush();
            if client.unsent.is_none() && self.server.is_refused(*id) {
                client.guest.end();
            }
        }
    }

    fn note_refused_at_door(&mut self) {
        for (reason, noted) in DoorRefusal::ALL.into_iter().zip(&mut self.refused_at_door) {
            let refused = self.door.refused(reason);
            if refused > *noted {
                *noted = refused;
                warn!("{}: refused a program that connected to feed sources: {reason}", self.node);
            }
        }
    }
}

fn list(sources: &[SourceId]) -> String {
    const NAMED: usize = 8;
    let named: Vec<String> = sources.iter().take(NAMED).map(SourceId::to_string).collect();
    let what = if sources.len() == 1 { "source" } else { "sources" };
    match sources.len().saturating_sub(NAMED) {
        0 => format!("{what} {}", named.join(", ")),
        more => format!("{what} {} and {more} more", named.join(", ")),
    }
}
