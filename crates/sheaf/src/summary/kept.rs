//! The account of accepted triggers, kept and lost: the first lines of a summary, and the reason of its exit status.
//!
//! The table of [`DropReason::account`] defines which bins are losses; this module describes them, with a cause and a
//! remedy.

use super::shifts;
use super::{Summary, TriggerLinkSummary};
use crate::console::count;
use serde::{Deserialize, Serialize};
use sheaf_protocol::ledger::Counter;
use sheaf_wire::{Account, DropReason, MissingReason};
use std::collections::BTreeMap;
use std::fmt;

/// Judging on a builder unit's own thread that takes longer than this for an event is worth a remark.
const SLOW_US: f64 = 500.0;

/// At most this many sources are named.
const SOURCES_NAMED: usize = 4;

/// The account of accepted triggers, as `--json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Whether nothing was lost against the user's will: every accepted trigger is stored whole, was rejected by the filter, or
    /// was dropped as configured.
    pub(crate) all: bool,
    /// Triggers that were accepted.
    pub(crate) accepted: u64,
    /// Of these, those that are stored.
    pub(crate) stored: u64,
    /// Those that the filter rejected.
    pub(crate) rejected: u64,
    /// Those that were dropped as configured.
    pub(crate) dropped_as_configured: u64,
    /// Those that were lost.
    pub(crate) lost: u64,
    /// Events that were built without a required source.
    pub(crate) incomplete: u64,
    /// Events with fragments whose check values disagree.
    #[serde(default)]
    pub(crate) disagreeing: u64,
    /// Fragments that were lost.
    pub(crate) fragments_lost: u64,
    /// Hits of self-triggered front ends that are in no time slice, if they are more than the configuration allows.
    #[serde(default)]
    pub(crate) hits_lost: u64,
    /// Every kind of loss.
    pub(crate) losses: Vec<Loss>,
}

/// One kind of loss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loss {
    /// `triggers`, `fragments`, `hits`, `packets`, or `events` that are incomplete.
    pub(crate) what: String,
    /// The reason's name in the ledger, or `incomplete`.
    pub(crate) reason: String,
    /// Number of them.
    pub(crate) count: u64,
    /// Cause, in words for the operator.
    pub(crate) cause: String,
    /// Its remedy.
    pub(crate) remedy: String,
}

impl Kept {
    /// The account of a run.
    pub(crate) fn of(summary: &Summary) -> Self {
        let ledger = &summary.ledger;
        let mut kept = Self {
            accepted: ledger.triggers,
            stored: ledger.stored,
            rejected: ledger.rejected,
            incomplete: summary.events_incomplete,
            disagreeing: summary.counter(Counter::DisagreeingEvents),
            ..Self::default()
        };
        for (reason, number) in reasons(&ledger.dropped) {
            match reason.account() {
                Account::Loss => {
                    kept.lost += number;
                    kept.losses.push(Loss::new("triggers", reason, number, summary));
                }
                Account::Chosen => kept.dropped_as_configured += number,
                Account::Unclaimed | Account::WithEvent => {}
            }
        }
        if kept.incomplete > 0 {
            kept.losses.push(Loss {
                what: "events".into(),
                reason: DropReason::Incomplete.name().into(),
                count: kept.incomplete,
                cause: missing(&summary.missing_sources),
                remedy: remedy_of_missing(summary),
            });
        }
        if kept.disagreeing > 0 || !ledger.shifts.is_empty() {
            let (cause, remedy) = shifts::cause_and_remedy(&ledger.shifts);
            let (what, reason, remedy) = ("events".into(), "disagreeing".into(), remedy.into());
            kept.losses.push(Loss { what, reason, count: kept.disagreeing, cause, remedy });
        }
        for (reason, number) in reasons(&ledger.fragments.dropped) {
            // A readout unit that restarted reads data again that it had already delivered. These fragments arrive late
            // for events that were built whole.
            let came_again = reason == DropReason::Late
                && summary.events_incomplete == 0
                && summary.has_readouts_that_read_again();
            if reason.account() == Account::Loss && !came_again {
                kept.fragments_lost += number;
                kept.losses.push(Loss::new("fragments", reason, number, summary));
            }
        }
        let conflicting = summary.counter(Counter::ConflictingFragments);
        if conflicting > 0 {
            kept.fragments_lost += conflicting;
            let cause =
                "their source had already sent another fragment of the same event; the first one is kept";
            let remedy = "check the event counter of the source";
            kept.losses.push(Loss::of("fragments", "conflicting", conflicting, (cause, remedy)));
        }
        if let Some(hits) = &summary.hits {
            let losses = hits.losses(summary.lost_hits_allowed);
            kept.hits_lost = losses.iter().filter(|loss| loss.what == "hits").map(|loss| loss.count).sum();
            kept.losses.extend(losses);
        }
        kept.losses.extend(summary.trigger_link.as_ref().and_then(Loss::of_triggers));
        kept.all = kept.losses.is_empty();
        kept
    }
}

