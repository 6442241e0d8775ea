//! Books of triggers, events and fragments, and dead time.

use crate::advice;
use crate::columns::dead_time_of;
use serde::Serialize;
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_telemetry::{Metric, NodeSnapshot, Snapshot, Unit, catalog};
use sheaf_wire::DropReason;
use std::collections::BTreeMap;

/// Books of triggers, events and fragments, and dead time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Books {
    /// Triggers.
    pub triggers: Triggers,
    /// Events, that is accepted triggers.
    pub events: Events,
    /// Fragments of all readout units.
    pub fragments: Fragments,
    /// Numbers received minus the sums of their bins: not 0 if books do not balance.
    pub imbalance: Imbalance,
    /// Live time and dead time.
    pub dead_time: DeadTime,
}

/// Triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Triggers {
    /// Triggers that there were.
    pub offered: u64,
    /// Triggers accepted.
    pub accepted: u64,
    /// Triggers vetoed.
    pub vetoed: u64,
}

/// Events by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Stored.
    pub stored: u64,
    /// Rejected by the filter.
    pub rejected: u64,
    /// Dropped.
    pub dropped: u64,
    /// Between trigger and end.
    pub in_flight: u64,
    /// Built without a required source; among the stored and rejected ones.
    pub incomplete: u64,
    /// Payload bytes of those that have ended.
    pub bytes: u64,
    /// Drops by reason.
    pub drops: Vec<Drop>,
}

/// Fragments by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fragments {
    /// Received.
    pub received: u64,
    /// Stored with their events.
    pub stored: u64,
    /// Rejected with their events.
    pub rejected: u64,
    /// Dropped.
    pub dropped: u64,
    /// Held.
    pub in_flight: u64,
    /// Drops by reason.
    pub drops: Vec<Drop>,
}

/// Drops for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drop {
    /// The reason.
    pub reason: String,
    /// Their number.
    pub count: u64,
    /// Account of such a drop: `loss`, `as configured`, `no accepted trigger` or `with its event`.
    pub account: &'static str,
}

/// See [`Books::imbalance`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imbalance {
    /// Of triggers.
    pub triggers: i64,
    /// Of the fragments of all readout units.
    pub fragments: i64,
}

/// Live time and dead time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeadTime {
    /// Time in which triggers were taken.
    pub live_seconds: f64,
    /// Time in which they were not.
    pub dead_seconds: f64,
    /// Why triggers are not taken now; `null` while they are.
    pub now: Option<Shut>,
    /// Causes that occurred.
    pub causes: Vec<Cause>,
}

/// Why triggers are not taken now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shut {
    /// Name of the cause.
    pub cause: String,
    /// The node that alone is the reason.
    pub culprit: Option<String>,
}

/// Dead time for one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Name of the cause.
    pub cause: &'static str,
    /// Description.
    pub text: String,
    /// Advice to the operator.
    pub remedy: &'static str,
    /// Dead time.
    pub seconds: f64,
    /// Triggers vetoed.
    pub vetoed: u64,
    /// Nodes that alone were the reason, for part of this time.
    pub culprits: Vec<Culprit>,
}

/// A node that alone was the reason of dead time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Culprit {
    /// The node.
    pub node: String,
    /// Dead time.
    pub seconds: f64,
}

impl Books {
    pub(super) fn of(snapshot: &Snapshot, manager: Option<&NodeSnapshot>) -> Self {
        let fragments = fragments_of(snapshot);
        let Some(manager) = manager else { return Self { fragments, ..Self::default() } };
        let outcome = |name: &str| manager.value(&catalog::EVENTS, name).unwrap_or(0);
        let triggers = Triggers {
            offered: manager.sum(&catalog::TRIGGERS),
            accepted: manager.sum(&catalog::TRIGGERS_ACCEPTED),
            vetoed: manager.sum(&catalog::TRIGGERS_VETOED),
        };
        let events = Events {
            stored: outcome("stored"),
            rejected: outcome("rejected"),
            dropped: outcome("dropped"),
            in_flight: manager.sum(&catalog::EVENTS_IN_FLIGHT),
            incomplete: manager.sum(&catalog::EVENTS_INCOMPLETE),
            bytes: manager.sum(&catalog::EVENT_BYTES),
            drops: drops(&by_reason(manager, &catalog::EVENT_DROPS)),
        };
        let of_events = [events.stored, events.rejected, events.dropped, events.in_flight];
        let of_fragments = [fragments.stored, fragments.rejected, fragments.dropped, fragments.in_flight];
        let imbalance = Imbalance {
            triggers: difference(triggers.accepted, &of_events),
            fragments: difference(fragments.received, &of_fragments),
        };
        Self { triggers, events, fragments, imbalance, dead_time: DeadTime::of(manager) }
    }
}

