//! Event building by pull: a builder requests its events from the sources, and bounds the data on their way to it.
//!
//! Two bounds: events (`outstanding`) and bytes (`credit_bytes`, the documents' credit: a number of frames for one
//! builder). A builder begins with the source whose number is nearest to its own and continues around, so that builders
//! do not all ask the same source first. Credit is counted with known sizes, as if the trigger carried them; a fragment
//! larger than all credit is requested when nothing else is outstanding.
//!
//! Requests of `request_bytes` travel through the network like fragments, in the order in which they were made;
//! requests of no bytes arrive at once, at no cost. A request or fragment that the network loses is missing in its
//! event, and its credit returns at once: this traffic does not ask again (the protocol's machines do).

use super::assignment::{Assigner, Triggers};
use super::book::Book;
use super::placement::Roster;
use super::sizes::FragmentSizes;
use super::{Message, Next, SetupError, Summary, Traffic, Wake};
use crate::network::EndpointId;
use crate::scenario::EventTraffic;
use crate::units::Picos;
use std::collections::VecDeque;

/// Requests of the builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullShape {
    /// Events that one builder has asked for and not got, at most.
    pub outstanding: u32,
    /// Bytes that one builder has asked for and not got, at most; `None`: no bound.
    pub credit_bytes: Option<u64>,
    /// Size of a request; 0: requests cost nothing and take no time.
    pub request_bytes: u32,
}

/// Something that waits for an endpoint's network interface.
#[derive(Clone, Copy, Debug)]
enum Outgoing {
    /// The builder at this endpoint requests the fragment of an event from a source.
    Request { event: u64, source: u32 },
    /// The source at this endpoint sends its fragment of an event.
    Fragment { event: u64 },
}

/// An event of which not all fragments have been asked for.
#[derive(Clone, Copy, Debug)]
struct Asking {
    event: u64,
    /// Number of sources that were asked.
    asked: u32,
}

#[derive(Clone, Debug, Default)]
struct BuilderState {
    /// Assigned, not begun.
    queue: VecDeque<u64>,
    /// Begun, not all asked for.
    asking: VecDeque<Asking>,
    /// Begun, not ended.
    events: u32,
    /// Asked for, not ended.
    bytes: u64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Pull {
    roster: Roster,
    sizes: FragmentSizes,
    assigner: Assigner,
    triggers: Triggers,
    book: Book,
    shape: PullShape,
    builders: Vec<BuilderState>,
    /// By endpoint.
    outgoing: Vec<VecDeque<Outgoing>>,
    /// By endpoint: it had nothing to send when it was asked.
    asleep: Vec<bool>,
}

/// The lowest bit of a message's token: it is a request.
const REQUEST: u64 = 1;

impl Pull {
    /// A workload on a network with `endpoints` endpoints.
    ///
    /// # Errors
    /// Returns the invalid parameter of `traffic` or `shape`.
    pub fn new(
        traffic: &EventTraffic,
        shape: PullShape,
        endpoints: u32,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let roster = Roster::new(&traffic.placement, endpoints)?;
        if shape.outstanding == 0 {
            return Err(SetupError::Zero("the number of events that a builder asks for"));
        }
        if shape.credit_bytes == Some(0) {
            return Err(SetupError::Zero("the credit in bytes"));
        }
        super::check_rate(traffic.event_rate)?;
        let builders = roster.builder_count();
        Ok(Self {
            sizes: FragmentSizes::drawn(traffic.size, traffic.correlation, seed)?,
            assigner: Assigner::new(traffic.assignment, builders, seed),
            triggers: Triggers::new(traffic.event_rate, seed),
            book: Book::new(builders),
            shape,
            builders: vec![BuilderState::default(); builders as usize],
            outgoing: vec![VecDeque::new(); roster.endpoints()],
            asleep: vec![false; roster.endpoints()],
            roster,
        })
    }

    /// The events.
    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Opens an event of `builder`.
    fn open(&mut self, builder: u32) -> u64 {
        let sources = self.roster.sources_of(builder);
        self.book.open(builder, sources.end - sources.start)
    }

