//! The connection to a client, as its readout unit sees it.

use crate::network::Network;
use bytes::Bytes;
use sheaf_shm::door::Guest;
use sheaf_tcp::GuestId;
use sheaf_transport::Frame;
use sheaf_wire::feed::ClientMessage;
use sheaf_wire::message::DecodeError;
use std::collections::VecDeque;

/// The connection to a client.
#[derive(Debug)]
pub(crate) struct Connection {
    way: Way,
    /// The last message of the client.
    message: Message,
    /// It was not handled for lack of memory.
    waits: bool,
    /// The client has gone; messages of it may be left.
    pub(crate) has_left: bool,
    /// A message for the client that found no room.
    unsent: Option<Vec<u8>>,
    /// The connection is closed by this side.
    is_closed: bool,
}

#[derive(Debug)]
enum Way {
    /// Rings in shared memory.
    Shared(Box<Guest>),
    /// A link over a network.
    Network { guest: GuestId, inbox: VecDeque<Frame> },
}

/// A message of a client, in memory of this process.
#[derive(Debug)]
pub(crate) enum Message {
    /// One piece.
    Whole(Vec<u8>),
    /// The head of a message, and what follows it.
    Parts(Bytes, Bytes),
}

impl Message {
    pub(crate) fn read(&self) -> Result<ClientMessage<'_>, DecodeError> {
        match self {
            Self::Whole(message) => ClientMessage::read(message),
            // A client may send a message in one piece.
            Self::Parts(head, rest) if rest.is_empty() => ClientMessage::read(head),
            Self::Parts(head, rest) => ClientMessage::read_parts(head, rest),
        }
    }

    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Whole(message) => message.len(),
            Self::Parts(head, rest) => head.len() + rest.len(),
        }
    }
}

/// Result of a poll for the next message.
#[derive(Debug)]
pub(crate) enum Next {
    /// A message. It is to be given back with [`Connection::give_back`].
    Message(Message),
    /// Nothing now.
    Nothing,
    /// The client broke the rules of the connection.
    Invalid,
    /// The client has gone, and all that it sent was handled.
    Gone,
}

impl Connection {
    pub(crate) fn shared(guest: Box<Guest>) -> Self {
        Self::new(Way::Shared(guest))
    }

    pub(crate) fn network(guest: GuestId) -> Self {
        Self::new(Way::Network { guest, inbox: VecDeque::new() })
    }

    fn new(way: Way) -> Self {
        let message = Message::Whole(Vec::new());
        Self { way, message, waits: false, has_left: false, unsent: None, is_closed: false }
    }

    /// Takes a frame from the network.
    pub(crate) fn receive(&mut self, frame: Frame) {
        if let Way::Network { inbox, .. } = &mut self.way {
            inbox.push_back(frame);
        }
    }

    /// Returns the number of frames that wait.
    pub(crate) fn waiting(&self) -> usize {
        match &self.way {
            Way::Shared(_) => 0,
            Way::Network { inbox, .. } => inbox.len(),
        }
    }

    /// Returns the next message of the client.
    pub(crate) fn take(&mut self) -> Next {
        let message = std::mem::replace(&mut self.message, Message::Whole(Vec::new()));
        if self.waits {
            return Next::Message(message);
        }
        let gone = if self.has_left { Next::Gone } else { Next::Nothing };
        match &mut self.way {
            Way::Shared(guest) => {
                let mut bytes = if let Message::Whole(bytes) = message { bytes } else { Vec::new() };
                match guest.take(&mut bytes) {
                    Some(true) => Next::Message(Message::Whole(bytes)),
                    Some(false) => {
                        self.message = Message::Whole(bytes);
                        gone
                    }
                    None if self.has_left => Next::Gone,
                    None => Next::Invalid,
                }
            }
            Way::Network { inbox, .. } => match inbox.pop_front() {
                // A link hands a payload out in one piece.
                Some(mut frame) => {
                    let rest = frame.payload.pop_front().unwrap_or_default();
                    Next::Message(Message::Parts(frame.head, rest))
                }
                None => gone,
            },
        }
    }

    /// Gives a message back, to reuse its memory, or to handle it again where it `waits` for memory.
    pub(crate) fn give_back(&mut self, message: Message, waits: bool) {
        (self.message, self.waits) = (message, waits);
    }

    /// Sends messages as far as there is room.
    pub(crate) fn send(&mut self, network: Option<&mut Network>, mut next: impl FnMut() -> Option<Vec<u8>>) {
        if self.has_left || self.is_closed {
            return;
        }
        match (&mut self.way, network) {
            (Way::Shared(guest), _) => {
                while let Some(message) = self.unsent.take().or_else(&mut next) {
                    if !guest.push(&[&message]) {
                        self.unsent = Some(message);
                        break;
                    }
                }
                guest.flush();
            }
            (Way::Network { guest, .. }, Some(network)) => {
                while let Some(message) = next() {
                    network.send(*guest, message);
                }
            }
            (Way::Network { .. }, None) => {}
        }
    }

    /// Closes the connection, unless a message for the client waits for room.
    pub(crate) fn close(&mut self, network: Option<&mut Network>) {
        if self.unsent.is_some() || std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        match (&mut self.way, network) {
            (Way::Shared(guest), _) => guest.end(),
            (Way::Network { guest, .. }, Some(network)) => network.end(*guest),
            (Way::Network { .. }, None) => {}
        }
    }
}
