//! Drives builders: the machine, the filter, and the disk that it stores on.
//!
//! A built event is written after some time, one at a time, and reported some time after that, in order. A crash in
//! between leaves an event on disk that was not reported to the event manager.

use super::consumers::Door;
use super::farm::Farm;
use super::outputs;
use super::post::{Happening, Host};
use super::shelf::Shelf;
use super::{Cluster, Sabotage};
use crate::filter::decide;
use crate::log::{Line, Step, Turn};
use crate::options::Options;
use crate::payload::SimPayload;
use sheaf_node::number_check::{CheckedQuantity, NumberCheck, SourceValue, ValuePlace};
use sheaf_protocol::Identity;
use sheaf_protocol::builder::{BuilderConfig, BuilderEvent, BuilderUnit, Decision, ReadoutSources};
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::output::Sender;
use sheaf_source::described::{ByteOrder, Field, Width};
use sheaf_wire::message::{Readiness, Work};
use sheaf_wire::{Event, EventId, Nanos, NodeId, SessionId, SourceId, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// State of a builder and its driver.
#[derive(Debug)]
pub(super) struct BuilderNode {
    pub(super) host: Host,
    /// The machine; `None` while the builder is down.
    pub(super) unit: Option<BuilderUnit<SimPayload>>,
    /// Parts of events that are judged.
    judging: BTreeMap<EventId, Event<SimPayload>>,
    /// Events that are judged but not yet accepted by the output.
    waiting: VecDeque<(Event<SimPayload>, Decision)>,
    /// Built events on their way through the filter to the disk.
    writing: VecDeque<(Event<SimPayload>, Decision)>,
    /// Decided events on their way back.
    reporting: VecDeque<(Event<SimPayload>, Decision)>,
    disk_free_at: Timestamp,
    /// Farm that judges events, unless the builder does itself.
    pub(super) farm: Option<Farm>,
    /// Sender to output nodes, unless the builder stores events itself.
    pub(super) sender: Option<Sender<SimPayload>>,
    /// Files being uploaded to an object store, if there is one.
    pub(super) shelf: Option<Shelf<(Event<SimPayload>, Decision)>>,
    /// Door for consumers.
    pub(super) door: Option<Door>,
    /// Comparison of check values.
    numbers: NumberCheck,
}

impl BuilderNode {
    pub(super) fn new(index: u16) -> Self {
        Self {
            host: Host::new(NodeId::builder(index)),
            unit: None,
            judging: BTreeMap::new(),
            waiting: VecDeque::new(),
            writing: VecDeque::new(),
            reporting: VecDeque::new(),
            disk_free_at: Timestamp::ZERO,
            farm: None,
            sender: None,
            shelf: None,
            door: None,
            numbers: NumberCheck::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.unit.as_ref().map_or(self.host.is_gone, BuilderUnit::is_finished)
    }

    /// Loses all state. Returns false if there is none.
    pub(super) fn crash(&mut self) -> bool {
        let crashed = self.unit.take_if(|unit| !unit.is_finished()).is_some();
        if crashed {
            self.forget_events();
        }
        crashed
    }

    fn forget_events(&mut self) {
        (self.farm, self.sender, self.shelf, self.door) = (None, None, None, None);
        self.judging.clear();
        self.waiting.clear();
        self.writing.clear();
        self.reporting.clear();
    }

    /// Returns whether events can be judged.
    pub(super) fn readiness(&self) -> Readiness {
        self.farm.as_ref().map_or(Readiness::Ready, Farm::readiness)
    }

    /// Returns the work on built events.
    fn work(&self) -> Work {
        let judges = self.farm.as_ref().is_some_and(|farm| !farm.is_empty());
        if judges || !self.judging.is_empty() {
            Work::Judging
        } else if self.undecided() > 0 {
            Work::Storing
        } else {
            Work::None
        }
    }

    /// Returns the number of events that are built but not reported.
    pub(super) fn undecided(&self) -> usize {
        self.waiting.len() + self.at_output() + self.sender.as_ref().map_or(0, Sender::held)
    }

    /// Returns the number of events that the builder's own output has accepted but not reported.
    fn at_output(&self) -> usize {
        self.writing.len() + self.reporting.len() + self.shelf.as_ref().map_or(0, Shelf::held)
    }

    /// Returns whether the output delays the builder.
    fn is_output_behind(&self) -> bool {
        self.sender.as_ref().map_or(!self.waiting.is_empty(), Sender::is_held_up)
    }
}

fn config(options: &Options) -> BuilderConfig {
    let per_readout = options.system.sources_per_readout;
    let sources = |readout: u16| {
        (readout * per_readout..(readout + 1) * per_readout)
            .map(|number| SourceId(u32::from(number)))
            .collect()
    };
    let optional = (0..options.source_count()).filter(|number| options.is_optional(*number));
    BuilderConfig {
        mirrored: false,
        readouts: (0..options.system.readouts)
            .map(|readout| ReadoutSources { sources: sources(readout) })
            .collect(),
        optional: optional.map(|number| SourceId(u32::from(number))).collect(),
        slots: options.bounds.slots,
        memory: options.bounds.memory,
        incomplete: options.policy,
        event_timeout: options.times.event,
        patience: options.times.patience(),
        request_retry: options.times.retry,
        asking: options.gathering.asking(),
        scope: options.scope(),
        windows: options.trigger_windows(),
        batch_events: options.bounds.report_events,
        batch_time: options.times.batch,
        heartbeat: options.times.heartbeat,
        channel: options.channel_times(),
    }
}

/// Returns the comparison of the check values of a run.
fn number_check(options: &Options) -> NumberCheck {
    let Some(numbers) = &options.numbers else { return NumberCheck::default() };
    let sources = (0..options.source_count()).map(|number| SourceId(u32::from(number)));
    let width = Width::of_bits(64).expect("8 bytes are a width");
    let place = ValuePlace::Payload(Field::new(0, width, ByteOrder::Little));
    let value = |source| SourceValue { source, place, offset: Options::check_offset(source) };
    NumberCheck::new(vec![CheckedQuantity {
        quantity: numbers.quantity,
        reference: numbers.reference.map(|number| SourceId(u32::from(number))),
        values: sources.map(value).collect(),
    }])
}

/// Compares the check values of an event, as a node does, before anything is decided. Returns whether some disagree.
fn compare(
    options: &Options,
    numbers: &mut NumberCheck,
    unit: &mut BuilderUnit<SimPayload>,
    event: &mut Event<SimPayload>,
) -> bool {
    if options.numbers.is_none() {
        return false;
    }
    let value = |_: &Field, payload: &SimPayload| Some(options.check_value(payload.event, payload.source));
    let disagrees = numbers.check_with(event, value);
    if disagrees {
        let (compared, disagreements) = numbers.disagreements();
        unit.handle_disagreements(compared, disagreements);
    }
    unit.note_unchecked(numbers.take_unchecked());
    disagrees
}

impl Cluster {
    /// Creates the machines of a builder's next life.
    pub(super) fn make_builder(&mut self, index: usize, me: Identity) {
        let (node, now) = (&mut self.builders[index], self.post.now);
        node.disk_free_at = now;
        node.unit = Some(BuilderUnit::new(me, config(&self.options), now));
        node.sender = outputs::sender(&self.options, me, now);
        node.shelf = self.options.uploads.map(Shelf::new);
        node.numbers = number_check(&self.options);
        node.door = self.options.consumers.as_ref().map(Door::new);
        self.watch.sessions += 1;
    }

    /// Drains the builder, as its contract requires.
    pub(super) fn settle_builder(&mut self, index: usize) {
        let Self { post, builders, watch, options, .. } = self;
        let node = &mut builders[index];
        let Some(unit) = &mut node.unit else {
            return;
        };
        let (id, session) = (node.host.node, node.host.session);
        post.carry_all(unit);
        let mut is_fenced = false;
        let mut built = Vec::new();
        let mut disagree = false;
        while let Some(event) = unit.poll_event() {
            let what = match event {
                BuilderEvent::Built(new) => {
                    // As a node does: what it keeps it takes out of what it is shown, or it takes the event.
                    let mut event = if new.event().0.is_multiple_of(2) {
                        unit.lend(new, |event| event.take())
                    } else {
                        unit.take(new)
                    };
                    disagree |= compare(options, &mut node.numbers, unit, &mut event);
                    watch.see_built(post.now, options, id, &event);
                    if node.farm.as_ref().is_some_and(|farm| farm.readiness() == Readiness::Loading) {
                        watch.fail(format!(
                            "{id} has event {} and no processor that has loaded its filter",
                            event.id
                        ));
                    }
                    post.note(Line::built(id, session, &event, Step::Built));
                    match &mut node.farm {
                        Some(farm) => farm.offer(event),
                        None => built.push(event),
                    }
                    continue;
                }
                BuilderEvent::Part(part) => {
                    watch.see_part(options, id, &part);
                    post.note(Line::built(id, session, &part, Step::Part));
                    let at = post.now + options.judgement_time(part.id);
                    post.plan(at, Happening::Judged(index, session, part.id));
                    node.judging.insert(part.id, part);
                    continue;
                }
                BuilderEvent::Record(record) => {
                    watch.see_record((id, session), &record);
                    continue;
                }
                BuilderEvent::Started => Turn::Started,
                BuilderEvent::Closed => {
                    if options.system.outputs == 0 {
                        watch.records.see_closed((id, session));
                    }
                    Turn::Closed
                }
                BuilderEvent::Fenced => {
                    watch.records.see_fenced((id, session));
                    is_fenced = true;
                    Turn::Fenced
                }
                BuilderEvent::ManagerRestarted => return watch.see_manager_restart(id),
            };
            post.turn(&node.host, what);
        }
        if disagree {
            post.carry_all(unit);
        }
        watch.see_builder(options, id, unit);
        let deadline = unit.poll_timeout();
        post.arm(&mut node.host, deadline);
        if is_fenced {
            // The driver ends the machine and begins a new session.
            watch.faults.fences += 1;
            node.unit = None;
            node.host.go_down();
            node.forget_events();
            post.plan(post.now + options.times.rejoin, Happening::Back(id));
            self.change_links(id, LinkStatus::Down);
            return;
        }
        for event in built {
            let decision = decide(&self.options, event.id);
            self.write_soon(index, event, decision);
        }
        self.settle_farm(index);
        self.note_work(index);
    }

    /// Reports to a builder what a node reports in every round: work on events, whether they can be judged, and whether the output is
    /// behind.
    pub(super) fn note_work(&mut self, index: usize) {
        let Self { post, builders, watch, .. } = self;
        let node = &mut builders[index];
        let (work, readiness, is_behind) = (node.work(), node.readiness(), node.is_output_behind());
        if readiness == Readiness::Failed {
            watch.declined.insert(node.host.node);
        }
        if let Some(unit) = &mut node.unit {
            unit.handle_work(work);
            unit.handle_readiness(post.now, readiness);
            unit.handle_output(post.now, is_behind);
            post.carry_all(unit);
            let deadline = unit.poll_timeout();
            post.arm(&mut node.host, deadline);
        }
    }

    /// Handles a judged event, which passes through the disk's queue whether accepted or not.
    pub(super) fn write_soon(&mut self, index: usize, event: Event<SimPayload>, decision: Decision) {
        let tags = self.tags(event.id);
        let is_left_out = self.disks.routing().route(event.id, tags).is_empty();
        if decision == Decision::Stored && !is_left_out {
            self.show(index, &event);
        }
        let node = &mut self.builders[index];
        if let Some(sender) = &mut node.sender
            && let Some(verdict) = outputs::verdict_for(&event, decision, tags)
        {
            self.watch.handed.entry((node.host.node, node.host.session)).or_default().push(event.id);
            sender.handle_event(event, verdict);
            self.settle_sender(index);
            return;
        }
        let decision =
            if decision == Decision::Stored && is_left_out { Decision::Rejected } else { decision };
        node.waiting.push_back((event, decision));
        self.feed_output(index);
    }

    /// Passes events to the output, as far as it has room.
    fn feed_output(&mut self, index: usize) {
        let Self { post, builders, options, .. } = self;
        let node = &mut builders[index];
        let slowness = options.storage.slow_builder.filter(|(slow, _)| *slow == node.host.node.index);
        let factor = slowness.map_or(1, |(_, factor)| factor);
        while options.storage.has_room(node.at_output())
            && let Some(judged) = node.waiting.pop_front()
        {
            let write = Nanos(options.storage.write.0 * factor) + post.lateness(&options.storage);
            node.disk_free_at = node.disk_free_at.max(post.now) + write;
            post.plan(node.disk_free_at, Happening::Written(index, node.host.session));
            node.writing.push_back(judged);
        }
    }

    pub(super) fn happen_judged(&mut self, index: usize, session: SessionId, event: EventId) {
        let now = self.post.now;
        let node = &mut self.builders[index];
        if node.host.session != session {
            return;
        }
        if let (Some(unit), Some(part)) = (&mut node.unit, node.judging.remove(&event)) {
            let here = part.fragments.iter().map(|fragment| fragment.source);
            let named = here.chain(part.missing.iter().map(|missing| missing.source));
            let decision = self.options.judge_part(event, named);
            unit.handle_part_decision(now, part, decision);
            self.settle_builder(index);
        }
    }

    pub(super) fn happen_written(&mut self, index: usize, session: SessionId) {
        let node = &mut self.builders[index];
        if node.host.session != session {
            return;
        }
        let Some((event, decision)) = node.writing.pop_front() else {
            return;
        };
        if decision == Decision::Stored {
            let id = node.host.node;
            self.post.note(Line::built(id, session, &event, Step::Written));
            self.write_to_disk(id, session, &event);
            if let Some(shelf) = &mut self.builders[index].shelf {
                let at = shelf.put(self.post.now, (event, decision));
                self.post.plan(at, Happening::CloseFile(id, session));
                return;
            }
        }
        self.report_soon(index, event, decision);
    }

    /// Writes an event, or makes the error that a test of the checker requests.
    pub(super) fn write_to_disk(&mut self, node: NodeId, session: SessionId, event: &Event<SimPayload>) {
        let tags = self.tags(event.id);
        let mut write = |event: &Event<SimPayload>| self.disks.write(node, session, event.clone(), tags);
        match self.post.sabotage.take_if(|sabotage| sabotage.is_of_disk()) {
            None => write(event),
            Some(Sabotage::ForgetWrite) => {}
            Some(Sabotage::WriteTwice) => {
                write(event);
                write(event);
            }
            Some(Sabotage::ForgetStream) => {
                write(event);
                self.disks.forget_last(node, session);
            }
            Some(_) => {
                let mut damaged = event.clone();
                if let Some(fragment) = damaged.fragments.first_mut() {
                    fragment.payload.tag ^= 1;
                }
                write(&damaged);
            }
        }
    }

    /// Handles a decision on an event, which is reported to its builder after a while.
    pub(super) fn report_soon(&mut self, index: usize, event: Event<SimPayload>, decision: Decision) {
        let node = &mut self.builders[index];
        let session = node.host.session;
        node.reporting.push_back((event, decision));
        self.post.plan(self.post.now + self.options.storage.report, Happening::Decided(index, session));
    }

    pub(super) fn happen_decided(&mut self, index: usize, session: SessionId) {
        let now = self.post.now;
        let node = &mut self.builders[index];
        if node.host.session != session {
            return;
        }
        let Some((event, decision)) = node.reporting.pop_front() else {
            return;
        };
        let step = match decision {
            Decision::Stored | Decision::StoredAt(_) => Step::Stored,
            Decision::Rejected => Step::Rejected,
            Decision::Dropped(_) => Step::Failed,
        };
        self.post.note(Line::built(node.host.node, session, &event, step));
        if let Some(unit) = &mut node.unit {
            unit.handle_decision(now, event.id, decision);
            unit.recycle(event);
            self.feed_output(index);
            self.settle_builder(index);
        }
    }
}

impl Sabotage {
    fn is_of_disk(self) -> bool {
        matches!(self, Self::ForgetWrite | Self::WriteTwice | Self::FlipTag | Self::ForgetStream)
    }
}
