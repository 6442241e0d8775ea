//! Consumers at builder units: the real sampler, bounded queues, and readers that are slow or never read. They only watch; nothing
//! that they do affects a role.

use super::Cluster;
use super::post::{Happening, Post};
use crate::check::Watch;
use crate::options::{ConsumerOptions, Options};
use crate::payload::SimPayload;
use crate::violation::{Violation, violation};
use sheaf_protocol::sampler::{ConsumerId, Sampler};
use sheaf_wire::{ByteCount, Event, EventId, Nanos, SessionId, Tags};
use std::collections::VecDeque;

/// The door of a builder's session, and its consumers.
#[derive(Debug)]
pub(super) struct Door {
    sampler: Sampler,
    readers: Vec<Reader>,
    /// Number of accepted events so far.
    offered: u64,
}

#[derive(Debug)]
struct Reader {
    /// Time to process an event; `None` if it never reads.
    pace: Option<Nanos>,
    tags: Tags,
    queue: VecDeque<(EventId, ByteCount)>,
    /// Whether it is processing an event.
    is_reading: bool,
    /// Number of events that it received.
    got: u64,
}

impl Door {
    /// Creates the door of a session with all consumers.
    pub(super) fn new(options: &ConsumerOptions) -> Self {
        let mut sampler = Sampler::new(options.bounds());
        let mut readers = Vec::new();
        for (number, (selection, pace)) in (0..).zip(&options.selections) {
            sampler.join(ConsumerId(number), *selection);
            let (pace, tags) = (*pace, selection.tags);
            readers.push(Reader { pace, tags, queue: VecDeque::new(), is_reading: false, got: 0 });
        }
        Self { sampler, readers, offered: 0 }
    }

    /// Handles an accepted event.
    pub(super) fn offer(
        &mut self,
        post: &mut Post,
        options: &Options,
        (builder, session): (usize, SessionId),
        (event, tags): (&Event<SimPayload>, Tags),
    ) -> Result<(), Violation> {
        let bytes: u64 = event.fragments.iter().map(|fragment| u64::from(fragment.payload.length)).sum();
        let bytes = ByteCount(bytes);
        self.offered += 1;
        let chosen = self.sampler.offer(post.now, tags, bytes).to_vec();
        for id in chosen {
            let Some(reader) = self.readers.get_mut(id.0 as usize) else {
                return Err(violation!("event {} was delivered to {id:?}, an unknown consumer", event.id));
            };
            if !(reader.tags.is_empty() || reader.tags.intersects(tags)) {
                return Err(violation!(
                    "event {} was delivered to {id:?}, which asked for other tags",
                    event.id
                ));
            }
            reader.queue.push_back((event.id, bytes));
            reader.got += 1;
            if !reader.is_reading
                && let Some(pace) = reader.pace
            {
                reader.is_reading = true;
                post.plan(post.now + pace, Happening::Looked(builder, session, id.0));
            }
        }
        self.check(options)
    }

    /// Checks that queues stay within their bounds and that every event that a consumer did not get is counted.
    fn check(&self, options: &Options) -> Result<(), Violation> {
        let Some(setup) = &options.consumers else { return Ok(()) };
        for (number, reader) in (0..).zip(&self.readers) {
            let id = ConsumerId(number);
            let waiting: u64 = reader.queue.iter().map(|(_, bytes)| bytes.0).sum();
            if reader.queue.len() as u64 > setup.queue_events || waiting > setup.queue.0 {
                return Err(violation!("{} events of {waiting} B wait for {id:?}", reader.queue.len()));
            }
            let Some(counts) = self.sampler.counts(id) else {
                return Err(violation!("{id:?} has left by itself"));
            };
            let passed = counts.other_tags + counts.prescaled + counts.over_rate + counts.missed();
            if (counts.seen, counts.taken, counts.taken + passed) != (self.offered, reader.got, self.offered)
            {
                let (offered, got) = (self.offered, reader.got);
                return Err(violation!(
                    "{offered} events were accepted, {id:?} got {got}, counted: {counts:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Cluster {
    /// Handles a consumer that has processed an event.
    pub(super) fn happen_looked(&mut self, builder: usize, session: SessionId, number: u32) {
        let Self { post, builders, .. } = self;
        let node = &mut builders[builder];
        if node.host.session != session {
            return;
        }
        let Some(door) = &mut node.door else { return };
        let Some(reader) = door.readers.get_mut(number as usize) else { return };
        if let Some((_, bytes)) = reader.queue.pop_front() {
            door.sampler.left_queue(ConsumerId(number), 1, bytes);
        }
        reader.is_reading = !reader.queue.is_empty();
        if let Some(pace) = reader.pace.filter(|_| reader.is_reading) {
            post.plan(post.now + pace, Happening::Looked(builder, session, number));
        }
    }

    /// Shows an accepted event to the consumers of a builder.
    pub(super) fn show(&mut self, builder: usize, event: &Event<SimPayload>) {
        let tags = self.tags(event.id);
        let Self { post, builders, options, watch, .. } = self;
        let node = &mut builders[builder];
        if let Some(door) = &mut node.door
            && let Err(what) = door.offer(post, options, (builder, node.host.session), (event, tags))
        {
            let id = node.host.node;
            Watch::fail(watch, format!("{id}: {what}"));
        }
    }

    /// Returns the tags of an accepted event: those of its filter, or `quarantined`.
    pub(super) fn tags(&self, event: EventId) -> Tags {
        if self.watch.quarantined.contains(&event) { Tags::QUARANTINED } else { self.options.tags(event) }
    }
}
