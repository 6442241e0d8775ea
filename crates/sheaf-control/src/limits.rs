//! Time limits of run control.

use sheaf_wire::Nanos;

/// Time limits. Each starts anew when a controller begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From a command to configure until all nodes are there. After it the command has failed; the nodes go on coming up.
    pub configure: Nanos,
    /// From a command to start until the run takes triggers. After it the command has failed; the run goes on starting.
    pub start: Nanos,
    /// From a command to pause or to resume until the run has done so.
    pub pause: Nanos,
    /// From a command to stop until the events in flight are dropped.
    pub drain: Nanos,
    /// From then until the processes of the run are killed.
    pub cut: Nanos,
    /// Pause between two attempts to kill.
    pub kill: Nanos,
    /// Time for which a lock lasts.
    pub lock: Nanos,
}

impl Default for Limits {
    /// Limits for a run that ends in good order whenever its nodes make progress: five minutes for events in flight.
    fn default() -> Self {
        Self {
            configure: Nanos::from_secs(60),
            start: Nanos::from_secs(60),
            pause: Nanos::from_secs(10),
            drain: Nanos::from_secs(300),
            cut: Nanos::from_secs(60),
            kill: Nanos::from_secs(1),
            lock: Nanos::from_secs(300),
        }
    }
}