impl Loss {
    /// Returns the triggers that were lost on their way from the supervisor.
    fn of_triggers(link: &TriggerLinkSummary) -> Option<Self> {
        let ids = match (link.first_skipped_id, link.last_skipped_id) {
            (Some(first), Some(last)) => format!(" (ids from {first} to {last} are missing)"),
            _ => String::new(),
        };
        (link.undelivered > 0).then(|| Self {
            what: "triggers".into(),
            reason: "undelivered".into(),
            count: link.undelivered,
            cause: format!("datagrams of the trigger supervisor did not arrive, or were overtaken{ids}"),
            remedy: "check the link to the supervisor, raise `net.core.rmem_max`, or use TCP".into(),
        })
    }

    /// Returns a loss with its cause and remedy.
    pub(super) fn of(what: &str, reason: &str, count: u64, (cause, remedy): (&str, &str)) -> Self {
        Self { what: what.into(), reason: reason.into(), count, cause: cause.into(), remedy: remedy.into() }
    }

    fn new(what: &str, reason: DropReason, count: u64, summary: &Summary) -> Self {
        Self {
            what: what.into(),
            reason: reason.name().into(),
            count,
            cause: explain(reason).into(),
            remedy: remedy(reason, summary),
        }
    }
}

impl Kept {
    /// Writes the line of accepted triggers and what became of them.
    fn show_fates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accepted, stored, rejected) = (count(self.accepted), count(self.stored), count(self.rejected));
        match self.lost {
            0 if self.accepted == 0 => {
                return writeln!(f, "{:<18}no events: no trigger was accepted", "kept");
            }
            0 => write!(f, "{:<18}all {accepted} accepted triggers", "kept")?,
            lost => write!(f, "{:<18}{} of {accepted} accepted triggers", "LOST", count(lost))?,
        }
        write!(f, ": {stored} stored, {rejected} rejected by the filter")?;
        match self.dropped_as_configured {
            0 => writeln!(f),
            chosen => writeln!(f, ", {} dropped as configured", count(chosen)),
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show_fates(f)?;
        if self.incomplete > 0 {
            let built = count(self.stored + self.rejected);
            writeln!(
                f,
                "{:<18}{} of {built} events lack a required source",
                "INCOMPLETE",
                count(self.incomplete)
            )?;
        }
        if self.disagreeing > 0 {
            let built = count(self.stored + self.rejected);
            let some = count(self.disagreeing);
            writeln!(
                f,
                "{:<18}{some} of {built} events have fragments whose event numbers disagree",
                "DISAGREEING"
            )?;
        }
        if self.hits_lost > 0 {
            writeln!(f, "{:<18}{} hits are in no time slice", "LOST HITS", count(self.hits_lost))?;
        }
        for Loss { what, reason, count: number, cause, remedy } in &self.losses {
            let what = if *number == 1 { what.strip_suffix('s').unwrap_or(what) } else { what };
            writeln!(f, "  {} {what} {reason}: {cause}", count(*number))?;
            writeln!(f, "    remedy: {remedy}")?;
        }
        Ok(())
    }
}

fn reasons(dropped: &BTreeMap<String, u64>) -> impl Iterator<Item = (DropReason, u64)> {
    DropReason::ALL.iter().filter_map(|reason| Some((*reason, *dropped.get(reason.name())?)))
}

/// Explains a drop reason to readers of the summary.
pub(crate) fn explain(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Duplicate => "their source had already sent the same event",
        DropReason::Late => "arrived after their event had been built or had ended",
        DropReason::UnknownEvent => "no event was triggered for them in time",
        DropReason::TooLarge => "larger than readout.max_fragment_bytes",
        DropReason::UnknownSource => "from sources that are not in the configuration",
        DropReason::Corrupt => "wrong checksum",
        DropReason::NeverTriggered => "sent ahead of the last trigger",
        DropReason::EventDropped => "with their event",
        DropReason::NotBuilt => "their event was built without them",
        DropReason::NotRequested => "not requested before their event ended",
        DropReason::Renumbered => "their event had a fragment from before their source was renumbered",
        DropReason::Excluded => "an operator had excluded their source",
        DropReason::Incomplete => "required sources were missing",
        DropReason::BuilderOutOfMemory => "too large for each builder unit that tried",
        DropReason::BuilderLost => "each builder unit that tried was lost",
        DropReason::Stopped => "not finished when the run was closed",
        DropReason::ContentMismatch => "not what the sources sent",
        DropReason::StorageFailed => "the output failed",
    }
}

