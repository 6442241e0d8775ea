//! Fed sources: the real machines of both sides, over connections that are ordered and end at any moment. The side of the
//! readout unit is here, that of the programs in `feeds/programs.rs`.

mod programs;
mod records;

pub(super) use programs::Programs;

use super::post::{Happening, Post};
use super::turns::{Made, ProgramTurn, Up};
use super::{Cluster, RUN, index_u16};
use crate::check::feeds::{Accepted, Decline};
use crate::log::{FragmentFate, Line};
use crate::options::{MAX_RECORD_BYTES, Options};
use crate::payload::SimPayload;
use crate::source::Planned;
use crate::violation::{Violation, violation};
use sheaf_protocol::Identity;
use sheaf_protocol::feed::{ClientId, Server, ServerConfig, ServerEvent};
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_wire::feed::{Phase, Refusal};
use sheaf_wire::{ByteCount, Fragment, Nanos, NodeId, NumberMark, SourceId, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// The side of a readout unit, in one session of it.
#[derive(Debug)]
pub(super) struct FeedSide {
    pub(super) server: Server,
    /// Programs by connection.
    members: BTreeMap<ClientId, usize>,
    queues: BTreeMap<SourceId, Queue>,
    window_fragments: u64,
    /// Whether all sources had programs at some time.
    pub(super) was_complete: bool,
    has_declined: bool,
    pub(super) decline: Decline,
}

/// Fragments of a source that were received and not accepted.
#[derive(Debug, Default)]
struct Queue {
    fragments: VecDeque<Made>,
    /// Whether the program has disconnected (`true`) or joined. Reported when all earlier fragments are accepted.
    changes: VecDeque<bool>,
    end_noted: bool,
}

impl Queue {
    /// Creates the queue of a source that no program feeds yet.
    fn without_program() -> Self {
        Self { changes: [true].into(), ..Self::default() }
    }
}

fn id_of(source: usize) -> SourceId {
    SourceId(u32::from(index_u16(source)))
}

impl FeedSide {
    /// Pauses the run or resumes it, unless it has ended.
    pub(super) fn pause(&mut self, paused: bool) {
        let (from, to) =
            if paused { (Phase::Running, Phase::Paused) } else { (Phase::Paused, Phase::Running) };
        if self.server.phase() == from {
            self.server.handle_phase(to);
        }
    }

    /// Creates the side of a readout unit that reads these sources.
    pub(super) fn new(options: &Options, me: Identity, numbers: std::ops::Range<usize>) -> Option<Self> {
        let setup = options.feed?;
        let sources: Vec<SourceId> =
            numbers.filter(|source| setup.feeds(index_u16(*source))).map(id_of).collect();
        if sources.is_empty() {
            return None;
        }
        let max_fragment = options.largest_fed();
        let config = ServerConfig {
            sources: sources.clone(),
            window_fragments: setup.window_fragments,
            window: ByteCount(setup.window_events * max_fragment.0),
            max_fragment,
            max_message: ByteCount::mib(64),
            max_record: ByteCount(MAX_RECORD_BYTES),
            max_clients: usize::from(setup.programs) + 1,
        };
        Some(Self {
            server: Server::new(config, RUN, me.session),
            members: BTreeMap::new(),
            queues: sources.into_iter().map(|source| (source, Queue::without_program())).collect(),
            window_fragments: setup.window_fragments,
            was_complete: false,
            has_declined: false,
            decline: Decline::default(),
        })
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = SourceId> {
        self.queues.keys().copied()
    }

    fn with_queue(&mut self, source: SourceId, act: impl FnOnce(&mut Queue)) {
        if let Some(queue) = self.queues.get_mut(&source) {
            act(queue);
        }
    }

    /// Handles the events of the server. Returns refusals.
    fn take_events(&mut self, unit: &mut ReadoutUnit<SimPayload>) -> Vec<(ClientId, Refusal)> {
        let mut refused = Vec::new();
        while let Some(event) = self.server.poll_event() {
            match event {
                ServerEvent::Joined { sources, .. } => {
                    for source in sources {
                        self.with_queue(source, |queue| queue.changes.push_back(false));
                    }
                }
                ServerEvent::Gone(source) => self.with_queue(source, |queue| queue.changes.push_back(true)),
                ServerEvent::Record(record) => unit.handle_record(record),
                ServerEvent::Ended(_) => {}
                ServerEvent::Declined { .. } => self.has_declined = true,
                ServerEvent::Refused { client, refusal, .. } => refused.push((client, refusal)),
            }
        }
        refused
    }

    /// Handles a message of a program.
    fn receive(&mut self, client: ClientId, up: Up) -> Result<(), Violation> {
        match up {
            Up::Left => {
                self.members.remove(&client);
                self.server.handle_disconnection(client);
            }
            Up::Control(message) => self.server.handle_input(client, message),
            Up::Fragments(..) if !self.server.has_joined(client) => {
                self.server.refuse(client, Refusal::InvalidMessage, None);
            }
            Up::Fragments(head, fragments) => {
                let Some(admission) = self.server.admit(client, &head) else { return Ok(()) };
                if fragments.len() != head.count as usize {
                    return Err(violation!(
                        "{} fragments of source {} over the credit were admitted",
                        head.count,
                        head.source
                    ));
                }
                let new = &fragments[admission.repeated as usize..];
                let bytes = new.iter().map(|(_, planned)| u64::from(planned.bytes)).sum::<u64>();
                if bytes > admission.room.0 {
                    self.server.refuse(client, Refusal::OverCredit, Some(head.source));
                    return Ok(());
                }
                let Some((_, last)) = new.last() else { return Ok(()) };
                let last = last.event;
                self.server.handle_received(head.source, new.len() as u64, ByteCount(bytes), last);
                let new = new.to_vec();
                let mut waiting = 0;
                self.with_queue(head.source, |queue| {
                    queue.fragments.extend(new);
                    waiting = queue.fragments.len() as u64;
                });
                if waiting > self.window_fragments {
                    return Err(violation!(
                        "{waiting} fragments of source {} wait, more than its window",
                        head.source
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Cluster {
    /// Begins the side of a readout unit in a new session.
    pub(super) fn begin_feed(&mut self, index: usize, me: Identity) {
        let Self { readouts, options, post, .. } = self;
        let node = &mut readouts[index];
        node.feed = FeedSide::new(options, me, node.sources());
        let (Some(feed), Some(unit)) = (&node.feed, &mut node.unit) else { return };
        feed.sources().for_each(|source| unit.wait_for_source(source));
        unit.handle_waiting(post.now, true);
        self.watch.feeds.begin(me.node);
    }

    /// Checks that the run has not started without a live readout unit that waits for its programs, nor after the event manager
    /// has received that a program declines it.
    pub(super) fn check_start(&mut self) {
        let Self { manager, readouts, watch, options, post, .. } = self;
        let recently = Nanos(options.times.peer.0 / 2);
        for node in readouts.iter() {
            let (id, is_first) = (node.host.node, node.host.session.0 == 1);
            let waits = node.feed.as_ref().is_some_and(|feed| !feed.was_complete);
            let has_part = !manager.machine.excluded_nodes().any(|node| node == id);
            if waits && has_part && is_first && watch.lives.is_heard(post.now, NodeId::MANAGER, id, recently)
            {
                watch.fail(format!("the run has started at {}, and {id} waits for its programs", post.now));
            }
            if node.feed.as_ref().is_some_and(|feed| feed.decline.is_known()) {
                watch.fail(format!(
                    "the run has started at {}, and the event manager has received that {id} declines it",
                    post.now
                ));
            }
        }
    }

    /// Passes received fragments to the readout unit, and answers all programs.
    pub(super) fn work_feed(&mut self, index: usize) {
        self.accept_fed(index);
        let Self { readouts, post, watch, options, .. } = self;
        let node = &mut readouts[index];
        let takes = node.takes_fragments();
        let (is_closed, is_started) = (node.is_closed(), node.is_started());
        let (Some(feed), Some(unit)) = (&mut node.feed, &mut node.unit) else { return };
        if takes && feed.server.phase() == Phase::Waiting {
            feed.server.handle_phase(Phase::Running);
            // The programs of optional sources are not awaited.
            for source in feed.server.absent(|_| false) {
                watch.faults.programs += 1;
                watch.troubles.note_program(source, post.now);
            }
        }
        if is_closed && feed.server.phase() != Phase::Ended {
            feed.server.handle_phase(Phase::Ended);
        }
        let had_declined = feed.has_declined;
        for (client, refusal) in feed.take_events(unit) {
            watch.feeds.note_refusal(client, refusal);
        }
        if feed.has_declined && !had_declined && !is_started {
            unit.handle_decline(post.now);
            feed.decline.give();
            watch.feeds.declined.insert(node.host.node);
        }
        if !is_started && !is_closed {
            let is_complete =
                feed.server.is_complete(|source| options.is_optional(u16::try_from(source.0).unwrap_or(0)));
            feed.was_complete |= is_complete;
            unit.handle_waiting(post.now, !is_complete);
        }
        report_changes(feed, unit, post.now);
        unit.handle_recording(feed.server.is_recording());
        let mut down = Vec::new();
        for (client, program) in feed.members.clone() {
            while let Some(message) = feed.server.poll_transmit(client) {
                down.push((client, program, message));
            }
        }
        for (client, program, message) in down {
            let at = self.arrival(program, 1);
            self.post.plan(at, Happening::Program(program, ProgramTurn::Down(client, message)));
        }
    }

    /// Offers received fragments to the readout unit.
    fn accept_fed(&mut self, index: usize) {
        if !self.readouts[index].takes_fragments() {
            return;
        }
        let sources: Vec<SourceId> = self.readouts[index].feed.iter().flat_map(FeedSide::sources).collect();
        for source in sources {
            while self.accept_next(index, source) {}
            self.end_fed(index, source);
        }
    }

    /// Offers the next fragment of a source. Returns whether it was accepted.
    fn accept_next(&mut self, index: usize, source: SourceId) -> bool {
        let Self { readouts, post, watch, options, .. } = self;
        let node = &mut readouts[index];
        let (Some(feed), Some(unit)) = (&mut node.feed, &mut node.unit) else { return false };
        let Some((serial, planned)) =
            feed.queues.get(&source).and_then(|queue| queue.fragments.front().copied())
        else {
            return false;
        };
        let (id, held) = (node.host.node, unit.held().0);
        let line = |fate| Line::Fragment { node: id, source, event: planned.event, fate };
        if unit.handle_fragment(post.now, fragment(options, post, &planned)).is_err() {
            watch.note_held_back(post.now, options, id);
            post.note(line(FragmentFate::HeldBack));
            return false;
        }
        feed.with_queue(source, |queue| {
            queue.fragments.pop_front();
        });
        watch.see_fragment(options, id, &planned, unit.held().0 > held);
        post.note(line(FragmentFate::Taken));
        feed.server.handle_accepted(source, 1, ByteCount(planned.bytes.into()));
        let accepted = Accepted { source, serial, keeps: options.feed.is_some_and(|setup| setup.keeps) };
        let checked = watch.feeds.see_accepted(id, accepted, feed.server.progress(source));
        if let Err(what) = checked {
            watch.fail(format!("{id}: {what}"));
        }
        true
    }

    /// Ends a source whose program has ended it, when all its fragments are accepted.
    fn end_fed(&mut self, index: usize, source: SourceId) {
        let node = &mut self.readouts[index];
        let id = node.host.node;
        let (Some(feed), Some(unit)) = (&mut node.feed, &mut node.unit) else { return };
        let has_ended = feed.server.progress(source).is_some_and(|progress| progress.ended);
        let Some(queue) = feed.queues.get_mut(&source) else { return };
        if has_ended && queue.fragments.is_empty() && !std::mem::replace(&mut queue.end_noted, true) {
            unit.handle_source_end(self.post.now, source);
            self.watch.readout_life(id).see_end(self.post.now, source);
        }
    }
}

/// Reports programs that have disconnected or joined, when all earlier fragments are accepted.
fn report_changes(feed: &mut FeedSide, unit: &mut ReadoutUnit<SimPayload>, now: Timestamp) {
    for (source, queue) in &mut feed.queues {
        while let Some(gone) = queue.fragments.is_empty().then(|| queue.changes.pop_front()).flatten() {
            unit.handle_source_gone(now, *source, gone);
        }
    }
}

fn fragment(options: &Options, post: &Post, planned: &Planned) -> Fragment<SimPayload> {
    let payload = SimPayload::new(options.seed, planned.origin, planned.source, planned.bytes);
    let checksum = payload.checksum();
    Fragment {
        event: planned.event,
        source: planned.source,
        time: post.now,
        checksum,
        processed: false,
        mark: NumberMark::NONE,
        payload,
    }
}
