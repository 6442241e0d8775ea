//! Queue of future events that are mostly planned in the order in which they happen.
//!
//! Frames of one size on links of one rate end in the order in which they began. So a few first-in-first-out lanes hold
//! nearly everything: an event goes into the first lane whose last event is not later, as in patience sorting, and into
//! a heap if there is none. The next event is at the front of a lane. A whole run of [`crate::speed::frames`] takes a
//! fifth fewer instructions than with the radix heap of `engine::events`.
//!
//! Events of one instant come out lane by lane instead of in the order in which they were planned; the engine does not
//! depend on it (see `simulation`), and a repeated run is identical.

use crate::units::Picos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const LANES: usize = 8;
/// The heap, among the lanes.
const HEAP: usize = LANES;

/// Events, sorted by time.
#[derive(Clone, Debug)]
pub(super) struct Timeline<E> {
    lanes: [VecDeque<(Picos, E)>; LANES],
    /// The last instant of each lane; zero where it is empty.
    backs: [Picos; LANES],
    /// The first instant of each lane, and of the heap; [`Picos::MAX`] where it is empty.
    fronts: [Picos; LANES + 1],
    /// Lanes that were ever used, from the first on.
    used: usize,
    heap: BinaryHeap<Reverse<(Picos, u64, E)>>,
    /// Number of events that went into the heap: keeps those of one instant in order.
    heaped: u64,
    /// Position of the next event.
    next: usize,
    now: Picos,
}

impl<E: Copy + Ord> Default for Timeline<E> {
    fn default() -> Self {
        Self {
            lanes: Default::default(),
            backs: [Picos::ZERO; LANES],
            fronts: [Picos::MAX; LANES + 1],
            used: 0,
            heap: BinaryHeap::new(),
            heaped: 0,
            next: HEAP,
            now: Picos::ZERO,
        }
    }
}

impl<E: Copy + Ord> Timeline<E> {
    /// `event` will happen at `at`, or now where that is over.
    #[inline]
    pub(super) fn push(&mut self, at: Picos, event: E) {
        let at = at.max(self.now);
        match self.backs.iter().position(|&back| back <= at) {
            Some(lane) => {
                self.lanes[lane].push_back((at, event));
                self.backs[lane] = at;
                if self.lanes[lane].len() == 1 {
                    self.used = self.used.max(lane + 1);
                    self.begins(lane, at);
                }
            }
            None => self.push_to_heap(at, event),
        }
    }

    #[cold]
    fn push_to_heap(&mut self, at: Picos, event: E) {
        self.heap.push(Reverse((at, self.heaped, event)));
        self.heaped += 1;
        if at < self.fronts[HEAP] {
            self.begins(HEAP, at);
        }
    }

    /// The first event of `lane` is now at `at`.
    #[inline]
    fn begins(&mut self, lane: usize, at: Picos) {
        self.fronts[lane] = at;
        if at < self.fronts[self.next] {
            self.next = lane;
        }
    }

    /// When the next event happens; [`Picos::MAX`]: never.
    #[inline]
    pub(super) fn next_at(&self) -> Picos {
        self.fronts[self.next]
    }

    /// Returns the next event and advances the time to it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<E> {
        let lane = self.next;
        if self.fronts[lane] == Picos::MAX {
            return None;
        }
        self.now = self.fronts[lane];
        let event = if lane == HEAP {
            let Reverse((_, _, event)) = self.heap.pop()?;
            self.fronts[HEAP] = self.heap.peek().map_or(Picos::MAX, |Reverse((at, _, _))| *at);
            event
        } else {
            let (_, event) = self.lanes[lane].pop_front()?;
            match self.lanes[lane].front() {
                Some(&(at, _)) => self.fronts[lane] = at,
                None => (self.fronts[lane], self.backs[lane]) = (Picos::MAX, Picos::ZERO),
            }
            event
        };
        let mut next = HEAP;
        for lane in (0..self.used).rev() {
            if self.fronts[lane] <= self.fronts[next] {
                next = lane;
            }
        }
        self.next = next;
        Some(event)
    }
}

#[cfg(test)]
mod tests;
