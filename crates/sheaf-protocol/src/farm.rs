//! The filter farm: a dispatcher beside a builder unit gives built events to processors, and takes their verdicts.
//!
//! | module | holds |
//! |---|---|
//! | [`dispatcher`] | [`Dispatcher`]: holds built events until their verdict, gives them to whoever asks |
//! | [`processor`] | [`Processor`]: asks for events ahead of its need, answers each |
//! | [`counts`] | what a dispatcher counts |
//!
//! Processors *join* and *leave* at run time; nobody lists them. Each has a [`Seat`] at one dispatcher. The way between the
//! two is ordered and whole, or it ends: rings in shared memory, a socket, the queues of a thread. When it ends, the seat is
//! over, and whatever the processor says later belongs to nobody: a processor that comes back has a new seat. So nothing is
//! ever repeated on this way, and no session numbers travel.
//!
//! # What becomes of an event
//! | what happens | what the dispatcher does |
//! |---|---|
//! | a processor accepts or rejects it | hands the verdict to its driver |
//! | a processor fails with it, and says so | tries it once more, elsewhere if there is another processor |
//! | its processor dies, or talks nonsense | tries it once more, elsewhere, *alone* |
//! | its processor gives no verdict in time | the same, and has the driver end that processor |
//! | a processor has nothing, and asks for nothing | has the driver end it after the same time |
//! | that was the last of its tries | hands it out as quarantined: it is to be stored raw, and counted |
//! | there has been no processor for a while | the same |
//! | its processor leaves in good order | gives it to another; nobody is to blame |
//!
//! *Alone*: when a processor dies with several events, one of them may be what killed it. On its second try an event is
//! given to a processor that has no other, and gets none until it has answered. So an event that kills its filter takes
//! no other event with it into quarantine.

pub mod counts;
pub mod dispatcher;
pub mod processor;

pub use crate::machine::Seat;
pub use counts::FarmCounts;
pub use dispatcher::{Departure, Dispatcher, DispatcherConfig, DispatcherEvent, Give, Quarantine};
pub use processor::{Processor, ProcessorEvent};

use std::fmt;

/// One giving of one event. An event that is given a second time has another ticket.
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
    /// It takes so many events more.
    Ask(u32),
    /// Its verdict on an event.
    Verdict(Ticket, V),
    /// Its filter could not judge the event: why, in words for the operator.
    Failed(Ticket, String),
    /// It leaves in good order. What it holds was not begun.
    Leave,
}
