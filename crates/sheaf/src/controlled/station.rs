//! The threads that talk to controllers: one listens, one steers the run, and two serve the controller that has called last.

use super::line::Line;
use super::switching::Switching;
use crate::console::message::Message;
use crate::excluding::Excludables;
use crate::page::Audience;
use crate::relay::Feed;
use crate::signals::Steering;
use anyhow::Context as _;
use sheaf_control::{Exclusions, Order, RefusedOrder, Report, RunState, Runner, Steer};
use sheaf_monitor::{RunDescription, RunVerdict};
use sheaf_node::RunControls;
use sheaf_store::run::EndRecord;
use sheaf_telemetry::{Hub, Snapshot, catalog, log_as};
use sheaf_wire::SourceId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two looks at what is new.
const PERIOD: Duration = Duration::from_millis(50);

/// A report is repeated after this time, so that a controller sees that the process lives.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Time that a controller may take to read before its link is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Messages that are kept for a controller that calls later. Older ones are in the log.
const MESSAGES: usize = 256;

/// Verdicts of runs without a gap between them that are kept for a controller that reads slowly.
const VERDICTS: usize = 16;

/// Longest line of a controller, in bytes.
const LONGEST_ORDER: u64 = 4_096;

/// Commands that the configuration makes impossible, and why, in words.
#[derive(Clone, Debug, Default)]
pub(super) struct Impossible {
    pub(super) no_pause: Option<String>,
    pub(super) no_recover: Option<String>,
    pub(super) no_switch: Option<String>,
}

/// Everything that has been told about the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    description: Option<RunDescription>,
    pub(super) run: Option<u32>,
    impossible: Impossible,
    waits_for: Option<String>,
    /// The newest last, with the number of each.
    messages: VecDeque<(u64, Message)>,
    pub(super) verdict: Option<RunVerdict>,
    /// Verdicts of runs that another one has followed, with the number of each, the newest last.
    past: VecDeque<(u64, RunVerdict)>,
    pub(super) has_begun: bool,
    /// Whether it has ended by its own conditions.
    pub(super) is_complete: bool,
    /// Accepted triggers, once it has ended.
    pub(super) triggers: u64,
    /// Why it ended early, or what failed first.
    pub(super) why: Option<String>,
}

impl Told {
    /// Begins a run, which may follow another one.
    fn begin(&mut self, run: RunDescription) {
        if let Some(verdict) = self.verdict.take() {
            let number = self.past.back().map_or(1, |(number, _)| number + 1);
            self.past.push_back((number, verdict));
            if self.past.len() > VERDICTS {
                self.past.pop_front();
            }
        }
        self.run = Some(run.number).filter(|number| *number > 0);
        self.description = Some(run);
        (self.has_begun, self.is_complete, self.triggers, self.why) = (false, false, 0, None);
    }
}

/// See the [module](self).
pub(super) struct Station {
    hub: Hub,
    told: Mutex<Told>,
    runner: Mutex<Runner>,
    controls: Arc<RunControls>,
    switching: Switching,
    /// Sources and nodes of the configuration, once it is known.
    excludables: OnceLock<Excludables>,
    steers: Sender<Steer>,
    /// Number of the controller that has called last. Those before are not served any more.
    caller: AtomicU64,
    /// Whether the run has ended, and the last lines are to be written.
    ends: AtomicBool,
    /// Number of threads that write to a controller.
    writers: AtomicU64,
}

