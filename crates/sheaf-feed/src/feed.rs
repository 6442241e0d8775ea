//! The side of a readout unit: its clients, and what they have sent.

use crate::connection::{Connection, Message, Next};
use crate::network::{Arrival, Network};
use crate::queue::{Queue, Received};
use sheaf_buffer::Memory;
use sheaf_protocol::feed::{ClientId, Server, ServerEvent};
use sheaf_shm::door::{self, Door, DoorNews, DoorRefusal};
use sheaf_source::SourceEvent;
use sheaf_tcp::GuestId;
use sheaf_telemetry::log_as;
use sheaf_wire::feed::{
    ClientMessage, FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, Fragments, FragmentsHead, Phase, Refusal,
};
use sheaf_wire::message::{DecodeError, Recorded};
use sheaf_wire::{NodeId, SourceId, Timestamp};
use std::collections::BTreeMap;

/// The clients of a readout unit, and what they have sent.
#[derive(Debug)]
pub(crate) struct Feed<M: Memory> {
    node: NodeId,
    /// Whether the run does not start without a program, by source.
    awaited: Vec<bool>,
    max_message: usize,
    server: Server,
    door: Door,
    network: Option<Network>,
    /// Maximum number of messages of a client that wait here: its credit allows no more.
    max_waiting: usize,
    last_client: u64,
    guests: BTreeMap<Caller, ClientId>,
    /// The thread of the readout unit may be asleep.
    sleeps: bool,
    /// Time of the last round.
    worked_at: Option<Timestamp>,
    /// Number of messages of fragments and of events so far.
    received_messages: u64,
    clients: BTreeMap<ClientId, Connection>,
    queues: Vec<Queue<M>>,
    /// Connections that were closed, by reason.
    refused: [u64; Refusal::ALL.len()],
    refused_at_door: [u64; DoorRefusal::ALL.len()],
    refused_on_network: u64,
}

/// A client, in the numbering of the door or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    Shared(door::GuestId),
    Network(GuestId),
}

impl<M: Memory> Feed<M> {
    pub(crate) fn new(
        (node, awaited): (NodeId, Vec<SourceId>),
        server: Server,
        (door, network): (Door, Option<Network>),
        queues: Vec<Queue<M>>,
        (max_message, max_waiting): (usize, usize),
    ) -> Self {
        let awaited = queues.iter().map(|queue| awaited.contains(&queue.id())).collect();
        Self {
            node,
            awaited,
            max_message,
            max_waiting,
            server,
            door,
            network,
            last_client: 0,
            guests: BTreeMap::new(),
            sleeps: false,
            worked_at: None,
            received_messages: 0,
            clients: BTreeMap::new(),
            queues,
            refused: [0; Refusal::ALL.len()],
            refused_at_door: [0; DoorRefusal::ALL.len()],
            refused_on_network: 0,
        }
    }

    /// Does what is due, at most once for each time.
    pub(crate) fn work(&mut self, now: Timestamp) {
        if self.worked_at != Some(now) {
            self.worked_at = Some(now);
            self.wake();
            self.exchange();
        }
    }

    /// Notes that the thread of the readout unit is awake.
    fn wake(&mut self) {
        if std::mem::take(&mut self.sleeps) {
            self.door.get_up();
        }
    }

    /// Takes what clients have sent, as far as there is memory, and answers.
    fn exchange(&mut self) {
        self.take_news();
        self.take_arrivals();
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        for id in clients {
            while self.take_message(id) {}
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
        let before = self.received_messages;
        self.worked_at = None;
        self.exchange();
        quiet && self.received_messages == before && self.network.as_ref().is_none_or(Network::is_quiet)
    }

    /// Returns whether the run may start as far as this source is concerned.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        !self.awaited[index] || self.server.is_fed(index)
    }

    /// Returns whether a source has a client, or has ended.
    pub(crate) fn is_fed(&self, index: usize) -> bool {
        self.server.is_fed(index)
    }

    /// Starts the run, unless it has started.
    pub(crate) fn start(&mut self) {
        if self.server.phase() == Phase::Waiting {
            self.enter(Phase::Running);
        }
    }

