//! Drives the farms of builders: the real dispatcher and the real processors, with an ordered connection with latency between them. A
//! processor that dies is restarted after a while, with another seat. As on a real node, the dispatcher has the time of its builder without
//! stalls: processors are other processes, and join again meanwhile.

use super::Cluster;
use super::post::{FarmTurn, Happening, Post};
use crate::check::Watch;
use crate::check::farms::{FarmWatch, check_counts};
use crate::filter::{Conduct, conduct, decide, dies_loading};
use crate::options::{FarmOptions, Options};
use crate::payload::SimPayload;
use sheaf_protocol::builder::Decision;
use sheaf_protocol::farm::{
    Departure, Dispatcher, DispatcherConfig, DispatcherEvent, FarmCounts, FarmReadiness, Processor,
    ProcessorEvent, Seat, Ticket, Word,
};
use sheaf_wire::message::Readiness;
use sheaf_wire::{Event, EventId, FilterFailure, NodeId, SessionId, Timestamp};

/// A farm.
#[derive(Debug)]
pub(super) struct Farm {
    dispatcher: Dispatcher<Event<SimPayload>, Decision>,
    processes: Vec<Process>,
    readiness: FarmReadiness,
    watch: FarmWatch,
    wake_at: Option<Timestamp>,
}

/// A place for a process, and its current process.
#[derive(Debug, Default)]
struct Process {
    life: u32,
    alive: Option<Alive>,
}

#[derive(Debug)]
struct Alive {
    seat: Seat,
    role: Processor<EventId, Decision>,
    judging: Option<(Ticket, EventId)>,
    /// Whether it loads its filter.
    loading: bool,
    /// Whether its first request has arrived.
    has_asked: bool,
    /// Whether it sends nothing more.
    silent: bool,
}

impl Farm {
    pub(super) fn new(options: &FarmOptions, slots: u32, now: Timestamp) -> Self {
        let config = DispatcherConfig {
            events: slots,
            seats: options.processors,
            ahead: options.ahead,
            time_limit: Some(options.time_limit),
            load_time_limit: Some(options.load_time_limit),
            retries: options.retries,
            patience: Some(options.patience),
        };
        let processes = (0..options.processors).map(|_| Process::default()).collect();
        let watch = FarmWatch::default();
        let readiness = FarmReadiness::new(options.processors.into());
        Self { dispatcher: Dispatcher::new(config, now), processes, readiness, watch, wake_at: None }
    }

    /// Returns whether no event waits for its verdict.
    pub(super) fn is_empty(&self) -> bool {
        self.dispatcher.held().0 == 0
    }

    /// Returns whether the processes have loaded their filters.
    pub(super) fn readiness(&self) -> Readiness {
        self.readiness.readiness()
    }

    /// Describes what the farm waits for.
    pub(super) fn explain(&self) -> String {
        let (held, given) = self.dispatcher.held();
        let processes = self.processes.iter().map(|process| match &process.alive {
            None => "none",
            Some(alive) if alive.loading => "loads",
            Some(alive) if alive.silent => "silent",
            Some(alive) if alive.judging.is_some() => "judges",
            Some(_) => "idle",
        });
        let processes: Vec<&str> = processes.collect();
        let deadline = self.dispatcher.poll_timeout();
        format!(
            "its farm holds {held} events, {given} at processors ({}, {} joined), and waits for {deadline:?}",
            processes.join(", "),
            self.dispatcher.present()
        )
    }

    /// Records the first request of a process.
    fn note_loaded(&mut self, seat: Seat) {
        for (place, process) in self.processes.iter_mut().enumerate() {
            if let Some(alive) = process.alive.as_mut().filter(|alive| alive.seat == seat) {
                alive.has_asked = true;
                self.readiness.note_loaded(place);
            }
        }
    }

    pub(super) fn counts(&self) -> FarmCounts {
        self.dispatcher.counts()
    }

    pub(super) fn offer(&mut self, event: Event<SimPayload>) {
        let offered = self.dispatcher.offer(event.id, event);
        assert!(offered.is_ok(), "a dispatcher has room for all that its builder may have");
    }

