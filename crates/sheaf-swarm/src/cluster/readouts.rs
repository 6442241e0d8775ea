//! Drives readout units and their sources.

use super::feeds::FeedSide;
use super::post::{Happening, Host, Post, payload_bytes};
use super::preprocessing::Preprocessing;
use super::windows::WindowSide;
use super::{Cluster, index_u16};
use crate::check::readouts::ReadoutLife;
use crate::log::{FragmentFate, Line, Turn};
use crate::options::{Options, TriggerOptions};
use crate::payload::SimPayload;
use crate::source::{FIRST_EVENT, Planned};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::readout::{Announce, ReadoutConfig, ReadoutEvent, ReadoutUnit, SourceConfig};
use sheaf_protocol::{Deadline, Identity, Transmit, Why};
use sheaf_shaping::Lanes;
use sheaf_wire::message::{Body, Header};
use sheaf_wire::{ByteCount, Fragment, Nanos, NodeId, NumberMark, Role, SessionId, SourceId};

/// A readout unit and its driver.
#[derive(Debug)]
pub(super) struct ReadoutNode {
    pub(super) host: Host,
    config: ReadoutConfig,
    /// The machine; `None` while the unit is down.
    pub(super) unit: Option<ReadoutUnit<SimPayload>>,
    /// Its sources, as indices.
    sources: std::ops::Range<usize>,
    /// Whether sources may send.
    is_started: bool,
    is_closed: bool,
    /// Whether the unit was last told that the run is paused.
    knows_pause: bool,
    /// Messages that wait for their slot, if there is a barrel shifter.
    lanes: Option<Lanes<Transmit<SimPayload>>>,
    /// Programs that feed its sources, if there are any.
    pub(super) feed: Option<FeedSide>,
    /// Sources that give their hits on request, if there are any.
    pub(super) windows: WindowSide,
    /// Workers of an active readout unit.
    pub(super) preprocessing: Option<Preprocessing>,
    /// Payload bytes that this session has sent to builders.
    sent: u64,
}

/// Number of events in an answer.
fn answered_events(transmit: &Transmit<SimPayload>) -> usize {
    match &transmit.message.body {
        Body::SuperFragments(parts) => parts.entries.iter().map(|entry| entry.count as usize).sum(),
        _ => 0,
    }
}

