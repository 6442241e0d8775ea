//! Programs that feed sources: connections, kept fragments, and faults.

use super::id_of;
use super::records::Recorder;
use crate::cluster::post::Happening;
use crate::cluster::turns::{Made, ProgramTurn, Up};
use crate::cluster::{Cluster, index_u16};
use crate::log::{FeedTurn, Line};
use crate::options::{FeedOptions, Options, ProgramFault};
use crate::source::Planned;
use sheaf_protocol::feed::{Client, ClientEvent, ClientId};
use sheaf_wire::feed::{FragmentsHead, FromClient, FromReadout, Hello, Phase, Refusal};
use sheaf_wire::{ByteCount, Nanos, NodeId, SourceId, Timestamp};
use std::collections::{BTreeSet, VecDeque};

/// Time after which the other programs are started if one declines the start. The event manager has learned that by then, unless
/// the network has faults.
const AFTER_DECLINE: Nanos = Nanos::from_millis(40);

/// A program that feeds sources of a readout unit.
#[derive(Debug)]
pub(in crate::cluster) struct Program {
    pub(super) readout: usize,
    /// Indices of its sources.
    pub(super) sources: Vec<usize>,
    /// `None` while it is dead.
    pub(super) client: Option<Client>,
    pub(super) connection: Option<ClientId>,
    /// Sent fragments that are kept, by source, with their sequence numbers.
    kept: Vec<VecDeque<(u64, Made)>>,
    /// The last accepted fragments of this session of the readout unit, by source. Some programs repeat them.
    accepted: Vec<VecDeque<(u64, Made)>>,
    /// Whether the next message repeats received fragments, by source.
    repeats: Vec<bool>,
    /// Number of fragments made, by source.
    made: Vec<u64>,
    pub(super) stalled_until: Timestamp,
    /// Arrival of the last message in each direction.
    last: [Timestamp; 2],
    declines: bool,
    /// Whether the readout unit has reported the end of a source on this connection or was sent it, by source.
    end_known: Vec<bool>,
    /// Whether it loses its connection when it has sent the end of a source.
    loses_end: bool,
    /// Whether it has exceeded its credit and has not been refused yet.
    overdraws: bool,
    /// Run records, by source.
    pub(super) recorders: Vec<Recorder>,
}

/// All programs of a run.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Programs {
    pub(super) all: Vec<Program>,
    connections: u64,
    /// Connections whose messages in flight are lost.
    cut: BTreeSet<ClientId>,
}

impl Programs {
    pub(in crate::cluster) fn new(options: &Options) -> Self {
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
                client: Some(client(setup, &sources)),
                sources,
                connection: None,
                kept: vec![VecDeque::new(); count],
                accepted: vec![VecDeque::new(); count],
                repeats: vec![false; count],
                made: vec![0; count],
                stalled_until: Timestamp::ZERO,
                last: [Timestamp::ZERO; 2],
                declines: setup.declines && index == 0,
                end_known: vec![false; count],
                loses_end: setup.loses_end,
                overdraws: false,
                recorders: vec![Recorder::default(); count],
            });
        }
        Self { all, ..Self::default() }
    }

    /// Returns the program that feeds a source, and the position of the source in it.
    fn of(&self, source: usize) -> Option<(usize, usize)> {
        let place = |program: &Program| program.sources.iter().position(|it| *it == source);
        self.all.iter().enumerate().find_map(|(index, program)| Some((index, place(program)?)))
    }
}

fn client(setup: FeedOptions, sources: &[usize]) -> Client {
    Client::new(Hello {
        sources: sources.iter().copied().map(id_of).collect(),
        name: "board".into(),
        late_records: setup.records.is_some_and(|records| records.late),
    })
}

impl Cluster {
    /// Starts all programs.
    pub(in crate::cluster) fn begin_programs(&mut self) {
        let Some(setup) = self.options.feed else { return };
        for index in 0..self.programs.all.len() {
            let after = if setup.declines && index > 0 { AFTER_DECLINE } else { Nanos::ZERO };
            let at = self.post.now + after + self.post.dice.exponential(setup.start);
            self.post.plan(at, Happening::Program(index, ProgramTurn::Connect));
        }
    }

    /// Returns the readout unit whose stall delays this turn of a program.
    pub(in crate::cluster) fn program_waits_for(turn: &ProgramTurn, readout: usize) -> Option<NodeId> {
        matches!(turn, ProgramTurn::Up(..)).then(|| NodeId::readout(index_u16(readout)))
    }

