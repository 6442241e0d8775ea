//! The account of all connections of a run.

use super::busy_time::BusyAccount;
use sheaf_wire::trigger_link::{BusyTime, BusyTimes, ReceivedTriggers, Refusal, Totals};
use sheaf_wire::{EventId, Nanos, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Account of all connections of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Number of supervisors that connected, one after another.
    pub connections: u64,
    /// Triggers received, and busy times on the event manager's clock.
    pub triggers: ReceivedTriggers,
    /// Ids that were left out.
    pub skipped: u64,
    /// The first and the last id that was left out.
    pub skipped_ids: Option<(EventId, EventId)>,
    /// Triggers that supervisors sent and that did not arrive, by the number that they state with the end of triggers.
    pub undelivered: u64,
    /// Number of times that an id was below the one before.
    pub steps_back: u64,
    /// Number of triggers that had to wait outside the queue because busy was raised too late.
    pub late: u64,
    /// Sum of the accounts of supervisors.
    pub supervisor: Totals,
    /// Number of connections whose supervisor gave its account.
    pub accounts: u64,
    /// Refused connections, by reason.
    pub refused: BTreeMap<Refusal, u64>,
    /// Numbers on which the two sides differ.
    pub differences: Vec<String>,
    /// Account of the datagrams, if triggers come in some.
    pub datagrams: Option<DatagramCounts>,
    /// Triggers that were received and not taken yet. None is left at the end of the last run.
    pub waiting: u64,
}

/// Account of the datagrams of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams of supervisors with messages, each counted once.
    pub received: u64,
    /// Datagrams of supervisors that did not arrive.
    pub lost: u64,
    /// Datagrams with triggers that arrived again.
    pub repeated: u64,
    /// Datagrams that were overtaken by later ones.
    pub out_of_order: u64,
    /// Datagrams of callers that were not connected.
    pub strangers: u64,
    /// Datagrams of another format.
    pub invalid: u64,
}

impl DatagramCounts {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            received: self.received - earlier.received,
            lost: self.lost - earlier.lost,
            repeated: self.repeated - earlier.repeated,
            out_of_order: self.out_of_order - earlier.out_of_order,
            strangers: self.strangers - earlier.strangers,
            invalid: self.invalid - earlier.invalid,
        }
    }
}

impl LinkReport {
    /// Returns whether each received trigger is in exactly one bin.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.triggers.is_balanced()
    }

    /// Returns the account of a run that follows others over the same connections; `earlier` is the account at the end of the run before.
    /// Triggers that waited then are of this run. The account of a supervisor is that of all runs, and comes in the last one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.connections -= earlier.connections;
        let (sum, before) = (&mut since.triggers, &earlier.triggers);
        sum.received -= before.received - earlier.waiting;
        sum.received -= since.waiting;
        sum.accepted -= before.accepted;
        sum.lost -= before.lost;
        sum.repeated -= before.repeated;
        sum.out_of_order -= before.out_of_order;
        sum.outside -= before.outside;
        for (reason, time) in &mut sum.busy {
            let before = before.busy.get(reason).copied().unwrap_or_default();
            time.intervals -= before.intervals;
            time.time = Nanos(time.time.0.saturating_sub(before.time.0));
            time.vetoed -= before.vetoed;
        }
        since.skipped -= earlier.skipped;
        if since.skipped == 0 {
            since.skipped_ids = None;
        }
        since.undelivered -= earlier.undelivered;
        since.steps_back -= earlier.steps_back;
        since.late -= earlier.late;
        since.accounts -= earlier.accounts;
        for (refusal, count) in &mut since.refused {
            *count -= earlier.refused.get(refusal).copied().unwrap_or(0);
        }
        since.differences.retain(|difference| !earlier.differences.contains(difference));
        if let (Some(datagrams), Some(before)) = (&mut since.datagrams, &earlier.datagrams) {
            *datagrams = datagrams.since(before);
        }
        since
    }

    /// Adds a connection.
    pub(super) fn add_connection(
        &mut self,
        account: &ReceivedTriggers,
        mut busy: BusyAccount,
        now: Timestamp,
    ) {
        self.connections += 1;
        let sum = &mut self.triggers;
        sum.received += account.received;
        sum.accepted += account.accepted;
        sum.lost += account.lost;
        sum.repeated += account.repeated;
        sum.out_of_order += account.out_of_order;
        sum.outside += account.outside;
        busy.turn(now, None);
        add_busy(&mut sum.busy, busy.times());
    }

    /// Adds the account of a supervisor.
    pub(super) fn add_totals(&mut self, totals: &Totals) {
        self.accounts += 1;
        self.supervisor.offered = self.supervisor.offered.saturating_add(totals.offered);
        self.supervisor.sent = self.supervisor.sent.saturating_add(totals.sent);
        self.supervisor.own_vetoed = self.supervisor.own_vetoed.saturating_add(totals.own_vetoed);
        add_busy(&mut self.supervisor.busy, &totals.busy);
    }

    /// Compares the account of a supervisor with that of its connection, of which `delivered` triggers are accounted for.
    pub(super) fn compare(&mut self, delivered: u64, busy: &BusyTimes, totals: &Totals) {
        let mut differences = Vec::new();
        if totals.sent != delivered {
            differences.push(format!("{} triggers were sent, {delivered} received", totals.sent));
        }
        let vetoed = totals.busy.values().fold(0_u64, |sum, time| sum.saturating_add(time.vetoed));
        let parts = totals.sent.saturating_add(totals.own_vetoed).saturating_add(vetoed);
        if parts != totals.offered {
            differences.push(format!(
                "the supervisor's {} triggers are not {} sent, {} vetoed by itself and {vetoed} by busy",
                totals.offered, totals.sent, totals.own_vetoed
            ));
        }
        let reasons: BTreeSet<_> = busy.keys().chain(totals.busy.keys()).collect();
        for reason in reasons {
            let intervals = |times: &BusyTimes| times.get(reason).map_or(0, |time| time.intervals);
            let (ours, theirs) = (intervals(busy), intervals(&totals.busy));
            if ours != theirs {
                differences.push(format!(
                    "busy by {}: {ours} intervals were sent, {theirs} received",
                    reason.cause.name()
                ));
            }
        }
        for difference in differences {
            if !self.differences.contains(&difference) {
                self.differences.push(difference);
            }
        }
    }
}

fn add_busy(sums: &mut BusyTimes, more: &BusyTimes) {
    for (reason, BusyTime { intervals, time, vetoed }) in more {
        let sum = sums.entry(*reason).or_default();
        sum.intervals = sum.intervals.saturating_add(*intervals);
        sum.time = Nanos(sum.time.0.saturating_add(time.0));
        sum.vetoed = sum.vetoed.saturating_add(*vetoed);
    }
}
