//! A mirror: it repeats the rounds of its readout unit, and becomes the unit when that has died.

use super::ReadoutNode;
use super::input::Input;
use crate::outbox::Outbox;
use crate::parcels::Parcels;
use crate::stall::StallFree;
use crate::telemetry::BufferLimits;
use crate::vigil::Vigil;
use crate::worker::Progress;
use sheaf_protocol::Identity;
use sheaf_protocol::liveness::{LinkStatus, Liveness, Patience};
use sheaf_protocol::mirror::{MirrorConfig, MirrorEvent, MirrorReceiver, UnitRound};
use sheaf_protocol::readout::{ReadoutConfig, ReadoutEvent, ReadoutUnit};
use sheaf_source::Source;
use sheaf_telemetry::{Hub, log_as, muted};
use sheaf_transport::Endpoint;
use sheaf_wire::message::UnitInput;
use sheaf_wire::{EventId, Nanos, NodeId, Role, Span, Timestamp};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

/// Time for which a mirror whose run is over waits for the end of its readout unit.
const LINGER: Nanos = Nanos::from_secs(2);

/// The part of a mirror.
pub(super) struct Follower {
    receiver: MirrorReceiver<Span>,
    me: Identity,
    /// Configuration of the role, until the session of the readout unit is known.
    config: ReadoutConfig,
    is_ready: bool,
    /// Time of this process, and time of the unit at that moment.
    clock: (Timestamp, Timestamp),
    time: StallFree,
    /// Builder units and the event manager, to which there are links.
    up: BTreeSet<NodeId>,
    /// The event manager, by the link to it.
    manager: Liveness,
    vigil: Vigil,
    is_paused: bool,
    /// An event below which all had ended when the unit joined the run.
    floor: Option<EventId>,
    over_since: Option<Timestamp>,
    is_retired: bool,
    /// Silence of the active event manager after which it may be succeeded, if the unit votes on that.
    vote: Option<Nanos>,
    /// Where it publishes once it acts, and as which readout unit.
    pub(super) publishes: Option<(Hub, String, BufferLimits)>,
    retirement: Option<Box<dyn FnOnce(MirrorEvent) + Send>>,
}

impl Follower {
    /// Returns the time of the unit, which goes on from its last round.
    pub(super) fn time_at(&self, local: Timestamp) -> Timestamp {
        let (then, of_unit) = self.clock;
        of_unit + local.since(then)
    }

    /// Returns the time of this process at a time of the unit.
    fn local(&self, of_unit: Timestamp) -> Timestamp {
        let (then, at) = self.clock;
        if of_unit == Timestamp::MAX {
            of_unit
        } else {
            Timestamp(then.0.saturating_add(of_unit.since(at).0))
        }
    }
}

impl ReadoutNode {
    /// Makes the mirror `me` of a readout unit with this configuration. The sources are those that it reads once it acts.
    #[must_use]
    pub fn mirror(
        (me, config): (Identity, ReadoutConfig),
        mirror: MirrorConfig,
        (endpoint, sources): (Box<dyn Endpoint>, Vec<Box<dyn Source>>),
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let unit = Identity { node: NodeId::readout(me.node.index), ..me };
        let inputs = sources.into_iter().map(Input::new).collect();
        let role = ReadoutUnit::new(unit, config.clone(), now);
        let mut node =
            Self::with(role, (Outbox::new(endpoint, me.session), Parcels::default(), inputs), patience, now);
        node.follower = Some(Box::new(Follower {
            receiver: MirrorReceiver::new(me, mirror, now),
            me,
            config,
            is_ready: false,
            clock: (now, now),
            time: StallFree::default(),
            up: BTreeSet::new(),
            manager: Liveness::default(),
            vigil: Vigil::new(me.node, patience, now),
            is_paused: false,
            floor: None,
            over_since: None,
            is_retired: false,
            vote: None,
            publishes: None,
            retirement: None,
        }));
        node
    }

    /// Listens to whichever of two replicas of the event manager is active. `vote` is that of the readout unit, for which the mirror votes when
    /// it acts.
    pub(super) fn join_replicas(outbox: &mut Outbox, follower: &mut Follower, vote: Option<Nanos>) {
        outbox.join(follower.me, None);
        follower.vote = vote;
    }

    /// Calls `note` with the reason if this mirror has no more part in the run.
    #[must_use]
    pub fn with_retirement(mut self, note: impl FnOnce(MirrorEvent) + Send + 'static) -> Self {
        if let Some(follower) = &mut self.follower {
            follower.retirement = Some(Box::new(note));
        }
        self
    }