    /// Ends the process at a place. The dispatcher is notified after a while, and the place is filled again later.
    fn kill(&mut self, place: usize, at: &mut Ways<'_>) -> bool {
        let process = &mut self.processes[place];
        let Some(alive) = process.alive.take() else { return false };
        self.readiness.note_ended(place);
        at.plan(at.farm.way.0, FarmTurn::Gone(alive.seat));
        at.plan(at.farm.restart.0, FarmTurn::Begin(place));
        true
    }

    /// Starts the next process of a place, which loads its filter first.
    fn begin(&mut self, place: usize, at: &mut Ways<'_>) {
        let Some(seat) = self.dispatcher.join(at.own) else {
            // The seat of the previous process has not ended yet.
            at.plan(at.farm.restart.0, FarmTurn::Begin(place));
            return;
        };
        let process = &mut self.processes[place];
        process.life += 1;
        process.alive = Some(Alive {
            seat,
            role: Processor::new(at.farm.asks),
            judging: None,
            loading: true,
            has_asked: false,
            silent: false,
        });
        at.plan(at.farm.load.0, FarmTurn::Loaded(place, process.life));
    }

    /// Lets a process start its next event, and transports its messages.
    fn drive(&mut self, place: usize, at: &mut Ways<'_>) {
        let process = &mut self.processes[place];
        let is_at_work = |alive: &&mut Alive| !alive.silent && !alive.loading;
        let Some(alive) = process.alive.as_mut().filter(is_at_work) else { return };
        if alive.judging.is_none()
            && let Some(ProcessorEvent::Judge(ticket, event)) = alive.role.poll_event()
        {
            alive.judging = Some((ticket, event));
            if conduct(at.options, at.farm, event) != Conduct::Hangs {
                at.plan(at.farm.judge.0, FarmTurn::Done(place, process.life));
            }
        }
        let mut leaves = false;
        while let Some(word) = alive.role.poll_transmit() {
            leaves |= matches!(word, Word::Leave);
            at.plan(at.farm.way.0, FarmTurn::Up(alive.seat, word));
        }
        if leaves {
            process.alive = None;
            at.plan(at.farm.restart.0, FarmTurn::Begin(place));
        }
    }
}

/// Surroundings of a farm.
struct Ways<'a> {
    post: &'a mut Post,
    options: &'a Options,
    farm: &'a FarmOptions,
    builder: usize,
    session: SessionId,
    /// Time of the builder, without its stalls.
    own: Timestamp,
}

impl Ways<'_> {
    fn plan(&mut self, after: u64, turn: FarmTurn) {
        let at = Timestamp(self.post.now.0 + after);
        self.post.plan(at, Happening::Farm(self.builder, self.session, turn));
    }
}

impl Cluster {
    /// Starts the processes of a builder's new session.
    pub(super) fn begin_farm(&mut self, builder: usize) {
        let Some(options) = &self.options.farm else { return };
        let (node, now) = (&mut self.builders[builder], self.post.now);
        node.farm = Some(Farm::new(options, self.options.bounds.slots, node.host.own_time(now)));
        let session = node.host.session;
        for place in 0..usize::from(options.processors) {
            self.post.plan(now, Happening::Farm(builder, session, FarmTurn::Begin(place)));
        }
    }

    /// Kills a processor deliberately.
    pub(super) fn kill_processor(&mut self, builder: u16, place: u16) {
        let builder = usize::from(builder);
        let Self { post, builders, watch, options, .. } = self;
        let node = &mut builders[builder];
        let (session, own) = (node.host.session, node.host.own_time(post.now));
        let (Some(farm), Some(setup)) = (&mut node.farm, &options.farm) else { return };
        let mut ways = Ways { post, options, farm: setup, builder, session, own };
        if farm.kill(usize::from(place), &mut ways) {
            watch.faults.processor_kills += 1;
            farm.watch.kills += 1;
        }
    }

