//! Ranges of events in which sources are excluded by an operator.
//!
//! The cell of an excluded source is settled when its event gets a slot, so nothing waits for it.

use super::Cell;
use crate::numbering::MOST_IN_FLIGHT;
use sheaf_wire::{EventId, MissingReason};

/// Number of past exclusions that are remembered. Fragments of an older one count as late.
const MOST_PAST: usize = 64;

/// End of an exclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// None is ordered.
    Open,
    /// It ends with the next fragment of the source, but not before this event.
    Returning(EventId),
    /// The first event with the source again.
    At(EventId),
}

#[derive(Clone, Copy, Debug)]
struct Excluded {
    source: usize,
    first: EventId,
    /// First event above those of the fragments that were dropped, apart from wrong numbers far ahead.
    passed: EventId,
    end: End,
}

impl Excluded {
    fn lasts(&self) -> bool {
        !matches!(self.end, End::At(_))
    }

    /// Returns whether the source is excluded in an event.
    fn has(&self, event: EventId) -> bool {
        let is_before_end = match self.end {
            End::Open | End::Returning(_) => true,
            End::At(end) => event < end,
        };
        self.first <= event && is_before_end
    }
}

/// See the [module](self). Sources are indices in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub(in crate::readout) struct Exclusions {
    /// At most one of each source lasts.
    ranges: Vec<Excluded>,
}

impl Exclusions {
    /// Returns whether no source has been excluded.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether a source is excluded, or has not delivered anything since its exclusion ended.
    #[inline]
    pub(in crate::readout) fn lasts(&self, source: usize) -> bool {
        self.ranges.iter().any(|range| range.source == source && range.lasts())
    }

    /// Returns before which event a source is not included again, if its exclusion ends with its next fragment.
    pub(in crate::readout) fn returning(&self, source: usize) -> Option<EventId> {
        self.ranges.iter().find_map(|range| match range.end {
            End::Returning(earliest) if range.source == source => Some(earliest),
            _ => None,
        })
    }

    /// Returns whether a source is excluded in an event.
    pub(in crate::readout) fn has(&self, source: usize, event: EventId) -> bool {
        self.ranges.iter().any(|range| range.source == source && range.has(event))
    }

    /// Returns the first event of a lasting exclusion, which is not to end any more.
    pub(in crate::readout) fn prolong(&mut self, source: usize) -> Option<EventId> {
        let range = self.lasting(source)?;
        range.end = End::Open;
        Some(range.first)
    }

    /// Has the lasting exclusion of a source end with its next fragment, but not before `earliest`. Returns false if there is none.
    pub(in crate::readout) fn let_return(&mut self, source: usize, earliest: EventId) -> bool {
        let range = self.lasting(source);
        range.map(|range| range.end = End::Returning(earliest)).is_some()
    }

    /// Records a fragment that is dropped because its source is excluded.
    pub(in crate::readout) fn note_dropped(&mut self, source: usize, event: EventId) {
        if let Some(range) = self.lasting(source)
            && event.0.saturating_sub(range.passed.0) <= MOST_IN_FLIGHT
        {
            range.passed = range.passed.max(EventId(event.0.saturating_add(1)));
        }
    }

    /// Returns the first event after the exclusions of a source so far, above the fragments that were dropped.
    pub(in crate::readout) fn passed(&self, source: usize) -> Option<EventId> {
        let its = self.ranges.iter().filter(|range| range.source == source);
        let passed = its.map(|range| match range.end {
            End::At(end) => end,
            End::Open | End::Returning(_) => range.passed,
        });
        passed.max()
    }

    fn lasting(&mut self, source: usize) -> Option<&mut Excluded> {
        self.ranges.iter_mut().find(|range| range.source == source && range.lasts())
    }

    pub(super) fn begin(&mut self, source: usize, first: EventId) {
        self.ranges.push(Excluded { source, first, passed: first, end: End::Open });
    }

    /// Ends the lasting exclusion of a source, but not before it began. Returns the first event with the source.
    pub(super) fn end(&mut self, source: usize, at: EventId) -> EventId {
        let Some(range) = self.lasting(source) else { return at };
        let at = at.max(range.first);
        range.end = End::At(at);
        if self.ranges.iter().filter(|range| !range.lasts()).count() > MOST_PAST
            && let Some(oldest) = self.ranges.iter().position(|range| !range.lasts())
        {
            self.ranges.remove(oldest);
        }
        at
    }

    /// Returns the sources that are excluded in an event. Ranges of one source do not overlap.
    fn excluded_in(&self, event: EventId) -> impl Iterator<Item = usize> {
        self.ranges.iter().filter(move |range| range.has(event)).map(|range| range.source)
    }

    /// Returns the number of sources that are excluded in an event.
    pub(super) fn count(&self, event: EventId) -> u16 {
        u16::try_from(self.excluded_in(event).count()).unwrap_or(u16::MAX)
    }

    /// Settles the cells of an event whose slot is opened now, of which all sources are awaited.
    pub(super) fn settle<P>(&self, event: EventId, cells: &mut [Cell<P>]) {
        for source in self.excluded_in(event) {
            cells[source] = Cell::Missing(MissingReason::Excluded);
        }
    }
}