    pub(in crate::cluster) fn readout_of_program(&self, index: usize) -> usize {
        self.programs.all[index].readout
    }

    pub(in crate::cluster) fn is_fed(&self, source: usize) -> bool {
        self.programs.of(source).is_some()
    }

    pub(in crate::cluster) fn happen_program(&mut self, index: usize, turn: ProgramTurn) {
        let (readout, stalled_until) =
            (self.programs.all[index].readout, self.programs.all[index].stalled_until);
        if stalled_until > self.post.now && !matches!(turn, ProgramTurn::Up(..)) {
            return self.post.postpone(stalled_until, Happening::Program(index, turn));
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
                    self.handle_message(index, message);
                }
            }
            ProgramTurn::Lost(client) => {
                if self.programs.all[index].connection == Some(client) {
                    self.end_connection(index);
                    self.connect_later(index);
                }
            }
            ProgramTurn::Connect => self.connect(index),
            ProgramTurn::Record(place) => self.make_record(index, place),
        }
    }

    pub(super) fn connect_later(&mut self, index: usize) {
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
        program.end_known.fill(false);
        program.recorders.iter_mut().for_each(|recorder| recorder.note_connection(self.post.now));
        if let Some(client) = &mut program.client {
            client.handle_connection();
        }
        let node = node.host.node;
        self.post.note(Line::Feed { node, program: index_u16(index), what: FeedTurn::Connected });
        self.work_feed(usize::from(node.index));
        self.drive(index);
    }

    /// Records at the program that its connection has ended.
    pub(super) fn end_connection(&mut self, index: usize) {
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

    /// Ends the connection of a program from its side. Messages in flight may be lost.
    pub(super) fn leave(&mut self, index: usize, is_lossy: bool) {
        let Some(id) = self.programs.all[index].connection else { return };
        if is_lossy {
            self.programs.cut.insert(id);
        }
        self.send_up(index, Up::Left);
        self.end_connection(index);
    }

    pub(in crate::cluster) fn happen_program_fault(&mut self, readout: u16, place: u16, fault: ProgramFault) {
        let Some(setup) = self.options.feed else { return };
        let index = usize::from(readout * setup.programs + place);
        let now = self.post.now;
        if self.programs.all.get(index).is_none_or(|program| program.client.is_none()) {
            return;
        }
        self.note_fault(index);
        let program = &mut self.programs.all[index];
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
                    program.client = Some(client(setup, &program.sources));
                    // It knows no more which records it has sent.
                    program.recorders.iter_mut().for_each(Recorder::forget);
                }
                program.stalled_until = now + back_after;
                self.connect_later(index);
            }
            ProgramFault::Overdraws => self.overdraw(index, setup),
        }
    }

    /// Records a fault of a program as a cause for missing fragments of its sources.
    fn note_fault(&mut self, index: usize) {
        self.watch.faults.programs += 1;
        for source in &self.programs.all[index].sources {
            self.watch.troubles.note_program(id_of(*source), self.post.now);
        }
    }

    /// Sends one message beyond the credit.
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

    /// Returns the arrival of a message that is sent now.
    pub(super) fn arrival(&mut self, index: usize, direction: usize) -> Timestamp {
        let mean = self.options.feed.map_or(Nanos::ZERO, |setup| setup.way);
        let at = self.post.now + self.post.dice.exponential(mean);
        let last = &mut self.programs.all[index].last[direction];
        *last = at.max(*last);
        *last
    }

    fn send_up(&mut self, index: usize, up: Up) {
        if let Some(id) = self.programs.all[index].connection {
            let at = self.arrival(index, 0);
            self.post.plan(at, Happening::Program(index, ProgramTurn::Up(id, up)));
        }
    }

    /// Handles a message to a program.
    fn handle_message(&mut self, index: usize, message: FromReadout) {
        let Self { programs, watch, options, .. } = self;
        let (program, Some(setup)) = (&mut programs.all[index], options.feed) else { return };
        let Some(client) = &mut program.client else { return };
        if let FromReadout::Welcome(welcome) = &message {
            program.end_known = welcome.sources.iter().map(|progress| progress.ended).collect();
        }
        if let Err(what) = client.handle_input(message) {
            return watch.fail(format!("program {index} refuses its readout unit: {what}"));
        }
        let (mut refused, mut answers) = (None, Vec::new());
        while let Some(event) = client.poll_event() {
            let place_of = |source: SourceId| program.sources.iter().position(|it| id_of(*it) == source);
            match event {
                ClientEvent::Joined { resumed, .. } => {
                    for (kept, accepted) in program.kept.iter_mut().zip(&mut program.accepted) {
                        if !resumed {
                            accepted.clear();
                            // The readout unit has no fragments: kept ones are sent again, with numbers from 0.
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
                ClientEvent::Recorded(answer) => answers.push(answer),
                ClientEvent::Refused { refusal, .. } => refused = Some(refusal),
            }
        }
        answers.into_iter().for_each(|answer| self.handle_recorded(index, answer));
        match refused {
            Some(refusal) => self.handle_refusal(index, refusal),
            None => self.drive(index),
        }
    }

    fn handle_refusal(&mut self, index: usize, refusal: Refusal) {
        let overdrew = std::mem::take(&mut self.programs.all[index].overdraws);
        let is_right = match refusal {
            Refusal::OverCredit => overdrew,
            // The readout unit may not have received yet that the previous connection has ended, or that of another program.
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

    /// Lets a program send within its credit.
    fn drive(&mut self, index: usize) {
        for place in 0..self.programs.all[index].sources.len() {
            self.send_again(index, place);
            let source = self.programs.all[index].sources[place];
            self.schedule_source(source);
        }
        self.plan_records(index);
        self.send_control(index);
    }

    pub(super) fn send_control(&mut self, index: usize) {
        let mut has_ended = false;
        while let Some(message) = self.programs.all[index].client.as_mut().and_then(Client::poll_transmit) {
            if let FromClient::End { source, .. } = &message {
                let program = &mut self.programs.all[index];
                let place = program.sources.iter().position(|it| id_of(*it) == *source);
                place.into_iter().for_each(|place| program.end_known[place] = true);
                has_ended = true;
            }
            self.send_up(index, Up::Control(message));
        }
        if has_ended && std::mem::take(&mut self.programs.all[index].loses_end) {
            self.note_fault(index);
            self.leave(index, true);
            self.connect_later(index);
        }
    }

    /// Sends kept fragments that the readout unit has not received. After a reconnection some earlier ones may be repeated,
    /// which the readout unit skips.
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
        let may_repeat = client.is_welcomed() && takes(client.phase()) && !client.has_ended(place);
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

    /// Returns whether a source may make its next fragment. Ends a source that has made all.
    pub(in crate::cluster) fn may_make(&mut self, source: usize) -> bool {
        let Some((index, place)) = self.programs.of(source) else { return false };
        let program = &mut self.programs.all[index];
        let Some(client) = &mut program.client else { return false };
        let (next, credit) = (client.sent(place).0, client.credit(place));
        let is_behind = program.kept[place].back().is_some_and(|(sequence, _)| *sequence >= next);
        if !client.is_welcomed() || !takes(client.phase()) || is_behind {
            return false;
        }
        match self.sources[source].script.front() {
            Some(planned) => credit.fragments > 0 && credit.bytes.0 >= u64::from(planned.bytes),
            None => {
                client.handle_end(place, next);
                self.send_control(index);
                if !self.programs.all[index].end_known[place] {
                    self.watch
                        .fail(format!("program {index} does not send the end of source {source} again"));
                }
                false
            }
        }
    }

    /// Makes a fragment of a fed source, which its program sends.
    pub(in crate::cluster) fn make_fed(&mut self, source: usize, planned: Planned) {
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
    pub(in crate::cluster) fn fed_stalled_until(&self, source: usize) -> Timestamp {
        self.programs.of(source).map_or(Timestamp::ZERO, |(index, _)| self.programs.all[index].stalled_until)
    }

    /// Disconnects the programs of a readout unit that has crashed.
    pub(in crate::cluster) fn lose_programs(&mut self, readout: usize) {
        for index in 0..self.programs.all.len() {
            if self.programs.all[index].readout == readout
                && let Some(id) = self.programs.all[index].connection
            {
                let at = self.arrival(index, 1);
                self.post.plan(at, Happening::Program(index, ProgramTurn::Lost(id)));
            }
        }
    }
}

/// Returns whether a readout unit takes fragments. During a pause it does: events that were triggered before are built.
fn takes(phase: Phase) -> bool {
    matches!(phase, Phase::Running | Phase::Paused)
}
