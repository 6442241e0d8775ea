//! Events of a replica of the event manager, for its driver.

use sheaf_wire::Term;

/// Reason for which a replica has no more part in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// The other replica is active, in this term.
    Superseded(Term),
    /// The active replica goes on without this one, which was too slow or unreachable.
    StruckOff(Term),
    /// This standby has other messages than the active replica.
    Diverged,
    /// The active replica has ended before the voters knew the replicas.
    Unfounded,
    /// The run has begun before, and no event manager of it answers, with which this replica could go on.
    RunExists,
    /// There was no majority of the voters.
    NoQuorum,
    /// The snapshot that it was sent cannot be read.
    Unreadable,
    /// The other replica is of another release, and takes part in the run.
    OtherRelease,
    /// It leaves the run on request.
    Left,
}

/// Event for the driver of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairEvent {
    /// The voters know the active replica, which is protected by a standby or not.
    Founded {
        /// Whether there is a standby.
        protected: bool,
    },
    /// This replica takes over: it has all that the other one has acknowledged or sent.
    TookOver {
        /// The term that begins.
        term: Term,
        /// Whether the active replica has stepped down.
        was_called: bool,
    },
    /// The active replica was to step down, and goes on, because there was no majority of the voters.
    StayedStandby,
    /// The standby was struck off: the run goes on without one.
    Unprotected(Term),
    /// A replica has joined: the run has a standby again.
    Protected(Term),
    /// This replica has no more part in the run.
    Retired(Retirement),
}
