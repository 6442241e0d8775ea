//! The state of the event manager, for a standby that joins during the run.

use super::ManagerNode;
use super::standby::Replica;
use crate::controls::Pauses;
use crate::report::RunReport;
use crate::trigger::TriggerClock;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sheaf_protocol::manager::EventManager;
use sheaf_wire::Timestamp;

/// Version of the program: another one may have other types, whose bytes can be read all the same.
const VERSION: &str = env!("CARGO_PKG_VERSION");

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
        written(&state)
    }

    /// Goes on from a state of the active replica. Returns its time; `None` if the bytes are not such a state, because the other replica is
    /// another version of the program.
    pub(super) fn restore(&mut self, replica: &mut Replica, bytes: &[u8]) -> Option<Timestamp> {
        let OwnedState { now, role, triggers, report, started_at, stopped_at, zero, pauses, orders } =
            read(bytes)?;
        self.role = role;
        self.triggers = triggers;
        self.report = report;
        (self.started_at, self.stopped_at) = (started_at, stopped_at);
        (self.zero, self.pauses) = (zero, pauses);
        (replica.orders.hold, replica.orders.pause) = orders;
        Some(now)
    }
}

/// Returns a state as bytes, behind the version.
fn written(state: &impl Serialize) -> Bytes {
    // Everything in it can be written. A replica refuses an empty snapshot.
    postcard::to_allocvec(&(VERSION, state)).map(Bytes::from).unwrap_or_default()
}

/// Reads what [`written`] has returned in a process of the same version.
fn read<State: DeserializeOwned>(bytes: &[u8]) -> Option<State> {
    let (version, state) = postcard::take_from_bytes::<&str>(bytes).ok()?;
    let (state, rest) = postcard::take_from_bytes(state).ok().filter(|_| version == VERSION)?;
    rest.is_empty().then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_the_same_version_is_read() {
        assert_eq!(read(&written(&(7_u64, "seven".to_owned()))), Some((7_u64, "seven".to_owned())));
    }

    #[test]
    fn a_state_of_another_version_is_refused_although_its_bytes_can_be_read() {
        let other = postcard::to_allocvec(&("0.0.0", 7_u64)).expect("it can be written");
        assert_eq!(read::<u64>(&other), None);
    }

    #[test]
    fn a_state_that_is_cut_or_too_long_is_refused() {
        let whole = written(&[1_u64, 2, 300]);
        assert!(read::<[u64; 3]>(&whole).is_some());
        assert_eq!(read::<[u64; 3]>(&whole[..whole.len() - 1]), None);
        assert_eq!(read::<[u64; 2]>(&whole), None);
        assert_eq!(read::<[u64; 3]>(&[]), None);
    }
}
