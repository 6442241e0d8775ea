//! A builder unit's farm: built events go to workers, and verdicts return in any order.
//!
//! Workers are threads of this process, processes that the farm starts, and processes that join on their own. All are
//! *processors* to the [`Dispatcher`], which assigns events and decides the fate of those of a processor that ends;
//! this module has the connections to them.
//!
//! | module | holds |
//! |---|---|
//! | `give` | reasons why a worker cannot have an event |
//! | `line` | the connection to one worker |
//! | `thread` | workers that are threads |
//! | `made` | workers made by the caller |
//! | `placing` | payload in memory that other processes can read |
//! | `remote` | workers that join over a network |
//! | `launcher` | starts processes, and restarts those that die |
//!
//! The farm is part of its builder unit's duty cycle. The door has a separate thread, which only admits processes and
//! wakes the builder unit.

mod give;
mod launcher;
mod line;
mod made;
mod placing;
mod remote;
mod said;
mod setup;
mod thread;

pub use launcher::{Launch, LauncherOptions};
pub use made::{Worker, WorkerMaker};
pub use placing::PlacingOptions;
pub use remote::{ListenError, ListenSetup};
pub use setup::{DoorSetup, FarmError, FarmReport, FarmSetup};
pub use thread::FilterMaker;

use crate::filter::FilterFailure;
use crate::repeats::Repeats;
use bytes::Bytes;
use launcher::Launcher;
use line::Line;
use placing::Placing;
use remote::Remote;
use sheaf_protocol::farm::{Departure, Dispatcher, DispatcherEvent, Quarantine, Seat, Word};
use sheaf_shm::door::{Door, DoorNews, DoorOptions, DoorRefusal, GuestId};
use sheaf_telemetry::log_as;
use sheaf_wire::farm::event_record_bytes;
use sheaf_wire::message::Readiness;
use sheaf_wire::{Event, EventId, NodeId, Timestamp, Verdict};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Maximum number of messages taken from one worker before the next one's turn.
const WORDS_A_TURN: usize = 256;

/// The ring by which a process answers: room for some thousand verdicts, or one part of a large one.
const UP_BYTES: usize = 128 << 10;

/// Maximum number of worker exits, and of quarantined events, that the log describes; all are counted.
const LOGGED: u64 = 20;

/// Time that processes have to end after the run.
const FAREWELL: Duration = Duration::from_secs(2);

/// A worker that has joined.
struct Member {
    seat: Seat,
    line: Line,
    /// Whether the launcher knows that it has loaded its filter, or it has not been started by it.
    is_known_loaded: bool,
}

impl Member {
    fn new(seat: Seat, line: Line) -> Self {
        let is_known_loaded = line.process().is_none();
        Self { seat, line, is_known_loaded }
    }
}

/// A farm.
pub struct Farm {
    node: NodeId,
    dispatcher: Dispatcher<Arc<Event<Bytes>>, Verdict>,
    members: Vec<Member>,
    threads: Option<(u16, FilterMaker)>,
    made: Option<WorkerMaker>,
    door: Option<Door>,
    placing: Option<Placing>,
    launcher: Option<Launcher>,
    remote: Option<Remote>,
    waker: Waker,
    /// The time of the last round.
    now: Timestamp,
    /// Built, and not offered for lack of memory that processes can read.
    stalled: Option<Event<Bytes>>,
    verdicts: VecDeque<(Event<Bytes>, Verdict)>,
    /// Empty, to be used again.
    spare: Vec<Arc<Event<Bytes>>>,
    report: FarmReport,
    logged: u64,
    /// Whether it was logged that events wait for a processor, which an operator has to start.
    is_absence_reported: bool,
    /// Refused connections over the network, by reason.
    refused: Repeats<String>,
    /// Of the callers that the Unix socket refused, by reason, those that are in the report.
    refused_at_door: [u64; DoorRefusal::ALL.len()],
}

impl std::fmt::Debug for Farm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let members: Vec<_> = self.members.iter().map(|member| member.seat).collect();
        f.debug_struct("Farm").field("node", &self.node).field("members", &members).finish_non_exhaustive()
    }
}

