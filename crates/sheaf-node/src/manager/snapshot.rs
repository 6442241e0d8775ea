//! The state of the event manager, for a standby that joins during the run.

use super::ManagerNode;
use super::standby::Replica;
use crate::controls::Pauses;
use crate::report::RunReport;
use crate::trigger::TriggerClock;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sheaf_protocol::manager::EventManager;
use sheaf_wire::Timestamp;

/// State after a round, with borrowed or owned parts.
#[derive(Serialize, Deserialize)]
struct State<Role, Triggers, Report> {
    /// Time of the round.
    now: Timestamp,
    role: Role,
    triggers: Triggers,
    report: Report,
    started_at: Option<Timestamp>,
    stopped_at: Option<Timestamp>,
    zero: Timestamp,
    pauses: Pauses,
    /// Whether the operator holds the start of the run, and whether the run is to be paused.
    orders: (bool, bool),
}

type OwnedState = State<EventManager<Bytes>, Option<TriggerClock>, RunReport>;

impl ManagerNode {
    /// Returns the state after a round, as bytes that [`Self::restore`] reads.
    pub(super) fn snapshot(&self, replica: &Replica, now: Timestamp) -> Bytes {
        let state = State {
            now,
            role: &self.role,
            triggers: &self.triggers,
            report: &self.report,
            started_at: self.started_at,
            stopped_at: self.stopped_at,
            zero: self.zero,
            pauses: self.pauses,
            orders: (replica.orders.hold, replica.orders.pause),
        };
        // Everything in it can be written. A replica refuses an empty snapshot.
        postcard::to_allocvec(&state).map(Bytes::from).unwrap_or_default()
    }

    /// Goes on from a state of the active replica. Returns its time.
    ///
    /// # Errors
    /// The bytes are not such a state: the other replica is another version of the program.
    pub(super) fn restore(
        &mut self,
        replica: &mut Replica,
        bytes: &[u8],
    ) -> Result<Timestamp, postcard::Error> {
        let OwnedState { now, role, triggers, report, started_at, stopped_at, zero, pauses, orders } =
            postcard::from_bytes(bytes)?;
        self.role = role;
        self.triggers = triggers;
        self.report = report;
        (self.started_at, self.stopped_at) = (started_at, stopped_at);
        (self.zero, self.pauses) = (zero, pauses);
        (replica.orders.hold, replica.orders.pause) = orders;
        Ok(now)
    }
}
