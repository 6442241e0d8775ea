//! Ledgers: every trigger and every fragment ends in exactly one named bin.
//!
//! Two kinds of ledgers are kept where the outcomes are known. The event manager books triggers: each is stored, rejected,
//! dropped for a named reason, or in flight. Every readout unit books the fragments of its sources in the same bins. A ledger
//! balances if the number received equals the sum of its bins, where *in flight* is counted from the held items, not computed
//! from the other numbers. At the end of a run the two are compared: the stored events of the event manager must contain as
//! many fragments as the readout units have booked as stored.

use serde::{Deserialize, Serialize};
use sheaf_wire::message::Count;
use sheaf_wire::{DropReason, codes};
use std::collections::BTreeMap;

/// Ledger of triggers or fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Number received.
    pub received: u64,
    /// Number stored.
    pub stored: u64,
    /// Number rejected by the filter.
    pub rejected: u64,
    /// Number dropped by reason. Reasons that did not occur are absent.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Number that have not ended yet.
    pub in_flight: u64,
}

impl Ledger {
    /// Books `count` drops.
    pub fn drop_for(&mut self, reason: DropReason, count: u64) {
        if count > 0 {
            *self.dropped.entry(reason).or_default() += count;
        }
    }

    /// Returns the number of all drops.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Returns whether the number received equals the sum of the bins.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.received == self.stored + self.rejected + self.dropped_total() + self.in_flight
    }

    /// Passes the bins to `line`, as lines of a report, without allocation.
    pub fn each_count(&self, line: &mut dyn FnMut(Count)) {
        line(Counter::Received.count(self.received));
        line(Counter::Stored.count(self.stored));
        line(Counter::Rejected.count(self.rejected));
        line(Counter::InFlight.count(self.in_flight));
        each_drop(&self.dropped, line);
    }

    /// Adds the ledger of another node.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.stored += other.stored;
        self.rejected += other.rejected;
        self.in_flight += other.in_flight;
        for (reason, count) in &other.dropped {
            self.drop_for(*reason, *count);
        }
    }
}

/// Passes drops to `line`, as lines of a report.
pub(crate) fn each_drop(dropped: &BTreeMap<DropReason, u64>, line: &mut dyn FnMut(Count)) {
    for (reason, value) in dropped {
        line(Count { code: Counter::Dropped.code(), reason: u16::from(reason.code()), value: *value });
    }
}

codes! {
    u16:
    /// Counters that a node reports in addition to its ledger. The numbers are codes in messages and never change their meaning.
    #[derive(Serialize, Deserialize)]
    Counter {
        /// Ledger: fragments received.
        Received = 1, "received";
        /// Ledger: fragments stored.
        Stored = 2, "stored";
        /// Ledger: fragments of rejected events.
        Rejected = 3, "rejected";
        /// Ledger: fragments dropped, one count per reason.
        Dropped = 4, "dropped";
        /// Ledger: fragments held.
        InFlight = 5, "in_flight";
        /// Payload bytes received from sources.
        ReceivedBytes = 6, "received_bytes";
        /// Fragments whose event id is lower than an earlier one of their source. They are built like others.
        OutOfOrder = 7, "out_of_order";
        /// Super-fragments sent again because of a repeated request.
        Resent = 8, "resent";
        /// Requests for events that had been released.
        StaleRequests = 9, "stale_requests";
        /// Builder: super-fragments of events that it does not build, or no longer builds.
        StaleSuperFragments = 10, "stale_super_fragments";
        /// Builder: super-fragments received before.
        DuplicateSuperFragments = 11, "duplicate_super_fragments";
        /// Builder: requests repeated because a readout unit did not answer.
        RetriedRequests = 12, "retried_requests";
        /// Builder: events returned for lack of memory.
        GivenBack = 13, "given_back";
        /// Messages from or for a session that had ended.
        StaleMessages = 14, "stale_messages";
        /// Control messages retransmitted because they were not acknowledged.
        RepeatedMessages = 15, "repeated_messages";
        /// Messages that are not valid for this role: from a peer of another release, or a stranger.
        UnexpectedMessages = 16, "unexpected_messages";
        /// Readout unit: payload bytes sent to builders, including repeated answers.
        SentBytes = 17, "sent_bytes";
        /// Readout unit: payload bytes of fragments that ended as `not_requested`.
        NotRequestedBytes = 18, "not_requested_bytes";
        /// Builder: parts of events that its driver has judged.
        JudgedParts = 19, "judged_parts";
        /// Builder: events rejected after a part had been judged.
        RejectedParts = 20, "rejected_parts";
        /// Builder: events of which more was requested after a part had been judged.
        ContinuedEvents = 21, "continued_events";
        /// Builder: built events with a fragment whose check value disagrees.
        DisagreeingEvents = 22, "disagreeing_events";
        /// Builder: fragments of built events whose check value disagrees.
        DisagreeingFragments = 23, "disagreeing_fragments";
        /// Builder: fragments of built events that have no check value where the configuration describes one.
        UncheckedFragments = 24, "unchecked_fragments";
        /// Readout unit: fragments to which another event id was given than their source gave.
        RenumberedFragments = 25, "renumbered_fragments";
        /// Event manager: run records that programs sent and the run has.
        KeptRecords = 26, "kept_records";
        /// Event manager: run records that were refused, because of a limit or because the output has no place for them.
        RefusedRecords = 27, "refused_records";
        /// Readout unit: fragments dropped as `duplicate` whose length or checksum differs from that of the fragment held.
        ConflictingFragments = 28, "conflicting_fragments";
        /// Builder: events sent to an output node, including repetitions.
        ForwardedEvents = 32, "forwarded_events";
        /// Builder: events that were sent again because their output node died or fell silent.
        ForwardedAgain = 33, "forwarded_again";
        /// Builder: receipts for events that had been sent to another output node meanwhile. Those copies do not count.
        LateReceipts = 34, "late_receipts";
        /// Output node: events accepted from builders.
        TakenEvents = 35, "taken_events";
        /// Output node: accepted events that were not written because the session of their builder had ended.
        VoidEvents = 36, "void_events";
    }
}

