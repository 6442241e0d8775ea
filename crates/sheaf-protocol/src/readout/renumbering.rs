//! Sources whose fragments are renumbered.

use super::reached::MOST_AHEAD;
use sheaf_wire::message::Renumbered;
use sheaf_wire::{EventId, Fragment, NumberMark, SourceId};
use std::collections::{BTreeMap, VecDeque};

/// Orders that wait for the next fragment of their source, at most.
const MOST_ORDERS: usize = 64;

/// Largest shift of an order, in events.
const MOST_SHIFT: u64 = 1 << 16;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Renumbering {
    sources: BTreeMap<SourceId, Numbers>,
}

/// Fragments in a row whose numbers are not credible, after which they are: the source has large gaps.
const MOST_PASSED: u32 = 8;

/// Numbers of a source.
#[derive(Clone, Debug, Default)]
struct Numbers {
    /// Number that is added to the event ids that the source gives.
    shift: i64,
    /// Orders that hold from the next fragment on.
    orders: VecDeque<i64>,
    /// Number of fragments that were passed over since the order, because their numbers are not credible.
    passed: u32,
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

/// Events of the fragments that a source has delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivered {
    /// Event of the last one.
    pub(super) last: Option<EventId>,
    /// The highest event.
    pub(super) highest: Option<EventId>,
    /// The highest event apart from wrong numbers far ahead, if there were any.
    pub(super) highest_near: Option<EventId>,
}

/// A change of numbers, with the first event from which on every fragment of the source has its right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seam {
    pub(super) answer: Renumbered,
    /// Number of events before the first one that the source has no fragment of.
    pub(super) left_out: u64,
}

impl Numbers {
    /// Returns the event of the first fragment that is not dropped, if the next one has this number.
    fn next_place(&self, number: EventId) -> u64 {
        let place = number.0.saturating_add_signed(self.shift);
        // Up to there, the fragments from before stay.
        self.repeated.map_or(place, |last| place.max(last.0.saturating_add(1)))
    }
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

    /// Takes an order. Returns `false` if too many wait, or the shift is none that an event manager orders.
    pub(super) fn order(&mut self, source: SourceId, shift: i64) -> bool {
        if shift == 0 || shift.unsigned_abs() > MOST_SHIFT {
            return false;
        }
        let orders = &mut self.sources.entry(source).or_default().orders;
        let has_room = orders.len() < MOST_ORDERS;
        if has_room {
            orders.push_back(shift);
        }
        has_room
    }

    /// Returns whether an order waits for the next fragment of a source.
    pub(super) fn is_ordered(&self, source: SourceId) -> bool {
        self.sources.get(&source).is_some_and(|numbers| !numbers.orders.is_empty())
    }

    /// Begins what was ordered with the next fragment of a source, unless its number is not credible: then with one after it.
    pub(super) fn begin(&mut self, source: SourceId, event: EventId, delivered: Delivered) -> Option<Seam> {
        let numbers = self.sources.get_mut(&source).filter(|numbers| !numbers.orders.is_empty())?;
        let place = event.0.saturating_add_signed(numbers.shift);
        let is_near = delivered.last.is_none_or(|last| last.0.abs_diff(place) <= MOST_AHEAD);
        if !is_near && numbers.passed < MOST_PASSED {
            numbers.passed += 1;
            return None;
        }
        let shift = numbers.orders.pop_front()?;
        numbers.passed = 0;
        let mut before = numbers.next_place(event);
        numbers.shift = numbers.shift.saturating_add(shift);
        let is_credible = |highest: &EventId| highest.0 < before.saturating_add(MOST_AHEAD);
        let highest = [delivered.highest, delivered.highest_near].into_iter().flatten().find(is_credible);
        let mut first = numbers.next_place(event);
        if shift < 0 {
            let last = EventId(before.saturating_sub(1));
            numbers.repeated = numbers.repeated.max(highest.or(delivered.highest.and(Some(last))));
            first = numbers.next_place(event);
        } else if let Some(highest) = highest.filter(|highest| highest.0 >= before) {
            // This fragment is late. Events up to the highest one have fragments from before, and are not right.
            before = highest.0.saturating_add(1);
            first = first.max(before.saturating_add_signed(shift));
        }
        let answer = Renumbered { source, first: EventId(first), shift };
        Some(Seam { answer, left_out: first.saturating_sub(before) })
    }

