//! The run that follows in the same processes, without a gap: what the nodes say of it.
//!
//! The thread that prepares the next run has the nodes prepare it, and waits for their answers. The thread that looks after the processes
//! waits until all have handed over.

use crate::plan::Plan;
use crate::relay::{HandedOver, Succession};
use crate::remote::GiveUp;
use crate::steered::{NextRun, NodeLines, NodeRequest};
use anyhow::{Context as _, bail};
use sheaf_config::NodeConfig;
use sheaf_node::RunControls;
use sheaf_wire::NodeId;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time after which a node is given up that is to prepare a run, and neither answers nor says that it is at work. It reads requests on a thread of
/// its own, so one that does not has been stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longest time between two looks at whether the answers are still wanted.
const PERIOD: Duration = Duration::from_millis(20);

/// Name of the configuration that nodes are started with, in the directory for temporary files of a run.
pub(super) const CONFIGURATION: &str = "config.toml";

/// See the [module](self).
#[derive(Clone, Default)]
pub(crate) struct NextInProcesses {
    /// Lines to the nodes, for requests.
    pub(super) lines: NodeLines,
    state: Arc<Mutex<State>>,
    changed: Arc<Condvar>,
}

#[derive(Default)]
struct State {
    /// Number of the present run.
    run: u32,
    /// Those of the present run, until its event manager has handed over.
    controls: Option<Arc<RunControls>>,
    /// The nodes, with their addresses.
    nodes: Vec<NodeConfig>,
    /// Number of orders so far to prepare a run.
    orders: u32,
    /// The run that the nodes prepare, or have prepared.
    next: Option<NextRun>,
    answers: BTreeMap<NodeId, Answer>,
    handed_over: BTreeMap<NodeId, HandedOver>,
}

/// Answer of a node that is to prepare a run.
#[derive(Clone)]
struct Answer {
    /// When the node gave its last sign of life.
    heard: Instant,
    /// Whether it has prepared the run, or why it cannot.
    prepared: Option<Result<(), String>>,
}

impl Answer {
    fn none() -> Self {
        Self { heard: Instant::now(), prepared: None }
    }
}

impl NextInProcesses {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a run begins with these nodes.
    pub(super) fn begin_run(&self, run: u32, nodes: &[NodeConfig], controls: Option<&Arc<RunControls>>) {
        let mut state = self.state();
        (state.run, state.controls) = (run, controls.cloned());
        state.nodes = nodes.to_vec();
        state.next = None;
        state.answers.clear();
        state.handed_over.clear();
    }

