//! A host on which an agent starts nodes of a run: what the run knows of it, and the thread that listens to it.

use super::TellMessage;
use crate::console::message::Message;
use crate::host_message::{HostOrder, HostReady, HostReport, HostRun};
use crate::node_output::TakeRecord;
use crate::node_process::{Life, ProcessEnd};
use crate::steered::NodeRequest;
use anyhow::Context as _;
use sheaf_agent::{Conversation, EndReason, LinkOptions, Received, call};
use sheaf_key::RunKey;
use sheaf_telemetry::log_as;
use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time that the thread waits for a message before it looks whether it is still wanted.
const PERIOD: Duration = Duration::from_millis(100);

/// Longest time in which a host prepares nodes. Loading their code, and waiting for their addresses, have limits of their own, which are
/// shorter.
pub(super) const LONGEST_PREPARATION: Duration = Duration::from_secs(180);

/// Time without a report after which a host that is connected is silent: it reports signs of life every second.
pub(super) const SILENCE: Duration = Duration::from_secs(20);

/// Time between two attempts to bring a host back into the run.
const PAUSE: Duration = Duration::from_secs(1);

/// State of a host in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its agent has not answered yet.
    Called,
    /// Its agent has started a process for the run, which prepares the nodes.
    Prepares,
    Ready,
    /// It cannot start the nodes.
    Refused(String),
    /// Its nodes have ended with the connection, or with the process that looked after them.
    Lost(String),
}

/// The process of a node, as its host reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct RemoteNode {
    /// Number of the start of the process. The end of an earlier one may still be on its way.
    start: u32,
    /// Whether it waits until the host is ready.
    pub(super) is_awaited: bool,
    /// Requests for it meanwhile, at most one of each kind.
    pub(super) held: Vec<NodeRequest>,
    pub(super) handles_signals: bool,
    /// Whether the node has ended. The process may answer requests.
    pub(super) has_ended: bool,
    pub(super) life: Life,
    /// The end of the process and what it has printed.
    pub(super) end: Option<(ProcessEnd, String)>,
}

/// Part of a run on the host.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Preparations of the host, once it was ready.
    pub(super) ready: Option<HostReady>,
    /// Why it cannot prepare the run, which was to follow another one.
    pub(super) refused: Option<String>,
    /// Why the run must end.
    no_space: Option<String>,
    /// The manifest of the run once the part is to be closed, and whether no other run follows.
    to_close: Option<(String, bool)>,
    /// The manifest of the part, once that is closed.
    closed: Option<Result<Option<String>, String>>,
}

pub(super) struct State {
    link: Arc<Conversation>,
    /// The run in progress, which the host comes back to when it was lost.
    pub(super) run: HostRun,
    /// The run that is to follow it.
    pub(super) next: Option<HostRun>,
    /// Parts of the runs that are not closed yet.
    pub(super) parts: BTreeMap<u32, Part>,
    pub(super) phase: Phase,
    /// Since when there is no connection, and why.
    pub(super) unconnected: Option<(Instant, String)>,
    /// When the last report came.
    pub(super) heard: Instant,
    pub(super) nodes: BTreeMap<String, RemoteNode>,
    /// Whether the run has begun: the host may come, or come back.
    has_begun: bool,
    /// Whether the host is let go when it is lost: the run is over.
    is_ending: bool,
}

/// See the [module](self).
pub(super) struct Host {
    pub(super) agent: String,
    key: RunKey,
    options: LinkOptions,
    state: Mutex<State>,
    changed: Condvar,
    /// Take the records of nodes. A lock of their own: they may wait for somebody who gives a request to this host.
    takers: Mutex<BTreeMap<String, TakeRecord>>,
    tell: TellMessage,
}

