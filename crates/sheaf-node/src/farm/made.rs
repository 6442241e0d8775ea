//! Workers of the caller's making, behind a trait: a simulated farm has them, whose judging takes simulated time.

use bytes::Bytes;
use sheaf_protocol::farm::{Departure, Seat, Ticket, Word};
use sheaf_wire::{Event, Verdict};
use std::sync::Arc;

/// A worker, as its farm sees it. It keeps the contract of [`sheaf_protocol::farm::Processor`], asks before it is given
/// events, and wakes the builder unit when it has a message.
pub trait Worker: Send {
    /// Returns the worker's next message, if any. Never blocks.
    ///
    /// # Errors
    /// Reason of its departure, once it has left.
    fn receive(&mut self) -> Result<Option<Word<Verdict>>, Departure>;

    /// Gives it an event.
    fn give(&mut self, ticket: Ticket, event: &Arc<Event<Bytes>>);

    /// Ends it; its seat is over.
    fn close(&mut self);
}

/// Makes the worker of a seat, with the maximum number of events that it may ask for; called again when a worker is
/// replaced.
pub type WorkerMaker = Box<dyn FnMut(Seat, u32) -> Box<dyn Worker> + Send>;
