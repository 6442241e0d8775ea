//! The event manager's side: receives triggers and sends busy.

use super::busy_time::BusyAccount;
use super::report::LinkReport;
use super::rooms::{Buffer, Room, Rooms};
use crate::event_range::EventIdRange;
use crate::event_set::EventSet;
use sheaf_wire::trigger_link::{
    Busy, BusyReason, FromManager, FromSupervisor, Phase, ReceivedTriggers, Refusal, Totals, Trigger,
};
use sheaf_wire::{EventId, Nanos, RunNumber, Timestamp};
use std::collections::{BTreeSet, VecDeque};

/// Number of separate ranges of received ids that are remembered. Older gaps count as received.
const RANGES: usize = 4_096;

/// Minimum interval between two messages of progress.
const PROGRESS_INTERVAL: Nanos = Nanos::from_millis(100);

/// Maximum number of connections that have not introduced themselves.
const MAX_STRANGERS: usize = 8;

/// A connection of a receiver. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Configuration of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Number of triggers that may wait for a builder.
    pub queue: u64,
    /// Number of places that are kept free for triggers in flight; less than `queue`.
    pub reserve: u64,
    /// Id of the first trigger.
    pub first: EventId,
    /// Maximum payload of a trigger in bytes. Zero: triggers have no payload.
    pub max_payload: u32,
    /// Whether triggers can be lost on their way, as over datagrams.
    pub is_lossy: bool,
}

/// Event for the driver of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A supervisor is connected.
    Joined {
        /// Its name.
        name: String,
    },
    /// The connection to the supervisor has ended.
    Gone {
        /// Its name.
        name: String,
        /// Whether it has not sent the end of triggers.
        early: bool,
    },
    /// The supervisor has sent the end of triggers, and all its triggers have been polled.
    TriggersEnded,
    /// The supervisor has sent its account.
    Totals(Totals),
    /// A connection is closed after a message with the reason.
    Refused {
        /// The connection.
        link: LinkId,
        /// Its name, empty before its hello.
        name: String,
        /// Reason.
        refusal: Refusal,
    },
}

/// See the [module](super) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    run: RunNumber,
    phase: Phase,
    /// Reason for which the run is paused, and since when, or when it was last resumed.
    pause: (Option<BusyReason>, Timestamp),
    /// Room for triggers, including those that wait here.
    rooms: Rooms,
    waiting: VecDeque<Trigger>,
    /// Number of triggers that earlier connections have left: the first ones that wait.
    left: usize,
    next: EventId,
    last: Option<EventId>,
    ids: EventSet,
    supervisor: Option<Member>,
    strangers: BTreeSet<LinkId>,
    refused: VecDeque<(LinkId, Refusal)>,
    report: LinkReport,
    events: VecDeque<ReceiverEvent>,
    /// Changes of the gate with their times, for the account of the run.
    turns: VecDeque<(Timestamp, Gate)>,
}

/// State of the way by which triggers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The supervisor may send triggers.
    Open,
    /// The supervisor was sent busy.
    Busy(BusyReason),
    /// No supervisor is connected.
    NoSupervisor,
}

/// Maximum number of changes of the gate that the driver has not polled. Only supervisors that come and go make more than a few, while the
/// event manager is held up; then the oldest are lost, and their time is booked as that before them.
const MAX_TURNS: usize = 4_096;

/// The supervisor's connection.
#[derive(Debug)]
struct Member {
    link: LinkId,
    name: String,
    is_welcomed: bool,
    is_refused: bool,
    knows_phase: Phase,
    sequence: u64,
    busy: BusyAccount,
    account: ReceivedTriggers,
    /// Number of sent triggers that the supervisor has reported with the end of triggers.
    sent: Option<u64>,
    undelivered: u64,
    /// Whether the end of triggers was reported to the driver.
    is_ended: bool,
    is_account_due: bool,
    has_totals: bool,
    progress_sent: (u64, u64),
    progress_at: Timestamp,
}

/// State of the run in a welcome or phase message.
#[derive(Clone, Copy, Debug)]
struct RunState {
    run: RunNumber,
    phase: Phase,
    next: EventId,
    max_payload: u32,
}

