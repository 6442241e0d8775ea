//! Stamps of the nodes of a process whose collector is in another one.

use super::collector::CollectorNews;
use super::limit::{Limit, Taken};
use super::model::TraceStamp;
use crate::unix_time::unix_ns;
use sheaf_telemetry::stamps::{Overwritten, StampHub, StampStore};
use std::time::Instant;

/// Stamps and remarks of the nodes of this process, for a collector in another one.
#[derive(Debug)]
pub struct LocalStamps {
    hub: StampHub,
    store: StampStore,
    limit: Limit,
}

impl LocalStamps {
    /// Makes a reader of the stamps at this hub.
    #[must_use]
    pub fn new(hub: StampHub) -> Self {
        Self { hub, store: StampStore::default(), limit: Limit::default() }
    }

    /// Takes what nodes have published since the last call, and passes on the news for the collector.
    ///
    /// The collector would leave out most of the sample where rates are high, and most slow events where all are slow. Those are counted here: to
    /// pass them on costs more than all the rest.
    pub fn take(&mut self, mut pass: impl FnMut(CollectorNews)) {
        let (now, limit) = (Instant::now(), &mut self.limit);
        let (mut samples, mut slow) = (0, 0);
        self.store.take(&self.hub, unix_ns(), &mut |words| match limit.take(words, now) {
            Taken::Passed => pass(CollectorNews::Remark(words)),
            Taken::SampleLeftOut => samples += 1,
            Taken::SlowLeftOut => slow += 1,
        });
        if samples + slow > 0 {
            pass(CollectorNews::TooMany(samples, slow));
        }
        let Overwritten { stamps, remarks } = self.store.take_overwritten();
        if stamps + remarks > 0 {
            pass(CollectorNews::Lost(stamps, remarks));
        }
    }

    /// Passes on the stamps of events.
    pub fn find(&self, events: &[u64], mut pass: impl FnMut(CollectorNews)) {
        let mut pass = |event, found: Vec<_>| pass(CollectorNews::Stamps(event, TraceStamp::of_all(&found)));
        self.store.find(events, &mut pass);
    }
}
