//! The cluster: an event manager, readout units and builders as in a real system, with simulated surroundings.
//!
//! The cluster executes the entries of an agenda in chronological order. After each entry the machine concerned is drained, as the
//! contract of the roles requires, and examined by the checker.

mod builders;
mod consumers;
mod explain;
mod farm;
mod feeds;
mod links;
mod machines;
mod manager;
mod operator;
mod outputs;
mod post;
mod preprocessing;
mod readouts;
mod shelf;
mod supervision;
mod turns;
mod uploads;
mod windows;

use crate::check::{self, Failure, Report, Watch};
use crate::disk::Disks;
use crate::log::{Line, Turn};
use crate::options::{FaultKind, Options};
use crate::source::{DefectCounts, SimSource, SourcePlan, plan_sources};
use builders::BuilderNode;
use feeds::Programs;
use manager::ManagerNode;
use outputs::OutputSide;
use post::{FarmTurn, Happening, Host, Post};
use readouts::ReadoutNode;
use sheaf_protocol::ledger::{Ledger, NodeBooks};
use sheaf_protocol::liveness::LinkStatus;
use sheaf_wire::{Nanos, NodeId, Role, RunNumber, SourceId, Timestamp};
use supervision::Supervision;

pub(crate) const RUN: RunNumber = RunNumber(1);

/// A deliberate error to test the checker. It occurs once, unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A disk reports an event as written that it has not written.
    ForgetWrite,
    /// A disk writes an event twice.
    WriteTwice,
    /// A disk writes a wrong fragment.
    FlipTag,
    /// An event is not written to one of its streams.
    ForgetStream,
    /// A release reaches its readout unit without its content.
    ForgetRelease,
    /// An answer loses a fragment on its way.
    LoseFragment,
    /// An answer's super-fragments are swapped.
    SwapEvents,
    /// A builder reports one fragment more than an event has.
    LieAboutFragments,
    /// A request for windows asks for another one.
    MoveWindow,
    /// No builder receives the message that its session has ended.
    NeverFence,
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    options: Options,
    post: Post,
    manager: ManagerNode,
    supervision: Option<Supervision>,
    readouts: Vec<ReadoutNode>,
    builders: Vec<BuilderNode>,
    outputs: Vec<OutputSide>,
    sources: Vec<SimSource>,
    programs: Programs,
    defects: DefectCounts,
    disks: Disks,
    watch: Watch,
    has_begun: bool,
    steps: u64,
    /// Time by which the run must have ended.
    deadline: Timestamp,
}

/// Number of steps between two comparisons with their bound, which takes as long as a step.
const STEPS_BETWEEN_CHECKS: u64 = 64;

impl Cluster {
    /// Creates a cluster before the start of its run.
    ///
    /// # Panics
    /// If the options do not [validate](Options::validate).
    #[must_use]
    pub fn new(options: Options) -> Self {
        if let Err(rule) = options.validate() {
            panic!("options break a rule: {rule}\n{options:#?}");
        }
        let mut post = Post::new(&options);
        let SourcePlan { sources, defects, violation } = plan_sources(&options);
        let mut watch = Watch::default();
        watch.violation = violation;
        for (index, fault) in options.faults.iter().enumerate() {
            post.plan(fault.at, Happening::Fault(index));
        }
        post.plan(options.faults_until, Happening::Healed);
        for at in &options.stops {
            post.plan(*at, Happening::Stop);
        }
        if let Some(at) = options.held_until {
            post.plan(at, Happening::Release);
        }
        for pause in &options.pauses {
            post.plan(pause.at, Happening::Pause(true));
            post.plan(pause.ends_at(), Happening::Pause(false));
        }
        for exclusion in &options.exclusions {
            let source = SourceId(exclusion.source.into());
            post.plan(exclusion.at, Happening::Exclude(source, true));
            post.plan(exclusion.ends_at(), Happening::Exclude(source, false));
        }
        for exclusion in &options.node_exclusions {
            post.plan(exclusion.at, Happening::ExcludeNode(exclusion.node, true));
            post.plan(exclusion.ends_at(), Happening::ExcludeNode(exclusion.node, false));
        }
        Self {
            manager: ManagerNode::new(&options),
            supervision: Supervision::new(&options),
            readouts: (0..options.system.readouts).map(|index| ReadoutNode::new(&options, index)).collect(),
            builders: (0..options.system.builders).map(BuilderNode::new).collect(),
            outputs: (0..options.system.outputs).map(OutputSide::new).collect(),
            sources,
            programs: Programs::new(&options),
            defects,
            disks: Disks::new(options.routing()),
            watch,
            has_begun: false,
            steps: 0,
            deadline: options.deadline(),
            post,
            options,
        }
    }

