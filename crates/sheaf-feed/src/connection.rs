//! The connection to a client, as its readout unit sees it.

use crate::network::{Network, UnderWay};
use crate::queue::FragmentSource;
use bytes::Bytes;
use sheaf_shm::door::Guest;
use sheaf_tcp::GuestId;
use sheaf_transport::Frame;
use sheaf_wire::feed::{
    ClientMessage, FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, FragmentHead, is_fragments,
};
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
    Network { guest: GuestId, inbox: VecDeque<Frame>, under_way: UnderWay },
}

/// A message of a client.
#[derive(Debug)]
pub(crate) enum Message {
    /// Fragments in the ring of the client. Their heads are copied before they are checked.
    InRing {
        /// First part of the message, in memory of this process.
        head: [u8; FRAGMENTS_HEAD_BYTES],
        /// Length of the message.
        length: usize,
    },
    /// One piece.
    Whole(Vec<u8>),
    /// The head of a message, and what follows it.
    Parts(Bytes, Bytes),
}

impl Message {
    pub(crate) fn read(&self) -> Result<ClientMessage<'_>, DecodeError> {
        match self {
            Self::InRing { head, length } => ClientMessage::read_head(head, *length),
            Self::Whole(message) => ClientMessage::read(message),
            // A client may send a message in one piece.
            Self::Parts(head, rest) if rest.is_empty() => ClientMessage::read(head),
            Self::Parts(head, rest) => ClientMessage::read_parts(head, rest),
        }
    }

    pub(crate) fn length(&self) -> usize {
        match self {
            Self::InRing { length, .. } => *length,
            Self::Whole(message) => message.len(),
            Self::Parts(head, rest) => head.len() + rest.len(),
        }
    }
}

/// Fragments of a message in the ring of a client.
#[derive(Debug)]
pub(crate) struct FragmentsInRing<'a> {
    guest: &'a Guest,
    left: u32,
    at: usize,
    length: usize,
}

impl FragmentSource for FragmentsInRing<'_> {
    fn next_fragment(&mut self) -> Result<Option<(FragmentHead, &[u8])>, DecodeError> {
        let more = self.length - self.at;
        if self.left == 0 {
            return if more == 0 { Ok(None) } else { Err(DecodeError::TrailingBytes(more)) };
        }
        let Some(most) = more.checked_sub(FRAGMENT_HEAD_BYTES) else {
            return Err(DecodeError::Truncated { need: FRAGMENT_HEAD_BYTES, have: more });
        };
        let mut head = [0; FRAGMENT_HEAD_BYTES];
        self.guest.copy(self.at, &mut head);
        let head = FragmentHead::parse(&head)?;
        let length = head.length as usize;
        if length > most {
            return Err(DecodeError::WrongPayloadLength { declared: head.length.into(), have: most as u64 });
        }
        let payload = self.guest.payload(self.at + FRAGMENT_HEAD_BYTES, length);
        (self.left, self.at) = (self.left - 1, self.at + FRAGMENT_HEAD_BYTES + length);
        Ok(Some((head, payload)))
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

    pub(crate) fn network(guest: GuestId, under_way: UnderWay) -> Self {
        Self::new(Way::Network { guest, inbox: VecDeque::new(), under_way })
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
                let length = match guest.peek() {
                    Some(Some(length)) => length,
                    Some(None) => return gone,
                    None if self.has_left => return Next::Gone,
                    None => return Next::Invalid,
                };
                let mut head = [0; FRAGMENTS_HEAD_BYTES];
                let first = length.min(FRAGMENTS_HEAD_BYTES);
                guest.copy(0, &mut head[..first]);
                if first == FRAGMENTS_HEAD_BYTES && is_fragments(&head) {
                    return Next::Message(Message::InRing { head, length });
                }
                let mut bytes = if let Message::Whole(bytes) = message { bytes } else { Vec::new() };
                bytes.resize(length, 0);
                guest.copy(0, &mut bytes);
                Next::Message(Message::Whole(bytes))
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
        if let Way::Shared(guest) = &mut self.way
            && !waits
        {
            guest.release();
        }
        (self.message, self.waits) = (message, waits);
    }

    /// Returns the fragments of the message in the ring of the client, if it is there.
    pub(crate) fn fragments_in_ring(&self, message: &Message, count: u32) -> Option<FragmentsInRing<'_>> {
        match (&self.way, message) {
            (Way::Shared(guest), Message::InRing { length, .. }) => {
                Some(FragmentsInRing { guest, left: count, at: FRAGMENTS_HEAD_BYTES, length: *length })
            }
            _ => None,
        }
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
            (Way::Network { guest, under_way, .. }, Some(network)) => {
                while under_way.has_room()
                    && let Some(message) = next()
                {
                    network.send(*guest, under_way, message);
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
