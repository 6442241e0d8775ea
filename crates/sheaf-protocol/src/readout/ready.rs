//! Events that are ready to be sent, by builder.

use crate::event_range::EventIdRange;
use std::collections::VecDeque;

/// One queue for each builder with requests. Builders are served in turn.
#[derive(Debug, Default)]
pub(super) struct Ready {
    queues: Vec<VecDeque<EventIdRange>>,
    /// Number of ranges in all queues. None of them is empty when a builder's turn comes.
    ranges: usize,
    /// Builder whose turn it is.
    turn: u16,
    /// Builders that repeated a request for fragments that have not arrived yet. Each gets an acknowledgement.
    requested_by: VecDeque<u16>,
}

impl Ready {
    #[inline]
    pub(super) fn push(&mut self, builder: u16, events: EventIdRange) {
        let last = self.queues.get_mut(usize::from(builder)).and_then(VecDeque::back_mut);
        if !last.is_some_and(|last| last.join(events)) {
            self.begin(builder, events);
        }
    }

    fn begin(&mut self, builder: u16, events: EventIdRange) {
        let builder = usize::from(builder);
        if builder >= self.queues.len() {
            self.queues.resize_with(builder + 1, VecDeque::new);
        }
        self.queues[builder].push_back(events);
        self.ranges += 1;
    }

    /// Queues an acknowledgement for a builder.
    pub(super) fn note_request(&mut self, builder: u16) {
        if !self.requested_by.contains(&builder) {
            self.requested_by.push_back(builder);
        }
    }

    /// Returns the next builder that is to receive an acknowledgement.
    pub(super) fn next_requester(&mut self) -> Option<u16> {
        self.requested_by.pop_front()
    }

    /// Returns the next builder with ready events that has room for an answer, and advances the turn.
    pub(super) fn next_builder(&mut self, has_room: impl Fn(u16) -> bool) -> Option<u16> {
        if self.ranges == 0 {
            return None;
        }
        let builders = u16::try_from(self.queues.len()).ok()?;
        let mut in_turn = (self.turn..builders).chain(0..self.turn.min(builders));
        let has_ready = |builder: u16| !self.queues[usize::from(builder)].is_empty();
        let builder = in_turn.find(|builder| has_ready(*builder) && has_room(*builder))?;
        self.turn = builder + 1;
        Some(builder)
    }

    /// Returns the number of events in the builder's queue, counted up to `most`.
    pub(super) fn count(&self, builder: u16, most: usize) -> usize {
        let ranges = self.queues.get(usize::from(builder)).into_iter().flatten();
        let mut count = 0;
        for range in ranges {
            count += usize::try_from(range.len()).unwrap_or(most);
            if count >= most {
                return most;
            }
        }
        count
    }

    /// Returns the range at the head of the builder's queue. The caller removes the events that it sends.
    pub(super) fn head(&mut self, builder: u16) -> Option<&mut EventIdRange> {
        self.queues.get_mut(usize::from(builder))?.front_mut()
    }

    /// Removes the range at the head of the builder's queue.
    pub(super) fn pop(&mut self, builder: u16) {
        if let Some(queue) = self.queues.get_mut(usize::from(builder)) {
            self.ranges -= usize::from(queue.pop_front().is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_wire::EventId;

    proptest! {
        /// Compares with the reference: a queue of single events for each builder.
        #[test]
        fn gives_each_builder_its_events_in_order(
            steps in prop::collection::vec((0..3_u16, 0..6_u64, prop::option::of(1..4_u64), 0..6_u16), 0..100),
        ) {
            let mut ready = Ready::default();
            let mut plain: Vec<VecDeque<u64>> = vec![VecDeque::new(); 3];
            let (mut turn, mut last) = (0_u16, 0);
            for (builder, step, taken, full) in steps {
                // Usually the next event, sometimes the same again or a later one.
                last += step / 3;
                ready.push(builder, EventIdRange::one(EventId(last)));
                plain[usize::from(builder)].push_back(last);
                let Some(mut left) = taken else { continue };
                let is_next = |builder: &u16| *builder != full && !plain[usize::from(*builder)].is_empty();
                let expected = (0..3).map(|offset| (turn + offset) % 3).find(is_next);
                let next = ready.next_builder(|builder| builder != full);
                prop_assert_eq!(next, expected);
                let Some(builder) = next else { continue };
                turn = builder + 1;
                let queue = &mut plain[usize::from(builder)];
                prop_assert_eq!(ready.count(builder, 2), queue.len().min(2));
                prop_assert_eq!(ready.count(builder, usize::MAX), queue.len());
                while let Some(head) = ready.head(builder) {
                    while left > 0 && let Some(event) = head.first() {
                        prop_assert_eq!(Some(event.0), queue.pop_front());
                        head.take(1);
                        left -= 1;
                    }
                    if !head.is_empty() {
                        break;
                    }
                    ready.pop(builder);
                }
            }
            let rest = std::iter::from_fn(|| ready.next_builder(|_| true).inspect(|builder| ready.pop(*builder)));
            prop_assert_eq!(rest.count() > 0, plain.iter().any(|queue| !queue.is_empty()));
        }
    }
}
