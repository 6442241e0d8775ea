//! The names in every ledger: outcomes of events, and reasons for drops and missing sources.
//!
//! Codes are stable: they are in messages and files. Names are what JSON, tables and documents print.

use crate::codes::codes;
use serde::{Deserialize, Serialize};
use std::fmt;

codes! {
    /// Outcome of a builder's work on an event.
    #[derive(Serialize, Deserialize)]
    Outcome {
        /// Accepted by the filter and stored.
        Stored = 1, "stored";
        /// Rejected by the filter.
        Rejected = 2, "rejected";
        /// Given up, for the [`DropReason`] next to it.
        Dropped = 3, "dropped";
        /// Returned to the event manager unbuilt, to be assigned again; not a final outcome.
        GivenBack = 4, "given_back";
    }
}

codes! {
    /// Reason why a fragment or an event was dropped. The first group counts fragments at a readout unit, the second
    /// counts events at the event manager.
    #[derive(Serialize, Deserialize)]
    DropReason {
        /// Fragment: this source had already delivered this event id.
        Duplicate = 1, "duplicate";
        /// Fragment: its event was already built and released, or had been answered without this source.
        Late = 2, "late";
        /// Fragment: no trigger and no request came for its event id within the orphan time.
        UnknownEvent = 3, "unknown_event";
        /// Fragment: larger than the configured maximum.
        TooLarge = 4, "too_large";
        /// Fragment: from a source that this readout unit does not read.
        UnknownSource = 5, "unknown_source";
        /// Fragment: its checksum does not match its content.
        Corrupt = 6, "corrupt";
        /// Fragment: still buffered when the run closed, its event never triggered.
        NeverTriggered = 7, "never_triggered";
        /// Fragment: its event was dropped, for the event's own reason.
        EventDropped = 8, "event_dropped";
        /// Fragment: not sent with its event, which was built without it.
        NotBuilt = 9, "not_built";
        /// Fragment: its event ended without a request for it: it was rejected or accepted with other sources.
        NotRequested = 10, "not_requested";
        /// Fragment: its source is renumbered, and the event has a fragment of it from before.
        Renumbered = 11, "renumbered";
        /// Fragment: an operator has excluded its source.
        Excluded = 12, "excluded";

        /// Event: required sources were missing when its time ran out, and the policy is to drop.
        Incomplete = 32, "incomplete";
        /// Event: every builder that tried it ran out of memory.
        BuilderOutOfMemory = 33, "builder_out_of_memory";
        /// Event: the builders it was assigned to died more often than the configured number of attempts.
        BuilderLost = 34, "builder_lost";
        /// Event: unfinished when the time to drain after a stop had passed.
        Stopped = 35, "stopped";
        /// Event: the content check found bytes that its sources did not send.
        ContentMismatch = 36, "content_mismatch";
        /// Event: the output could not store it.
        StorageFailed = 37, "storage_failed";
    }
}

/// Responsibility for a drop: whether the configuration asked for it. It decides the exit status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// Data of an accepted trigger were lost against the configuration.
    Loss,
    /// The configuration asks for it.
    Chosen,
    /// It belongs to no accepted trigger, or is a second copy.
    Unclaimed,
    /// It went with its event, whose own reason counts.
    WithEvent,
}

impl Account {
    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Chosen => "as configured",
            Self::Unclaimed => "no accepted trigger",
            Self::WithEvent => "with its event",
        }
    }
}

impl DropReason {
    /// Returns whether a drop for this reason is a loss, or what it counts as: the only place that decides.
    #[must_use]
    pub const fn account(self) -> Account {
        match self {
            Self::Late
            | Self::TooLarge
            | Self::UnknownSource
            | Self::Corrupt
            | Self::NotBuilt
            | Self::BuilderOutOfMemory
            | Self::BuilderLost
            | Self::Stopped
            | Self::ContentMismatch
            | Self::StorageFailed => Account::Loss,
            // Events are dropped as incomplete only where `incomplete.policy` is "drop". An operator excludes sources.
            Self::NotRequested | Self::Incomplete | Self::Excluded => Account::Chosen,
            Self::Duplicate | Self::Renumbered | Self::UnknownEvent | Self::NeverTriggered => {
                Account::Unclaimed
            }
            Self::EventDropped => Account::WithEvent,
        }
    }
}

codes! {
    /// Reason why a source has no fragment in an event.
    #[derive(Serialize, Deserialize)]
    MissingReason {
        /// The source had sent nothing for this event when its time ran out.
        SourceSilent = 1, "source_silent";
        /// The source had ended before this event.
        SourceEnded = 2, "source_ended";
        /// The source did send a fragment, which the readout unit refused (too large or corrupt).
        FragmentRefused = 3, "fragment_refused";
        /// The source's readout unit did not answer in time.
        ReadoutSilent = 4, "readout_silent";
        /// The source's readout unit was not connected.
        ReadoutLost = 5, "readout_lost";
        /// The source's readout unit restarted and lost its fragments, or joined the run late.
        ReadoutRestarted = 6, "readout_restarted";
        /// The program that feeds the source had gone, and was not back when the time of the event ran out.
        SourceGone = 7, "source_gone";
        /// The source is renumbered from a later event on: it has missed the trigger of an event, and this one is at the seam.
        Renumbered = 8, "renumbered";
        /// The source has no fragment for this event, and delivered those of later events.
        SourceSkipped = 9, "source_skipped";
        /// The source had ended without any fragment.
        SourceAbsent = 10, "source_absent";
        /// The hits of the window were no longer kept when it was requested.
        WindowExpired = 11, "window_expired";
        /// The window is not on the timeline of the hits: it is before time 0 of the run, or too far behind it.
        WindowOffTimeline = 12, "window_off_timeline";
        /// An operator has excluded the source. The event is complete without it.
        Excluded = 13, "excluded";
    }
}

impl MissingReason {
    /// Returns whether an event is incomplete if a required source is missing for this reason.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        !matches!(self, Self::Excluded)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_round_trip_and_names_are_distinct() {
        for reason in DropReason::ALL {
            assert_eq!(DropReason::from_code(reason.code()), Some(reason));
        }
        for reason in MissingReason::ALL {
            assert_eq!(MissingReason::from_code(reason.code()), Some(reason));
        }
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        assert_eq!(DropReason::from_code(0), None);
        assert_eq!(MissingReason::from_code(255), None);
    }
}