impl Farm {
    /// Sets up a farm for the builder unit `node`, whose thread `waker` wakes, and starts its workers.
    ///
    /// # Errors
    /// Returns the resource that cannot be set up.
    pub fn new(setup: FarmSetup, node: NodeId, waker: Waker, now: Timestamp) -> Result<Self, FarmError> {
        let FarmSetup { dispatcher, threads, door, listen } = setup;
        let mut farm = Self {
            node,
            dispatcher: Dispatcher::new(dispatcher, now),
            members: Vec::new(),
            threads: None,
            made: None,
            door: None,
            placing: None,
            launcher: None,
            remote: None,
            waker,
            now,
            stalled: None,
            verdicts: VecDeque::new(),
            spare: Vec::new(),
            report: FarmReport::default(),
            logged: 0,
            is_absence_reported: false,
            refused: Repeats::default(),
            refused_at_door: [0; DoorRefusal::ALL.len()],
        };
        if let Some(door) = door {
            farm.open(door, dispatcher.ahead, usize::from(dispatcher.seats))?;
        }
        if let Some(listen) = listen {
            farm.remote = Some(Remote::open(listen, node, farm.waker.clone())?);
        }
        if let Some((count, make)) = threads {
            farm.threads = Some((count, make));
            for _ in 0..count {
                farm.start_thread(now)?;
            }
        }
        Ok(farm)
    }

    /// Adds workers made by the caller; each that ends is replaced. The farm has no other threads.
    #[must_use]
    pub fn with_workers(mut self, count: u16, make: WorkerMaker, now: Timestamp) -> Self {
        debug_assert!(self.threads.is_none(), "who replaces whom would not be clear");
        self.made = Some(make);
        for _ in 0..count {
            self.start_made(now);
        }
        self
    }

    fn start_made(&mut self, now: Timestamp) {
        let ahead = self.dispatcher.config().ahead;
        if let Some(make) = &mut self.made
            && let Some(seat) = self.dispatcher.join(now)
        {
            self.members.push(Member::new(seat, Line::Made(make(seat, ahead))));
        }
    }

    fn open(&mut self, setup: DoorSetup, ahead: u32, seats: usize) -> Result<(), FarmError> {
        let name = format!("{}.farm", self.node);
        let record = event_record_bytes(setup.sources, setup.sources);
        let door = Door::open(DoorOptions {
            path: setup.path,
            name: name.clone(),
            text: setup.welcome.emit().into(),
            // Room for the requested events, with room for the largest record in half of it.
            down_bytes: 2 * (record + 64) * (ahead as usize).clamp(1, 64),
            up_bytes: UP_BYTES,
            max_guests: seats,
            waker: self.waker.clone(),
        })?;
        self.placing = Some(Placing::new(&name, setup.placing).map_err(FarmError::Memory)?);
        self.launcher = setup.launcher.map(|options| Launcher::new(self.node, door.path(), options));
        self.door = Some(door);
        Ok(())
    }

    fn start_thread(&mut self, now: Timestamp) -> Result<(), FarmError> {
        let Some((_, make)) = &mut self.threads else { return Ok(()) };
        let filter = make().map_err(FarmError::Filter)?;
        let ahead = self.dispatcher.config().ahead;
        // `check` of the configuration sees to it that there are as many seats as threads.
        let Some(seat) = self.dispatcher.join(now) else { return Ok(()) };
        let line =
            thread::start(self.node, seat, ahead, filter, self.waker.clone()).map_err(FarmError::Thread)?;
        self.members.push(Member::new(seat, Line::Thread(line)));
        Ok(())
    }

