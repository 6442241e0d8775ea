//! The filter farm: the dispatcher of a builder unit distributes built events to processors and collects their verdicts.
//!
//! | module | contents |
//! |---|---|
//! | [`dispatcher`] | [`Dispatcher`]: holds built events until their verdict, sends them to processors on request |
//! | [`processor`] | [`Processor`]: requests events in advance, answers each |
//! | [`counts`] | counters of a dispatcher |
//! | [`readiness`] | [`FarmReadiness`]: whether the workers that a farm starts have loaded their filter |
//!
//! Processors *join* and *leave* at run time; they are not in the configuration. Each has a [`Seat`] at one dispatcher.
//! The connection between the two is ordered and reliable, or it ends: rings in shared memory, a socket, the queues of
//! a thread. When it ends, so does the seat, and later messages of the processor are ignored: a processor that returns
//! has a new seat. So nothing is ever retransmitted on this connection, and no session numbers are sent.
//!
//! # Fate of an event
//! | situation | action of the dispatcher |
//! |---|---|
//! | a processor accepts or rejects it | hands the verdict to its driver |
//! | a processor reports a failure with it | retries it, with another processor if there is one |
//! | its processor dies, or sends invalid records | retries it, with another processor, *alone* |
//! | its processor gives no verdict in time | the same, and makes the driver end that processor |
//! | a processor has no events and requests none | makes the driver end it after the same time |
//! | that was its last retry | returns it as quarantined, to be stored unfiltered and counted |
//! | there has been no processor for a while | the same |
//! | its processor leaves in an orderly way | sends it to another, without counting a failure |
//!
//! *Alone*: when a processor dies with several events, any of them may be the cause. For its second attempt an event is sent
//! to a processor without other events, which gets no other until it has answered. So an event that crashes the filter does
//! not cause other events to be quarantined.

pub mod counts;
pub mod dispatcher;
pub mod processor;
pub mod readiness;

pub use crate::machine::Seat;
pub use counts::FarmCounts;
pub use dispatcher::{Departure, Dispatcher, DispatcherConfig, DispatcherEvent, Give, Quarantine};
pub use processor::{Processor, ProcessorEvent};
pub use readiness::FarmReadiness;

use sheaf_wire::FilterFailure;
use std::fmt;

/// Identifies one delivery of one event. An event that is delivered again has another ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    fn new(slot: u32, giving: u32) -> Self {
        Self(u64::from(giving) << 32 | u64::from(slot))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    fn slot(self) -> usize {
        self.0 as u32 as usize
    }

    fn giving(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Message of a processor to its dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word<V> {
    /// Requests this number of further events.
    Ask(u32),
    /// Verdict on an event.
    Verdict(Ticket, V),
    /// The filter could not judge the event.
    Failed(Ticket, FilterFailure),
    /// The processor leaves in an orderly way. The events that it holds have not been started.
    Leave,
}