fn fragments_of(snapshot: &Snapshot) -> Fragments {
    let bins = snapshot.by_label(&catalog::FRAGMENTS);
    let bin = |name: &str| bins.get(name).copied().unwrap_or(0);
    Fragments {
        received: bin("received"),
        stored: bin("stored"),
        rejected: bin("rejected"),
        dropped: bin("dropped"),
        in_flight: snapshot.sum(&catalog::FRAGMENTS_HELD),
        drops: drops(&snapshot.by_label(&catalog::FRAGMENT_DROPS)),
    }
}

fn by_reason(node: &NodeSnapshot, metric: &'static Metric) -> BTreeMap<String, u64> {
    let series = node.of(metric);
    series.filter_map(|(series, values)| Some((series.labels.first()?.clone(), *values.first()?))).collect()
}

fn drops(by_reason: &BTreeMap<String, u64>) -> Vec<Drop> {
    let account = |name: &str| DropReason::from_name(name).map_or("", |reason| reason.account().name());
    let some = by_reason.iter().filter(|(_, count)| **count > 0);
    some.map(|(reason, count)| Drop { reason: reason.clone(), count: *count, account: account(reason) })
        .collect()
}

fn difference(received: u64, bins: &[u64]) -> i64 {
    i64::try_from(i128::from(received) - bins.iter().copied().map(i128::from).sum::<i128>())
        .unwrap_or(i64::MAX)
}

impl DeadTime {
    fn of(manager: &NodeSnapshot) -> Self {
        let seconds = |ns: u64| Unit::Seconds.scale(ns);
        let causes = DeadTimeCause::ALL.into_iter().filter_map(|cause| Cause::of(manager, cause)).collect();
        let now = manager.of(&catalog::GATE_SHUT).find(|(_, values)| values.first() == Some(&1));
        let now = now.and_then(|(series, _)| {
            let culprit = series.label("culprit").filter(|node| !node.is_empty()).map(str::to_owned);
            Some(Shut { cause: series.label("cause")?.to_owned(), culprit })
        });
        Self {
            live_seconds: seconds(manager.sum(&catalog::LIVE_SECONDS)),
            dead_seconds: seconds(manager.sum(&catalog::DEAD_SECONDS)),
            now,
            causes,
        }
    }
}

impl Cause {
    /// Returns `None` if the cause has not occurred.
    fn of(manager: &NodeSnapshot, cause: DeadTimeCause) -> Option<Self> {
        let vetoed = manager.value(&catalog::TRIGGERS_VETOED, cause.name()).unwrap_or(0);
        let dead_ns = dead_time_of(manager, cause);
        if vetoed == 0 && dead_ns == 0 {
            return None;
        }
        let of_cause = manager.of(&catalog::DEAD_SECONDS);
        let of_cause = of_cause.filter(|(series, _)| series.label("cause") == Some(cause.name()));
        let culprits = of_cause.filter_map(|(series, values)| {
            let node = series.label("culprit").filter(|node| !node.is_empty())?;
            Some(Culprit { node: node.to_owned(), seconds: Unit::Seconds.scale(*values.first()?) })
        });
        Some(Self {
            cause: cause.name(),
            text: cause.to_string(),
            remedy: advice::remedy(cause),
            seconds: Unit::Seconds.scale(dead_ns),
            vetoed,
            culprits: culprits.collect(),
        })
    }
}