    pub(super) fn happen_in_farm(&mut self, builder: usize, session: SessionId, turn: FarmTurn) {
        let Self { post, builders, options, .. } = self;
        let node = &mut builders[builder];
        let own = node.host.own_time(post.now);
        let (Some(farm), Some(setup)) = (&mut node.farm, &options.farm) else { return };
        if node.host.session != session {
            return;
        }
        let mut ways = Ways { post, options, farm: setup, builder, session, own };
        match turn {
            FarmTurn::Begin(place) => farm.begin(place, &mut ways),
            FarmTurn::Loaded(place, life) => {
                let process = &mut farm.processes[place];
                if let Some(alive) = process.alive.as_mut().filter(|_| process.life == life) {
                    alive.loading = false;
                    if dies_loading(options, setup, (builder, place, life)) {
                        farm.kill(place, &mut ways);
                    } else {
                        farm.drive(place, &mut ways);
                    }
                }
            }
            FarmTurn::Down(place, life, ticket, event) => {
                let process = &mut farm.processes[place];
                if let Some(alive) = process.alive.as_mut().filter(|_| process.life == life) {
                    let asked = alive.role.handle_input(ticket, event);
                    assert!(asked, "a dispatcher gives what was asked for");
                    farm.drive(place, &mut ways);
                }
            }
            FarmTurn::Up(seat, word) => {
                match &word {
                    Word::Failed(ticket, _) => {
                        let event = farm.dispatcher.event(*ticket).map(|event| event.id);
                        farm.watch.fail(event, seat);
                    }
                    Word::Leave => farm.watch.leave(seat),
                    Word::Ask(_) | Word::Verdict(..) => farm.watch.note_alive(seat),
                }
                farm.dispatcher.handle_input(own, seat, word);
                if farm.dispatcher.has_loaded(seat) {
                    farm.note_loaded(seat);
                }
            }
            FarmTurn::Gone(seat) => {
                farm.watch.end(seat);
                farm.dispatcher.handle_end(own, seat, Departure::Died);
            }
            FarmTurn::Wake(at) => {
                if farm.wake_at == Some(at) {
                    farm.wake_at = None;
                    farm.dispatcher.handle_timeout(own);
                }
            }
            FarmTurn::Done(place, life) => {
                let process = &mut farm.processes[place];
                let alive = process.alive.as_mut().filter(|_| process.life == life);
                if let Some((alive, (ticket, event))) =
                    alive.and_then(|alive| alive.judging.take().map(|judged| (alive, judged)))
                {
                    match conduct(options, setup, event) {
                        Conduct::Dies => {
                            farm.kill(place, &mut ways);
                        }
                        Conduct::Fails => {
                            alive.role.handle_answer(ticket, Err(FilterFailure::new("as planned")))
                        }
                        Conduct::Judges | Conduct::Hangs => {
                            alive.role.handle_answer(ticket, Ok(decide(options, event)));
                        }
                        Conduct::Leaves => {
                            alive.role.handle_answer(ticket, Ok(decide(options, event)));
                            alive.role.handle_stop();
                        }
                        Conduct::Contradicts => {
                            alive.role.handle_answer(ticket, Err(FilterFailure::new("as planned")));
                            let seat = alive.seat;
                            farm.drive(place, &mut ways);
                            let verdict = Word::Verdict(ticket, decide(options, event));
                            ways.plan(setup.way.0, FarmTurn::Up(seat, verdict));
                        }
                        Conduct::FallsSilent => {
                            alive.role.handle_answer(ticket, Ok(decide(options, event)));
                            if let Some(verdict) = alive.role.poll_transmit() {
                                ways.plan(setup.way.0, FarmTurn::Up(alive.seat, verdict));
                            }
                            alive.silent = true;
                        }
                    }
                    farm.drive(place, &mut ways);
                }
            }
        }
        self.settle_farm(builder);
    }