impl Host {
    /// Asks an agent to prepare its nodes of a run, and begins to listen to it.
    pub(super) fn call(
        agent: &str,
        run: HostRun,
        (key, options): (RunKey, LinkOptions),
        tell: TellMessage,
    ) -> anyhow::Result<Arc<Self>> {
        let link = Arc::new(call(agent, &key, &options));
        let nodes = run.nodes.iter().map(|name| (name.clone(), RemoteNode::default())).collect();
        let parts = BTreeMap::from([(run.number, Part::default())]);
        let state = State {
            link,
            run: run.clone(),
            next: None,
            parts,
            phase: Phase::Called,
            unconnected: Some((Instant::now(), "it does not answer".into())),
            heard: Instant::now(),
            nodes,
            has_begun: false,
            is_ending: false,
        };
        let host = Arc::new(Self {
            agent: agent.to_owned(),
            key,
            options,
            state: Mutex::new(state),
            changed: Condvar::new(),
            takers: Mutex::default(),
            tell,
        });
        host.order(&HostOrder::Prepare(Box::new(run)));
        let listener = host.clone();
        let body = move || listener.listen();
        let name = format!("agent {agent}");
        std::thread::Builder::new().name(name).spawn(body).context("cannot start a thread")?;
        Ok(host)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order. Returns whether it is on its way; an order to a host that is lost is not.
    pub(super) fn order(&self, order: &HostOrder) -> bool {
        let Ok(text) = serde_json::to_vec(order) else { return false };
        let link = self.state().link.clone();
        match link.send(&text) {
            Ok(()) => true,
            Err(error) => {
                log::debug!("{}: an order is not sent: {error}", self.agent);
                false
            }
        }
    }

    /// Waits until the host is ready, refuses, its agent has not answered for `patience`, or it has prepared nodes for too long.
    pub(super) fn wait_until_ready(&self, patience: Duration) -> Phase {
        let until = Instant::now() + patience;
        let latest = until + LONGEST_PREPARATION;
        let mut state = self.state();
        loop {
            match &state.phase {
                Phase::Called if Instant::now() < until => {}
                Phase::Prepares if Instant::now() < latest => {}
                phase => return phase.clone(),
            }
            state = self.changed.wait_timeout(state, PERIOD).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns why there is no connection to the agent, in words.
    pub(super) fn trouble(&self) -> Option<String> {
        self.state().unconnected.as_ref().map(|(_, why)| why.clone())
    }

    /// Returns the time since the last report.
    pub(super) fn silence(&self) -> Duration {
        self.state().heard.elapsed()
    }

    /// Returns what it has prepared for a run, once it was ready.
    pub(super) fn ready(&self, run: u32) -> Option<HostReady> {
        self.state().parts.get(&run).and_then(|part| part.ready.clone())
    }

    /// Takes the reason for which a run must end, if it has one.
    pub(super) fn take_no_space(&self, run: u32) -> Option<String> {
        self.state().parts.get_mut(&run).and_then(|part| part.no_space.take())
    }

    /// Starts the process of a node as soon as the host is ready.
    pub(super) fn start(&self, node: &str, take: TakeRecord) {
        self.takers.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), take);
        let (is_ready, start) = {
            let mut state = self.state();
            let is_ready = state.phase == Phase::Ready;
            let start = state.nodes.get(node).map_or(0, |before| before.start) + 1;
            let begun = RemoteNode { start, is_awaited: !is_ready, ..RemoteNode::default() };
            state.nodes.insert(node.to_owned(), begun);
            (is_ready, start)
        };
        if is_ready {
            self.order(&HostOrder::Start { node: node.to_owned(), start });
        }
    }

    /// Passes a request to a node, when it is there. Returns whether the request is on its way.
    pub(super) fn request(&self, node: &str, request: &NodeRequest) -> bool {
        if let Some(node) = self.state().nodes.get_mut(node).filter(|node| node.is_awaited) {
            node.hold(request);
            return true;
        }
        self.order(&HostOrder::Request { node: node.to_owned(), request: request.clone() })
    }

    /// Looks at a node, or changes it.
    pub(super) fn with_node<T>(&self, node: &str, look: impl FnOnce(&mut RemoteNode) -> T) -> Option<T> {
        self.state().nodes.get_mut(node).map(look)
    }

    /// Lets the host come, or come back, from now on.
    pub(super) fn note_begun(&self) {
        self.state().has_begun = true;
    }

    /// Lets the host go when it is lost from now on.
    pub(super) fn let_go(&self) {
        self.state().is_ending = true;
    }

    /// Has the host close its part of a run. `is_last` is whether its nodes do not go on with another one.
    pub(super) fn begin_close(&self, run: u32, manifest: &str, is_last: bool) {
        let is_there = {
            let mut state = self.state();
            state.is_ending |= is_last;
            state.heard = Instant::now();
            if let Some(part) = state.parts.get_mut(&run) {
                part.to_close = Some((manifest.to_owned(), is_last));
            }
            state.phase == Phase::Ready || is_last
        };
        // Otherwise it is asked when it is back.
        if is_there {
            self.order(&HostOrder::Close { run, manifest: manifest.to_owned(), is_last });
        }
    }

    /// Returns the manifest of its part of a run, if it has one of its own, once that is closed.
    pub(super) fn closed(&self, run: u32) -> Option<Result<Option<String>, String>> {
        let state = self.state();
        let closed = state.parts.get(&run).and_then(|part| part.closed.clone());
        match (closed, &state.phase) {
            (None, Phase::Lost(why)) if state.is_ending => Some(Err(why.clone())),
            (closed, _) => closed,
        }
    }

    /// Forgets a run that is closed, or is not to be.
    pub(super) fn forget(&self, run: u32) {
        let mut state = self.state();
        state.parts.remove(&run);
        state.next.take_if(|next| next.number == run);
    }

    /// Waits for a change, but no longer than `longest`.
    pub(super) fn wait(&self, longest: Duration) {
        let _ = self.changed.wait_timeout(self.state(), longest);
    }

    /// Ends the link. Nothing of this host is wanted any more.
    pub(super) fn hang_up(&self, deadline: Duration) {
        self.let_go();
        let link = self.state().link.clone();
        link.close(deadline);
    }

    fn listen(&self) {
        loop {
            let link = self.state().link.clone();
            match link.receive(PERIOD) {
                Received::Message(message) => self.take(&message),
                Received::Nothing => {}
                Received::Connected => self.note_connected(),
                Received::Lost(why) => self.note_unconnected(why),
                Received::Ended(over) => {
                    self.lose(&reason(over));
                    if self.state().is_ending {
                        return;
                    }
                }
            }
            if matches!(self.state().phase, Phase::Refused(_) | Phase::Lost(_)) && !self.call_again() {
                return;
            }
        }
    }

    fn note_connected(&self) {
        let mut state = self.state();
        let was_lost = state.unconnected.take().is_some();
        if was_lost && state.phase == Phase::Ready {
            log_as!(AGENT_BACK, peer = self.agent; "the agent {} is connected again", self.agent);
        }
        self.changed.notify_all();
    }

    fn note_unconnected(&self, why: String) {
        let mut state = self.state();
        if state.unconnected.is_none() && state.phase == Phase::Ready && !state.is_ending {
            log_as!(
                AGENT_LOST, peer = self.agent;
                "the connection to the agent {} is lost: {why}; its nodes go on, and are given up after {:.0} s",
                self.agent,
                self.options.patience.as_secs_f64()
            );
        }
        let since = state.unconnected.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        state.unconnected = Some((since, why));
        self.changed.notify_all();
    }

    /// Lets go what takes the records of a node, or of all: it keeps others waiting for more.
    pub(super) fn end_records(&self, node: Option<&str>) {
        let mut takers = self.takers.lock().unwrap_or_else(PoisonError::into_inner);
        match node {
            Some(node) => drop(takers.remove(node)),
            None => takers.clear(),
        }
    }

    /// Notes that the nodes of the host have ended, all in the same way.
    pub(super) fn lose(&self, why: &str) {
        self.end_records(None);
        let mut state = self.state();
        if state.phase == Phase::Ready && !state.is_ending {
            log_as!(AGENT_LOST, peer = self.agent; "the nodes of the agent {} are given up: {why}", self.agent);
        }
        if let Some(next) = &mut state.next {
            // It is prepared again when the host is back.
            next.is_back = true;
            let number = next.number;
            state.parts.insert(number, Part::default());
        }
        let status = format!("the agent {} is lost: {why}", self.agent);
        let end = ProcessEnd { status, is_success: false, has_died: true, is_retired: false };
        for node in state.nodes.values_mut().filter(|node| node.end.is_none() && !node.is_awaited) {
            node.end = Some((end.clone(), String::new()));
        }
        if !matches!(state.phase, Phase::Refused(_)) {
            state.phase = Phase::Lost(why.to_owned());
        }
        state.unconnected.get_or_insert_with(|| (Instant::now(), why.to_owned()));
        self.changed.notify_all();
    }

    /// Asks the agent to come, or to come back, to a run in progress. Returns whether that makes sense: a run that has not begun is refused as a
    /// whole.
    fn call_again(&self) -> bool {
        if self.state().is_ending || !self.state().has_begun {
            return false;
        }
        std::thread::sleep(PAUSE);
        let old = self.state().link.clone();
        old.close(Duration::ZERO);
        let run = {
            let mut state = self.state();
            state.link = Arc::new(call(&self.agent, &self.key, &self.options));
            state.phase = Phase::Called;
            let was_ready = state.parts.get(&state.run.number).is_some_and(|part| part.ready.is_some());
            HostRun { is_back: was_ready || state.run.is_back, ..state.run.clone() }
        };
        self.order(&HostOrder::Prepare(Box::new(run)));
        true
    }

    fn take(&self, message: &[u8]) {
        self.state().heard = Instant::now();
        let report = match serde_json::from_slice(message) {
            Ok(report) => report,
            Err(error) => return log::debug!("{}: a report cannot be read: {error}", self.agent),
        };
        match report {
            HostReport::Record { node, record } => {
                let mut takers = self.takers.lock().unwrap_or_else(PoisonError::into_inner);
                if takers.get_mut(&node).is_some_and(|take| take(&record)) {
                    drop(takers);
                    self.with_node(&node, |node| node.has_ended = true);
                }
                self.with_node(&node, |node| node.life.0 += 1);
            }
            HostReport::Message(line) => {
                if let Ok(message) = serde_json::from_str::<Message>(&line) {
                    (self.tell)(message);
                }
            }
            HostReport::Ready(ready) => self.note_ready(ready),
            HostReport::HandlesSignals { node } => {
                self.with_node(&node, |node| node.handles_signals = true);
            }
            HostReport::Ended { node, start, end, text } => {
                if self.with_node(&node, |node| node.start) == Some(start) {
                    self.end_records(Some(&node));
                    self.with_node(&node, |node| node.end = Some((end, text)));
                }
            }
            HostReport::Lives(lives) => {
                for (node, (_, ticks)) in lives {
                    self.with_node(&node, |node| node.life.1 = ticks);
                }
            }
            HostReport::Gone(status) => {
                self.lose(&format!("the process that looked after its nodes has ended ({status})"));
            }
            other => self.note(other),
        }
        self.changed.notify_all();
    }

    fn note(&self, report: HostReport) {
        let mut state = self.state();
        match report {
            HostReport::Taken => state.phase = Phase::Prepares,
            HostReport::Refused(why) => {
                if state.has_begun && !state.is_ending {
                    log_as!(AGENT_REFUSES, peer = self.agent; "the agent {} cannot start its nodes: {why}", self.agent);
                }
                state.phase = Phase::Refused(why);
            }
            HostReport::NotPrepared { run, why } => state.with_part(run, |part| part.refused = Some(why)),
            HostReport::NoSpace { run, why } => state.with_part(run, |part| part.no_space = Some(why)),
            HostReport::Closed { run, part: of } => state.with_part(run, |part| part.closed = Some(Ok(of))),
            HostReport::NotClosed { run, why } => state.with_part(run, |part| part.closed = Some(Err(why))),
            _ => {}
        }
    }

    /// Takes note of a run for which the host is ready.
    fn note_ready(&self, ready: HostReady) {
        let mut state = self.state();
        let Some(run) = ready.run else {
            state.phase = Phase::Refused(EARLIER.to_owned());
            return;
        };
        if state.next.as_ref().is_some_and(|next| next.number == run) {
            return state.with_part(run, |part| part.ready = Some(ready));
        }
        if run != state.run.number {
            drop(state);
            return self.lose(&format!("it has come back to run {run}, which has ended meanwhile"));
        }
        state.phase = Phase::Ready;
        state.with_part(run, |part| part.ready = Some(ready));
        let orders = state.due_orders();
        drop(state);
        for order in orders {
            self.order(&order);
        }
    }
}

/// The refusal of an agent that does not give the number of the run for which it is ready.
const EARLIER: &str = "it is an earlier build of the same release, which does not know runs that follow without a gap; install the same on all hosts";

impl RemoteNode {
    /// Keeps a request until the node is started. Of each kind, the last one is all that matters.
    fn hold(&mut self, request: &NodeRequest) {
        // It is started in this run, and has no stamps yet.
        if matches!(request, NodeRequest::Begin(_) | NodeRequest::Stamps(_)) {
            return;
        }
        self.held.retain(|held| discriminant(held) != discriminant(request));
        self.held.push(request.clone());
    }
}

impl State {
    /// Looks at the part of a run that is not closed yet, or changes it.
    fn with_part(&mut self, run: u32, change: impl FnOnce(&mut Part)) {
        if let Some(part) = self.parts.get_mut(&run) {
            change(part);
        }
    }

    /// Returns the orders that have waited for the host: it has come, or come back.
    fn due_orders(&mut self) -> Vec<HostOrder> {
        let mut orders = Vec::new();
        for (run, part) in &self.parts {
            if let (Some((manifest, is_last)), None) = (&part.to_close, &part.closed) {
                orders.push(HostOrder::Close { run: *run, manifest: manifest.clone(), is_last: *is_last });
            }
        }
        orders.extend(self.next.clone().map(|next| HostOrder::PrepareNext(Box::new(next))));
        for (name, node) in &mut self.nodes {
            if std::mem::take(&mut node.is_awaited) {
                orders.push(HostOrder::Start { node: name.clone(), start: node.start });
                let held = node.held.drain(..);
                orders.extend(held.map(|request| HostOrder::Request { node: name.clone(), request }));
            }
        }
        orders
    }
}

/// Returns why a conversation is over, in words.
pub(crate) fn reason(over: EndReason) -> String {
    match over {
        EndReason::Closed => "it has hung up".to_owned(),
        EndReason::Refused(why) => why,
        EndReason::Unknown => "it was started again, and its nodes have ended".to_owned(),
        EndReason::Patience(why) => format!("it does not answer ({why})"),
    }
}
