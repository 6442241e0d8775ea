//! The processor: events in, verdicts out. It requests a few events in advance, so that it does not wait for their transfer.

use super::{Ticket, Word};
use sheaf_wire::FilterFailure;
use std::collections::VecDeque;

/// Event for the driver of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessorEvent<E> {
    /// Judge this event and pass the answer to [`Processor::handle_answer`].
    Judge(Ticket, E),
    /// The dispatcher needs no more verdicts: the run or the seat has ended.
    Closed,
}

/// A processor, without its filter. It has no deadlines; the dispatcher has.
///
/// Half of the events that it may have are always in flight to it. It requests more when it has filtered that many, so that each
/// request is for several events.
#[derive(Clone, Debug)]
pub struct Processor<E, V> {
    ahead: u32,
    /// Number of events requested and not received.
    asked: u32,
    /// Number of events received and not answered.
    has: u32,
    leaving: bool,
    closed: bool,
    words: VecDeque<Word<V>>,
    events: VecDeque<ProcessorEvent<E>>,
}

impl<E, V> Processor<E, V> {
    /// Creates a processor that has at most `ahead` events, including the one being judged.
    #[must_use]
    pub fn new(ahead: u32) -> Self {
        let (words, events) = (VecDeque::new(), VecDeque::new());
        Self { ahead: ahead.max(1), asked: 0, has: 0, leaving: false, closed: false, words, events }
    }

    /// Returns the number of events received and not answered.
    #[must_use]
    pub fn has(&self) -> u32 {
        self.has
    }

    /// Returns whether the processor has left or been closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes an event. Returns `false` if it was not requested, which violates the protocol.
    pub fn handle_input(&mut self, ticket: Ticket, event: E) -> bool {
        if self.asked == 0 || self.closed {
            return false;
        }
        self.asked -= 1;
        self.has += 1;
        self.events.push_back(ProcessorEvent::Judge(ticket, event));
        true
    }

    /// Records that the dispatcher is gone, or needs no more verdicts.
    pub fn handle_end(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.events.clear();
            self.words.clear();
            self.events.push_back(ProcessorEvent::Closed);
        }
    }

    /// Takes the filter's answer: a verdict, or the reason for its failure.
    pub fn handle_answer(&mut self, ticket: Ticket, answer: Result<V, FilterFailure>) {
        if self.closed {
            return;
        }
        debug_assert!(self.has > 0, "an answer follows an event");
        self.has -= 1;
        self.words.push_back(match answer {
            Ok(verdict) => Word::Verdict(ticket, verdict),
            Err(why) => Word::Failed(ticket, why),
        });
    }

    /// Requests no more events, and leaves when all received ones are answered.
    pub fn handle_stop(&mut self) {
        self.leaving = true;
    }

    /// Returns the next message for the dispatcher.
    pub fn poll_transmit(&mut self) -> Option<Word<V>> {
        if let Some(word) = self.words.pop_front() {
            return Some(word);
        }
        if self.closed {
            return None;
        }
        if self.leaving {
            // Leaving returns the events that are still in transit.
            return (self.has == 0).then(|| {
                self.closed = true;
                self.events.push_back(ProcessorEvent::Closed);
                Word::Leave
            });
        }
        let more = self.ahead - (self.asked + self.has).min(self.ahead);
        if more > 0 && 2 * more >= self.ahead {
            self.asked += more;
            return Some(Word::Ask(more));
        }
        None
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<ProcessorEvent<E>> {
        self.events.pop_front()
    }
}