    /// Drains the dispatcher, as its contract requires.
    pub(super) fn settle_farm(&mut self, builder: usize) {
        let Self { post, builders, watch, options, .. } = self;
        let node = &mut builders[builder];
        let (id, session, now) = (node.host.node, node.host.session, post.now);
        let own = node.host.own_time(now);
        let (Some(farm), Some(setup)) = (&mut node.farm, &options.farm) else { return };
        let mut judged = Vec::new();
        while let Some(event) = farm.dispatcher.poll_event() {
            match event {
                DispatcherEvent::Judged { event, verdict, .. } => {
                    if let Err(what) = farm.watch.judge(event.id) {
                        watch.fail(format!("{id}: {what}"));
                    }
                    watch.see_verdict(options, (id, session), event.id, verdict);
                    judged.push((event, verdict));
                }
                DispatcherEvent::Quarantined { event, why, .. } => {
                    if let Err(what) = farm.watch.quarantine(options, setup, event.id, &why) {
                        watch.fail(format!("{id}: {what}"));
                    }
                    watch.quarantined.insert(event.id);
                    watch.see_verdict(options, (id, session), event.id, Decision::Stored);
                    judged.push((event, Decision::Stored));
                }
                DispatcherEvent::Ended { seat, why, event } => {
                    let alive = farm.processes.iter().filter_map(|process| process.alive.as_ref());
                    // A filter that loads while its host is frozen is late.
                    let is_in_time = |alive: &Alive| alive.has_asked || options.faults.is_empty();
                    let speaks = event.is_none()
                        && setup.is_patient()
                        && alive.filter(|it| it.seat == seat).any(|it| !it.silent && is_in_time(it));
                    if let Err(what) = farm.watch.end_by_will(seat, why, speaks) {
                        watch.fail(format!("{id}: {what}"));
                    }
                    let is_it = |process: &Process| process.alive.as_ref().is_some_and(|it| it.seat == seat);
                    if let Some(place) = farm.processes.iter().position(is_it) {
                        let mut ways = Ways { post, options, farm: setup, builder, session, own };
                        farm.kill(place, &mut ways);
                    }
                }
            }
        }
        let present = farm.dispatcher.present();
        while let Some(give) = farm.dispatcher.poll_transmit(own) {
            let event = farm.dispatcher.event(give.ticket).map(|event| event.id);
            let is_it = |process: &Process| process.alive.as_ref().is_some_and(|it| it.seat == give.seat);
            let place = farm.processes.iter().position(is_it);
            if let Some(event) = event
                && let Err(what) = farm.watch.give(setup, event, give.seat, present)
            {
                watch.fail(format!("{id}: {what}"));
            }
            // It is also sent to a processor that is gone, because the dispatcher does not know yet.
            if let (Some(event), Some(place)) = (event, place) {
                let life = farm.processes[place].life;
                let turn = FarmTurn::Down(place, life, give.ticket, event);
                post.plan(now + setup.way, Happening::Farm(builder, session, turn));
            }
        }
        let counts = farm.dispatcher.counts();
        for broken in [check_counts(&counts, farm.dispatcher.held()), farm.watch.check_stale(&counts)] {
            if let Err(what) = broken {
                watch.fail(format!("{id}: {what}"));
            }
        }
        let deadline =
            farm.dispatcher.poll_timeout().map(|deadline| node.host.common_time(deadline.at).max(now));
        if deadline != farm.wake_at {
            farm.wake_at = deadline;
            if let Some(at) = deadline {
                post.plan(at, Happening::Farm(builder, session, FarmTurn::Wake(at)));
            }
        }
        for (event, decision) in judged {
            self.write_soon(builder, event, decision);
        }
    }
}

impl Watch {
    /// Checks that each event has exactly one verdict in a builder's session, which is that of the filter if it can
    /// judge the event.
    fn see_verdict(
        &mut self,
        options: &Options,
        (builder, session): (NodeId, SessionId),
        event: EventId,
        verdict: Decision,
    ) {
        if !self.verdicts.insert((builder, session, event)) {
            self.fail(format!("{builder} has two verdicts of event {event} in session {session}"));
        }
        if !self.quarantined.contains(&event) && verdict != decide(options, event) {
            self.fail(format!(
                "the verdict of event {event} at {builder} is {verdict:?}, which no filter has said"
            ));
        }
    }
}
