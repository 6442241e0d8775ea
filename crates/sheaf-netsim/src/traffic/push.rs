//! Event building by push: every source sends its fragments in the order of the events, as soon as it may.
//!
//! Only the number of events in flight shapes the traffic: all sources begin with the same event and so send to the
//! same builder at once. The result in a network depends on the assignment, the window, the arbiters and the spread of
//! sizes, by a factor of two; a single number is not an answer.
//!
//! An endpoint that is source and builder sends to itself through the network, like to any other, as the documents
//! have it.

use super::assignment::{Assigner, Triggers};
use super::book::Book;
use super::placement::Roster;
use super::sizes::FragmentSizes;
use super::{Message, Next, SetupError, Summary, Traffic, Wake};
use crate::network::EndpointId;
use crate::scenario::{EventTraffic, Window};
use crate::units::Picos;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Push {
    roster: Roster,
    sizes: FragmentSizes,
    assigner: Assigner,
    triggers: Triggers,
    book: Book,
    window: u64,
    /// By source: the event that it has reached.
    cursor: Vec<u64>,
    /// Sources that wait for an event to end.
    waiting: Vec<EndpointId>,
}

impl Push {
    /// A workload on a network with `endpoints` endpoints.
    ///
    /// # Errors
    /// Returns the invalid parameter of `traffic` or `window`.
    pub fn new(
        traffic: &EventTraffic,
        window: Window,
        endpoints: u32,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let sizes = FragmentSizes::drawn(traffic.size, traffic.correlation, seed)?;
        Self::with_sizes(traffic, sizes, window, endpoints, seed)
    }

    /// The same with sizes that were recorded: one row for each event, one column for each source; after the last
    /// event the first comes again.
    ///
    /// # Errors
    /// Returns the invalid parameter of `traffic`, `events` or `window`.
    pub fn replay(
        traffic: &EventTraffic,
        events: Vec<Vec<u32>>,
        window: Window,
        endpoints: u32,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let sources = Roster::new(&traffic.placement, endpoints)?.sources().len();
        let sizes = FragmentSizes::recorded(events, sources)?;
        Self::with_sizes(traffic, sizes, window, endpoints, seed)
    }

    fn with_sizes(
        traffic: &EventTraffic,
        sizes: FragmentSizes,
        window: Window,
        endpoints: u32,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let roster = Roster::new(&traffic.placement, endpoints)?;
        if window.events == 0 {
            return Err(SetupError::Zero("the window of events in flight"));
        }
        super::check_rate(traffic.event_rate)?;
        let builders = roster.builder_count();
        Ok(Self {
            sizes,
            assigner: Assigner::new(traffic.assignment, builders, seed),
            triggers: Triggers::new(traffic.event_rate, seed),
            book: Book::new(builders),
            window: u64::from(window.events),
            cursor: vec![0; roster.sources().len()],
            waiting: Vec::new(),
            roster,
        })
    }

    /// The events.
    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Begins events up to `event`, which a source has reached. Returns the obstacle, if any.
    fn begin_until(&mut self, event: u64, now: Picos) -> Result<(), Next> {
        while self.book.opened() <= event {
            if self.book.counts().in_flight >= self.window {
                return Err(Next::Sleep);
            }
            if self.triggers.count(now) <= self.book.opened() {
                return Err(Next::At(self.triggers.next()));
            }
            let builder = self.assigner.assign(self.book.opened());
            let sources = self.roster.sources_of(builder);
            self.book.open(builder, sources.end - sources.start);
        }
        Ok(())
    }

    fn end(&mut self, message: &Message, now: Picos, lost: bool, wake: &mut Wake) {
        if let Some(ended) = self.book.end_piece(message.token, now, lost) {
            self.assigner.ended(ended.builder);
            self.waiting.drain(..).for_each(|sender| wake.sender(sender));
        }
    }
}

impl Traffic for Push {
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        let Some(source) = self.roster.source_at(sender) else {
            return Next::Sleep;
        };
        loop {
            let event = self.cursor[source as usize];
            if let Err(obstacle) = self.begin_until(event, now) {
                if obstacle == Next::Sleep {
                    self.waiting.push(sender);
                }
                return obstacle;
            }
            self.cursor[source as usize] += 1;
            // An event that has ended had no part of this source: all that take part end with their fragments.
            if event < self.book.first() {
                continue;
            }
            let builder = self.book.builder(event);
            if !self.roster.sources_of(builder).contains(&source) {
                continue;
            }
            self.book.hand_over(event, now);
            return Next::Send(Message {
                source: sender,
                destination: self.roster.builders()[builder as usize],
                bytes: self.sizes.bytes(event, source),
                token: event,
                born: now,
            });
        }
    }

    fn delivered(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        self.end(message, now, false, wake);
    }

    fn lost(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        self.end(message, now, true, wake);
    }

    fn complete_events(&self) -> u64 {
        self.book.counts().complete
    }

    fn ended_events(&self) -> u64 {
        self.book.counts().ended()
    }

    fn summary(&self) -> Summary {
        self.book.summary()
    }
}

#[cfg(test)]
mod tests;
