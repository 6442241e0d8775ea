//! Programs that feed sources: the real machines of both sides, over connections that are ordered and end at any moment.

use super::post::{Happening, Post};
use super::turns::{Made, ProgramTurn, Up};
use super::{Cluster, RUN, index_u16};
use crate::check::feeds::Accepted;
use crate::log::{FeedTurn, FragmentFate, Line};
use crate::options::{FeedOptions, Options, ProgramFault};
use crate::payload::SimPayload;
use crate::source::Planned;
use sheaf_protocol::Identity;
use sheaf_protocol::feed::{Client, ClientEvent, ClientId, Server, ServerConfig, ServerEvent};
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_wire::feed::{FragmentsHead, FromReadout, Hello, Phase, Refusal};
use sheaf_wire::{ByteCount, Fragment, Nanos, NodeId, SourceId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time after which the event manager has learned that a program declines the start, where the network has no faults.
const DECLINED: Nanos = Nanos::from_millis(20);

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
    /// When a program declined the start.
    declined_at: Option<Timestamp>,
    has_declined: bool,
}

/// Fragments of a source that were received and not accepted.
#[derive(Debug, Default)]
struct Queue {
    fragments: VecDeque<Made>,
    /// Whether the program has gone or is back, for when all before it was accepted.
    news: VecDeque<bool>,
    end_noted: bool,
}

impl Queue {
    /// Creates the queue of a source that no program feeds yet.
    fn without_program() -> Self {
        Self { news: [true].into(), ..Self::default() }
    }
}

/// A program of the user.
#[derive(Debug)]
pub(super) struct Program {
    readout: usize,
    /// Its sources, as indices.
    sources: Vec<usize>,
    /// `None` while it is dead.
    client: Option<Client>,
    connection: Option<ClientId>,
    /// For each source: fragments that were sent and are kept, with their sequence numbers.
    kept: Vec<VecDeque<(u64, Made)>>,
    /// For each source: the last fragments that this session of the readout unit has accepted, for programs that repeat some.
    accepted: Vec<VecDeque<(u64, Made)>>,
    /// For each source: whether the next message repeats fragments that were received before.
    repeats: Vec<bool>,
    /// For each source: number of fragments made.
    made: Vec<u64>,
    stalled_until: Timestamp,
    /// Arrival of the last message in each direction.
    last: [Timestamp; 2],
    declines: bool,
    /// Whether it has sent more than it might, and is not refused yet.
    overdraws: bool,
}

/// All programs of a run.
#[derive(Debug, Default)]
pub(super) struct Programs {
    all: Vec<Program>,
    connections: u64,
    /// Connections that have lost what was on its way.
    cut: BTreeSet<ClientId>,
}

impl Programs {
    pub(super) fn new(options: &Options) -> Self {
        let Some(setup) = options.feed else { return Self::default() };
        let mut all = Vec::new();
        for index in 0..options.system.readouts * setup.programs {
            let readout = index / setup.programs;
            let first = readout * options.system.sources_per_readout;
            let numbers = first..first + options.system.sources_per_readout;
            let fed = numbers.filter(|number| setup.feeds(*number));
            let sources: Vec<usize> = fed
                .filter(|number| number % setup.programs == index % setup.programs)
                .map(usize::from)
                .collect();
            let count = sources.len();
            all.push(Program {
                readout: usize::from(readout),
                client: Some(client(&sources)),
                sources,
                connection: None,
                kept: vec![VecDeque::new(); count],
                accepted: vec![VecDeque::new(); count],
                repeats: vec![false; count],
                made: vec![0; count],
                stalled_until: Timestamp::ZERO,
                last: [Timestamp::ZERO; 2],
                declines: setup.declines && index == 0,
                overdraws: false,
            });
        }
        Self { all, ..Self::default() }
    }

    /// Returns the program that feeds a source, and the place of the source there.
    fn of(&self, source: usize) -> Option<(usize, usize)> {
        let place = |program: &Program| program.sources.iter().position(|it| *it == source);
        self.all.iter().enumerate().find_map(|(index, program)| Some((index, place(program)?)))
    }
}

