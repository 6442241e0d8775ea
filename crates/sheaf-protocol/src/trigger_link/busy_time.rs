//! Busy times by reason.

use sheaf_wire::Timestamp;
use sheaf_wire::trigger_link::{BusyReason, BusyTimes};

/// Busy times of one side of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct BusyAccount {
    times: BusyTimes,
    /// The interval in progress.
    now: Option<(BusyReason, Timestamp)>,
}

impl BusyAccount {
    /// Returns the reason for which triggers are held back.
    pub(super) fn reason(&self) -> Option<BusyReason> {
        self.now.map(|(reason, _)| reason)
    }

    /// Returns the busy times up to the last change.
    pub(super) fn times(&self) -> &BusyTimes {
        &self.times
    }

    /// Books the interval that ends, and begins the next.
    pub(super) fn turn(&mut self, at: Timestamp, reason: Option<BusyReason>) {
        if let Some((reason, since)) = self.now.take() {
            let time = self.times.entry(reason).or_default();
            time.intervals += 1;
            time.time = time.time + at.since(since);
        }
        self.now = reason.map(|reason| (reason, at));
    }

    /// Counts triggers that were vetoed.
    pub(super) fn veto(&mut self, reason: BusyReason, triggers: u64) {
        let vetoed = &mut self.times.entry(reason).or_default().vetoed;
        *vetoed = vetoed.saturating_add(triggers);
    }
}