    /// Renumbers a fragment.
    pub(super) fn apply<P>(&mut self, mut fragment: Fragment<P>) -> Moved<P> {
        let Some(numbers) = self.sources.get_mut(&fragment.source) else {
            return Moved::To(fragment);
        };
        let Some(event) = fragment.event.0.checked_add_signed(numbers.shift).map(EventId) else {
            return Moved::Taken;
        };
        if let Some(last) = numbers.repeated {
            if event <= last {
                return Moved::Taken;
            }
            if event.0 - last.0 <= MOST_AHEAD {
                numbers.repeated = None;
            }
        }
        fragment.event = event;
        fragment.mark = NumberMark::renumbered(numbers.shift);
        Moved::To(fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_wire::Timestamp;

    const SOURCE: SourceId = SourceId(3);

    fn fragment(event: u64) -> Fragment<()> {
        Fragment {
            event: EventId(event),
            source: SOURCE,
            time: Timestamp(event),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: (),
        }
    }

    proptest! {
        /// Numbers of fragments and, between them, orders: each event has one fragment, or is left out, or its second is dropped.
        #[test]
        fn each_event_has_one_fragment_or_is_left_out(
            first in 100..1_000_u64,
            orders in prop::collection::vec((1..50_u64, prop_oneof![-9..=-1_i64, 1..=9_i64]), 0..6),
        ) {
            let mut renumbering = Renumbering::default();
            let (mut number, mut shift) = (first, 0);
            let (mut delivered, mut next, mut dropped, mut repeats) = (Delivered::default(), first, 0, 0);
            for (count, order) in orders.into_iter().chain([(50, 1)]) {
                for _ in 0..count {
                    while let Some(seam) = renumbering.begin(SOURCE, EventId(number), delivered) {
                        next += seam.left_out;
                        repeats += u64::try_from(-seam.answer.shift).unwrap_or(0);
                        prop_assert_eq!(seam.answer.first, EventId(next), "the first right event");
                    }
                    match renumbering.apply(fragment(number)) {
                        Moved::To(moved) => {
                            prop_assert_eq!(moved.event, EventId(next));
                            prop_assert_eq!(moved.event.0, number.saturating_add_signed(shift));
                            prop_assert_eq!(moved.mark, NumberMark::renumbered(shift));
                            delivered = Delivered {
                                last: Some(moved.event),
                                highest: Some(moved.event),
                                highest_near: None,
                            };
                            next += 1;
                        }
                        Moved::Taken => dropped += 1,
                    }
                    number += 1;
                }
                prop_assert!(renumbering.order(SOURCE, order));
                shift += order;
                prop_assert!(renumbering.concerns(SOURCE) && !renumbering.concerns(SourceId(4)));
            }
            prop_assert!(dropped <= repeats, "only second fragments are dropped");
        }
    }

    #[test]
    fn a_repair_that_begins_with_a_late_fragment_holds_behind_all_fragments_from_before() {
        let mut renumbering = Renumbering::default();
        assert!(renumbering.order(SOURCE, 1));
        let (last, highest) = (Some(EventId(74)), Some(EventId(74)));
        let delivered = Delivered { last, highest, highest_near: highest };
        let seam = renumbering.begin(SOURCE, EventId(69), delivered).expect("an order waits");
        assert_eq!((seam.answer.first, seam.left_out), (EventId(76), 1), "event 75 has no fragment");
        for (number, event) in [(69, 70), (73, 74), (75, 76)] {
            let moved = renumbering.apply(fragment(number));
            assert!(matches!(moved, Moved::To(moved) if moved.event == EventId(event)), "{number}");
        }
    }

    #[test]
    fn a_wrong_number_far_ahead_leaves_out_no_events() {
        let mut renumbering = Renumbering::default();
        assert!(renumbering.order(SOURCE, -2));
        let delivered =
            Delivered { last: Some(EventId(99)), highest: Some(EventId(1 << 40)), highest_near: None };
        let seam = renumbering.begin(SOURCE, EventId(100), delivered).expect("an order waits");
        assert_eq!((seam.answer.first, seam.left_out), (EventId(100), 0));
        assert!(matches!(renumbering.apply(fragment(101)), Moved::Taken), "event 99 has one from before");
        assert!(matches!(renumbering.apply(fragment(102)), Moved::To(moved) if moved.event == EventId(100)));
    }

    /// Fragments of events up to this one have come in order.
    fn up_to(event: u64) -> Delivered {
        Delivered { last: Some(EventId(event)), highest: Some(EventId(event)), highest_near: None }
    }

    /// A source that is out of order has had a wrong number far ahead, and a fragment overtakes the first repaired one.
    #[test]
    fn the_highest_event_below_a_wrong_number_decides_up_to_where_numbers_repeat() {
        let mut renumbering = Renumbering::default();
        assert!(renumbering.order(SOURCE, -1));
        let delivered =
            Delivered { highest: Some(EventId(1 << 40)), highest_near: Some(EventId(85)), ..up_to(85) };
        let seam = renumbering.begin(SOURCE, EventId(83), delivered).expect("an order waits");
        assert_eq!(seam.answer.first, EventId(86));
    }

    /// A source sends one wrong number right after the order: the repair begins with the next fragment.
    #[test]
    fn a_repair_does_not_begin_with_a_wrong_number() {
        let mut renumbering = Renumbering::default();
        let delivered = up_to(100);
        assert!(renumbering.order(SOURCE, -2));
        assert_eq!(renumbering.begin(SOURCE, EventId(1 << 40), delivered), None);
        assert!(matches!(renumbering.apply(fragment(1 << 40)), Moved::To(moved) if moved.event.0 == 1 << 40));
        let seam = renumbering.begin(SOURCE, EventId(101), delivered).expect("the order waits");
        assert_eq!((seam.answer.first, seam.left_out), (EventId(101), 0));
        assert!(matches!(renumbering.apply(fragment(101)), Moved::Taken), "event 99 has one from before");
        assert!(matches!(renumbering.apply(fragment(1 << 40)), Moved::To(_)), "another wrong number");
        assert!(matches!(renumbering.apply(fragment(102)), Moved::Taken), "event 100 has one as well");
        assert!(matches!(renumbering.apply(fragment(103)), Moved::To(moved) if moved.event == EventId(101)));
    }

    /// Sources may be in one of many events.
    #[test]
    fn a_source_with_large_gaps_is_renumbered_after_some_fragments() {
        let mut renumbering = Renumbering::default();
        assert!(renumbering.order(SOURCE, 1));
        for passed in 1..=u64::from(MOST_PASSED) {
            assert_eq!(
                renumbering.begin(SOURCE, EventId((passed + 1) * 10_000), up_to(passed * 10_000)),
                None
            );
        }
        assert!(renumbering.begin(SOURCE, EventId(100_000), up_to(90_000)).is_some());
    }

    #[test]
    fn an_event_that_would_have_no_number_is_dropped() {
        let mut renumbering = Renumbering::default();
        assert!(renumbering.is_empty() && renumbering.order(SOURCE, -5));
        assert!(renumbering.begin(SOURCE, EventId(2), Delivered::default()).is_some());
        assert!(matches!(renumbering.apply(fragment(2)), Moved::Taken));
        assert!(matches!(renumbering.apply(fragment(5)), Moved::To(moved) if moved.event == EventId(0)));
    }

    #[test]
    fn orders_that_wait_are_bounded() {
        let mut renumbering = Renumbering::default();
        assert!((0..MOST_ORDERS).all(|_| renumbering.order(SOURCE, 1)));
        assert!(!renumbering.order(SOURCE, 1));
        assert!(![0, i64::MAX, i64::MIN].into_iter().any(|shift| renumbering.order(SourceId(4), shift)));
    }
}