impl Receiver {
    /// Creates a receiver without a supervisor, in the phase [`Phase::Waiting`]. `reason` is the reason of busy before the
    /// first [`Self::handle_rooms`].
    #[must_use]
    pub fn new(config: ReceiverConfig, run: RunNumber, reason: BusyReason) -> Self {
        assert!(config.reserve < config.queue, "the reserve must be smaller than the queue");
        let queue = Room {
            buffer: Buffer::Queue,
            free: config.queue,
            accepts: config.queue,
            capacity: config.queue,
            reason,
        };
        Self {
            config,
            run,
            phase: Phase::Waiting,
            pause: (None, Timestamp::ZERO),
            rooms: Rooms::new(vec![queue]),
            waiting: VecDeque::new(),
            left: 0,
            next: config.first,
            last: None,
            ids: EventSet::new(RANGES),
            turns: VecDeque::from([(Timestamp::ZERO, Gate::NoSupervisor)]),
            supervisor: None,
            strangers: BTreeSet::new(),
            refused: VecDeque::new(),
            report: LinkReport::default(),
            events: VecDeque::new(),
        }
    }

    /// Returns the number of triggers for which there is room.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.rooms.free().saturating_sub(self.waiting.len() as u64)
    }

    /// Returns whether this is the supervisor's connection.
    #[must_use]
    pub fn is_supervisor(&self, link: LinkId) -> bool {
        self.supervisor.as_ref().is_some_and(|member| member.link == link)
    }

    /// Returns whether a supervisor is connected.
    #[must_use]
    pub fn has_supervisor(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Returns whether the connected supervisor may send more triggers.
    #[must_use]
    pub fn expects_triggers(&self) -> bool {
        !self.waiting.is_empty() || self.supervisor.as_ref().is_some_and(|member| !member.is_ended)
    }

    /// Returns whether the supervisor's account has arrived, or no supervisor is connected.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.refused.is_empty() && self.supervisor.as_ref().is_none_or(|member| member.has_totals)
    }

    /// Returns the state of the gate.
    #[must_use]
    pub fn gate(&self) -> Gate {
        match &self.supervisor {
            None => Gate::NoSupervisor,
            Some(member) => member.busy.reason().map_or(Gate::Open, Gate::Busy),
        }
    }

    /// Returns the account of all connections, including the current one.
    #[must_use]
    pub fn report(&self, now: Timestamp) -> LinkReport {
        let mut report = self.report.clone();
        if let Some(member) = &self.supervisor {
            report.add_connection(&member.account, member.busy.clone(), now);
        }
        report.waiting = self.waiting.len() as u64;
        report
    }

    /// Admits a connection. It must send a hello first.
    pub fn handle_connection(&mut self, link: LinkId) {
        self.strangers.insert(link);
        if self.phase == Phase::Ended {
            self.refuse(link, Refusal::RunEnded);
        } else if self.strangers.len() > MAX_STRANGERS
            && let Some(oldest) = self.strangers.first().copied()
        {
            self.refuse(oldest, Refusal::TooManyConnections);
        }
    }

    /// Records that a connection has ended. All its messages must have been handled.
    pub fn handle_disconnection(&mut self, now: Timestamp, link: LinkId) {
        self.strangers.remove(&link);
        self.refused.retain(|(other, _)| *other != link);
        if let Some(member) = self.supervisor.take_if(|member| member.link == link) {
            self.report.add_connection(&member.account, member.busy, now);
            let early = member.sent.is_none();
            self.events.push_back(ReceiverEvent::Gone { name: member.name, early });
            self.left = self.waiting.len();
            self.turn(now, Gate::NoSupervisor);
        }
    }

    /// Closes a connection.
    pub fn refuse(&mut self, link: LinkId, refusal: Refusal) {
        self.refuse_named(link, refusal, String::new());
    }

    fn refuse_named(&mut self, link: LinkId, refusal: Refusal, name: String) {
        let name = match self.supervisor.as_mut().filter(|member| member.link == link) {
            Some(member) if member.is_refused => return,
            Some(member) => {
                member.is_refused = true;
                member.name.clone()
            }
            None if self.strangers.remove(&link) => name,
            None => return,
        };
        *self.report.refused.entry(refusal).or_default() += 1;
        self.refused.push_back((link, refusal));
        self.events.push_back(ReceiverEvent::Refused { link, name, refusal });
    }

    /// Takes a message. Triggers beyond the [room](Self::room) are lost. A driver whose connection can hold them back keeps
    /// them there instead.
    pub fn handle_input(&mut self, now: Timestamp, link: LinkId, message: FromSupervisor) {
        if self.strangers.contains(&link) {
            match message {
                FromSupervisor::Hello { name } => self.join(now, link, name),
                _ => self.refuse(link, Refusal::InvalidMessage),
            }
            return;
        }
        let Some(member) =
            self.supervisor.as_mut().filter(|member| member.link == link && !member.is_refused)
        else {
            return;
        };
        match message {
            FromSupervisor::Triggers(triggers) if member.sent.is_none() => {
                let largest = triggers.iter().map(|trigger| trigger.payload.len()).max().unwrap_or(0);
                if largest as u64 > u64::from(self.config.max_payload) {
                    self.refuse(link, Refusal::PayloadTooLarge);
                    return;
                }
                triggers.into_iter().for_each(|trigger| self.receive(trigger));
                self.update_busy(now);
            }
            FromSupervisor::End { sent } if member.sent.is_none() => {
                member.sent = Some(sent);
                let received = member.account.received;
                if self.config.is_lossy && sent > received {
                    member.undelivered = sent - received;
                    self.report.undelivered += member.undelivered;
                } else if sent != received {
                    self.report.differences.push(format!("{sent} triggers were sent, {received} received"));
                }
            }
            FromSupervisor::Totals(totals) if member.is_ended && !member.has_totals => {
                member.has_totals = true;
                let delivered = member.account.received + member.undelivered;
                self.report.compare(delivered, member.busy.times(), &totals);
                self.report.add_totals(&totals);
                self.events.push_back(ReceiverEvent::Totals(totals));
            }
            _ => self.refuse(link, Refusal::InvalidMessage),
        }
    }

    fn join(&mut self, now: Timestamp, link: LinkId, name: String) {
        if self.supervisor.is_some() {
            self.refuse_named(link, Refusal::SupervisorTaken, name);
            return;
        }
        self.strangers.remove(&link);
        self.events.push_back(ReceiverEvent::Joined { name: name.clone() });
        self.supervisor = Some(Member {
            link,
            name,
            is_welcomed: false,
            is_refused: false,
            knows_phase: self.phase,
            sequence: 0,
            busy: BusyAccount::default(),
            account: ReceivedTriggers::default(),
            sent: None,
            undelivered: 0,
            is_ended: false,
            is_account_due: false,
            has_totals: false,
            progress_sent: (0, 0),
            progress_at: now,
        });
        self.turn(now, Gate::Open);
    }

    /// Books a trigger in its bin, or adds it to those that wait.
    fn receive(&mut self, trigger: Trigger) {
        let has_room = self.room() > 0;
        let Some(member) = &mut self.supervisor else { return };
        let (id, account) = (trigger.id, &mut member.account);
        account.received += 1;
        self.report.steps_back += u64::from(self.last.replace(id).is_some_and(|last| id < last));
        if !matches!(self.phase, Phase::Running | Phase::Stopping) {
            account.outside += 1;
        } else if self.ids.contains(id) {
            account.repeated += 1;
        } else if id < self.next {
            account.out_of_order += 1;
        } else {
            if id > self.next {
                self.report.skipped += id.0 - self.next.0;
                let first = self.report.skipped_ids.map_or(self.next, |(first, _)| first);
                self.report.skipped_ids = Some((first, EventId(id.0 - 1)));
            }
            self.next = EventId(id.0.saturating_add(1));
            self.ids.insert(EventIdRange::one(id));
            if has_room {
                self.waiting.push_back(trigger);
            } else {
                account.lost += 1;
            }
        }
    }

    /// Records the room in each buffer after the event manager has taken all polled triggers.
    pub fn handle_rooms(&mut self, now: Timestamp, rooms: impl IntoIterator<Item = Room>) {
        self.rooms.set(rooms);
        self.update_busy(now);
    }

    /// Counts triggers that must wait outside the queue because busy was raised too late.
    pub fn note_late(&mut self, triggers: u64) {
        self.report.late += triggers;
    }

    /// Enters a phase of the run.
    pub fn handle_phase(&mut self, phase: Phase) {
        self.phase = phase;
        if phase == Phase::Ended {
            while self.poll_trigger().is_some() {
                self.handle_taken(false);
            }
        }
    }

    /// Raises busy while the run is paused, whatever room there is. `reason` is that of the pause.
    pub fn handle_pause(&mut self, now: Timestamp, reason: Option<BusyReason>) {
        if self.pause.0 != reason {
            self.pause = (reason, now);
        }
    }

    /// Returns the reason for busy, and when it was raised or released.
    fn busy(&self) -> (Option<BusyReason>, Timestamp) {
        match self.pause {
            (Some(reason), since) => (Some(reason), since),
            (None, resumed_at) => (self.rooms.reason(), self.rooms.turned_at().max(resumed_at)),
        }
    }

    /// Returns the next trigger for the event manager, which then calls [`Self::handle_taken`].
    pub fn poll_trigger(&mut self) -> Option<Trigger> {
        self.waiting.pop_front()
    }

    /// Records whether the last polled trigger became an event. It did not if the run has ended.
    pub fn handle_taken(&mut self, is_event: bool) {
        if is_event {
            self.rooms.take();
        }
        let account = match &mut self.supervisor {
            Some(member) if self.left == 0 => &mut member.account,
            // Triggers of a connection that has ended, whose account is in the report.
            _ => &mut self.report.triggers,
        };
        self.left = self.left.saturating_sub(1);
        *(if is_event { &mut account.accepted } else { &mut account.outside }) += 1;
    }

    /// Returns the next message and its connection. Messages are composed when they are polled, so that none are queued for
    /// a supervisor that does not read. A driver must not call this while the connection is full.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<(LinkId, FromManager)> {
        if let Some(refusal) = self.poll_refusal() {
            return Some(refusal);
        }
        self.update_busy(now);
        let takes = matches!(self.phase, Phase::Running | Phase::Stopping);
        let (reason, turned_at) = self.busy();
        let member = self.supervisor.as_mut()?;
        let has_waiting = !self.waiting.is_empty();
        if member.sent.is_some() && !member.is_ended && !has_waiting {
            (member.is_ended, member.is_account_due) = (true, true);
            self.events.push_back(ReceiverEvent::TriggersEnded);
        }
        let wanted = reason.filter(|_| takes && member.sent.is_none());
        let state = RunState {
            run: self.run,
            phase: self.phase,
            next: self.next,
            max_payload: self.config.max_payload,
        };
        let message = member.next_message(now, (wanted, turned_at), state)?;
        let link = member.link;
        if let FromManager::Busy(busy) = &message {
            self.turn(now, busy.reason.map_or(Gate::Open, Gate::Busy));
        }
        Some((link, message))
    }

    fn turn(&mut self, now: Timestamp, gate: Gate) {
        if self.turns.len() == MAX_TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back((now, gate));
    }

    /// Returns the next connection that is refused, and the message with the reason.
    pub(super) fn poll_refusal(&mut self) -> Option<(LinkId, FromManager)> {
        let (link, refusal) = self.refused.pop_front()?;
        let text = match (&self.supervisor, refusal) {
            (Some(member), Refusal::SupervisorTaken) => format!("{refusal}: {}", member.name),
            _ => refusal.to_string(),
        };
        Some((link, FromManager::Refused { refusal, text }))
    }

    /// Decides whether triggers must be held back.
    fn update_busy(&mut self, now: Timestamp) {
        self.rooms.update(now, self.config.reserve, self.waiting.len() as u64);
    }

    /// Returns the next change of the gate and its time. The event manager books dead time by it: busy is also sent, and supervisors
    /// come and go, while it does something else.
    pub fn poll_turn(&mut self) -> Option<(Timestamp, Gate)> {
        self.turns.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// Handles timeouts. There is nothing to do, because messages are composed when they are polled.
    pub fn handle_timeout(&mut self, _now: Timestamp) {}

    /// Returns the latest time for the next call of [`Self::poll_transmit`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let member = self.supervisor.as_ref()?;
        (member.progress() != member.progress_sent).then(|| member.progress_at + PROGRESS_INTERVAL)
    }
}

