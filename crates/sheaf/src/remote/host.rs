//! A host on which an agent starts nodes of a run: what the run knows of it, and the thread that listens to it.

use super::TellMessage;
use crate::console::message::Message;
use crate::host_message::{HostOrder, HostReady, HostReport, HostRun};
use crate::node_output::TakeRecord;
use crate::node_process::{Life, ProcessEnd};
use anyhow::Context as _;
use sheaf_agent::{Conversation, EndReason, LinkOptions, Received, call};
use sheaf_key::RunKey;
use sheaf_telemetry::log_as;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time that the thread waits for a message before it looks whether it is still wanted.
const PERIOD: Duration = Duration::from_millis(100);

/// Longest time in which a host prepares nodes. Loading their code, and waiting for their addresses, have limits of their own, which are
/// shorter.
pub(super) const LONGEST_PREPARATION: Duration = Duration::from_secs(180);

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
    /// Whether it waits until the host is ready.
    pub(super) is_awaited: bool,
    pub(super) handles_signals: bool,
    /// Whether the node has ended. The process may answer requests.
    pub(super) has_ended: bool,
    pub(super) life: Life,
    /// The end of the process and what it has printed.
    pub(super) end: Option<(ProcessEnd, String)>,
}

struct State {
    link: Arc<Conversation>,
    phase: Phase,
    /// Since when there is no connection, and why.
    unconnected: Option<(Instant, String)>,
    /// When the last report came.
    heard: Instant,
    nodes: BTreeMap<String, RemoteNode>,
    ready: Option<HostReady>,
    no_space: Option<String>,
    /// The manifest of its part of the run, once that is closed.
    closed: Option<Result<Option<String>, String>>,
    /// Whether the run has begun: the host may come, or come back.
    has_begun: bool,
    /// Whether the host is let go when it is lost: the run is over.
    is_ending: bool,
}

/// See the [module](self).
pub(super) struct Host {
    pub(super) agent: String,
    run: HostRun,
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
        let state = State {
            link,
            phase: Phase::Called,
            unconnected: Some((Instant::now(), "it does not answer".into())),
            heard: Instant::now(),
            nodes,
            ready: None,
            no_space: None,
            closed: None,
            has_begun: false,
            is_ending: false,
        };
        let host = Arc::new(Self {
            agent: agent.to_owned(),
            run,
            key,
            options,
            state: Mutex::new(state),
            changed: Condvar::new(),
            takers: Mutex::default(),
            tell,
        });
        host.order(&HostOrder::Prepare(Box::new(host.run.clone())));
        let listener = host.clone();
        let body = move || listener.listen();
        let name = format!("agent {agent}");
        std::thread::Builder::new().name(name).spawn(body).context("cannot start a thread")?;
        Ok(host)
    }

    fn state(&self) -> MutexGuard<'_, State> {
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

    /// Returns what it has prepared, once it was ready.
    pub(super) fn ready(&self) -> Option<HostReady> {
        self.state().ready.clone()
    }

    /// Takes the reason for which the run must end, if it has one.
    pub(super) fn take_no_space(&self) -> Option<String> {
        self.state().no_space.take()
    }

    /// Starts the process of a node as soon as the host is ready.
    pub(super) fn start(&self, node: &str, take: TakeRecord) {
        self.takers.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), take);
        let is_ready = {
            let mut state = self.state();
            let is_ready = state.phase == Phase::Ready;
            let begun = RemoteNode { is_awaited: !is_ready, ..RemoteNode::default() };
            state.nodes.insert(node.to_owned(), begun);
            is_ready
        };
        if is_ready {
            self.order(&HostOrder::Start { node: node.to_owned() });
        }
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

    /// Has the host close its part of the run.
    pub(super) fn begin_close(&self, manifest: &str) {
        self.let_go();
        self.state().heard = Instant::now();
        self.order(&HostOrder::Close(manifest.to_owned()));
    }

    /// Returns the manifest of its part of the run, if it has one of its own, once that is closed.
    pub(super) fn closed(&self) -> Option<Result<Option<String>, String>> {
        let state = self.state();
        match (&state.closed, &state.phase) {
            (None, Phase::Lost(why)) => Some(Err(why.clone())),
            (closed, _) => closed.clone(),
        }
    }

    /// Waits for a change, but not for long.
    pub(super) fn wait(&self) {
        let _ = self.changed.wait_timeout(self.state(), PERIOD);
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
    fn lose(&self, why: &str) {
        self.end_records(None);
        let mut state = self.state();
        if state.phase == Phase::Ready && !state.is_ending {
            log_as!(AGENT_LOST, peer = self.agent; "the nodes of the agent {} are given up: {why}", self.agent);
        }
        let status = format!("the agent {} is lost: {why}", self.agent);
        let end = ProcessEnd { status, is_success: false, has_died: true };
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
        {
            let mut state = self.state();
            state.link = Arc::new(call(&self.agent, &self.key, &self.options));
            state.phase = Phase::Called;
        }
        let run = HostRun { is_back: self.state().ready.is_some(), ..self.run.clone() };
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
            HostReport::Ended { node, end, text } => {
                self.end_records(Some(&node));
                self.with_node(&node, |node| node.end = Some((end, text)));
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
            HostReport::NoSpace(why) => state.no_space = Some(why),
            HostReport::Closed(part) => state.closed = Some(Ok(part)),
            HostReport::NotClosed(why) => state.closed = Some(Err(why)),
            _ => {}
        }
    }

    /// Starts the nodes that have waited for the host.
    fn note_ready(&self, ready: HostReady) {
        let awaited: Vec<_> = {
            let mut state = self.state();
            state.phase = Phase::Ready;
            state.ready = Some(ready);
            let take = |(name, node): (&String, &mut RemoteNode)| {
                std::mem::take(&mut node.is_awaited).then(|| name.clone())
            };
            state.nodes.iter_mut().filter_map(take).collect()
        };
        for node in awaited {
            self.order(&HostOrder::Start { node });
        }
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