    /// Does a round of a mirror.
    pub(super) fn follow(&mut self, follower: &mut Follower, local: Timestamp) -> Progress {
        if follower.receiver.is_active() {
            return match self.work_as_unit(follower.time_at(local)) {
                Progress::Idle(next) => Progress::Idle(follower.local(next)),
                progress => progress,
            };
        }
        let stall = follower.time.note_round(local);
        if stall > Nanos::ZERO {
            follower.receiver.handle_stall(local, stall);
            follower.vigil.handle_stall(local, stall);
        }
        self.outbox.begin_round(local);
        let mut busy = self.receive(follower, local);
        follower.receiver.handle_timeout(local);
        busy |= self.repeat_rounds(follower, local);
        while let Some(event) = follower.receiver.poll_event() {
            busy = true;
            self.heed_receiver(follower, local, event);
        }
        while let Some(transmit) = follower.receiver.poll_transmit(local) {
            busy = true;
            self.outbox.send_from(local, &self.parcels, transmit);
        }
        self.outbox.flush();
        if self.ends_following(follower, local) {
            return Progress::Finished;
        }
        if busy {
            return Progress::Busy;
        }
        let next = follower.receiver.poll_timeout().unwrap_or(Timestamp::MAX);
        follower.time.rest_until(next);
        Progress::Idle(next)
    }

    fn receive(&mut self, follower: &mut Follower, local: Timestamp) -> bool {
        let mut some = false;
        while let Some(message) = self.outbox.poll_into(&mut self.parcels) {
            some = true;
            // Others begin to talk to it when it acts.
            let _ = follower.receiver.handle_message(local, message);
        }
        while let Some((peer, link)) = self.outbox.poll_link() {
            some = true;
            match link {
                LinkStatus::Up => follower.up.insert(peer),
                LinkStatus::Down => follower.up.remove(&peer),
            };
            match peer.role {
                Role::Readout => follower.receiver.handle_link(local, link),
                Role::Manager => follower.manager.note_link(local, link),
                Role::Builder | Role::Output | Role::Mirror => {}
            }
        }
        some
    }

    fn repeat_rounds(&mut self, follower: &mut Follower, local: Timestamp) -> bool {
        let mut some = false;
        while let Some(round) = follower.receiver.poll_round(|| self.role.digest()) {
            some = true;
            follower.clock = (local, round.now);
            if let Some(unit) = follower.receiver.unit().filter(|_| !follower.is_ready) {
                follower.is_ready = true;
                self.role = ReadoutUnit::new(unit, follower.config.clone(), round.now);
                self.know_sources();
                continue;
            }
            muted(|| self.repeat(follower, round, local));
        }
        some
    }

    /// Repeats a round of the unit. What follows from it is not sent.
    fn repeat(&mut self, follower: &mut Follower, round: UnitRound<Span>, local: Timestamp) {
        let UnitRound { now, stall, inputs } = round;
        self.role.handle_stall(stall);
        let picks = RefCell::new(VecDeque::new());
        for input in inputs {
            match input {
                UnitInput::Message(message) => self.role.handle_input(now, *message),
                UnitInput::Link { node, up } => {
                    let link = if up { LinkStatus::Up } else { LinkStatus::Down };
                    self.role.handle_link(now, node, link);
                }
                UnitInput::Fragments { source, fragments } => {
                    if let Some(input) = self.inputs.get_mut(usize::from(source)) {
                        input.append(fragments);
                    }
                }
                UnitInput::Offer { source } => {
                    if let Some(input) = self.inputs.get_mut(usize::from(source)) {
                        input.had += self.role.handle_fragments(now, &input.batch.fragments[input.had..]);
                    }
                }
                UnitInput::SourceEnd { source } => {
                    if let Some(input) = self.inputs.get_mut(usize::from(source)) {
                        input.ended = true;
                        self.role.handle_source_end(now, input.source.id());
                    }
                }
                UnitInput::Answers(builders) => picks.borrow_mut().extend(builders),
                UnitInput::Round { .. } | UnitInput::End { .. } => {}
            }
            self.note_events(follower, local);
        }
        self.role.handle_timeout(now);
        let pick = |builder| {
            let is_next = picks.borrow().front() == Some(&builder);
            if is_next {
                picks.borrow_mut().pop_front();
            }
            is_next
        };
        while self.role.poll_transmit_if(now, pick).is_some() {}
        self.note_events(follower, local);
        for span in self.role.discarded() {
            self.parcels.release(span);
        }
    }