impl Station {
    /// Begins to listen.
    pub(super) fn begin(
        listener: UnixListener,
        steering: Steering,
        is_held: bool,
        exclusions: Exclusions,
    ) -> anyhow::Result<Arc<Self>> {
        let (steers, orders) = channel();
        let controls = Arc::new(RunControls::default());
        controls.hold.store(is_held, Ordering::Relaxed);
        let station = Arc::new(Self {
            hub: Hub::default(),
            told: Mutex::default(),
            runner: Mutex::new(Runner::new(is_held, exclusions)),
            controls: controls.clone(),
            switching: Switching::default(),
            excludables: OnceLock::new(),
            steers,
            caller: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            writers: AtomicU64::new(0),
        });
        let steered = station.clone();
        thread("steering", move || steer(&orders, &steering, &steered))?;
        let listening = station.clone();
        thread("controllers", move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = listening.serve(stream) {
                    log_as!(CONTROL_UNREADABLE; "cannot serve a controller: {error:#}");
                }
            }
        })?;
        Ok(station)
    }

    pub(super) fn controls(&self) -> &Arc<RunControls> {
        &self.controls
    }

    pub(super) fn switching(&self) -> &Switching {
        &self.switching
    }

    /// Takes note of the configuration: its sources and nodes, and which commands it makes impossible.
    pub(super) fn note_configuration(&self, excludables: Excludables, impossible: Impossible) {
        self.told().impossible = impossible;
        let _ = self.excludables.set(excludables);
    }

    pub(super) fn told_of_end(&self) -> Told {
        let mut told = self.told().clone();
        told.has_begun |= has_begun(&self.hub.snapshot());
        told
    }

    /// Has the last lines written, and waits for that for a limited time.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        let until = Instant::now() + HEARTBEAT;
        while self.writers.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(PERIOD);
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a controller that has called, and no other from now on.
    fn serve(self: &Arc<Self>, stream: UnixStream) -> anyhow::Result<()> {
        let caller = self.caller.fetch_add(1, Ordering::AcqRel) + 1;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (reading, reader) = (self.clone(), stream.try_clone()?);
        thread("orders", move || reading.read_orders(caller, reader))?;
        let writing = self.clone();
        self.writers.fetch_add(1, Ordering::AcqRel);
        thread("reports", move || {
            // The controller that has gone calls again, or another one does.
            let _ = Writer::new(stream).run(&writing, caller);
            writing.writers.fetch_sub(1, Ordering::AcqRel);
        })
    }

    fn read_orders(&self, caller: u64, stream: UnixStream) {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while self.caller.load(Ordering::Acquire) == caller {
            line.clear();
            match (&mut stream).take(LONGEST_ORDER).read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            match serde_json::from_str::<Order>(&line) {
                Ok(order) => self.follow(order),
                Err(error) => {
                    return log_as!(
                        CONTROL_UNREADABLE;
                        "an order of the controller cannot be read: {error}"
                    );
                }
            }
        }
    }

    fn follow(&self, order: Order) {
        let mut runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        runner.handle_order(order);
        while let Some(steer) = runner.poll_steer() {
            if let Steer::Recover(node) = &steer {
                // At once: a report says that it was done when it is not due any more.
                let node = self.excludables.get().and_then(|excludables| excludables.find_node(node));
                node.into_iter().for_each(|node| self.controls.recovery.ask(node));
            }
            // The thread that steers lives as long as the process.
            let _ = self.steers.send(steer);
        }
    }

    /// Returns those of the nodes to be started again that were.
    fn recovered(&self, asked: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let find = |node: &str| self.excludables.get()?.find_node(node);
        let is_due = |node: &str| find(node).is_some_and(|node| self.controls.recovery.is_due(node));
        let done = asked.iter().filter(|(node, _)| !is_due(node));
        done.map(|(node, order)| (node.clone(), *order)).collect()
    }

    /// Returns those that were not, because the run has refused.
    fn not_recovered(&self, asked: &BTreeMap<String, u64>) -> BTreeMap<String, RefusedOrder> {
        let find = |node: &str| self.excludables.get()?.find_node(node);
        let refusal = |node: &str| self.controls.recovery.refusal(find(node)?);
        let all = asked.iter().filter_map(|(node, order)| {
            Some((node.clone(), RefusedOrder { asked: *order, why: refusal(node)? }))
        });
        all.collect()
    }

    fn report(&self, snapshot: &Snapshot) -> Report {
        let (order, recovered, not_recovered) = {
            let runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = runner.asked_to_recover();
            (runner.followed(), self.recovered(asked), self.not_recovered(asked))
        };
        let switches = self.switching.get();
        let told = self.told();
        let state = match (phase(snapshot), &told.verdict) {
            (_, Some(_)) => RunState::Stopping,
            (phase, None) => phase,
        };
        Report {
            order,
            state,
            run: told.run,
            waits_for: told.waits_for.clone(),
            no_pause: told.impossible.no_pause.clone(),
            exclusions: excluded(snapshot),
            no_recover: told.impossible.no_recover.clone(),
            recovered,
            not_recovered,
            no_switch: told.impossible.no_switch.clone(),
            switched: switches.switched,
            not_switched: switches.not_switched,
            ended: switches.ended,
        }
    }
}

impl Audience for Station {
    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn begin_run(&self, run: RunDescription) {
        self.hub.clear();
        self.told().begin(run);
    }

    fn note_waiting(&self, waits_for: Option<String>) {
        self.told().waits_for = waits_for;
    }

    fn add_message(&self, message: &Message) {
        let mut told = self.told();
        let number = told.messages.back().map_or(1, |(number, ..)| number + 1);
        told.messages.push_back((number, message.clone()));
        if told.messages.len() > MESSAGES {
            told.messages.pop_front();
        }
    }

    fn note_end(&self, end: &EndRecord, triggers: u64) {
        let mut told = self.told();
        told.is_complete = matches!(&*end.reason, "events" | "duration" | "end_of_sources");
        told.triggers = triggers;
        told.why.clone_from(&end.detail);
    }

    fn end_run(&self, verdict: RunVerdict) {
        let has_begun = has_begun(&self.hub.snapshot());
        let mut told = self.told();
        told.has_begun |= has_begun;
        told.verdict = Some(verdict);
    }
}

/// Returns whether the event manager has taken triggers.
fn has_begun(snapshot: &Snapshot) -> bool {
    snapshot.sum(&catalog::RUN_START) > 0
}

/// Returns the state of the run according to its event manager.
fn phase(snapshot: &Snapshot) -> RunState {
    let mut states = snapshot.nodes.values().flat_map(|node| node.marked(&catalog::RUN_STATE, "state"));
    match states.next() {
        Some("ready") => RunState::Ready,
        Some("running") => RunState::Running,
        Some("paused") => RunState::Paused,
        Some("finishing" | "closing" | "closed") => RunState::Stopping,
        _ => RunState::Preparing,
    }
}

