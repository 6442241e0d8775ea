//! Handover of the nodes of a run to those of the next run, where one follows without a gap.
//!
//! Each run has new roles, sessions, files and books. Links, sources, the clock of the triggers and the link to a trigger supervisor go on. Each
//! driver defines what it hands over.

use std::any::Any;
use std::task::Waker;

/// See the [module](self).
pub trait Handover: Any + Send {
    /// Ends what goes on, because no run follows after all.
    fn abandon(self: Box<Self>);

    /// Returns what wakes the thread of the node.
    fn waker(&mut self) -> Waker;
}