    /// Returns whether another event may be offered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.stalled.is_none() && self.dispatcher.has_room()
    }

    /// Takes a built event, for which there is [room](Self::has_room).
    pub fn offer(&mut self, mut event: Event<Bytes>) {
        if let Some(placing) = &mut self.placing
            && !placing.place(&mut event)
        {
            self.stalled = Some(event);
            return;
        }
        let id = event.id;
        let handle = match self.spare.pop() {
            Some(mut spare) => {
                if let Some(place) = Arc::get_mut(&mut spare) {
                    *place = event;
                    spare
                } else {
                    Arc::new(event)
                }
            }
            None => Arc::new(event),
        };
        let taken = self.dispatcher.offer(id, handle);
        assert!(taken.is_ok(), "a builder unit has no more events than its farm has room for");
    }

    /// Runs one round: takes messages of workers and gives them the events they ask for. Returns `true` if there was
    /// something to do.
    pub fn work(&mut self, now: Timestamp) -> bool {
        self.now = now;
        if let Some(door) = &self.door {
            door.get_up();
        }
        if let Some(event) = self.stalled.take() {
            self.offer(event);
        }
        let mut busy = self.take_news(now);
        busy |= self.hear_remote(now);
        for place in (0..self.members.len()).rev() {
            busy |= self.take_word(now, place);
        }
        self.dispatcher.handle_timeout(now);
        busy |= self.take_events(now);
        busy |= self.give(now);
        self.tell_absence();
        if let Some(launcher) = &mut self.launcher {
            launcher.look(now);
        }
        busy
    }

    /// Logs, once, that events wait for a processor if only an operator starts processors.
    fn tell_absence(&mut self) {
        let is_by_hand = self.threads.is_none() && self.made.is_none() && self.launcher.is_none();
        let waits = self.dispatcher.held().0 > 0 && self.dispatcher.present() == 0;
        if self.is_absence_reported || !is_by_hand || !waits {
            return;
        }
        self.is_absence_reported = true;
        let node = self.node;
        match self.dispatcher.config().patience {
            Some(patience) => log_as!(
                PROCESSORS_AWAITED, node = node;
                "{node}: events wait for a processor, and none has joined; after {patience} without one they are stored unfiltered"
            ),
            None => log_as!(
                PROCESSORS_AWAITED, node = node;
                "{node}: events wait for a processor, and none has joined"
            ),
        }
    }

    /// When [`Self::work`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Timestamp {
        let dispatcher = self.dispatcher.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at);
        let launcher = self.launcher.as_ref().map_or(Timestamp::MAX, Launcher::poll_timeout);
        dispatcher.min(launcher)
    }

    /// Returns whether the builder unit may sleep: no worker has woken it since the last round.
    #[must_use]
    pub fn lie_down(&mut self) -> bool {
        self.door.as_ref().is_none_or(Door::lie_down)
    }

    /// The next verdict, with its event.
    pub fn poll(&mut self) -> Option<(Event<Bytes>, Verdict)> {
        self.verdicts.pop_front()
    }

    /// Returns whether the farm holds no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stalled.is_none() && self.verdicts.is_empty() && self.dispatcher.held().0 == 0
    }

    /// Returns whether the farm holds events that have or will have a verdict, or are stored without one: a worker is
    /// working, or may join.
    #[must_use]
    pub fn is_judging(&self) -> bool {
        let waits = self.dispatcher.held().0 > 0;
        waits && (self.dispatcher.present() > 0 || self.dispatcher.config().patience.is_some())
    }

    /// Returns whether the processes that it starts have loaded their filters. Threads have when the farm is made; processors that
    /// join on their own are not awaited.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.launcher.as_ref().map_or(Readiness::Ready, Launcher::readiness)
    }

    /// Events that have left without a verdict so far.
    #[must_use]
    pub fn quarantined(&self) -> u64 {
        self.dispatcher.counts().quarantined
    }

    /// Ends all workers and returns the farm's report.
    pub fn finish(&mut self) -> FarmReport {
        self.close_remote(self.now);
        for member in &mut self.members {
            member.line.close();
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.finish(FAREWELL);
            self.report.restarts = launcher.restarts();
        }
        let mut members = std::mem::take(&mut self.members);
        for member in &mut members {
            member.line.join(FAREWELL);
            self.report.filter.extend(member.line.filter_counters());
            self.report.workers.push((member.seat, member.line.times()));
        }
        self.note_refused_at_door();
        self.door = None;
        self.report.counts = self.dispatcher.counts();
        self.report.workers.sort_by_key(|(seat, _)| *seat);
        std::mem::take(&mut self.report)
    }

    fn take_news(&mut self, now: Timestamp) -> bool {
        let mut busy = false;
        self.note_refused_at_door();
        while let Some(news) = self.door.as_mut().and_then(Door::poll) {
            busy = true;
            match news {
                DoorNews::Entered(mut guest) => match self.dispatcher.join(now) {
                    Some(seat) => {
                        log::debug!("{}: process {} judges events as processor {seat}", self.node, guest.pid);
                        if let Some(launcher) = &mut self.launcher {
                            launcher.note_joined(guest.pid);
                        }
                        self.members.push(Member::new(seat, Line::guest(guest)));
                    }
                    None => guest.end(),
                },
                DoorNews::Left(id) => self.guest_left(now, id),
            }
        }
        busy
    }

    /// Counts callers that the Unix socket has refused since the last time.
    fn note_refused_at_door(&mut self) {
        for reason in DoorRefusal::ALL {
            let refused = self.door.as_ref().map_or(0, |door| door.refused(reason));
            while self.refused_at_door[reason as usize] < refused {
                self.refused_at_door[reason as usize] += 1;
                self.note_refused(reason.to_string());
            }
        }
    }

    /// Counts a processor that was not let in, and logs the reason.
    fn note_refused(&mut self, why: String) {
        self.report.callers_refused += 1;
        if let Some(times) = self.refused.note(why.clone()) {
            log_as!(
                PROCESSOR_REFUSED, node = self.node;
                "{}: a processor was refused: {why}{times}", self.node
            );
        }
    }

    /// Handles the end of a process: first its remaining messages, then the end of its seat.
    fn guest_left(&mut self, now: Timestamp, id: GuestId) {
        let Some(place) = self.members.iter().position(|member| member.line.guest_id() == Some(id)) else {
            return;
        };
        while self.take_word(now, place) {}
        // Its last message may have ended it.
        let Some(place) = self.members.iter().position(|member| member.line.guest_id() == Some(id)) else {
            return;
        };
        let seat = self.members[place].seat;
        let before = self.dispatcher.counts().died;
        self.dispatcher.handle_end(now, seat, Departure::Died);
        if self.dispatcher.counts().died > before {
            let held = self.members[place].line.describe();
            self.note(&format!("processor {seat} ({held}) died; its events are judged elsewhere"));
        }
        self.dismiss(place);
    }

    /// Takes the messages of one worker. Returns `true` if there were any.
    fn take_word(&mut self, now: Timestamp, place: usize) -> bool {
        let Member { seat, line, is_known_loaded } = &mut self.members[place];
        let seat = *seat;
        for handled in 0..WORDS_A_TURN {
            match line.receive() {
                Ok(Some(word)) => {
                    self.dispatcher.handle_input(now, seat, word);
                    if !*is_known_loaded && self.dispatcher.has_loaded(seat) {
                        *is_known_loaded = true;
                        if let (Some(process), Some(launcher)) = (line.process(), &mut self.launcher) {
                            launcher.note_loaded(process);
                        }
                    }
                }
                Ok(None) => return handled > 0,
                Err(departure) => {
                    self.dispatcher.handle_end(now, seat, departure);
                    self.note(&format!("processor {seat} {departure}; its events are judged elsewhere"));
                    line_ended(&mut self.members[place].line, self.launcher.as_mut());
                    let is_thread = matches!(self.members[place].line, Line::Thread(_) | Line::Made(_));
                    self.dismiss(place);
                    if is_thread {
                        self.replace_thread(now);
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Forgets a worker whose seat is over.
    fn dismiss(&mut self, place: usize) {
        let mut member = self.members.swap_remove(place);
        if let (Line::Remote(line), Some(remote)) = (&member.line, &mut self.remote) {
            remote.dismiss(line);
        }
        member.line.close();
        self.report.workers.push((member.seat, member.line.times()));
    }

    fn replace_thread(&mut self, now: Timestamp) {
        if self.made.is_some() {
            self.report.restarts += 1;
            self.start_made(now);
            return;
        }
        match self.start_thread(now) {
            Ok(()) => self.report.restarts += 1,
            Err(error) => log_as!(
                WORKER_LOST, node = self.node;
                "{}: {error}; the farm has one worker less", self.node
            ),
        }
    }

    fn take_events(&mut self, now: Timestamp) -> bool {
        let mut busy = false;
        while let Some(event) = self.dispatcher.poll_event() {
            busy = true;
            match event {
                DispatcherEvent::Judged { event, verdict, .. } => self.judged(event, verdict),
                DispatcherEvent::Quarantined { id, event, why } => {
                    self.note_quarantine(id, &why);
                    self.judged(event, Verdict::quarantine());
                }
                DispatcherEvent::Ended { seat, why, event } => self.ended(now, seat, why, event),
            }
        }
        busy
    }

    fn judged(&mut self, mut handle: Arc<Event<Bytes>>, verdict: Verdict) {
        let event = match Arc::get_mut(&mut handle) {
            Some(event) => {
                let empty = Event { fragments: Vec::new(), missing: Vec::new(), ..*event };
                std::mem::replace(event, empty)
            }
            // A thread that hangs has it still.
            None => Event::clone(&handle),
        };
        self.spare.push(handle);
        self.verdicts.push_back((event, verdict));
    }

    /// The dispatcher gives a worker up.
    fn ended(&mut self, now: Timestamp, seat: Seat, why: Departure, event: Option<EventId>) {
        let Some(place) = self.members.iter().position(|member| member.seat == seat) else { return };
        let held = event.map_or_else(String::new, |event| format!(" with event {event}"));
        let who = self.members[place].line.describe();
        self.note(&format!(
            "processor {seat} ({who}) {why}{held}; it is ended, its events are judged elsewhere"
        ));
        line_ended(&mut self.members[place].line, self.launcher.as_mut());
        let is_thread = matches!(self.members[place].line, Line::Thread(_) | Line::Made(_));
        self.dismiss(place);
        if is_thread {
            self.replace_thread(now);
        }
    }

    fn give(&mut self, now: Timestamp) -> bool {
        let mut busy = false;
        while let Some(give) = self.dispatcher.poll_transmit(now) {
            busy = true;
            let Some(event) = self.dispatcher.event(give.ticket) else { continue };
            let member = self.members.iter_mut().find(|member| member.seat == give.seat);
            let Some(member) = member else { continue };
            let given = match (&mut member.line, &mut self.remote) {
                (Line::Remote(line), Some(remote)) => remote.give(line, give.ticket, event),
                (line, _) => line.give(give.ticket, event, self.placing.as_mut()),
            };
            if let Err(why) = given {
                self.dispatcher.handle_input(
                    now,
                    give.seat,
                    Word::Failed(give.ticket, FilterFailure::new(why)),
                );
            }
        }
        for member in &mut self.members {
            member.line.flush();
        }
        if let Some(remote) = &mut self.remote {
            remote.flush();
        }
        busy
    }

    fn note_quarantine(&mut self, id: EventId, why: &Quarantine) {
        self.note(&format!("event {id} is stored unfiltered: {why}"));
    }

    fn note(&mut self, text: &str) {
        self.logged += 1;
        if self.logged <= LOGGED {
            log_as!(PROCESSOR_LOST, node = self.node; "{}: {text}", self.node);
        } else {
            log::debug!("{}: {text}", self.node);
        }
    }
}

/// Ends a worker for good: also one that hangs.
fn line_ended(line: &mut Line, launcher: Option<&mut Launcher>) {
    if let (Some(process), Some(launcher)) = (line.process(), launcher) {
        launcher.kill(process);
    }
    line.close();
}

#[cfg(test)]
mod tests;