    /// Switches all nodes on, once.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        for node in self.options.nodes() {
            self.begin_node(node);
        }
        self.begin_programs();
        self.begin_triggers();
    }

    /// Generates the text of the run log from now on.
    pub fn keep_log(&mut self) {
        self.post.log.keep_text();
    }

    /// Returns the text of the run log so far, if it was kept.
    pub fn take_log(&mut self) -> String {
        self.post.log.take_text()
    }

    /// Injects a deliberate error.
    pub fn sabotage(&mut self, sabotage: Sabotage) {
        self.post.sabotage = Some(sabotage);
    }

    /// Returns the options of the run.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the current instant.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.post.now
    }

    /// Returns the event manager's books.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.manager.machine.ledger()
    }

    /// Returns the books of a readout unit, unless it is down.
    #[must_use]
    pub fn readout_books(&self, index: u16) -> Option<NodeBooks> {
        self.readouts[usize::from(index)].unit.as_ref().map(sheaf_protocol::readout::ReadoutUnit::books)
    }

    /// Returns the books of a builder, unless it is down.
    #[must_use]
    pub fn builder_books(&self, index: u16) -> Option<NodeBooks> {
        self.builders[usize::from(index)].unit.as_ref().map(sheaf_protocol::builder::BuilderUnit::books)
    }

    /// Returns the counts of the farms of the builders that are up.
    #[must_use]
    pub fn farm_counts(&self) -> Vec<sheaf_protocol::farm::FarmCounts> {
        self.builders.iter().filter_map(|node| Some(node.farm.as_ref()?.counts())).collect()
    }

    /// Returns the books of an output node, unless it is down.
    #[must_use]
    pub fn output_books(&self, index: u16) -> Option<NodeBooks> {
        self.outputs[usize::from(index)].unit.as_ref().map(sheaf_protocol::output::OutputUnit::books)
    }

    /// Returns the disks of builders and output nodes.
    #[must_use]
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Returns the checker's observations so far.
    #[must_use]
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Injects a fault now.
    pub fn inject(&mut self, kind: FaultKind) {
        self.begin();
        self.happen_fault(kind);
    }

    /// Stops the run now, as the operator does.
    pub fn stop(&mut self) {
        self.begin();
        self.happen_stop();
    }

    /// Continues until `wanted` holds or the run is over. Returns whether it held.
    pub fn run_until(&mut self, mut wanted: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if wanted(self) {
                return true;
            }
            if !self.step() {
                return false;
            }
        }
    }

    /// Continues to the end of the run and checks it.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn run(&mut self) -> Result<Report, Box<Failure>> {
        while self.step() {}
        check::at_the_end(&check::Evidence {
            options: &self.options,
            watch: &self.watch,
            manager: &self.manager.machine,
            supervision: self.supervision.as_ref().map(|supervision| supervision.report(self.post.now)),
            readouts: self.readouts.iter().map(|node| node.unit.as_ref()).collect(),
            sent: self.readouts.iter().map(ReadoutNode::composed).collect(),
            builders: self.builders.iter().map(|node| node.unit.as_ref()).collect(),
            senders: self.builders.iter().map(|node| node.sender.as_ref()).collect(),
            outputs: self.outputs.iter().map(|node| node.unit.as_ref()).collect(),
            disks: &self.disks,
            defects: self.defects,
            network: self.post.network.counts(),
            links: &self.post.network,
            now: self.post.now,
            hash: self.post.log.hash(),
            lines: self.post.log.lines(),
            steps: self.steps,
        })
    }

    /// Does the same as [`Self::run`] at the end of a test.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn finish(mut self) -> Result<Report, Box<Failure>> {
        self.run()
    }

    /// Executes the next entry of the agenda. Returns false when the run is over, successful or not.
    pub fn step(&mut self) -> bool {
        self.begin();
        if self.watch.violation.is_some() || self.is_over() {
            return false;
        }
        self.steps += 1;
        let is_late = self.post.next_at().is_none_or(|at| at > self.deadline);
        let is_check_due = self.steps.is_multiple_of(STEPS_BETWEEN_CHECKS);
        if is_late || is_check_due && self.steps > self.options.steps_until(self.post.now) {
            let steps_max = self.options.steps_until(self.post.now);
            let what = format!("after {} steps, of which {steps_max} are its bound by now", self.steps);
            let text = format!("the run does not end {what}:\n{}", self.explain());
            self.watch.fail(text);
            return false;
        }
        if let Some(happening) = self.post.advance() {
            self.happen(happening);
        }
        if let Some(text) = self.post.codec_failure.take() {
            self.watch.fail(text);
        }
        true
    }

    /// Returns whether every machine has finished or is permanently gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.manager.machine.is_finished()
            && self.supervision.as_ref().is_none_or(Supervision::is_over)
            && self.readouts.iter().all(ReadoutNode::is_over)
            && self.builders.iter().all(BuilderNode::is_over)
            && self.outputs.iter().all(OutputSide::is_over)
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(node) = self.concerns(&happening)
            && self.host(node).stalled_until > self.post.now
        {
            let until = self.host(node).stalled_until;
            // A driver handles arrived messages before reports of links, and those before its timers.
            let after = match happening {
                Happening::Wake(..)
                | Happening::Link(..)
                | Happening::CloseFile(..)
                | Happening::Farm(_, _, FarmTurn::Wake(_)) => Nanos(2),
                Happening::LinkReport(..) => Nanos(1),
                _ => Nanos::ZERO,
            };
            self.post.postpone(until + after, happening);
            return;
        }
        self.note_end_of_stall(&happening);
        match happening {
            Happening::Arrival(to, message) => self.arrive(to, *message),
            Happening::Datagram(to, datagram) => self.post.take_datagram(to, *datagram),
            Happening::Link(node, peer, planned) => self.post.wake_link(node, peer, planned),
            Happening::LinkReport(node, session, peer, link) => {
                self.handle_link_report(node, session, peer, link);
            }
            Happening::Severed(from, to, link) => self.happen_severed(from, to, link),
            Happening::Wake(node, planned) => self.wake(node, planned),
            Happening::Processed(readout, session, number) => self.happen_processed(readout, session, number),
            Happening::CloseFile(node, session) => self.happen_close_file(node, session),
            Happening::Uploaded(node, session, number) => self.happen_uploaded(node, session, number),
            Happening::Looked(builder, session, number) => self.happen_looked(builder, session, number),
            Happening::Program(index, turn) => self.happen_program(index, turn),
            Happening::Windows(readout, session, source, event) => {
                self.happen_windows(readout, session, source, event);
            }
            Happening::Source(source) => self.happen_source(source),
            Happening::Trigger => self.happen_trigger(),
            Happening::TriggerLine => self.happen_trigger_line(),
            Happening::SupervisorStarts => self.happen_supervisor_start(),
            Happening::TriggersTaken => self.settle_manager(),
            Happening::Written(builder, session) => self.happen_written(builder, session),
            Happening::Decided(builder, session) => self.happen_decided(builder, session),
            Happening::OutputWritten(output, session) => self.happen_output_written(output, session),
            Happening::OutputDurable(output, session) => self.happen_output_durable(output, session),
            Happening::Judged(builder, session, event) => self.happen_judged(builder, session, event),
            Happening::Farm(builder, session, turn) => self.happen_in_farm(builder, session, turn),
            Happening::Fault(index) => self.happen_fault(self.options.faults[index].kind),
            Happening::Back(node) => self.begin_node(node),
            Happening::Stop => self.happen_stop(),
            Happening::Release => self.happen_release(),
            Happening::Pause(begins) => self.happen_pause(begins),
            Happening::Exclude(source, begins) => self.happen_exclude(source, begins),
            Happening::ExcludeNode(node, begins) => self.happen_exclude_node(node, begins),
            Happening::Healed => {
                self.post.network.heal();
                self.post.note(Line::Healed);
            }
        }
    }

    fn happen_fault(&mut self, kind: FaultKind) {
        let now = self.post.now;
        match kind {
            FaultKind::KillProcessor { builder, place } => self.kill_processor(builder, place),
            FaultKind::Crash { node, back_after } => self.crash(node, back_after.map(|after| now + after)),
            FaultKind::Stall { node, lasts } => {
                let stalls = self.stall(node, lasts);
                self.watch.faults.stalls += u64::from(stalls);
                if stalls {
                    self.watch.troubles.note_stall(node, now);
                }
            }
            FaultKind::Freeze { lasts } => self.freeze(lasts),
            FaultKind::Program { readout, place, fault } => {
                self.happen_program_fault(readout, place, fault);
            }
            FaultKind::Link { from, to, lasts, cut } => {
                let until = now + lasts;
                self.watch.faults.links += 1;
                self.post.note(Line::Link { from, to, cut, until });
                if cut {
                    self.post.network.cut(from, to, now, until);
                    self.plan_severance(from, to, lasts);
                } else {
                    self.post.network.clog(from, to, now, until);
                }
            }
        }
    }

    /// Stalls a node. Returns false if it is down.
    fn stall(&mut self, node: NodeId, lasts: Nanos) -> bool {
        let (until, is_up) = (self.post.now + lasts, self.is_up(node));
        if is_up {
            let now = self.post.now;
            let host = self.host_mut(node);
            host.stalled_until = host.stalled_until.max(until);
            host.stalled_since.get_or_insert(now);
            let (session, what) = (host.session, Turn::Stalled(host.stalled_until));
            self.post.note(Line::Node { node, session, what });
        }
        is_up
    }

    /// Takes note of the end of a stall, and reports it to the event manager, as its driver does, before the messages that arrived in the
    /// meantime.
    fn note_end_of_stall(&mut self, happening: &Happening) {
        if let Some(node) = self.concerns(happening)
            && let Some(stall) = self.host_mut(node).note_end_of_stall()
            && node == NodeId::MANAGER
        {
            self.manager.machine.handle_stall(stall);
        }
    }

    /// Stalls all nodes.
    fn freeze(&mut self, lasts: Nanos) {
        self.watch.faults.freezes += 1;
        self.watch.troubles.frozen.get_or_insert(self.post.now);
        for node in self.options.nodes() {
            self.stall(node, lasts);
        }
    }

    fn crash(&mut self, node: NodeId, back_at: Option<Timestamp>) {
        let crashed = match node.role {
            Role::Readout => self.readouts[usize::from(node.index)].crash(),
            Role::Builder => self.builders[usize::from(node.index)].crash(),
            Role::Output => self.outputs[usize::from(node.index)].crash(),
            Role::Manager | Role::Mirror => false,
        };
        // A node that is already down, or has finished, has no state to lose.
        if !crashed {
            return;
        }
        self.watch.troubles.note_crash(node, self.post.now);
        match node.role {
            Role::Readout => {
                self.watch.faults.readout_crashes += 1;
                self.lose_programs(usize::from(node.index));
            }
            Role::Output => {
                self.watch.faults.output_crashes += 1;
                let output = &self.outputs[usize::from(node.index)];
                self.disks.cut(node, output.host.session, output.durable());
            }
            _ => self.watch.faults.builder_crashes += 1,
        }
        self.post.drop_links(node);
        let host = self.host_mut(node);
        host.go_down();
        host.is_gone = back_at.is_none();
        let session = host.session;
        self.post.note(Line::Node { node, session, what: Turn::Crashed });
        self.change_links(node, LinkStatus::Down);
        if let Some(at) = back_at {
            self.post.plan(at, Happening::Back(node));
        }
    }

    fn host(&self, node: NodeId) -> &Host {
        match node.role {
            Role::Manager => &self.manager.host,
            Role::Readout => &self.readouts[usize::from(node.index)].host,
            Role::Builder => &self.builders[usize::from(node.index)].host,
            Role::Output => &self.outputs[usize::from(node.index)].host,
            Role::Mirror => unreachable!("a simulated cluster has no mirrors"),
        }
    }

    fn host_mut(&mut self, node: NodeId) -> &mut Host {
        match node.role {
            Role::Manager => &mut self.manager.host,
            Role::Readout => &mut self.readouts[usize::from(node.index)].host,
            Role::Builder => &mut self.builders[usize::from(node.index)].host,
            Role::Output => &mut self.outputs[usize::from(node.index)].host,
            Role::Mirror => unreachable!("a simulated cluster has no mirrors"),
        }
    }
}