fn id_of(source: usize) -> SourceId {
    SourceId(u32::from(index_u16(source)))
}

fn client(sources: &[usize]) -> Client {
    Client::new(Hello { sources: sources.iter().copied().map(id_of).collect(), name: "board".into() })
}

impl FeedSide {
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
            max_clients: usize::from(setup.programs) + 1,
        };
        Some(Self {
            server: Server::new(config, RUN, me.session),
            members: BTreeMap::new(),
            queues: sources.into_iter().map(|source| (source, Queue::without_program())).collect(),
            window_fragments: setup.window_fragments,
            was_complete: false,
            declined_at: None,
            has_declined: false,
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
    fn take_events(&mut self) -> Vec<(ClientId, Refusal)> {
        let mut refused = Vec::new();
        while let Some(event) = self.server.poll_event() {
            match event {
                ServerEvent::Joined { sources, .. } => {
                    for source in sources {
                        self.with_queue(source, |queue| queue.news.push_back(false));
                    }
                }
                ServerEvent::Gone(source) => self.with_queue(source, |queue| queue.news.push_back(true)),
                ServerEvent::Ended(_) => {}
                ServerEvent::Declined { .. } => self.has_declined = true,
                ServerEvent::Refused { client, refusal, .. } => refused.push((client, refusal)),
            }
        }
        refused
    }

    /// Handles a message of a program.
    fn receive(&mut self, client: ClientId, up: Up) -> Result<(), String> {
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
                let Ok(admission) = self.server.admit(client, &head) else { return Ok(()) };
                if fragments.len() != head.count as usize {
                    return Err(format!(
                        "{} fragments of source {} over the credit were admitted",
                        head.count, head.source
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
                    return Err(format!(
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
    /// Begins the side of a readout unit's life.
    pub(super) fn begin_feed(&mut self, index: usize, me: Identity) {
        let Self { readouts, options, post, .. } = self;
        let node = &mut readouts[index];
        node.feed = FeedSide::new(options, me, node.sources());
        let (Some(feed), Some(unit)) = (&node.feed, &mut node.unit) else { return };
        feed.sources().for_each(|source| unit.wait_for_source(source));
        unit.handle_waiting(post.now, true);
        self.watch.feeds.begin(me.node);
    }

    /// Checks that the run has not started without a readout unit that waits for its programs, and is heard, nor long after a program
    /// has declined it.
    pub(super) fn check_start(&mut self) {
        let Self { readouts, watch, options, post, .. } = self;
        let network = post.network.counts();
        let is_undisturbed =
            network.lost + network.clogged + network.reordered + watch.faults.injected() == 0;
        let recently = Nanos(options.times.peer.0 / 2);
        for node in readouts.iter() {
            let (id, is_first) = (node.host.node, node.host.session.0 == 1);
            let waits = node.feed.as_ref().is_some_and(|feed| !feed.was_complete);
            if waits && is_first && watch.lives.is_heard(post.now, NodeId::MANAGER, id, recently) {
                watch.fail(format!("the run has started at {}, and {id} waits for its programs", post.now));
            }
            let declined_at = node.feed.as_ref().and_then(|feed| feed.declined_at);
            if declined_at.is_some_and(|at| post.now.since(at) > DECLINED) && is_undisturbed {
                watch.fail(format!(
                    "the run has started at {}, and a program of {id} has declined it",
                    post.now
                ));
            }
        }
    }

    /// Starts all programs.
    pub(super) fn begin_programs(&mut self) {
        let Some(setup) = self.options.feed else { return };
        for index in 0..self.programs.all.len() {
            // Where one declines the start, the others are awaited until the event manager must have learned it.
            let after = if setup.declines && index > 0 { Nanos(2 * DECLINED.0) } else { Nanos::ZERO };
            let at = self.post.now + after + self.post.dice.exponential(setup.start);
            self.post.plan(at, Happening::Program(index, ProgramTurn::Connect));
        }
    }

    /// Returns the readout unit whose stall delays this turn of a program.
    pub(super) fn program_waits_for(turn: &ProgramTurn, readout: usize) -> Option<NodeId> {
        matches!(turn, ProgramTurn::Up(..)).then(|| NodeId::readout(index_u16(readout)))
    }

    pub(super) fn readout_of_program(&self, index: usize) -> usize {
        self.programs.all[index].readout
    }

    pub(super) fn is_fed(&self, source: usize) -> bool {
        self.programs.of(source).is_some()
    }

    pub(super) fn happen_program(&mut self, index: usize, turn: ProgramTurn) {
        let (readout, stalled_until) =
            (self.programs.all[index].readout, self.programs.all[index].stalled_until);
        if stalled_until > self.post.now && !matches!(turn, ProgramTurn::Up(..)) {
            return self.post.plan(stalled_until, Happening::Program(index, turn));
        }
        match turn {
            ProgramTurn::Up(client, up) => {
                let is_lost = self.programs.cut.contains(&client) && !matches!(up, Up::Left);
                let Some(feed) = &mut self.readouts[readout].feed else { return };
                if is_lost || !feed.members.contains_key(&client) {
                    return;
                }
                if let Err(what) = feed.receive(client, up) {
                    self.watch.fail(what);
                }
                self.work_feed(readout);
                self.settle_readout(readout);
            }
            ProgramTurn::Down(client, message) => {
                if self.programs.all[index].connection == Some(client) {
                    self.hear(index, message);
                }
            }
            ProgramTurn::Lost(client) => {
                if self.programs.all[index].connection == Some(client) {
                    self.end_connection(index);
                    self.connect_later(index);
                }
            }
            ProgramTurn::Connect => self.connect(index),
        }
    }

    fn connect_later(&mut self, index: usize) {
        if let Some(setup) = self.options.feed {
            self.post.plan(self.post.now + setup.retry, Happening::Program(index, ProgramTurn::Connect));
        }
    }

    fn connect(&mut self, index: usize) {
        let program = &mut self.programs.all[index];
        let node = &mut self.readouts[program.readout];
        let is_idle = program.sources.is_empty() || program.connection.is_some();
        if is_idle || program.client.is_none() || node.host.is_gone {
            return;
        }
        let Some(feed) = node.feed.as_mut().filter(|_| node.unit.is_some()) else {
            return self.connect_later(index);
        };
        self.programs.connections += 1;
        let id = ClientId(self.programs.connections);
        feed.members.insert(id, index);
        feed.server.handle_connection(id);
        program.connection = Some(id);
        if let Some(client) = &mut program.client {
            client.handle_connection();
        }
        let node = node.host.node;
        self.post.note(Line::Feed { node, program: index_u16(index), what: FeedTurn::Connected });
        self.work_feed(usize::from(node.index));
        self.drive(index);
    }

    /// Notes at the program that its connection has ended.
    fn end_connection(&mut self, index: usize) {
        let program = &mut self.programs.all[index];
        program.connection = None;
        if let Some(client) = &mut program.client {
            client.handle_disconnection();
        }
        for place in 0..program.sources.len() {
            let source = id_of(program.sources[place]);
            self.watch.feeds.note_end(source, program.made[place]);
        }
        let node = NodeId::readout(index_u16(program.readout));
        self.post.note(Line::Feed { node, program: index_u16(index), what: FeedTurn::Left });
    }

    /// Ends the connection of a program from its side. What is on its way may be lost.
    fn leave(&mut self, index: usize, is_lossy: bool) {
        let Some(id) = self.programs.all[index].connection else { return };
        if is_lossy {
            self.programs.cut.insert(id);
        }
        self.send_up(index, Up::Left);
        self.end_connection(index);
    }

    pub(super) fn happen_program_fault(&mut self, readout: u16, place: u16, fault: ProgramFault) {
        let Some(setup) = self.options.feed else { return };
        let index = usize::from(readout * setup.programs + place);
        let now = self.post.now;
        let Some(program) = self.programs.all.get_mut(index).filter(|program| program.client.is_some())
        else {
            return;
        };
        self.watch.faults.programs += 1;
        for source in &program.sources {
            self.watch.troubles.note_program(id_of(*source), now);
        }
        match fault {
            ProgramFault::Stalls { lasts } => program.stalled_until = program.stalled_until.max(now + lasts),
            ProgramFault::Leaves { is_lossy } => {
                if program.connection.is_some() {
                    self.leave(index, is_lossy);
                    self.connect_later(index);
                }
            }
            ProgramFault::Dies { back_after, is_lossy } => {
                self.leave(index, is_lossy);
                let program = &mut self.programs.all[index];
                if !setup.keeps {
                    program.client = Some(client(&program.sources));
                }
                program.stalled_until = now + back_after;
                self.connect_later(index);
            }
            ProgramFault::Overdraws => self.overdraw(index, setup),
        }
    }

    /// Sends one message over the credit.
    fn overdraw(&mut self, index: usize, setup: FeedOptions) {
        let program = &mut self.programs.all[index];
        let is_stalled = program.stalled_until > self.post.now;
        let Some(client) = program.client.as_ref().filter(|client| client.is_welcomed() && !is_stalled)
        else {
            return;
        };
        let Some(place) = (0..program.sources.len()).find(|place| !client.has_ended(*place)) else { return };
        let count = u32::try_from(setup.window_fragments + 1).unwrap_or(u32::MAX);
        let head =
            FragmentsHead { source: id_of(program.sources[place]), count, first: client.sent(place).0 };
        program.overdraws = true;
        self.send_up(index, Up::Fragments(head, Vec::new()));
    }

    fn way(&mut self, index: usize, direction: usize) -> Timestamp {
        let mean = self.options.feed.map_or(Nanos::ZERO, |setup| setup.way);
        let at = self.post.now + self.post.dice.exponential(mean);
        let last = &mut self.programs.all[index].last[direction];
        *last = at.max(*last);
        *last
    }

    fn send_up(&mut self, index: usize, up: Up) {
        if let Some(id) = self.programs.all[index].connection {
            let at = self.way(index, 0);
            self.post.plan(at, Happening::Program(index, ProgramTurn::Up(id, up)));
        }
    }

    /// A program handles a message.
    fn hear(&mut self, index: usize, message: FromReadout) {
        let Self { programs, watch, options, .. } = self;
        let (program, Some(setup)) = (&mut programs.all[index], options.feed) else { return };
        let Some(client) = &mut program.client else { return };
        if let Err(what) = client.handle_input(message) {
            return watch.fail(format!("program {index} refuses its readout unit: {what}"));
        }
        let mut refused = None;
        while let Some(event) = client.poll_event() {
            let place_of = |source: SourceId| program.sources.iter().position(|it| id_of(*it) == source);
            match event {
                ClientEvent::Joined { resumed, .. } => {
                    for (kept, accepted) in program.kept.iter_mut().zip(&mut program.accepted) {
                        if !resumed {
                            accepted.clear();
                            // The readout unit has nothing: what it did not accept is sent again, from number 0 on.
                            (0..).zip(kept.iter_mut()).for_each(|(number, (sequence, _))| *sequence = number);
                        }
                    }
                    if std::mem::take(&mut program.declines) && client.phase() == Phase::Waiting {
                        client.handle_decline("not ready".into());
                    }
                }
                ClientEvent::Resume { source, .. } => {
                    if let Some(place) = place_of(source) {
                        program.repeats[place] = setup.repeats > 0;
                    }
                }
                ClientEvent::Accepted { source, fragments } => {
                    if let Some(place) = place_of(source) {
                        let (kept, accepted) = (&mut program.kept[place], &mut program.accepted[place]);
                        while let Some(first) = kept.pop_front_if(|(sequence, _)| *sequence < fragments) {
                            accepted.push_back(first);
                        }
                        let forgotten = (accepted.len() as u64).saturating_sub(setup.repeats);
                        accepted.drain(..usize::try_from(forgotten).unwrap_or(0));
                    }
                    if let Err(what) = watch.feeds.check_known(source, fragments) {
                        watch.fail(what);
                    }
                }
                ClientEvent::Phase(_) => {}
                ClientEvent::Refused { refusal, .. } => refused = Some(refusal),
            }
        }
        match refused {
            Some(refusal) => self.handle_refusal(index, refusal),
            None => self.drive(index),
        }
    }

    fn handle_refusal(&mut self, index: usize, refusal: Refusal) {
        let overdrew = std::mem::take(&mut self.programs.all[index].overdraws);
        let is_right = match refusal {
            Refusal::OverCredit => overdrew,
            // The readout unit may not have seen yet that the connection before has ended, or the program that it lived on.
            Refusal::SourceTaken | Refusal::Full | Refusal::RunEnded => true,
            _ => false,
        };
        if !is_right {
            self.watch.fail(format!("program {index} was refused: {refusal}"));
        }
        let node = NodeId::readout(index_u16(self.programs.all[index].readout));
        let what = FeedTurn::Refused(refusal);
        self.post.note(Line::Feed { node, program: index_u16(index), what });
        self.leave(index, false);
        if refusal != Refusal::RunEnded {
            self.connect_later(index);
        }
    }

    /// Lets a program send what it may.
    fn drive(&mut self, index: usize) {
        for place in 0..self.programs.all[index].sources.len() {
            self.send_again(index, place);
            let source = self.programs.all[index].sources[place];
            self.schedule_source(source);
        }
        self.send_control(index);
    }

    fn send_control(&mut self, index: usize) {
        while let Some(message) = self.programs.all[index].client.as_mut().and_then(Client::poll_transmit) {
            self.send_up(index, Up::Control(message));
        }
    }

    /// Sends kept fragments that the readout unit has not received. After a reconnection, some before them may be repeated, which the
    /// readout unit passes over.
    fn send_again(&mut self, index: usize, place: usize) {
        let repeats = self.options.feed.map_or(0, |setup| setup.repeats);
        let program = &mut self.programs.all[index];
        let Some(client) = &mut program.client else { return };
        let (next, credit) = (client.sent(place).0, client.credit(place));
        let (mut bytes, mut fragments) = (0, Vec::new());
        for (_, made) in program.kept[place].iter().filter(|(sequence, _)| *sequence >= next) {
            bytes += u64::from(made.1.bytes);
            if fragments.len() as u64 == credit.fragments || bytes > credit.bytes.0 {
                bytes -= u64::from(made.1.bytes);
                break;
            }
            fragments.push(*made);
        }
        let may_repeat = client.is_welcomed() && client.phase() == Phase::Running && !client.has_ended(place);
        let before = if program.repeats[place] && may_repeat { repeats } else { 0 };
        let earlier = program.accepted[place]
            .iter()
            .chain(&program.kept[place])
            .filter(|(sequence, _)| (next.saturating_sub(before)..next).contains(sequence));
        let earlier: Vec<Made> = earlier.map(|(_, made)| *made).collect();
        if fragments.is_empty() && earlier.is_empty() {
            return;
        }
        program.repeats[place] = false;
        client.handle_sent(place, fragments.len() as u64, ByteCount(bytes));
        let first = next - earlier.len() as u64;
        let all: Vec<Made> = earlier.into_iter().chain(fragments).collect();
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let head = FragmentsHead { source: id_of(program.sources[place]), count, first };
        self.send_up(index, Up::Fragments(head, all));
    }

    /// Returns whether a source may make its next fragment. A source that has made all is ended.
    pub(super) fn may_make(&mut self, source: usize) -> bool {
        let Some((index, place)) = self.programs.of(source) else { return false };
        let program = &mut self.programs.all[index];
        let Some(client) = &mut program.client else { return false };
        let (next, credit) = (client.sent(place).0, client.credit(place));
        let is_behind = program.kept[place].back().is_some_and(|(sequence, _)| *sequence >= next);
        if !client.is_welcomed() || client.phase() != Phase::Running || is_behind {
            return false;
        }
        match self.sources[source].script.front() {
            Some(planned) => credit.fragments > 0 && credit.bytes.0 >= u64::from(planned.bytes),
            None => {
                client.handle_end(place, next);
                self.send_control(index);
                false
            }
        }
    }

    /// A fed source makes a fragment, and its program sends it.
    pub(super) fn make_fed(&mut self, source: usize, planned: Planned) {
        let Some((index, place)) = self.programs.of(source) else { return };
        let keeps = self.options.feed.is_some_and(|setup| setup.keeps);
        let program = &mut self.programs.all[index];
        let Some(client) = &mut program.client else { return };
        let first = client.handle_sent(place, 1, ByteCount(planned.bytes.into()));
        let made = (program.made[place], planned);
        program.made[place] += 1;
        if keeps {
            program.kept[place].push_back((first, made));
        }
        let head = FragmentsHead { source: id_of(source), count: 1, first };
        self.send_up(index, Up::Fragments(head, vec![made]));
        self.schedule_source(source);
    }

    /// Returns the time until which the program of a source is stalled.
    pub(super) fn fed_stalled_until(&self, source: usize) -> Timestamp {
        self.programs.of(source).map_or(Timestamp::ZERO, |(index, _)| self.programs.all[index].stalled_until)
    }

    /// The programs of a readout unit that has crashed will see it.
    pub(super) fn lose_programs(&mut self, readout: usize) {
        for index in 0..self.programs.all.len() {
            if self.programs.all[index].readout == readout
                && let Some(id) = self.programs.all[index].connection
            {
                let at = self.way(index, 1);
                self.post.plan(at, Happening::Program(index, ProgramTurn::Lost(id)));
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
        for (client, refusal) in feed.take_events() {
            watch.feeds.note_refusal(client, refusal);
        }
        if feed.has_declined && !had_declined && !is_started {
            unit.handle_decline(post.now);
            feed.declined_at = Some(post.now);
            watch.feeds.declined.insert(node.host.node);
        }
        if !is_started && !is_closed {
            let is_complete =
                feed.server.is_complete(|source| options.is_optional(u16::try_from(source.0).unwrap_or(0)));
            feed.was_complete |= is_complete;
            unit.handle_waiting(post.now, !is_complete);
        }
        news(feed, unit, post.now);
        let mut down = Vec::new();
        for (client, program) in feed.members.clone() {
            while let Some(message) = feed.server.poll_transmit(client) {
                down.push((client, program, message));
            }
        }
        for (client, program, message) in down {
            let at = self.way(program, 1);
            self.post.plan(at, Happening::Program(program, ProgramTurn::Down(client, message)));
        }
    }

    /// Offers the readout unit what was received.
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
            watch.held_back += 1;
            watch.troubles.full.entry(id).or_insert(post.now);
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

    /// Ends a source whose program has ended it, when all before was accepted.
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

/// Reports programs that have gone or are back, when all before was accepted.
fn news(feed: &mut FeedSide, unit: &mut ReadoutUnit<SimPayload>, now: Timestamp) {
    for (source, queue) in &mut feed.queues {
        while let Some(gone) = queue.fragments.is_empty().then(|| queue.news.pop_front()).flatten() {
            unit.handle_source_gone(now, *source, gone);
        }
    }
}

fn fragment(options: &Options, post: &Post, planned: &Planned) -> Fragment<SimPayload> {
    let payload = SimPayload::new(options.seed, planned.event, planned.source, planned.bytes);
    let checksum = payload.checksum();
    Fragment {
        event: planned.event,
        source: planned.source,
        time: post.now,
        checksum,
        processed: false,
        payload,
    }
}
