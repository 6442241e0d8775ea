//! Dead time: how long triggers were vetoed, and whose fault it was.

use sheaf_wire::{Nanos, Timestamp};
use std::collections::BTreeMap;
use std::fmt;

/// What kept the trigger queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadTimeCause {
    /// No builder is there.
    NoBuilder,
    /// A readout unit has never been heard of, so that no event can be built whole.
    NoReadout,
    /// Builders have no credit left: building or filtering is slower than the trigger.
    BuilderCredit,
    /// Builders have no credit left, and the output of one at least is behind: it fails, or is slower than the trigger.
    Output,
}

impl DeadTimeCause {
    /// The name in JSON and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoBuilder => "no_builder",
            Self::NoReadout => "no_readout",
            Self::BuilderCredit => "builder_credit",
            Self::Output => "output",
        }
    }
}

impl fmt::Display for DeadTimeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBuilder => "no builder is there",
            Self::NoReadout => "a readout unit is missing",
            Self::BuilderCredit => "builders have no credit left",
            Self::Output => "the output of builders is behind",
        })
    }
}

/// Vetoed triggers and the time in which they were vetoed, by cause. Dead time runs from the first vetoed trigger
/// until the queue has room again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadTime {
    /// Vetoed triggers.
    pub vetoed: BTreeMap<DeadTimeCause, u64>,
    /// Dead time.
    pub time: BTreeMap<DeadTimeCause, Nanos>,
    since: Option<(Timestamp, DeadTimeCause)>,
}

impl DeadTime {
    pub(super) fn veto(&mut self, now: Timestamp, cause: DeadTimeCause) {
        *self.vetoed.entry(cause).or_default() += 1;
        if self.since.is_none_or(|(_, before)| before != cause) {
            self.end(now);
            self.since = Some((now, cause));
        }
    }

    pub(super) fn end(&mut self, now: Timestamp) {
        if let Some((since, cause)) = self.since.take() {
            let time = self.time.entry(cause).or_default();
            *time = *time + now.since(since);
        }
    }

    pub(super) fn up_to(&self, now: Timestamp) -> Self {
        let mut copy = self.clone();
        copy.end(now);
        copy
    }
}
