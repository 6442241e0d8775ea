//! Sources whose fragments are renumbered.

use sheaf_wire::message::Renumbered;
use sheaf_wire::{EventId, Fragment, NumberMark, SourceId};
use std::collections::{BTreeMap, VecDeque};

/// Orders that wait for the next fragment of their source, at most.
const MOST_ORDERS: usize = 64;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Renumbering {
    sources: BTreeMap<SourceId, Numbers>,
}

/// Numbers of a source.
#[derive(Clone, Debug, Default)]
struct Numbers {
    /// Number that is added to the event ids that the source gives.
    shift: i64,
    /// Orders that hold from the next fragment on.
    orders: VecDeque<i64>,
    /// Highest event that the source had a fragment of when its numbers were lowered: up to that they repeat.
    repeated: Option<EventId>,
}

/// Fate of a fragment of a renumbered source.
#[derive(Clone, Debug)]
pub(super) enum Moved<P> {
    /// It is of this event.
    To(Fragment<P>),
    /// Its event has a fragment from before the repair, or no number.
    Taken,
}

/// A change of numbers, with the first fragment that has a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seam {
    pub(super) answer: Renumbered,
    /// Number of events before the first one that the source has no fragment of.
    pub(super) left_out: u64,
}

impl Renumbering {
    /// Returns whether no source is renumbered.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns whether the fragments of a source are renumbered.
    #[inline]
    pub(super) fn concerns(&self, source: SourceId) -> bool {
        !self.sources.is_empty() && self.sources.contains_key(&source)
    }

    /// Takes an order. Returns `false` if too many wait.
    pub(super) fn order(&mut self, source: SourceId, shift: i64) -> bool {
        let orders = &mut self.sources.entry(source).or_default().orders;
        let has_room = orders.len() < MOST_ORDERS;
        if has_room {
            orders.push_back(shift);
        }
        has_room
    }

    /// Begins what was ordered with the next fragment of a source, whose highest event so far is `highest`.
    pub(super) fn begin(
        &mut self,
        source: SourceId,
        event: EventId,
        highest: Option<EventId>,
    ) -> Option<Seam> {
        let numbers = self.sources.get_mut(&source)?;
        let shift = numbers.orders.pop_front()?;
        numbers.shift = numbers.shift.saturating_add(shift);
        let mut first = EventId(event.0.saturating_add_signed(numbers.shift));
        if shift < 0 {
            numbers.repeated = numbers.repeated.max(highest);
            // Up to the highest event, the fragments from before stay.
            first = first.max(highest.map_or(first, |highest| EventId(highest.0.saturating_add(1))));
        }
        Some(Seam {
            answer: Renumbered { source, first, shift },
            left_out: u64::try_from(shift).unwrap_or(0),
        })
    }

    /// Renumbers a fragment.
    pub(super) fn apply<P>(&mut self, mut fragment: Fragment<P>) -> Moved<P> {
        let Some(numbers) = self.sources.get_mut(&fragment.source) else {
            return Moved::To(fragment);
        };
        let Some(event) = fragment.event.0.checked_add_signed(numbers.shift).map(EventId) else {
            return Moved::Taken;
        };
        if numbers.repeated.is_some_and(|last| event <= last) {
            return Moved::Taken;
        }
        numbers.repeated = None;
        fragment.event = event;
        fragment.mark = NumberMark::renumbered(numbers.shift);
        Moved::To(fragment)
    }
}
