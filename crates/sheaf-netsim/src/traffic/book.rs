//! The books of event-building traffic: which events are open, complete or incomplete, and how long they took.

use crate::report::{Check, Distribution, EventCounts};
use crate::traffic::Summary;
use crate::units::Picos;
use hdrhistogram::Histogram;
use std::collections::VecDeque;

/// An open event.
#[derive(Clone, Copy, Debug)]
struct Open {
    builder: u32,
    /// Fragments, or pieces of them, that have not ended.
    pending: u32,
    /// When its first fragment was handed over; [`Picos::MAX`] before.
    begun: Picos,
    damaged: bool,
}

/// End of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its builder.
    pub builder: u32,
    /// Whether all of it arrived.
    pub complete: bool,
}

/// All events: opened in the order of their numbers, ended in any order.
#[derive(Clone, Debug)]
pub struct Book {
    /// The number of the first event in `open`.
    first: u64,
    open: VecDeque<Open>,
    counts: EventCounts,
    opened: u64,
    by_builder: Vec<u64>,
    latency: Histogram<u64>,
}

impl Book {
    /// An empty book for `builders` builders.
    ///
    /// # Panics
    /// Never: three digits are allowed.
    #[must_use]
    pub fn new(builders: u32) -> Self {
        let mut latency = Histogram::new(3).expect("hdrhistogram takes 0 to 5 digits");
        latency.auto(true);
        Self {
            first: 0,
            open: VecDeque::new(),
            counts: EventCounts::default(),
            opened: 0,
            by_builder: vec![0; builders as usize],
            latency,
        }
    }

    /// Opens the next event; gives its number.
    pub fn open(&mut self, builder: u32, fragments: u32) -> u64 {
        debug_assert!(fragments > 0, "an event without fragments never ends");
        self.open.push_back(Open { builder, pending: fragments, begun: Picos::MAX, damaged: false });
        self.counts.in_flight += 1;
        self.opened += 1;
        self.opened - 1
    }

    /// Returns the number of events opened, which is the number of the next.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// The earliest event that has not ended; the next event if all have.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the builder of an open event.
    #[must_use]
    pub fn builder(&self, event: u64) -> u32 {
        self.open[self.place(event)].builder
    }

    /// A fragment of an open event is handed to the network.
    pub fn hand_over(&mut self, event: u64, now: Picos) {
        let place = self.place(event);
        let begun = &mut self.open[place].begun;
        *begun = (*begun).min(now);
    }

    /// A fragment of an open event travels in one piece more.
    pub fn add_piece(&mut self, event: u64) {
        let place = self.place(event);
        self.open[place].pending += 1;
    }

    /// Records that a fragment or a piece of one has arrived, or is lost. Returns the event if it ends with that.
    pub fn end_piece(&mut self, event: u64, now: Picos, lost: bool) -> Option<Ended> {
        let place = self.place(event);
        let open = &mut self.open[place];
        open.pending -= 1;
        open.damaged |= lost;
        if open.pending > 0 {
            return None;
        }
        let Open { builder, begun, damaged, .. } = *open;
        self.counts.in_flight -= 1;
        if damaged {
            self.counts.incomplete += 1;
        } else {
            self.counts.complete += 1;
            self.by_builder[builder as usize] += 1;
            self.latency.record(now.since(begun).0).expect("the histogram grows as it must");
        }
        while self.open.front().is_some_and(|front| front.pending == 0) {
            self.open.pop_front();
            self.first += 1;
        }
        Some(Ended { builder, complete: !damaged })
    }

    /// The events so far.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.counts
    }

    /// Complete events of each builder.
    #[must_use]
    pub fn by_builder(&self) -> &[u64] {
        &self.by_builder
    }

    /// Returns the summary for the report.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let EventCounts { complete, incomplete, in_flight } = self.counts;
        let open = self.open.iter().filter(|open| open.pending > 0).count() as u64;
        let check = Check {
            name: "events",
            pass: complete + incomplete + in_flight == self.opened && in_flight == open,
            detail: format!(
                "{} begun = {complete} complete + {incomplete} incomplete + {in_flight} in flight ({open} open)",
                self.opened
            ),
        };
        Summary { events: Some(self.counts), event_latency: distribution(&self.latency), checks: vec![check] }
    }

    fn place(&self, event: u64) -> usize {
        usize::try_from(event - self.first).expect("open events fit into memory")
    }
}

/// A histogram of picoseconds as it is reported; nothing if it is empty.
#[must_use]
pub fn distribution(histogram: &Histogram<u64>) -> Option<Distribution> {
    (!histogram.is_empty()).then(|| Distribution {
        count: histogram.len(),
        mean: histogram.mean(),
        p50: Picos(histogram.value_at_quantile(0.5)),
        p99: Picos(histogram.value_at_quantile(0.99)),
        p999: Picos(histogram.value_at_quantile(0.999)),
        max: Picos(histogram.max()),
    })
}
