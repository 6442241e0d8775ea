//! The link to the trigger supervisor, in the summary.

use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use sheaf_protocol::trigger_link::{DatagramCounts, LinkReport};
use sheaf_wire::trigger_link::{BusyReason, BusyTime};
use std::collections::{BTreeMap, BTreeSet};

/// The link to the trigger supervisor: `received` is the sum of the five numbers that follow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TriggerLinkSummary {
    /// Supervisors that connected, one after another.
    pub(crate) connections: u64,
    pub(crate) received: u64,
    /// Triggers that became events.
    pub(crate) accepted: u64,
    /// Triggers for which there was no room.
    pub(crate) lost: u64,
    /// Triggers whose id was received before.
    pub(crate) repeated: u64,
    /// Triggers with an id below one received before.
    pub(crate) out_of_order: u64,
    /// Triggers that came before the start or after the end of the run.
    pub(crate) outside: u64,
    /// Ids that were left out.
    pub(crate) skipped_ids: u64,
    /// The first and the last of them; `null` if there is none.
    #[serde(default)]
    pub(crate) first_skipped_id: Option<u64>,
    #[serde(default)]
    pub(crate) last_skipped_id: Option<u64>,
    /// Over UDP: triggers that supervisors sent and that did not arrive.
    #[serde(default)]
    pub(crate) undelivered: u64,
    /// Account of the datagrams; `null` over TCP.
    #[serde(default)]
    pub(crate) datagrams: Option<DatagramSummary>,
    /// Number of times that an id was below the one before.
    pub(crate) steps_back: u64,
    /// Triggers that waited outside the queue, because busy was sent too late for them.
    pub(crate) late: u64,
    /// Busy times by reason.
    pub(crate) busy: Vec<BusySummary>,
    /// Refused connections, by reason.
    pub(crate) refused: BTreeMap<String, u64>,
    /// The supervisors' own accounts; `null` if none came.
    pub(crate) supervisor: Option<SupervisorSummary>,
}

/// Datagrams of supervisors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DatagramSummary {
    /// Datagrams with messages, each counted once.
    pub(crate) received: u64,
    /// Datagrams that did not arrive.
    pub(crate) lost: u64,
    /// Datagrams with triggers that arrived again.
    pub(crate) repeated: u64,
    /// Datagrams that were overtaken by later ones. Their triggers are no events.
    pub(crate) out_of_order: u64,
    /// Datagrams of callers that were not connected.
    pub(crate) strangers: u64,
    /// Datagrams of another format.
    pub(crate) invalid: u64,
}

impl From<DatagramCounts> for DatagramSummary {
    fn from(counts: DatagramCounts) -> Self {
        let DatagramCounts { received, lost, repeated, out_of_order, strangers, invalid } = counts;
        Self { received, lost, repeated, out_of_order, strangers, invalid }
    }
}

/// Triggers as supervisors counted them: `offered` is `sent`, `own_vetoed` and those of the busy times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SupervisorSummary {
    pub(crate) offered: u64,
    pub(crate) sent: u64,
    pub(crate) own_vetoed: u64,
}

/// Busy time of one reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BusySummary {
    pub(crate) cause: String,
    /// The node that was the reason; `null` where it was not one alone.
    pub(crate) culprit: Option<String>,
    pub(crate) intervals: u64,
    pub(crate) busy_ns: u64,
    /// The same as the supervisors counted it, on their clocks.
    pub(crate) supervisor_intervals: u64,
    pub(crate) supervisor_busy_ns: u64,
    /// Triggers that supervisors held back for this reason.
    pub(crate) vetoed: u64,
}

impl TriggerLinkSummary {
    pub(super) fn new(report: &LinkReport, plan: &Plan) -> Self {
        let (ours, theirs) = (&report.triggers.busy, &report.supervisor.busy);
        let reasons: BTreeSet<&BusyReason> = ours.keys().chain(theirs.keys()).collect();
        let busy = |reason: &BusyReason| {
            let ours = ours.get(reason).copied().unwrap_or_default();
            let BusyTime { intervals, time, vetoed } = theirs.get(reason).copied().unwrap_or_default();
            BusySummary {
                cause: reason.cause.name().to_owned(),
                culprit: reason.culprit.map(|node| plan.name(node)),
                intervals: ours.intervals,
                busy_ns: ours.time.0,
                supervisor_intervals: intervals,
                supervisor_busy_ns: time.0,
                vetoed,
            }
        };
        let refused = report.refused.iter().map(|(refusal, count)| (refusal.name().to_owned(), *count));
        let totals = &report.supervisor;
        Self {
            connections: report.connections,
            received: report.triggers.received,
            accepted: report.triggers.accepted,
            lost: report.triggers.lost,
            repeated: report.triggers.repeated,
            out_of_order: report.triggers.out_of_order,
            outside: report.triggers.outside,
            skipped_ids: report.skipped,
            first_skipped_id: report.skipped_ids.map(|(first, _)| first.0),
            last_skipped_id: report.skipped_ids.map(|(_, last)| last.0),
            undelivered: report.undelivered,
            datagrams: report.datagrams.map(Into::into),
            steps_back: report.steps_back,
            late: report.late,
            busy: reasons.into_iter().map(busy).collect(),
            refused: refused.collect(),
            supervisor: (report.accounts > 0).then_some(SupervisorSummary {
                offered: totals.offered,
                sent: totals.sent,
                own_vetoed: totals.own_vetoed,
            }),
        }
    }
}