    /// Takes what a node says.
    pub(super) fn take(&self, node: NodeId, news: Succession) {
        let mut state = self.state();
        let is_next = |order| state.next.as_ref().is_some_and(|next| next.order == order);
        match news {
            Succession::Prepares(order) if is_next(order) => {
                state.answers.entry(node).or_insert_with(Answer::none).heard = Instant::now();
            }
            Succession::Prepared(order, error) if is_next(order) => {
                let answer = Answer { prepared: Some(error.map_or(Ok(()), Err)), ..Answer::none() };
                state.answers.insert(node, answer);
            }
            Succession::Due(run) if run == state.run => {
                if let Some(controls) = &state.controls {
                    controls.succession.is_due.store(true, Ordering::Relaxed);
                }
            }
            Succession::HandedOver(handed_over) if handed_over.run == state.run => {
                if node == NodeId::MANAGER
                    // Whatever it says later of this run comes after the next one has begun here.
                    && let Some(controls) = state.controls.take()
                {
                    // Another thread of its process says that the next run is due: it may be late.
                    controls.succession.is_due.store(true, Ordering::Relaxed);
                }
                state.handed_over.insert(node, handed_over);
            }
            other => log::debug!("{node}: news of another run: {other:?}"),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns what a node has handed over, once.
    pub(super) fn take_handed_over(&self, node: NodeId) -> Option<HandedOver> {
        self.state().handed_over.remove(&node)
    }

    /// Waits for news, but at most for `period`.
    pub(super) fn wait(&self, period: Duration) {
        let state = self.state();
        if state.handed_over.is_empty() {
            let _ = self.changed.wait_timeout(state, period);
        }
    }

    /// Has a node that was started again in the present run prepare the next one, if the others do.
    pub(super) fn ask_again(&self, node: NodeId) {
        let next = {
            let mut state = self.state();
            state.answers.remove(&node);
            state.next.clone()
        };
        if let Some(next) = next {
            self.lines.tell(node, &NodeRequest::Prepare(next));
        }
    }

    /// Has all nodes of the present run prepare the next one, and waits until they have, or it is given up. `directory` is that for temporary
    /// files of the next run. The nodes of hosts that are `absent` are not waited for: they join it. Where the triggers have ended already, a node
    /// does not matter that does not answer: it is started again.
    ///
    /// # Errors
    /// Which node cannot, and why.
    pub(crate) fn prepare(
        &self,
        plan: &Plan,
        directory: &Path,
        absent: &[NodeId],
        give_up: GiveUp<'_>,
    ) -> anyhow::Result<()> {
        let mut next = NextRun {
            order: 0,
            run: plan.config.run.number.0,
            configuration: directory.join(CONFIGURATION),
            hands_over: false,
        };
        {
            let mut state = self.state();
            state.orders += 1;
            next.order = state.orders;
            let mut effective = plan.config.clone();
            effective.set_nodes(&state.nodes);
            std::fs::write(&next.configuration, effective.to_toml())
                .with_context(|| format!("cannot write {}", next.configuration.display()))?;
            state.answers.clear();
            state.next = Some(next.clone());
        }
        self.lines.tell_all(&NodeRequest::Prepare(next));
        self.wait_for_answers(plan, absent, give_up)
    }

    fn wait_for_answers(
        &self,
        plan: &Plan,
        absent: &[NodeId],
        GiveUp { is_over, is_due }: GiveUp<'_>,
    ) -> anyhow::Result<()> {
        let run = plan.config.run.number;
        loop {
            let nodes = self.lines.nodes();
            let mut state = self.state();
            let mut waits_for = None;
            for node in nodes.into_iter().filter(|node| !absent.contains(node)) {
                let name = || plan.full_name(node);
                let answer = state.answers.entry(node).or_insert_with(Answer::none);
                match &answer.prepared {
                    Some(Ok(())) => {}
                    Some(Err(why)) => bail!("{} cannot prepare run {run}: {why}", name()),
                    None if answer.heard.elapsed() < PATIENCE => waits_for = Some(node),
                    None if is_due => {}
                    None => bail!(
                        "{} does not answer: its process has not prepared run {run} within {} s",
                        name(),
                        PATIENCE.as_secs()
                    ),
                }
            }
            let Some(node) = waits_for else { return Ok(()) };
            if is_over() {
                bail!("the run has ended while {} was preparing run {run}", plan.full_name(node));
            }
            let _ = self.changed.wait_timeout(state, PERIOD);
        }
    }

    /// Has the nodes put away what they have prepared.
    pub(crate) fn call_off(&self) {
        let next = self.state().next.take();
        if let Some(next) = next {
            self.lines.tell_all(&NodeRequest::CallOff(next.order));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed_over(run: u32) -> Succession {
        Succession::HandedOver(HandedOver { run, next_event: Some(100), report: String::new() })
    }

    /// Two threads of the process of the event manager say that the next run is due and that the run has been handed over: either may be
    /// first.
    #[test]
    fn a_run_is_due_when_the_event_manager_has_handed_over_also_if_it_did_not_say_so_before() {
        let (next, controls) = (NextInProcesses::default(), Arc::new(RunControls::default()));
        let is_due = || controls.succession.is_due.load(Ordering::Relaxed);
        next.begin_run(7, &[], Some(&controls));
        next.take(NodeId::MANAGER, handed_over(6));
        next.take(NodeId::readout(0), handed_over(7));
        assert!(!is_due(), "only the event manager ends the run");
        next.take(NodeId::MANAGER, handed_over(7));
        assert!(is_due());

        controls.succession.begin_run(true);
        next.take(NodeId::MANAGER, Succession::Due(7));
        next.begin_run(8, &[], Some(&controls));
        next.take(NodeId::MANAGER, Succession::Due(7));
        assert!(!is_due(), "the next run is not due because the one before has ended");
    }
}
