//! The processor: events in, verdicts out, and a few events ahead, so that it never waits for the way.

use super::{Ticket, Word};
use sheaf_wire::FilterFailure;
use std::collections::VecDeque;

/// Event for the driver of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessorEvent<E> {
    /// Judge this; the answer goes to [`Processor::handle_answer`].
    Judge(Ticket, E),
    /// The dispatcher needs no more verdicts: the run is over, or the seat.
    Closed,
}

/// A processor, without its filter. It has no deadlines: the code that waits for it has one.
///
/// Half of the events that it may have are always in flight to it; it requests more when as many have been filtered, so
/// that a request is for several events.
#[derive(Clone, Debug)]
pub struct Processor<E, V> {
    ahead: u32,
    /// Asked for and not come.
    asked: u32,
    /// Come and not answered.
    has: u32,
    leaving: bool,
    closed: bool,
    words: VecDeque<Word<V>>,
    events: VecDeque<ProcessorEvent<E>>,
}

impl<E, V> Processor<E, V> {
    /// A processor that has at most `ahead` events, the one in judgement included.
    #[must_use]
    pub fn new(ahead: u32) -> Self {
        let (words, events) = (VecDeque::new(), VecDeque::new());
        Self { ahead: ahead.max(1), asked: 0, has: 0, leaving: false, closed: false, words, events }
    }

    /// Events that came and are not answered.
    #[must_use]
    pub fn has(&self) -> u32 {
        self.has
    }

    /// Whether it takes no part any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes an event. `false` if it was not asked for: the dispatcher breaks the rules.
    pub fn handle_input(&mut self, ticket: Ticket, event: E) -> bool {
        if self.asked == 0 || self.closed {
            return false;
        }
        self.asked -= 1;
        self.has += 1;
        self.events.push_back(ProcessorEvent::Judge(ticket, event));
        true
    }

    /// The dispatcher is gone, or needs no more verdicts.
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

    /// Leaves when all that has come is answered; asks for no more.
    pub fn handle_stop(&mut self) {
        self.leaving = true;
    }

    /// The next word for the dispatcher.
    pub fn poll_transmit(&mut self) -> Option<Word<V>> {
        if let Some(word) = self.words.pop_front() {
            return Some(word);
        }
        if self.closed {
            return None;
        }
        if self.leaving {
            // What is on its way is handed back by leaving.
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

    /// The next thing for the driver to do.
    pub fn poll_event(&mut self) -> Option<ProcessorEvent<E>> {
        self.events.pop_front()
    }
}