/// Returns the sources that readout units exclude, and the nodes that the event manager excludes.
fn excluded(snapshot: &Snapshot) -> Exclusions {
    let here = || snapshot.nodes.values().filter(|node| !node.is_gone);
    let sources = here().flat_map(|node| node.marked(&catalog::SOURCE_EXCLUDED, "source"));
    let nodes = here().flat_map(|node| node.marked(&catalog::NODE_EXCLUDED, "peer"));
    Exclusions {
        sources: sources.filter_map(|source| source.parse().ok()).collect(),
        nodes: nodes.map(str::to_owned).collect(),
    }
}

/// Passes on what the run is told.
fn steer(orders: &Receiver<Steer>, steering: &Steering, station: &Station) {
    let controls = &station.controls;
    for steer in orders {
        match steer {
            Steer::Hold(held) => controls.hold.store(held, Ordering::Relaxed),
            Steer::Pause(paused) => controls.pause.store(paused, Ordering::Relaxed),
            Steer::Exclude(Exclusions { sources, nodes }) => {
                let excludables = station.excludables.wait();
                controls.excluded.set(sheaf_node::Exclusions {
                    sources: sources.into_iter().map(SourceId).collect(),
                    nodes: nodes.iter().filter_map(|node| excludables.find_node(node)).collect(),
                });
            }
            Steer::Recover(_) => {}
            Steer::Switch(next) => station.switching.ask(next),
            Steer::Stop => {
                // A second request before the first was noted would be the same.
                while steering.stop().load(Ordering::Relaxed) {
                    std::thread::sleep(PERIOD);
                }
                steering.ask_to_stop();
            }
        }
    }
}

/// Everything that one controller has been told.
struct Writer {
    stream: UnixStream,
    feed: Feed,
    gone: BTreeSet<String>,
    description: Option<RunDescription>,
    waits_for: Option<String>,
    message: u64,
    report: Option<(Report, Instant)>,
    has_verdict: bool,
    /// Number of the latest of the past verdicts that was passed on.
    past: u64,
}

impl Writer {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            feed: Feed::default(),
            gone: BTreeSet::new(),
            description: None,
            waits_for: None,
            message: 0,
            report: None,
            has_verdict: false,
            past: 0,
        }
    }

    /// Writes what is new, until the run ends or another controller calls.
    fn run(mut self, station: &Station, caller: u64) -> io::Result<()> {
        loop {
            let ends = station.ends.load(Ordering::Acquire);
            self.write_news(station)?;
            if ends || station.caller.load(Ordering::Acquire) != caller {
                return Ok(());
            }
            std::thread::sleep(PERIOD);
        }
    }

    fn write_news(&mut self, station: &Station) -> io::Result<()> {
        // A run is announced before its nodes, and its end after everything else. The lock is held for copies of the news only: threads
        // that carry data take it when they log.
        let (mut lines, told) = self.news_of(&station.told());
        let snapshot = station.hub.snapshot();
        self.feed.each(&snapshot, |node, record| lines.push(Line::Node { node: node.to_owned(), record }));
        for (name, _) in snapshot.nodes.iter().filter(|(_, node)| node.is_gone) {
            if self.gone.insert(name.clone()) {
                lines.push(Line::Gone(name.clone()));
            }
        }
        let report = station.report(&snapshot);
        let is_known =
            self.report.as_ref().is_some_and(|(known, at)| *known == report && at.elapsed() < HEARTBEAT);
        if !is_known {
            lines.push(Line::Report(report.clone()));
            self.report = Some((report, Instant::now()));
        }
        lines.extend(told);
        self.write(&lines)
    }

    /// Returns what has been told since the last call: the run that begins, and everything else.
    fn news_of(&mut self, told: &Told) -> (Vec<Line>, Vec<Line>) {
        let (mut begins, mut others) = (Vec::new(), Vec::new());
        if told.description != self.description {
            self.description.clone_from(&told.description);
            // The end of the run before it, unless that was passed on when it came.
            let last = told.past.back().filter(|(number, _)| *number > self.past);
            if let Some((number, verdict)) = last {
                self.past = *number;
                let is_news = !std::mem::take(&mut self.has_verdict);
                begins.extend(is_news.then(|| Line::End(verdict.clone())));
            }
            begins.extend(told.description.clone().map(Line::Begin));
        }
        if told.waits_for != self.waits_for {
            self.waits_for.clone_from(&told.waits_for);
            others.push(Line::WaitsFor(told.waits_for.clone()));
        }
        for (number, message) in &told.messages {
            if *number > self.message {
                self.message = *number;
                others.push(Line::Message { number: *number, message: message.clone() });
            }
        }
        if let Some(verdict) = told.verdict.as_ref().filter(|_| !self.has_verdict) {
            self.has_verdict = true;
            others.push(Line::End(verdict.clone()));
        }
        (begins, others)
    }

    fn write(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line)?;
            bytes.push(b'\n');
        }
        self.stream.write_all(&bytes)
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