    /// Takes note of what the role wants of its sources, which it does not have yet.
    fn note_events(&mut self, follower: &mut Follower, local: Timestamp) {
        while let Some(event) = self.role.poll_event() {
            match event {
                ReadoutEvent::Started { floor } => {
                    self.running = true;
                    follower.floor = floor;
                }
                ReadoutEvent::Paused | ReadoutEvent::Resumed => {
                    follower.is_paused = event == ReadoutEvent::Paused;
                }
                ReadoutEvent::Closed => {
                    self.running = false;
                    self.closed_at = Some(local);
                    for input in &mut self.inputs {
                        for fragment in input.rest() {
                            self.parcels.release(fragment.payload);
                        }
                        input.had = input.batch.fragments.len();
                    }
                }
                ReadoutEvent::Excluded { source, excluded } => {
                    for input in self.inputs.iter_mut().filter(|input| input.source.id() == source) {
                        input.excluded = excluded;
                    }
                }
                ReadoutEvent::ManagerRestarted | ReadoutEvent::Recorded(_) | ReadoutEvent::Shape { .. } => {}
            }
        }
    }

    fn heed_receiver(&mut self, follower: &mut Follower, local: Timestamp, event: MirrorEvent) {
        if matches!(event, MirrorEvent::StruckOff | MirrorEvent::Diverged)
            && let Some(note) = follower.retirement.take()
        {
            note(event);
        }
        let (mirror, unit) = (follower.me.node, NodeId::readout(follower.me.node.index));
        match event {
            MirrorEvent::TookOver => self.act_for_unit(follower, local),
            MirrorEvent::StruckOff => {
                follower.is_retired = true;
                log_as!(UNIT_RETIRED, node = mirror, peer = unit; "{mirror} has no more part in the run: {unit} goes on without it");
            }
            MirrorEvent::Diverged => {
                follower.is_retired = true;
                log_as!(
                    UNIT_RETIRED, node = mirror, peer = unit;
                    "{mirror} has no more part in the run: it has other books than {unit}, which is a bug in sheaf"
                );
            }
            // The unit says so.
            MirrorEvent::Protected => {}
            MirrorEvent::Unprotected | MirrorEvent::Superseded => {}
        }
    }

    /// Becomes the readout unit: it reads the sources where the unit has left them.
    fn act_for_unit(&mut self, follower: &mut Follower, local: Timestamp) {
        let now = follower.time_at(local);
        self.time = StallFree::default();
        for input in &mut self.inputs {
            let read = input.batch.fragments.iter().map(|fragment| fragment.event).max();
            let reached = self.role.highest_delivered(input.source.id()).max(read);
            if input.ended || self.closed_at.is_some() {
                input.source.stop();
            } else if self.running {
                let next = reached.map(|event| EventId(event.0.saturating_add(1)));
                next.or(follower.floor).into_iter().for_each(|event| input.source.skip_to(event));
                input.has_started = true;
                input.source.start();
                if follower.is_paused {
                    input.source.handle_pause(true);
                }
            }
        }
        self.stands_in = true;
        if let Some((hub, name, limits)) = follower.publishes.take() {
            self.begin_telemetry(&hub, &name, limits);
        }
        let identities = (follower.me, *self.role.identity());
        self.outbox.stand_in(identities, follower.vote, follower.up.iter().copied());
        self.closed_at = self.closed_at.map(|_| now);
        self.vigil.excuse(now);
        self.role.handle_link(now, NodeId::MANAGER, LinkStatus::Down);
        if follower.manager.is_up() {
            self.role.handle_link(now, NodeId::MANAGER, LinkStatus::Up);
        }
    }

    fn ends_following(&mut self, follower: &mut Follower, local: Timestamp) -> bool {
        if follower.is_retired {
            return true;
        }
        self.failed = self.failed.take().or_else(|| follower.vigil.leave(self.outbox.reason_to_leave()));
        if self.failed.is_some() {
            return true;
        }
        if self.role.is_finished() {
            follower.receiver.conclude();
            let since = *follower.over_since.get_or_insert(local);
            return follower.receiver.is_unit_gone() || local.since(since) >= LINGER;
        }
        if follower.manager.is_down() {
            // Nobody is left who could let it act.
            let is_alone = follower.receiver.unit().is_none() || follower.receiver.is_unit_gone();
            if is_alone && local.since(follower.manager.quiet_since(local)) >= LINGER {
                return true;
            }
            self.failed = follower.vigil.end(local, &follower.manager);
        }
        self.failed.is_some()
    }
}

impl ReadoutNode {
    /// Does a round of a mirror, or of a readout unit.
    pub(super) fn work_in_turn(&mut self, now: Timestamp) -> Progress {
        let Some(mut follower) = self.follower.take() else { return self.work_as_unit(now) };
        let progress = self.follow(&mut follower, now);
        self.follower = Some(follower);
        progress
    }

    /// Returns whether another node has the account of the readout unit: this is its mirror and does not act, or the mirror acts for it.
    pub(super) fn has_no_account(&self) -> bool {
        self.is_superseded || self.follower.as_ref().is_some_and(|follower| !follower.receiver.is_active())
    }

    /// Returns the node that this driver is.
    pub(super) fn node_here(&self) -> NodeId {
        self.follower.as_ref().map_or(self.role.identity().node, |follower| follower.me.node)
    }
}