    /// Lets a builder begin events and ask for fragments as far as its bounds allow.
    fn ask(&mut self, builder: u32, wake: &mut Wake) {
        while self.builders[builder as usize].events < self.shape.outstanding {
            let event = if self.triggers.are_free() {
                self.open(builder)
            } else if let Some(event) = self.builders[builder as usize].queue.pop_front() {
                event
            } else {
                break;
            };
            let state = &mut self.builders[builder as usize];
            state.events += 1;
            state.asking.push_back(Asking { event, asked: 0 });
        }
        let sources = self.roster.sources_of(builder);
        let count = sources.end - sources.start;
        while let Some(Asking { event, asked }) = self.builders[builder as usize].asking.front().copied() {
            let source = sources.start + (builder % count + asked) % count;
            let bytes = u64::from(self.sizes.bytes(event, source));
            let state = &mut self.builders[builder as usize];
            let fits = self.shape.credit_bytes.is_none_or(|credit| state.bytes + bytes <= credit);
            if !fits && state.bytes > 0 {
                break;
            }
            state.bytes += bytes;
            state.asking[0].asked += 1;
            if state.asking[0].asked == count {
                state.asking.pop_front();
            }
            if self.shape.request_bytes == 0 {
                self.queue(self.roster.sources()[source as usize], Outgoing::Fragment { event }, wake);
            } else {
                self.queue(
                    self.roster.builders()[builder as usize],
                    Outgoing::Request { event, source },
                    wake,
                );
            }
        }
    }

    fn queue(&mut self, endpoint: EndpointId, outgoing: Outgoing, wake: &mut Wake) {
        self.outgoing[endpoint.index()].push_back(outgoing);
        if std::mem::take(&mut self.asleep[endpoint.index()]) {
            wake.sender(endpoint);
        }
    }

    /// Takes triggers until `now`, gives the events to builders, and asks to be called for the next.
    fn take_triggers(&mut self, now: Picos, wake: &mut Wake) {
        if self.triggers.are_free() {
            return;
        }
        while self.book.opened() < self.triggers.count(now) {
            let builder = self.assigner.assign(self.book.opened());
            let event = self.open(builder);
            self.builders[builder as usize].queue.push_back(event);
            self.ask(builder, wake);
        }
        wake.timer(self.triggers.next());
    }

    /// A fragment has arrived, or will not.
    fn end(&mut self, event: u64, source: u32, now: Picos, lost: bool, wake: &mut Wake) {
        let builder = self.book.builder(event);
        let state = &mut self.builders[builder as usize];
        state.bytes -= u64::from(self.sizes.bytes(event, source));
        if self.book.end_piece(event, now, lost).is_some() {
            state.events -= 1;
            if !self.triggers.are_free() {
                self.assigner.ended(builder);
            }
        }
        self.ask(builder, wake);
    }

    fn source_at(&self, endpoint: EndpointId) -> u32 {
        self.roster.source_at(endpoint).expect("only sources send fragments and are asked for them")
    }
}

impl Traffic for Pull {
    fn begin(&mut self, wake: &mut Wake) {
        self.take_triggers(Picos::ZERO, wake);
        for builder in 0..self.roster.builder_count() {
            self.ask(builder, wake);
        }
    }

    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        let Some(outgoing) = self.outgoing[sender.index()].pop_front() else {
            self.asleep[sender.index()] = true;
            return Next::Sleep;
        };
        let (destination, bytes, token) = match outgoing {
            Outgoing::Request { event, source } => {
                let bytes = self.shape.request_bytes;
                (self.roster.sources()[source as usize], bytes, event << 1 | REQUEST)
            }
            Outgoing::Fragment { event } => {
                self.book.hand_over(event, now);
                let bytes = self.sizes.bytes(event, self.source_at(sender));
                (self.roster.builders()[self.book.builder(event) as usize], bytes, event << 1)
            }
        };
        Next::Send(Message { source: sender, destination, bytes, token, born: now })
    }

    fn delivered(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        let event = message.token >> 1;
        if message.token & REQUEST == 0 {
            self.end(event, self.source_at(message.source), now, false, wake);
        } else {
            self.queue(message.destination, Outgoing::Fragment { event }, wake);
        }
    }

    fn lost(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        let is_request = message.token & REQUEST != 0;
        let source = self.source_at(if is_request { message.destination } else { message.source });
        self.end(message.token >> 1, source, now, true, wake);
    }

    fn timer(&mut self, now: Picos, wake: &mut Wake) {
        self.take_triggers(now, wake);
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
