//! The account of `sheaf emulate-trigger`.

use super::latency::BusyLatency;
use serde::Serialize;
use sheaf_wire::trigger_link::{BusyTimes, ReceivedTriggers, Totals};
use std::fmt;

/// Account of a trigger supervisor, beside that of the event manager. Names carry their units.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Account {
    /// Triggers that happened: sent, or vetoed.
    offered: u64,
    sent: u64,
    /// Triggers that the supervisor's own dead-time rules vetoed.
    own_vetoed: u64,
    /// Triggers that were held back while the event manager was busy.
    busy_vetoed: u64,
    /// Busy times by reason.
    busy: Vec<BusyLine>,
    /// From short room to the arrival of busy; `null` if it was never busy, or runs on another host.
    busy_latency: Option<BusyLatency>,
    /// The event manager's account; `null` if it did not arrive.
    event_manager: Option<Received>,
    /// Whether all sent triggers were received, none was lost, and both sides count the same intervals of busy.
    pub(super) agrees: bool,
}

#[derive(Clone, Debug, Serialize)]
struct BusyLine {
    cause: &'static str,
    culprit: Option<String>,
    intervals: u64,
    busy_ns: u64,
    /// The same time on the clock of the event manager.
    event_manager_busy_ns: Option<u64>,
    vetoed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Received {
    received: u64,
    accepted: u64,
    lost: u64,
    repeated: u64,
    out_of_order: u64,
    outside: u64,
}

impl Account {
    pub(super) fn new(
        totals: &Totals,
        received: Option<&ReceivedTriggers>,
        busy_latency: Option<BusyLatency>,
    ) -> Self {
        let theirs = received.map(|account| &account.busy);
        let line = |(reason, time): (&_, &sheaf_wire::trigger_link::BusyTime)| {
            let reason: &sheaf_wire::trigger_link::BusyReason = reason;
            BusyLine {
                cause: reason.cause.name(),
                culprit: reason.culprit.map(|node| node.to_string()),
                intervals: time.intervals,
                busy_ns: time.time.0,
                event_manager_busy_ns: theirs.and_then(|busy| busy.get(reason)).map(|time| time.time.0),
                vetoed: time.vetoed,
            }
        };
        Self {
            offered: totals.offered,
            sent: totals.sent,
            own_vetoed: totals.own_vetoed,
            busy_vetoed: totals.busy.values().map(|time| time.vetoed).sum(),
            busy: totals.busy.iter().map(line).collect(),
            busy_latency,
            event_manager: received.map(|account| Received {
                received: account.received,
                accepted: account.accepted,
                lost: account.lost,
                repeated: account.repeated,
                out_of_order: account.out_of_order,
                outside: account.outside,
            }),
            agrees: received.is_some_and(|account| {
                account.received == totals.sent
                    && account.lost == 0
                    && intervals(&account.busy).eq(intervals(&totals.busy))
            }),
        }
    }
}

/// Returns the numbers of intervals of reasons that occurred.
fn intervals(busy: &BusyTimes) -> impl Iterator<Item = (sheaf_wire::trigger_link::BusyReason, u64)> {
    busy.iter().filter(|(_, time)| time.intervals > 0).map(|(reason, time)| (*reason, time.intervals))
}

impl fmt::Display for Account {
    #[expect(clippy::cast_precision_loss, reason = "shown with six digits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: u64, remark: &str| {
            writeln!(f, "{}", format!("{name:<18}{:>16}  {remark}", crate::console::count(value)).trim_end())
        };
        line("offered", self.offered, "triggers")?;
        line("  sent", self.sent, "")?;
        line("  vetoed", self.own_vetoed, "by the supervisor's own dead time")?;
        line("  vetoed", self.busy_vetoed, "while the event manager was busy")?;
        for busy in &self.busy {
            let seconds = |ns: u64| ns as f64 * 1e-9;
            let culprit = busy.culprit.as_ref().map_or_else(String::new, |node| format!(", {node} alone"));
            let theirs = busy.event_manager_busy_ns.map_or_else(String::new, |ns| {
                format!(" ({:.6} s on the event manager's clock)", seconds(ns))
            });
            let intervals = crate::console::count(busy.intervals);
            let time = seconds(busy.busy_ns);
            let remark = format!("{}{culprit}: {time:.6} s{theirs}, intervals: {intervals}", busy.cause);
            line("    of these", busy.vetoed, &remark)?;
        }
        if let Some(BusyLatency { count, median_ns, max_ns }) = self.busy_latency {
            let us = |ns: u64| ns as f64 * 1e-3;
            let (median, max) = (us(median_ns), us(max_ns));
            line(
                "busy messages",
                count,
                &format!("{median:.0} us after room was short (median), at most {max:.0} us"),
            )?;
        }
        let Some(received) = &self.event_manager else { return Ok(()) };
        line("received", received.received, "by the event manager")?;
        line("  accepted", received.accepted, "")?;
        for (name, value) in [
            ("  lost", received.lost),
            ("  repeated", received.repeated),
            ("  out of order", received.out_of_order),
            ("  outside", received.outside),
        ] {
            if value > 0 {
                line(name, value, "")?;
            }
        }
        let verdict = if self.agrees { "both sides agree" } else { "THE TWO SIDES DO NOT AGREE" };
        writeln!(f, "{verdict}")
    }
}