impl Member {
    fn progress(&self) -> (u64, u64) {
        (self.account.received, self.account.accepted)
    }

    fn next_message(
        &mut self,
        now: Timestamp,
        (wanted, turned_at): (Option<BusyReason>, Timestamp),
        RunState { run, phase, next, max_payload }: RunState,
    ) -> Option<FromManager> {
        if !std::mem::replace(&mut self.is_welcomed, true) {
            self.knows_phase = phase;
            return Some(FromManager::Welcome { run, phase, next, max_payload });
        }
        if self.busy.reason() != wanted {
            self.sequence += 1;
            self.busy.turn(now, wanted);
            return Some(FromManager::Busy(Busy { sequence: self.sequence, reason: wanted, at: turned_at }));
        }
        if std::mem::replace(&mut self.knows_phase, phase) != phase {
            return Some(FromManager::Phase(phase));
        }
        if std::mem::take(&mut self.is_account_due) {
            let busy = self.busy.times().clone();
            return Some(FromManager::Account(ReceivedTriggers { busy, ..self.account.clone() }));
        }
        let progress = self.progress();
        if progress != self.progress_sent && self.progress_at + PROGRESS_INTERVAL <= now && !self.is_ended {
            (self.progress_sent, self.progress_at) = (progress, now);
            return Some(FromManager::Progress { received: progress.0, accepted: progress.1 });
        }
        if self.is_ended {
            self.progress_sent = progress;
        }
        None
    }
}