    /// Pauses the run or resumes it, unless another source of the unit has done so.
    pub(crate) fn pause(&mut self, paused: bool) {
        let (from, to) =
            if paused { (Phase::Running, Phase::Paused) } else { (Phase::Paused, Phase::Running) };
        if self.server.phase() == from {
            self.enter(to);
        }
    }

    /// Enters a phase of the run, and tells all clients.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.server.handle_phase(phase);
        self.wake();
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

    /// Takes the answer to a run record, and sends it.
    pub(crate) fn handle_recorded(&mut self, answer: Recorded) {
        self.server.handle_recorded(answer);
        self.take_events();
        self.transmit();
    }

    /// Returns whether run records are awaited after the end of the run.
    pub(crate) fn is_recording(&self) -> bool {
        self.server.is_recording()
    }

    /// Returns the number of connections that were refused or closed, by reason.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let clients = Refusal::ALL.iter().zip(self.refused).map(|(refusal, count)| (refusal.name(), count));
        let callers = self.refused_at_door.iter().sum::<u64>() + self.refused_on_network;
        clients.chain([("not_admitted", callers)]).filter(|(_, count)| *count > 0)
    }

    fn take_news(&mut self) {
        while let Some(news) = self.door.poll() {
            match news {
                DoorNews::Entered(guest) => {
                    self.admit(Caller::Shared(guest.id), Connection::shared(guest));
                }
                DoorNews::Left(guest) => self.note_left(Caller::Shared(guest)),
            }
        }
    }

    fn take_arrivals(&mut self) {
        while let Some(arrival) = self.network.as_mut().and_then(Network::poll) {
            match arrival {
                Arrival::Connected(guest, under_way) => {
                    self.admit(Caller::Network(guest), Connection::network(guest, under_way));
                }
                Arrival::Message(guest, frame) => {
                    let Some(id) = self.guests.get(&Caller::Network(guest)).copied() else { continue };
                    let Some(client) = self.clients.get_mut(&id) else { continue };
                    if client.waiting() < self.max_waiting {
                        client.receive(frame);
                    } else {
                        self.server.refuse(id, Refusal::OverCredit, None);
                    }
                }
                Arrival::Gone(guest) => self.note_left(Caller::Network(guest)),
                Arrival::Refused(reason) => {
                    self.refused_on_network += 1;
                    log_as!(
                        FEEDER_REFUSED, node = self.node;
                        "{}: refused a program that connected to feed sources: {reason}", self.node
                    );
                }
            }
        }
    }

    fn admit(&mut self, caller: Caller, connection: Connection) {
        self.last_client += 1;
        let id = ClientId(self.last_client);
        self.guests.insert(caller, id);
        self.clients.insert(id, connection);
        self.server.handle_connection(id);
    }

    fn note_left(&mut self, caller: Caller) {
        let client = self.guests.remove(&caller).and_then(|id| self.clients.get_mut(&id));
        if let Some(client) = client {
            client.has_left = true;
        }
    }

    /// Handles the next message of a client, if there is one and memory for it. Returns whether there may be more.
    fn take_message(&mut self, id: ClientId) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        match client.take() {
            Next::Message(message) => {
                let waits = self.handle_message(id, &message);
                if let Some(client) = self.clients.get_mut(&id) {
                    client.give_back(message, waits);
                }
                !waits
            }
            Next::Nothing => false,
            Next::Invalid => {
                self.server.refuse(id, Refusal::InvalidMessage, None);
                false
            }
            Next::Gone => {
                self.clients.remove(&id);
                self.server.handle_disconnection(id);
                false
            }
        }
    }

    /// Handles a message of a client. Returns `true` if there is no memory for it now.
    fn handle_message(&mut self, id: ClientId, message: &Message) -> bool {
        match message.read() {
            Ok(ClientMessage::Fragments(head, fragments)) => {
                self.handle_fragments(id, message, head, fragments)
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
        message: &Message,
        head: FragmentsHead,
        fragments: Fragments<'_>,
    ) -> bool {
        if !self.server.has_joined(id) {
            self.server.refuse(id, Refusal::InvalidMessage, None);
            return false;
        }
        let Some(admission) = self.server.admit(id, &head) else { return false };
        let heads = (head.count as usize).saturating_mul(FRAGMENT_HEAD_BYTES);
        let length = message.length();
        let payload = length.checked_sub(FRAGMENTS_HEAD_BYTES + heads);
        let Some(payload) = payload.filter(|_| length <= self.max_message) else {
            self.server.refuse(id, Refusal::InvalidMessage, Some(head.source));
            return false;
        };
        let Some(queue) = self.server.index_of(head.source).map(|index| &mut self.queues[index]) else {
            return false;
        };
        let max_fragment = self.server.max_fragment();
        let in_ring = self.clients.get(&id).and_then(|client| client.fragments_in_ring(message, head.count));
        let received = match in_ring {
            Some(fragments) => queue.receive(payload, admission, max_fragment, fragments),
            None => queue.receive(payload, admission, max_fragment, fragments),
        };
        match received {
            Received::NoMemory => true,
            Received::Refused(refusal) => {
                self.server.refuse(id, refusal, Some(head.source));
                false
            }
            Received::Nothing => false,
            Received::Stored { fragments, bytes, last_event } => {
                self.received_messages += 1;
                self.server.handle_received(head.source, fragments, bytes, last_event);
                false
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.server.poll_event() {
            let node = self.node;
            self.received_messages += 1;
            match event {
                ServerEvent::Joined { name, sources, .. } => {
                    log_as!(
                        FEEDER_JOINED, node = node, peer = name;
                        "{node}: {name} feeds {}", list(&sources)
                    );
                    for source in sources {
                        self.note(source, SourceEvent::Back);
                    }
                }
                ServerEvent::Gone(source) => {
                    log_as!(
                        FEEDER_GONE, node = node, source = source;
                        "{node}: the program that feeds source {source} has gone; another may take its place"
                    );
                    self.note(source, SourceEvent::Gone);
                }
                ServerEvent::Ended(source) => log_as!(
                    SOURCE_ENDED, node = node, source = source;
                    "{node}: source {source} has ended"
                ),
                ServerEvent::Record(record) => self.note(record.source, SourceEvent::Record(record)),
                ServerEvent::Declined { name, reason } => {
                    if let Some(queue) = self.queues.first_mut() {
                        queue.note(SourceEvent::Declined { name, reason });
                    }
                }
                ServerEvent::Refused { name, refusal, source, .. } => {
                    self.refused[refusal.index()] += 1;
                    let name = if name.is_empty() { "a program" } else { &name };
                    match source {
                        Some(source) => {
                            log_as!(
                                FEEDER_CLOSED, node = node, source = source, peer = name;
                                "{node}: closes the connection to {name}, source {source}: {refusal}"
                            )
                        }
                        None => log_as!(
                            FEEDER_CLOSED, node = node, peer = name;
                            "{node}: closes the connection to {name}: {refusal}"
                        ),
                    }
                }
            }
        }
    }

    fn note(&mut self, source: SourceId, event: SourceEvent) {
        if let Some(index) = self.server.index_of(source) {
            self.queues[index].note(event);
        }
    }

    /// Sends each client what is due, as far as there is room.
    fn transmit(&mut self) {
        let Self { clients, server, network, .. } = self;
        for (id, client) in clients {
            client.send(network.as_mut(), || server.poll_transmit(*id).map(|message| message.emit()));
            if server.is_refused(*id) {
                client.close(network.as_mut());
            }
        }
        if let Some(network) = network {
            network.flush();
        }
    }

    fn note_refused_at_door(&mut self) {
        for (reason, noted) in DoorRefusal::ALL.into_iter().zip(&mut self.refused_at_door) {
            let refused = self.door.refused(reason);
            if refused > *noted {
                *noted = refused;
                log_as!(
                    FEEDER_REFUSED, node = self.node;
                    "{}: refused a program that connected to feed sources: {reason}", self.node
                );
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
