//! Time without a processor that has loaded its filter. Processors that end while they load it do not begin it anew: otherwise events
//! would wait without limit for a filter that cannot be loaded.

use sheaf_wire::{Nanos, Timestamp};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    /// Number of processors that have loaded their filter.
    loaded: usize,
    /// Time since when there is none.
    since: Timestamp,
    /// Time since then in which there was no processor at all, without the present one.
    deserted: Nanos,
    /// Time since when there is no processor at all. `None` while there is one.
    deserted_since: Option<Timestamp>,
}

impl Absence {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { loaded: 0, since: now, deserted: Nanos::ZERO, deserted_since: Some(now) }
    }

    /// A processor has joined, and loads its filter.
    pub(super) fn note_joined(&mut self, now: Timestamp) {
        if let Some(since) = self.deserted_since.take() {
            self.deserted = self.deserted + now.since(since);
        }
    }

    /// A processor has loaded its filter.
    pub(super) fn note_loaded(&mut self) {
        self.loaded += 1;
        self.deserted = Nanos::ZERO;
    }

    /// A processor has ended, which had loaded its filter or not. `present` are left.
    pub(super) fn note_ended(&mut self, now: Timestamp, had_loaded: bool, present: usize) {
        self.loaded -= usize::from(had_loaded);
        if had_loaded && self.loaded == 0 {
            self.since = now;
        }
        if present == 0 {
            self.deserted_since = Some(now);
        }
    }

    /// Returns when events have waited long enough: for `patience` without any processor, or also for as long as one may load its
    /// filter. `None` while a processor has loaded it, or one loads it and has no limit.
    pub(super) fn ends_at(&self, patience: Nanos, load_time_limit: Option<Nanos>) -> Option<Timestamp> {
        if self.loaded > 0 {
            return None;
        }
        let deserted =
            self.deserted_since.map(|since| since + Nanos(patience.0.saturating_sub(self.deserted.0)));
        let unloaded = load_time_limit.map(|limit| self.since + patience + limit);
        [deserted, unloaded].into_iter().flatten().min()
    }
}
