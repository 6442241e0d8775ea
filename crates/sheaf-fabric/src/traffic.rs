//! Who sends what to whom, and when: the one interface between the engines and the endpoints.
//!
//! An engine asks a sender for its next message whenever the sender's network interface has room. Traffic that has
//! nothing to send says when to ask again, or sleeps until a delivery wakes it. So the engines know nothing of events,
//! credits or protocols, and traffic knows nothing of switches.

use crate::network::EndpointId;
use crate::units::Picos;

/// What travels: one message of an application, which the network moves as one unit (a wormhole message, a packet, a
/// frame). Traffic that sends more than fits a frame cuts it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sends it.
    pub source: EndpointId,
    /// Who receives it.
    pub destination: EndpointId,
    /// Its size in bytes, on the wire.
    pub bytes: u32,
    /// What the traffic knows it by; the network does not look at it.
    pub token: u64,
    /// When the traffic handed it to the network interface.
    pub born: Picos,
}

/// What a sender does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It sends this, now.
    Send(Message),
    /// It has nothing until then; ask again at that instant.
    At(Picos),
    /// It has nothing until something wakes it.
    Sleep,
}

/// Senders to ask again at once, because something they waited for has happened.
#[derive(Clone, Debug, Default)]
pub struct Wake {
    senders: Vec<EndpointId>,
}

impl Wake {
    /// Asks `sender` again. Waking a sender that does not sleep does no harm.
    pub fn sender(&mut self, sender: EndpointId) {
        self.senders.push(sender);
    }

    /// Those to ask, in the order in which they were woken.
    pub fn drain(&mut self) -> impl Iterator<Item = EndpointId> + '_ {
        self.senders.drain(..)
    }

    /// Whether nobody was woken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }
}

/// A workload.
///
/// The engines call this in simulated order: `now` never goes back. Same calls, same answers.
pub trait Traffic {
    /// What `sender` sends next. Called only when its network interface has room.
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next;

    /// The last byte of `message` has arrived.
    fn delivered(&mut self, message: &Message, now: Picos, wake: &mut Wake);

    /// The network has lost `message` for good.
    fn lost(&mut self, message: &Message, now: Picos, wake: &mut Wake);

    /// The last byte of `message` has left its sender's network interface, so that the sender's buffer is free.
    fn sent(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}
}
