//! Messages with their senders, receivers and times: the one interface between the engines and the endpoints.
//!
//! An engine asks a sender for its next message whenever the sender's network interface has room. Traffic without a
//! message returns when to ask again, or sleeps until a delivery wakes it. So the engines know nothing of events,
//! credits or protocols, and traffic knows nothing of switches.
//!
//! | module | holds |
//! |---|---|
//! | `sizes`, `placement`, `assignment` | common parts of event-building traffic |
//! | `book` | which events are complete, and their latencies |
//! | `push`, `pull`, `barrel` | event building, in its shapes; a recorded run is replayed by `push` |
//! | `random` | random senders and receivers |
//! | `frames` | any of them, cut into the frames of a link |
//! | `roles` | the machines of `sheaf-protocol` |

pub mod assignment;
pub mod barrel;
pub mod book;
mod chance;
mod error;
pub mod frames;
pub mod placement;
pub mod pull;
pub mod push;
pub mod random;
pub mod roles;
pub mod sizes;
#[cfg(test)]
mod tests;

pub use error::SetupError;
use error::check_rate;

use crate::network::EndpointId;
use crate::report::{Check, Distribution, EventCounts};
use crate::units::Picos;

/// One message of an application, which the network moves as one unit (a wormhole message, a packet, a frame). Traffic
/// that sends more than fits a frame cuts it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Sender.
    pub source: EndpointId,
    /// Receiver.
    pub destination: EndpointId,
    /// Its size in bytes, on the wire.
    pub bytes: u32,
    /// Token by which the traffic knows it; the network ignores it.
    pub token: u64,
    /// When the traffic handed it to the network interface.
    pub born: Picos,
}

/// Next action of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It sends this, now.
    Send(Message),
    /// It has nothing until then; ask again at that instant.
    At(Picos),
    /// It has nothing until something wakes it.
    Sleep,
}

/// Actions for the engine after an event: senders to poll at once, and instants at which the traffic is to be called.
#[derive(Clone, Debug, Default)]
pub struct Wake {
    senders: Vec<EndpointId>,
    timers: Vec<Picos>,
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

    /// Asks for a call of [`Traffic::timer`] at `at`, or now where that is over. It cannot be taken back: the traffic
    /// ignores a call that it does not need any more.
    pub fn timer(&mut self, at: Picos) {
        self.timers.push(at);
    }

    /// The instants to call at, in the order in which they were asked for.
    pub fn drain_timers(&mut self) -> impl Iterator<Item = Picos> + '_ {
        self.timers.drain(..)
    }

    /// Returns whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty() && self.timers.is_empty()
    }
}

/// A workload.
///
/// The engines call this in simulated order: `now` never goes back. Same calls, same answers. An engine drains the
/// [`Wake`] after every call that takes one.
pub trait Traffic {
    /// The run begins: called once, before anything else. All senders are asked afterwards without being woken.
    fn begin(&mut self, _wake: &mut Wake) {}

    /// Returns the next message of `sender`. Called only when its network interface has room.
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next;

    /// The last byte of `message` has arrived.
    fn delivered(&mut self, message: &Message, now: Picos, wake: &mut Wake);

    /// The network has lost `message` for good.
    fn lost(&mut self, message: &Message, now: Picos, wake: &mut Wake);

    /// The last byte of `message` has left its sender's network interface, so that the sender's buffer is free. Called
    /// for every message, before it is delivered or lost.
    fn sent(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}

    /// An instant that the traffic has asked for with [`Wake::timer`] has come.
    fn timer(&mut self, _now: Picos, _wake: &mut Wake) {}

    /// Returns the number of complete events, for runs whose length is given in events. Called often: must be a field,
    /// not a walk.
    fn complete_events(&self) -> u64 {
        0
    }

    /// Returns the number of events that have ended, complete or not. It ends a run in a network that loses so much
    /// that hardly any event becomes complete. Called frequently as well.
    fn ended_events(&self) -> u64 {
        self.complete_events()
    }

    /// Returns the facts about the run that the network does not know: events, and the traffic's own self-checks.
    fn summary(&self) -> Summary {
        Summary::default()
    }
}

impl<T: Traffic + ?Sized> Traffic for Box<T> {
    fn begin(&mut self, wake: &mut Wake) {
        (**self).begin(wake);
    }

    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        (**self).next(sender, now)
    }

    fn delivered(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        (**self).delivered(message, now, wake);
    }

    fn lost(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        (**self).lost(message, now, wake);
    }

    fn sent(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        (**self).sent(message, now, wake);
    }

    fn timer(&mut self, now: Picos, wake: &mut Wake) {
        (**self).timer(now, wake);
    }

    fn complete_events(&self) -> u64 {
        (**self).complete_events()
    }

    fn ended_events(&self) -> u64 {
        (**self).ended_events()
    }

    fn summary(&self) -> Summary {
        (**self).summary()
    }
}

/// Summary of a run by its workload: goes into the [report](crate::Report) as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Events, where the traffic has any.
    pub events: Option<EventCounts>,
    /// From the first fragment's hand-over to the event's last byte.
    pub event_latency: Option<Distribution>,
    /// Self-checks of the traffic.
    pub checks: Vec<Check>,
}
