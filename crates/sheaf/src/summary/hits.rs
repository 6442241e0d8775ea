//! The ledger of the hits of self-triggered front ends.

use super::kept::Loss;
use serde::{Deserialize, Serialize};
use sheaf_source::timed::FeedBooks;
use sheaf_source::windows::WindowBooks;

/// Hits and packets of self-triggered front ends: `received` is the sum of the six numbers that follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HitLedger {
    /// Hits in packets that were read.
    pub(crate) received: u64,
    /// Hits in at least one time slice, which is a fragment of the ledger, or is kept for windows.
    pub(crate) in_slices: u64,
    /// Hits that came after their slice was complete.
    pub(crate) late: u64,
    /// Hits of slices that were full.
    pub(crate) left_out: u64,
    /// Hits before the first time marker or pulse.
    pub(crate) untimed: u64,
    /// Hits before time 0 of the run, or too far behind it.
    pub(crate) off_timeline: u64,
    /// Hits of slices that were not complete at the end of the run.
    pub(crate) unfinished: u64,
    /// Number of places in slices that hits lack, because the slice was full or complete. Hits that are in another slice are not
    /// lost.
    pub(crate) places_lacking: u64,
    /// Packets that were read.
    pub(crate) packets: u64,
    /// Packets that did not arrive, by the gaps in their numbers.
    pub(crate) packets_lost: u64,
    /// Packets that were dropped because too many waited to be read.
    pub(crate) packets_dropped: u64,
    /// Packets of another format.
    pub(crate) packets_unreadable: u64,
    /// Packets, or fragments, whose hits the decoder could not read.
    pub(crate) packets_undecoded: u64,
    /// Pulses of a reference that clocks did not follow, because they came at another time than expected.
    #[serde(default)]
    pub(crate) pulses_refused: u64,
    /// Sources whose books do not balance.
    pub(crate) unbalanced_sources: u64,
    /// Windows of these hits, where triggers request them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) windows: Option<WindowLedger>,
}

/// Windows of hits, which readout units give on request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WindowLedger {
    /// Fragments given, with the hits of one window of a source each.
    pub(crate) given: u64,
    /// Hits in these. A hit in two of them counts twice.
    pub(crate) hits_given: u64,
    /// Hits that were kept, so that windows could be requested.
    pub(crate) hits_kept: u64,
    /// Hits that went from memory to the hit spool.
    pub(crate) hits_archived: u64,
    /// Hits that were deleted to make room in memory.
    pub(crate) hits_deleted: u64,
}

impl WindowLedger {
    fn of(books: &WindowBooks) -> Self {
        let WindowBooks { given, hits_given, hits_kept, hits_archived, hits_deleted, .. } = *books;
        Self { given, hits_given, hits_kept, hits_archived, hits_deleted }
    }

    fn join(&mut self, other: &Self) {
        let Self { given, hits_given, hits_kept, hits_archived, hits_deleted } = other;
        self.given += given;
        self.hits_given += hits_given;
        self.hits_kept += hits_kept;
        self.hits_archived += hits_archived;
        self.hits_deleted += hits_deleted;
    }
}

impl HitLedger {
    pub(crate) fn of(books: &FeedBooks) -> Self {
        Self {
            received: books.hits + books.hits_untimed + books.hits_off_timeline,
            in_slices: books.hits_in_slices,
            late: books.slices.late,
            left_out: books.slices.left_out,
            untimed: books.hits_untimed,
            off_timeline: books.hits_off_timeline,
            unfinished: books.hits_waiting,
            places_lacking: books.slices.places_lacking,
            packets: books.packets,
            packets_lost: books.packets_lost,
            packets_dropped: books.packets_dropped,
            packets_unreadable: books.packets_unreadable,
            packets_undecoded: books.packets_undecoded,
            pulses_refused: books.pulses_refused,
            unbalanced_sources: u64::from(!books.is_balanced()),
            windows: None,
        }
    }

    /// Adds the books of windows of these hits, which are those of one source.
    pub(crate) fn with(self, windows: Option<&WindowBooks>) -> Self {
        let is_unbalanced = windows.is_some_and(|windows| windows.hits_kept != self.in_slices);
        let unbalanced_sources = self.unbalanced_sources.max(u64::from(is_unbalanced));
        Self { windows: windows.map(WindowLedger::of), unbalanced_sources, ..self }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        let Self {
            received,
            in_slices,
            late,
            left_out,
            untimed,
            off_timeline,
            unfinished,
            places_lacking,
            packets,
            packets_lost,
            packets_dropped,
            packets_unreadable,
            packets_undecoded,
            pulses_refused,
            unbalanced_sources,
            windows,
        } = other;
        self.received += received;
        self.in_slices += in_slices;
        self.late += late;
        self.left_out += left_out;
        self.untimed += untimed;
        self.off_timeline += off_timeline;
        self.unfinished += unfinished;
        self.places_lacking += places_lacking;
        self.packets += packets;
        self.packets_lost += packets_lost;
        self.packets_dropped += packets_dropped;
        self.packets_unreadable += packets_unreadable;
        self.packets_undecoded += packets_undecoded;
        self.pulses_refused += pulses_refused;
        self.unbalanced_sources += unbalanced_sources;
        if let Some(windows) = windows {
            self.windows.get_or_insert_default().join(windows);
        }
    }

    /// Returns the relation that does not add up, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let accounted =
            self.in_slices + self.late + self.left_out + self.untimed + self.off_timeline + self.unfinished;
        if self.unbalanced_sources == 0 && accounted == self.received {
            return None;
        }
        let (received, sources) = (self.received, self.unbalanced_sources);
        Some(format!("{received} hits received, {accounted} accounted for; {sources} sources do not balance"))
    }

    /// Returns the number of hits that a setting lost. Those before the first time marker or pulse, and those of the slices in which
    /// the run ended, have no place in a slice.
    pub(super) fn lost(&self) -> u64 {
        self.late + self.left_out + self.off_timeline
    }

    /// Returns the losses of a run that may lose this fraction of its hits.
    #[expect(clippy::cast_precision_loss, reason = "a fraction is compared to many digits")]
    pub(crate) fn losses(&self, allowed_fraction: f64) -> Vec<Loss> {
        let mut losses = Vec::new();
        if self.lost() as f64 > allowed_fraction * self.received as f64 {
            for (count, reason, cause, remedy) in [
                (
                    self.late,
                    "late",
                    "they came after their slice was complete",
                    "raise `source.timed.tolerance_us`; check `tick`, and `bits` of `[clocks]`",
                ),
                (
                    self.left_out,
                    "left_out",
                    "their slice was full",
                    "raise `source.timed.max_hits`, or make slices shorter",
                ),
                (
                    self.off_timeline,
                    "off_timeline",
                    "their time is before time 0 of the run, or too far behind it",
                    "check `tick`, and `bits` and `offset` of `[clocks]`",
                ),
            ] {
                if count > 0 {
                    losses.push(Loss::of("hits", reason, count, (cause, remedy)));
                }
            }
        }
        if self.packets_dropped > 0 {
            let (cause, remedy) =
                ("too many waited for the readout unit", "give it a processor of its own, or use several");
            losses.push(Loss::of("packets", "dropped", self.packets_dropped, (cause, remedy)));
        }
        if self.packets_undecoded > 0 {
            let (cause, remedy) = (
                "the decoder could not read their hits",
                "the log has the last reason; check `source.timed.front_end` and `[source.hits]` or `[source.decoder]`",
            );
            losses.push(Loss::of("packets", "undecoded", self.packets_undecoded, (cause, remedy)));
        }
        losses
    }
}

#[cfg(test)]
mod tests;
