//! The trigger protocol: a trigger supervisor sends the triggers of a run, and the event manager sends busy back.
//!
//! | module | holds |
//! |---|---|
//! | [`receiver`] | [`Receiver`]: the side of the event manager |
//! | [`supervisor`] | [`Supervisor`]: the side of a trigger supervisor, for tests, `sheaf emulate-trigger` and libraries of triggers |
//! | [`datagram`] | the same messages over UDP, for supervisors that have no TCP |
//! | `rooms` | [`Room`]: room for triggers in the buffers of a run |
//! | `busy_time` | busy times by reason, booked by both sides |
//! | `report` | [`LinkReport`]: the account of all connections of a run |
//!
//! The connection between the two is ordered and reliable, or it ends. Over datagrams, triggers can be lost: they never become events, and
//! are counted.
//!
//! # Fate of a trigger
//! A received trigger is in exactly one bin: *accepted* (it is an event, and in the ledger), *lost* (no room), *repeated*
//! (its id was received before), *out of order* (its id is below one that was received, and was not received itself), or
//! *outside* (before the start or after the end of the run).
//!
//! # Busy
//! The event manager's queue has a number of free places. When busy is raised, triggers are still in flight: those sent
//! before, and those that the supervisor sends until it receives busy. If a message takes at most the time *L* from one
//! side to the other, and triggers have at most the rate *R*, at most 2 *L R* + 1 triggers are in flight. The receiver
//! keeps this number of places free (its *reserve*) and therefore loses no trigger. It releases busy when half of the other
//! places are free again, so that the signal does not flicker.
//!
//! The same holds for each other buffer that limits triggers: the queue of payloads, and each readout unit. Each has a hysteresis and a
//! reason of its own. Busy has the reason of the buffer that was short first, as long as it is.
//!
//! Both sides book busy time by reason on their own clock, the receiver when it sends busy, the supervisor when it receives
//! it. At the end they exchange their accounts. The numbers of intervals are equal. The length of each interval differs at
//! most by the time of a message.

mod busy_time;
pub mod datagram;
pub mod receiver;
mod report;
mod rooms;
pub mod supervisor;

pub use receiver::{Gate, LinkId, Receiver, ReceiverConfig, ReceiverEvent};
pub use report::{DatagramCounts, LinkReport};
pub use rooms::{Buffer, Room};
pub use supervisor::{Held, NotTaken, Supervisor, SupervisorEvent};

#[cfg(test)]
mod tests;