impl ReadoutNode {
    pub(super) fn new(options: &Options, index: u16) -> Self {
        let per_readout = options.system.sources_per_readout;
        let numbers = index * per_readout..(index + 1) * per_readout;
        Self {
            host: Host::new(NodeId::readout(index)),
            config: config(options, numbers.clone()),
            unit: None,
            sources: usize::from(numbers.start)..usize::from(numbers.end),
            is_started: false,
            is_closed: false,
            knows_pause: false,
            lanes: None,
            feed: None,
            windows: WindowSide::default(),
            preprocessing: None,
            sent: 0,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.unit.as_ref().map_or(self.host.is_gone, ReadoutUnit::is_finished)
    }

    /// Loses all state. Returns false if there is none.
    pub(super) fn crash(&mut self) -> bool {
        (self.is_started, self.is_closed, self.knows_pause) = (false, false, false);
        if self.is_over() {
            // The books of a unit that has finished stay, with the answers that were still being processed.
            self.sent = self.composed();
        }
        (self.lanes, self.preprocessing, self.feed) = (None, None, None);
        self.windows = WindowSide::default();
        self.unit.take_if(|unit| !unit.is_finished()).is_some()
    }

    /// Sends a message, at once or in its slot.
    pub(super) fn send(&mut self, post: &mut Post, transmit: Transmit<SimPayload>) {
        let payload = payload_bytes(&transmit);
        self.sent += payload;
        match &mut self.lanes {
            Some(lanes) if transmit.to.role == Role::Builder => {
                let wire = ByteCount(payload + HEAD_BYTES);
                lanes.push(post.now, usize::from(transmit.to.index), transmit, wire);
            }
            _ => post.carry(transmit),
        }
    }

    /// Records the header of an arrived message.
    pub(super) fn see_acknowledged(&mut self, header: &Header) {
        if header.sender == NodeId::MANAGER
            && header.acknowledged_session == self.host.session
            && let Some(feed) = &mut self.feed
        {
            feed.decline.see_received(header);
        }
    }

    /// Returns the payload bytes of this session's answers, sent or still being processed.
    pub(super) fn composed(&self) -> u64 {
        self.sent + self.preprocessing.as_ref().map_or(0, Preprocessing::held)
    }

    /// Returns the next message of the unit to send.
    fn poll(&mut self, post: &mut Post, options: &Options) -> Option<Transmit<SimPayload>> {
        let unit = self.unit.as_mut()?;
        let lanes = self.lanes.as_ref();
        let has_room = |builder| has_room(lanes, builder);
        match &mut self.preprocessing {
            Some(preprocessing) => {
                let me = (usize::from(self.host.node.index), self.host.session);
                preprocessing.poll(unit, post, options, me, has_room)
            }
            None => unit.poll_transmit_if(post.now, has_room),
        }
    }

    /// Its sources, as indices.
    pub(super) fn sources(&self) -> std::ops::Range<usize> {
        self.sources.clone()
    }

    pub(super) fn is_started(&self) -> bool {
        self.is_started
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn takes_fragments(&self) -> bool {
        self.unit.is_some() && self.is_started && !self.is_closed
    }
}

fn config(options: &Options, numbers: std::ops::Range<u16>) -> ReadoutConfig {
    let source =
        |number: u16| SourceConfig { id: SourceId(u32::from(number)), optional: options.is_optional(number) };
    let announce = match options.triggers {
        TriggerOptions::Announced { reference_only: true, .. } => Announce::Source(SourceId(0)),
        TriggerOptions::Announced { .. } => Announce::All,
        TriggerOptions::Free | TriggerOptions::Driven { .. } => Announce::Never,
    };
    ReadoutConfig {
        sources: numbers.map(source).collect(),
        buffer: options.bounds.buffer,
        buffer_events: options.bounds.buffer_events,
        max_fragment: options.bounds.max_fragment,
        announce,
        merge_timeout: options.times.merge,
        longest_merge: options.times.peer,
        wait_for_required: options.policy == IncompletePolicy::Wait,
        orphan_timeout: options.times.orphan,
        room_from: options.supervisor.map(|_| FIRST_EVENT),
        size_window: options.supervisor.map_or(ReadoutConfig::SIZE_WINDOW, |it| it.size_window),
        message_bytes: options.bounds.message_bytes,
        message_events: options.bounds.message_events,
        request_events: options.bounds.request_events,
        heartbeat: options.times.heartbeat,
        channel: options.channel_times(),
    }
}

/// Returns whether another answer may wait for a slot of this builder unit.
fn has_room(lanes: Option<&Lanes<Transmit<SimPayload>>>, builder: u16) -> bool {
    lanes.is_none_or(|lanes| lanes.len_of(usize::from(builder)) < LANE_MESSAGES)
}

impl Cluster {
    /// Creates the machine of a readout unit's next life.
    pub(super) fn make_readout(&mut self, index: usize, me: Identity) {
        let node = &mut self.readouts[index];
        node.unit = Some(ReadoutUnit::new(me, node.config.clone(), self.post.now));
        let (builders, place) = (usize::from(self.options.system.builders), usize::from(me.node.index));
        node.lanes = self.options.shaper().map(|config| Lanes::new(config, builders, place));
        node.preprocessing = self.options.preprocessing.map(Preprocessing::new);
        node.sent = 0;
        for source in self.options.sources_on_request(me.node.index) {
            if let Some(unit) = &mut node.unit {
                unit.answer_on_request(source);
            }
        }
        self.watch.windows.begin(me.node);
        let life = ReadoutLife::new(self.manager.has_started());
        self.watch.readout_lives.insert(me.node, life);
        self.begin_feed(index, me);
    }

    /// Drains the unit's messages, as far as there is room for answers.
    fn transmit_readout(&mut self, index: usize) {
        let Self { post, readouts, watch, options, .. } = self;
        let node = &mut readouts[index];
        while let Some(transmit) = node.poll(post, options) {
            let (events, most) = (answered_events(&transmit), options.bounds.message_events);
            if events > most {
                watch.fail(format!("{} answers {events} events at once, {most} at most", node.host.node));
            }
            if let Body::SuperFragments(answer) = &transmit.message.body
                && let Err(what) = watch.see_super_fragments(options, node.host.node, answer)
            {
                watch.fail(format!("{}: {what}", node.host.node));
            }
            if transmit.to == NodeId::MANAGER
                && let Some(feed) = &mut node.feed
                && let Err(what) = feed.decline.see_sent(&transmit.message)
            {
                watch.fail(format!("{}: {what}", node.host.node));
            }
            node.send(post, transmit);
        }
    }

    /// Sends the answers whose slot it is, and those that get room by it.
    fn flush_lanes(&mut self, index: usize) {
        loop {
            let Self { post, readouts, .. } = self;
            let Some(lanes) = &mut readouts[index].lanes else { return };
            let mut is_moved = false;
            while let Some((builder, transmit, wire)) = lanes.pop(post.now) {
                lanes.sent(post.now, builder, wire);
                post.carry(transmit);
                is_moved = true;
            }
            if !is_moved {
                return;
            }
            self.transmit_readout(index);
        }
    }

    /// Drains the unit, as its contract requires.
    pub(super) fn settle_readout(&mut self, index: usize) {
        self.transmit_readout(index);
        self.pass_window_orders(index);
        let Self { post, readouts, watch, .. } = self;
        let node = &mut readouts[index];
        let id = node.host.node;
        let Some(unit) = &mut node.unit else {
            return;
        };
        if let Some(preprocessing) = &node.preprocessing {
            unit.handle_processing(preprocessing.is_busy());
        }
        let (mut has_begun, mut has_closed, mut has_news) = (false, false, false);
        while let Some(event) = unit.poll_event() {
            let what = match event {
                ReadoutEvent::Started { .. } => {
                    has_begun = !std::mem::replace(&mut node.is_started, true);
                    Turn::Started
                }
                ReadoutEvent::Paused | ReadoutEvent::Resumed => {
                    has_news = true;
                    let paused = event == ReadoutEvent::Paused;
                    watch.operator.see_told(node.host.session, paused);
                    if std::mem::replace(&mut node.knows_pause, paused) == paused || !node.is_started {
                        watch.fail(format!("{id} gets {event:?} twice, or before the start"));
                    }
                    if let Some(feed) = &mut node.feed {
                        feed.pause(paused);
                    }
                    if paused { Turn::Paused } else { Turn::Resumed }
                }
                ReadoutEvent::Closed => {
                    node.is_closed = true;
                    has_closed = true;
                    watch.check_knows_pause(node.host.session, id, node.knows_pause);
                    Turn::Closed
                }
                ReadoutEvent::Excluded { excluded, .. } => {
                    watch.operator.excluded_again += u64::from(excluded && node.host.session > SessionId(1));
                    continue;
                }
                ReadoutEvent::Recorded(answer) => {
                    if let Some(feed) = &mut node.feed {
                        feed.server.handle_recorded(answer);
                    }
                    has_news = true;
                    continue;
                }
                ReadoutEvent::Shape { turning, epoch } => {
                    if let Some(lanes) = &mut node.lanes {
                        lanes.shaper().turn_barrel(post.now, turning);
                        lanes.shaper().set_epoch(epoch);
                    }
                    continue;
                }
                ReadoutEvent::ManagerRestarted => return watch.see_manager_restart(id),
            };
            post.turn(&node.host, what);
        }
        self.flush_lanes(index);
        let Self { post, readouts, watch, options, .. } = self;
        let node = &mut readouts[index];
        let Some(unit) = &mut node.unit else {
            return;
        };
        let mut deadline = unit.poll_timeout();
        if let Some(lanes) = &node.lanes {
            let slot = lanes.poll_timeout().map(|at| Deadline { at, why: Why::Slot });
            if lanes.is_empty() == slot.is_some() {
                watch
                    .fail(format!("{id}: {} messages wait for a slot, which comes at {slot:?}", lanes.len()));
            }
            watch.see_no_spin(id, post.now, slot);
            deadline = Deadline::earliest(deadline, slot);
        }
        post.arm(&mut node.host, deadline);
        watch.see_readout(options, id, unit);
        if has_begun {
            self.begin_sources(index);
        }
        if has_closed {
            self.close_windows(id);
        }
        if has_closed || has_news {
            self.work_feed(index);
            self.settle_readout(index);
        }
    }

    fn begin_sources(&mut self, index: usize) {
        for source in self.readouts[index].sources.clone() {
            if self.readouts[index].host.session > SessionId(1)
                && self.options.sources.lossy_while_down
                && !self.is_fed(source)
            {
                self.lose_while_down(source);
            }
            self.schedule_source(source);
        }
        self.offer_held_back(index);
    }

    /// Skips the fragments that the source sent while the readout unit was down.
    fn lose_while_down(&mut self, source: usize) {
        let now = self.post.now;
        let triggers = self.manager.accepted.len() as u64;
        let driven = matches!(self.options.triggers, TriggerOptions::Driven { .. });
        self.sources[source].held_back = None;
        while let Some(planned) = self.sources[source].script.front().copied() {
            let is_past =
                if driven { planned.trigger < triggers } else { self.sources[source].free_at < now };
            if !is_past {
                break;
            }
            self.sources[source].script.pop_front();
            let gap = self.post.dice.exponential(self.options.source_period(planned.source));
            self.sources[source].free_at += gap;
            self.note_fragment(source, &planned, FragmentFate::Lost);
        }
    }

    /// Schedules a source's next fragment, or ends the source.
    pub(super) fn schedule_source(&mut self, index: usize) {
        let source = &self.sources[index];
        let readout = source.readout;
        if source.is_scheduled || source.held_back.is_some() || self.options.is_on_request(source.id) {
            return;
        }
        let may_send =
            if self.is_fed(index) { self.may_make(index) } else { self.readouts[readout].takes_fragments() };
        if !may_send {
            return;
        }
        let source = &self.sources[index];
        let Some(planned) = source.script.front() else {
            self.end_source(index);
            return;
        };
        let mut at = source.free_at.max(self.post.now);
        if matches!(self.options.triggers, TriggerOptions::Driven { .. }) {
            let trigger = usize::try_from(planned.trigger).unwrap_or(usize::MAX);
            let Some(triggered) = self.manager.accepted.get(trigger) else {
                self.skip_to_triggered(index);
                return;
            };
            let latency = self.options.source_period(source.id);
            at = at.max(*triggered + self.post.dice.exponential(latency));
        }
        self.sources[index].is_scheduled = true;
        self.post.plan(at, Happening::Source(index));
    }

    /// After the last trigger, skips the fragments of events that were not triggered.
    fn skip_to_triggered(&mut self, index: usize) {
        if self.manager.triggers_end {
            let triggers = self.manager.accepted.len() as u64;
            self.sources[index].script.retain(|planned| planned.trigger < triggers);
            self.schedule_source(index);
        }
    }

    fn end_source(&mut self, index: usize) {
        let source = &self.sources[index];
        let ends = self.options.sources.end
            || matches!(self.options.triggers, TriggerOptions::Announced { .. })
            || self.options.sources.early_end.is_some_and(|(number, _)| u32::from(number) == source.id.0);
        let (id, readout) = (source.id, source.readout);
        if ends && let Some(unit) = &mut self.readouts[readout].unit {
            unit.handle_source_end(self.post.now, id);
            self.watch.readout_life(NodeId::readout(index_u16(readout))).see_end(self.post.now, id);
            self.settle_readout(readout);
        }
    }

    pub(super) fn happen_source(&mut self, index: usize) {
        let source = &mut self.sources[index];
        source.is_scheduled = false;
        let readout = source.readout;
        let is_fed = self.is_fed(index);
        if is_fed && self.fed_stalled_until(index) > self.post.now {
            self.sources[index].is_scheduled = true;
            return self.post.postpone(self.fed_stalled_until(index), Happening::Source(index));
        }
        let may_send = if is_fed { self.may_make(index) } else { self.readouts[readout].takes_fragments() };
        if !may_send {
            return;
        }
        let source = &mut self.sources[index];
        let Some(planned) = source.script.pop_front() else {
            // The rest was lost while the readout unit was down.
            self.schedule_source(index);
            return;
        };
        let gap = match self.options.triggers {
            TriggerOptions::Driven { .. } => Nanos::ZERO,
            _ => self.post.dice.exponential(self.options.source_period(source.id)),
        };
        let source = &mut self.sources[index];
        source.free_at = self.post.now + gap + planned.pause;
        if is_fed {
            return self.make_fed(index, planned);
        }
        let payload = SimPayload::new(self.options.seed, planned.origin, planned.source, planned.bytes);
        let fragment = Fragment {
            event: planned.event,
            source: planned.source,
            time: self.post.now,
            checksum: payload.checksum(),
            processed: false,
            mark: NumberMark::NONE,
            payload,
        };
        if !self.offer(index, fragment) {
            self.note_fragment(index, &planned, FragmentFate::HeldBack);
            let node = self.readouts[readout].host.node;
            self.watch.note_held_back(self.post.now, &self.options, node);
        }
        self.settle_readout(readout);
    }

    /// Passes a fragment to the readout unit, or keeps it for later.
    fn offer(&mut self, index: usize, fragment: Fragment<SimPayload>) -> bool {
        let readout = self.sources[index].readout;
        let Some(unit) = &mut self.readouts[readout].unit else {
            return false;
        };
        let planned = Planned {
            event: fragment.event,
            origin: fragment.payload.event,
            source: fragment.source,
            bytes: fragment.payload.length,
            trigger: 0,
            pause: Nanos::ZERO,
        };
        let (node, held) = (unit.identity().node, unit.held().0);
        if let Err(fragment) = unit.handle_fragment(self.post.now, fragment) {
            self.sources[index].held_back = Some(fragment);
            return false;
        }
        let is_held = unit.held().0 > held;
        self.watch.see_fragment(&self.options, node, &planned, is_held);
        self.note_fragment(index, &planned, FragmentFate::Taken);
        self.schedule_source(index);
        true
    }

    /// Offers refused fragments again. Called whenever there may be room.
    pub(super) fn offer_held_back(&mut self, index: usize) {
        self.work_feed(index);
        self.offer_windows(index);
        if !self.readouts[index].takes_fragments() {
            return;
        }
        for source in self.readouts[index].sources.clone() {
            if let Some(fragment) = self.sources[source].held_back.take() {
                self.offer(source, fragment);
            }
        }
    }

    fn note_fragment(&mut self, index: usize, planned: &Planned, fate: FragmentFate) {
        let node = NodeId::readout(index_u16(self.sources[index].readout));
        let Planned { event, source, .. } = *planned;
        self.post.note(Line::Fragment { node, source, event, fate });
    }
}

/// Approximate size of the head of a message with a few super-fragments.
const HEAD_BYTES: u64 = 150;

/// Number of answers that may wait for the slot of a builder unit before the unit makes no more. Small, so that units are often
/// held back.
const LANE_MESSAGES: usize = 4;