/// The remedy for a loss.
fn remedy(reason: DropReason, summary: &Summary) -> String {
    let slow = slow_filter(summary);
    match reason {
        DropReason::BuilderLost => slow.unwrap_or_else(|| {
            "see the log for why builder units died or fell silent; raise `manager.max_attempts` if that is expected"
                .into()
        }),
        DropReason::Stopped if summary.interrupted => {
            "a second Ctrl-C drops the events in flight; after a single one the run finishes them".into()
        }
        DropReason::Stopped => slow.unwrap_or_else(|| {
            "the log and the progress line name what the run waited for; raise `manager.stop_timeout_ms`".into()
        }),
        DropReason::BuilderOutOfMemory => {
            "raise `builder.memory_bytes`, or set `manager.expected_event_bytes`".into()
        }
        DropReason::StorageFailed => "see the log for the error of the output".into(),
        DropReason::ContentMismatch => "see the log for the first of them; check memory and network".into(),
        DropReason::Late => slow.unwrap_or_else(|| {
            "find the source that lags (`sheaf verify` counts missing sources); raise `readout.merge_timeout_ms`".into()
        }),
        DropReason::NotBuilt => slow.unwrap_or_else(|| {
            CHECK_READOUT.into()
        }),
        DropReason::TooLarge => "raise `readout.max_fragment_bytes`".into(),
        DropReason::UnknownSource => "list the source in `source` of its `[[node]]`".into(),
        DropReason::Corrupt => "check the source and its link".into(),
        DropReason::Duplicate
        | DropReason::Renumbered
        | DropReason::UnknownEvent
        | DropReason::NeverTriggered
        | DropReason::EventDropped
        | DropReason::NotRequested
        | DropReason::Excluded
        | DropReason::Incomplete => String::new(),
    }
}

/// Returns a hint if builder units run a slow filter on their own threads.
fn slow_filter(summary: &Summary) -> Option<String> {
    let each = summary.inline_judging_us.filter(|each| *each >= SLOW_US)?;
    Some(format!(
        "an event takes {:.1} ms on the builder unit's own thread: set `filter.workers`, or leave it out",
        each / 1e3
    ))
}

fn missing(sources: &BTreeMap<String, BTreeMap<String, u64>>) -> String {
    if sources.is_empty() {
        return "`sheaf verify` names the missing sources".into();
    }
    let mut all: Vec<_> = sources
        .iter()
        .flat_map(|(source, reasons)| reasons.iter().map(move |(reason, number)| (*number, source, reason)))
        .collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let named = all.iter().take(SOURCES_NAMED);
    let text: Vec<_> = named
        .map(|(number, source, reason)| format!("source {source} in {} ({reason})", count(*number)))
        .collect();
    let more = all.len().saturating_sub(SOURCES_NAMED);
    match more {
        0 => format!("without {}", text.join(", ")),
        more => format!("without {}, and {more} more", text.join(", ")),
    }
}

/// The remedy where a readout unit did not answer.
const CHECK_READOUT: &str = "check the readout unit, its host and its link; `sheaf ctl recover` starts it again, and `sheaf ctl exclude` leaves it out";

/// The remedy for the reason that is met most.
fn remedy_of_missing(summary: &Summary) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, number) in summary.missing_sources.values().flatten() {
        *sums.entry(reason).or_default() += number;
    }
    let most = sums.iter().max_by_key(|(_, number)| **number).map(|(reason, _)| *reason);
    let most = MissingReason::ALL.iter().find(|reason| Some(reason.name()) == most);
    let late = summary.ledger.fragments.dropped.contains_key(DropReason::Late.name());
    let orphans = summary.ledger.fragments.dropped.contains_key(DropReason::UnknownEvent.name());
    match most {
        Some(MissingReason::SourceSilent | MissingReason::SourceSkipped | MissingReason::SourceEnded)
            if orphans =>
        {
            "fragments were dropped before their event was requested: raise `readout.orphan_timeout_ms` above twice \
             `manager.silence_timeout_ms`, and see which builder unit stood still"
                .into()
        }
        Some(MissingReason::SourceSilent) if late => {
            "the fragments came late: raise `readout.merge_timeout_ms`, or find the source that lags".into()
        }
        Some(MissingReason::SourceSilent | MissingReason::SourceEnded | MissingReason::Excluded) | None => {
            "check these sources; name those that events may lack in `source.optional`".into()
        }
        Some(MissingReason::SourceSkipped) => {
            "see why these sources have no fragment between others: lost or damaged ones, or event numbers that jump".into()
        }
        Some(MissingReason::SourceAbsent) => {
            "see why these sources delivered nothing; name those that events may lack in `source.optional`".into()
        }
        Some(MissingReason::WindowExpired) => {
            "raise `windows.memory_bytes`, or keep hits on disk with `windows.spool`, so that late triggers find their hits".into()
        }
        Some(MissingReason::WindowOffTimeline) => {
            "compare the times of triggers with those of hits; `source.timed.zero` is the trigger time that is time 0 of the hits".into()
        }
        Some(MissingReason::SourceGone) => {
            "see why the programs that feed these sources ended, and restart them during the run".into()
        }
        Some(MissingReason::Renumbered) => "find out why the source missed the trigger".into(),
        Some(MissingReason::FragmentRefused) => "raise `readout.max_fragment_bytes`".into(),
        Some(MissingReason::ReadoutSilent) => slow_filter(summary).unwrap_or_else(|| {
            CHECK_READOUT.into()
        }),
        Some(MissingReason::ReadoutLost | MissingReason::ReadoutRestarted) => {
            "see the log of the readout unit for why it restarted".into()
        }
    }
}

#[cfg(test)]
mod tests;