impl Counter {
    /// Returns one line of a report.
    #[must_use]
    pub const fn count(self, value: u64) -> Count {
        Count { code: self.code(), reason: 0, value }
    }
}

/// Books of a node that closes: a ledger (empty for builders) and counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBooks {
    /// Fragments booked by a readout unit.
    pub fragments: Ledger,
    /// All other counters, without zero counts.
    pub counters: BTreeMap<Counter, u64>,
}

impl NodeBooks {
    /// Returns the books as lines of a report message.
    #[must_use]
    pub fn to_counts(&self) -> Vec<Count> {
        let mut counts = Vec::new();
        self.fragments.each_count(&mut |count| counts.push(count));
        self.each_counter(&mut |count| counts.push(count));
        counts
    }

    /// Passes the counters beside the ledger to `line`, as lines of a report, without allocation.
    pub fn each_counter(&self, line: &mut dyn FnMut(Count)) {
        self.counters.iter().for_each(|(counter, value)| line(counter.count(*value)));
    }

    /// Reads the lines of a report. Lines with unknown codes, of a later release, are ignored.
    #[must_use]
    pub fn from_counts(counts: &[Count]) -> Self {
        let mut books = Self::default();
        for count in counts {
            let ledger = &mut books.fragments;
            match Counter::from_code(count.code) {
                Some(Counter::Received) => ledger.received += count.value,
                Some(Counter::Stored) => ledger.stored += count.value,
                Some(Counter::Rejected) => ledger.rejected += count.value,
                Some(Counter::InFlight) => ledger.in_flight += count.value,
                Some(Counter::Dropped) => {
                    let code = u8::try_from(count.reason).unwrap_or(0);
                    if let Some(reason) = DropReason::from_code(code) {
                        ledger.drop_for(reason, count.value);
                    }
                }
                Some(counter) => *books.counters.entry(counter).or_default() += count.value,
                None => {}
            }
        }
        books
    }

    /// Adds to a counter.
    pub fn count(&mut self, counter: Counter, value: u64) {
        if value > 0 {
            *self.counters.entry(counter).or_default() += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_survive_the_report() {
        let mut books = NodeBooks::default();
        books.fragments.received = 10;
        books.fragments.stored = 4;
        books.fragments.drop_for(DropReason::Late, 5);
        books.fragments.drop_for(DropReason::Duplicate, 1);
        books.count(Counter::OutOfOrder, 3);
        assert!(books.fragments.is_balanced());
        assert_eq!(NodeBooks::from_counts(&books.to_counts()), books);
    }

    #[test]
    fn a_missing_unit_unbalances() {
        let ledger = Ledger { received: 2, stored: 1, ..Ledger::default() };
        assert!(!ledger.is_balanced());
    }

    /// Returns the cells of the rows of the table of `page` that begins with `first_row`.
    fn table<'a>(page: &'a str, first_row: &str) -> Vec<Vec<&'a str>> {
        let rows = page.split_once(first_row).expect("the page has the table").1.lines().skip(2);
        let rows = rows.take_while(|row| row.starts_with('|'));
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
    }

    #[test]
    fn the_reference_page_has_the_codes_and_names_of_all_counters() {
        let page = include_str!("../../../docs/reference/protocol.md");
        let rows = table(page, "| counter | code | name | of |");
        let shown: Vec<_> = rows.iter().map(|row| (row[1].to_owned(), row[2].to_owned())).collect();
        let known = Counter::ALL.iter().map(|it| (it.code().to_string(), format!("`{}`", it.name())));
        assert_eq!(shown, known.collect::<Vec<_>>());
    }

    #[test]
    fn the_page_about_the_ledger_explains_every_counter_beside_the_bins() {
        let page = include_str!("../../../docs/concepts/ledger.md");
        let rows = table(page, "| counter | node | counts |");
        let bins =
            [Counter::Received, Counter::Stored, Counter::Rejected, Counter::Dropped, Counter::InFlight];
        for counter in Counter::ALL.iter().filter(|it| !bins.contains(it)) {
            let name = format!("`{}`", counter.name());
            assert!(rows.iter().any(|row| row[0].contains(&name)), "{name} has no row");
        }
    }

    #[test]
    fn the_tutorial_gives_its_counter_the_next_free_code() {
        let page = include_str!("../../../docs/howto/first-change.md");
        let text = page.split_once("Answers = ").expect("the page has the counter").1;
        let code: u16 = text.split_once(',').and_then(|it| it.0.parse().ok()).expect("it has a code");
        assert_eq!((Counter::from_code(code), Counter::from_code(code - 1).is_some()), (None, true));
        assert!(page.contains(&format!("| Answers | {code} | `answers` |")));
    }
}
