//! Plausibility of sessions.
//!
//! A session is the time at which a node started, in nanoseconds since 1970, so that a restarted node has a greater
//! number on any host. A node refuses sessions older than the last one that it accepted of a peer: a session from the
//! far future would shut out the peer itself for the rest of the run.

use sheaf_wire::{Nanos, SessionId};
use std::time::{SystemTime, UNIX_EPOCH};

/// Greatest lead of a session over this host's clock: more than any two clocks differ that people have set.
pub const MAX_SESSION_AHEAD: Nanos = Nanos::from_secs(24 * 3600);

/// Returns the latest session that is plausible now.
#[must_use]
pub fn latest_session() -> SessionId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(Nanos::ZERO, Nanos::from);
    SessionId(now.0.saturating_add(MAX_SESSION_AHEAD.0))
}

/// Returns whether a session is further ahead of this host's clock than [`MAX_SESSION_AHEAD`].
pub fn is_too_far_ahead(session: SessionId) -> bool {
    session > latest_session()
}
