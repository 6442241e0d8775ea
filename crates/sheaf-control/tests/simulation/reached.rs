//! Situations that the seeds have led to.

use std::collections::BTreeMap;

/// Number of occurrences of each situation.
#[derive(Debug, Default)]
pub(crate) struct Reached(BTreeMap<&'static str, u64>);

impl Reached {
    pub(crate) fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, count)| *self.0.entry(name).or_default() += count);
    }

    pub(crate) fn note(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// Checks that the seeds have led everywhere.
    pub(crate) fn check(&self) {
        for name in [
            "done",
            "failed",
            "superseded",
            "refused",
            "repeated",
            "killed",
            "died",
            "controller died",
            "died before doing",
            "launched by the next controller",
            "died before writing",
            "link broke",
            "run ended",
            "locked",
            "paused",
            "sequence begun",
            "sequence repeated",
            "sequence continued",
            "sequence paused",
            "sequence ended",
            "row begins",
            "row done",
            "row failed",
            "row not done",
            "row skipped",
            "row not written",
            "taken over",
            "switched",
            "not switched",
        ] {
            assert!(self.0.get(name).is_some_and(|count| *count > 10), "{name} was hardly reached: {self:?}");
        }
    }
}