impl Cluster {
    /// Returns the node whose stall delays an entry.
    fn concerns(&self, happening: &Happening) -> Option<NodeId> {
        let builder = |index: usize| NodeId::builder(index_u16(index));
        match happening {
            Happening::Arrival(node, _)
            | Happening::Datagram(node, _)
            | Happening::Link(node, ..)
            | Happening::LinkReport(node, ..)
            | Happening::Wake(node, _)
            | Happening::CloseFile(node, _)
            | Happening::Uploaded(node, ..) => Some(*node),
            // Programs are separate processes.
            Happening::Source(source) if self.is_fed(*source) => None,
            Happening::Program(index, turn) => Self::program_waits_for(turn, self.readout_of_program(*index)),
            Happening::Source(source) => Some(NodeId::readout(index_u16(self.sources[*source].readout))),
            Happening::Processed(index, ..) | Happening::Windows(index, ..) => {
                Some(NodeId::readout(index_u16(*index)))
            }
            // Consumers are separate processes.
            Happening::Looked(..) => None,
            Happening::Written(index, _) | Happening::Decided(index, _) | Happening::Judged(index, ..) => {
                Some(builder(*index))
            }
            Happening::OutputWritten(index, _) | Happening::OutputDurable(index, _) => {
                Some(NodeId::output(index_u16(*index)))
            }
            // Processors are separate processes.
            Happening::Farm(_, _, FarmTurn::Down(..) | FarmTurn::Done(..)) => None,
            Happening::Farm(index, ..) => Some(builder(*index)),
            // The trigger supervisor is another host, and a thread of its own answers it.
            Happening::TriggerLine | Happening::SupervisorStarts => None,
            Happening::Trigger if self.supervision.is_some() => None,
            Happening::Trigger
            | Happening::TriggersTaken
            | Happening::Stop
            | Happening::Release
            | Happening::Pause(_)
            | Happening::Exclude(..)
            | Happening::ExcludeNode(..) => Some(NodeId::MANAGER),
            Happening::Fault(_) | Happening::Back(_) | Happening::Severed(..) | Happening::Healed => None,
        }
    }
}

fn index_u16(index: usize) -> u16 {
    u16::try_from(index).expect("options count nodes in 16 bits")
}
