//! The run that follows without a gap, in the process of a node: it is prepared on a thread of its own while the present run goes on.

use crate::code::Code;
use crate::drivers::DriverMaker;
use crate::early_farms::EarlyFarms;
use crate::periodic::{Periodic, Turns};
use crate::plan::Plan;
use crate::relay::{self, Succession};
use crate::run_paths;
use crate::steered::{NextRun, NodeRequest};
use anyhow::Context as _;
use sheaf_config::{Config, NodeConfig};
use sheaf_key::RunKey;
use sheaf_node::{Clock, RunControls};
use sheaf_wire::{NodeId, RunNumber};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Interval at which the process of the event manager looks whether the triggers of its run have ended: those of the next one wait.
const LOOK_IF_DUE: Duration = Duration::from_millis(2);

/// Interval at which it looks whether another run follows at all, and others look whether they are to leave.
const LOOK: Duration = Duration::from_millis(50);

/// Time in which a node reads its configuration and finds its code. After that, something hangs, such as a disk or a library.
const LONGEST_READING: Duration = Duration::from_secs(180);

/// Interval at which a node that prepares a run says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A plan, or why there is none.
type Planned = Result<Arc<Plan>, String>;

/// The runs that follow the present one in this process.
pub(super) struct NextRuns {
    /// Until there is a way to pass orders. The thread ends with that.
    orders: Option<Sender<NodeRequest>>,
    called_off: Arc<AtomicU32>,
    begun: Receiver<Planned>,
}

impl NextRuns {
    /// Begins to take orders.
    pub(super) fn begin(preparing: &Preparing) -> anyhow::Result<Self> {
        let (orders, taken) = channel();
        let (begins, begun) = channel();
        let called_off = preparing.called_off.clone();
        let preparing = preparing.clone();
        let body = move || preparing.follow(&taken, &begins);
        std::thread::Builder::new().name("next run".into()).spawn(body).context("cannot start a thread")?;
        Ok(Self { orders: Some(orders), called_off, begun })
    }

    /// Returns the way to pass orders of the parent. When it is dropped, no run follows.
    pub(super) fn requests(&mut self) -> impl FnMut(NodeRequest) + Send + use<> {
        let (orders, called_off) = (self.orders.take(), self.called_off.clone());
        move |request| {
            if let NodeRequest::CallOff(order) = request {
                called_off.store(order, Ordering::Relaxed);
            }
            let _ = orders.as_ref().map(|orders| orders.send(request));
        }
    }

    /// Waits for the beginning of the next run. Returns `None` if none follows, or `is_left`.
    pub(super) fn wait(&self, is_left: impl Fn() -> bool) -> Option<Planned> {
        loop {
            match self.begun.recv_timeout(LOOK) {
                Ok(planned) => return Some(planned),
                Err(RecvTimeoutError::Timeout) if !is_left() => {}
                Err(_) => return None,
            }
        }
    }
}

/// Things that the preparation of a run needs.
#[derive(Clone)]
pub(super) struct Preparing {
    node: (NodeId, String),
    key: Option<RunKey>,
    clock: Clock,
    controls: Arc<RunControls>,
    early_farms: Arc<EarlyFarms>,
    /// Number of the last order whose run is not to be.
    called_off: Arc<AtomicU32>,
    /// Number of the present run.
    run: u32,
}

impl Preparing {
    pub(super) fn new(maker: &DriverMaker, node: &NodeConfig) -> Self {
        Self {
            node: (node.id, node.name.clone()),
            key: maker.plan.key.clone(),
            clock: maker.clock,
            controls: maker.controls.clone(),
            early_farms: maker.early_farms.clone(),
            called_off: Arc::default(),
            run: maker.plan.config.run.number.0,
        }
    }

    /// Carries out orders until there will be no more.
    fn follow(mut self, orders: &Receiver<NodeRequest>, begins: &Sender<Planned>) {
        let mut prepared: Option<(NextRun, Arc<Plan>)> = None;
        let mut is_due = false;
        loop {
            match orders.recv_timeout(self.pause()) {
                Ok(NodeRequest::Prepare(next)) => {
                    let planned = self.prepare(&next);
                    let (order, error) = (next.order, planned.as_ref().err().cloned());
                    prepared = planned.ok().map(|plan| (next, plan));
                    relay::write(&Succession::Prepared(order, error).into());
                }
                Ok(NodeRequest::Begin(next)) => {
                    let ready = prepared.take().filter(|(ready, _)| ready.run == next.run);
                    let planned = ready.map_or_else(|| self.prepare(&next), |(_, plan)| Ok(plan));
                    (self.run, is_due) = (next.run, false);
                    if begins.send(planned).is_err() {
                        return;
                    }
                }
                Ok(NodeRequest::CallOff(order)) => {
                    if prepared.take_if(|(ready, _)| ready.order == order).is_some() {
                        self.early_farms.end();
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.early_farms.end(),
            }
            let succession = &self.controls.succession;
            if self.node.0 == NodeId::MANAGER && succession.is_due.load(Ordering::Relaxed) && !is_due {
                is_due = true;
                relay::write(&Succession::Due(self.run).into());
            }
        }
    }

    fn pause(&self) -> Duration {
        let hands_over = self.controls.succession.hands_over.load(Ordering::Relaxed);
        if hands_over && self.node.0 == NodeId::MANAGER { LOOK_IF_DUE } else { LOOK }
    }

    /// Reads the configuration of a run, and has the workers of a builder unit load their filters. The parent has tried everything that it can.
    fn prepare(&self, next: &NextRun) -> Planned {
        self.plan(next).map_err(|error| crate::describe(&error))
    }

    fn plan(&self, next: &NextRun) -> anyhow::Result<Arc<Plan>> {
        let alive = says_that_it_prepares(next.order, LONGEST_READING)?;
        let file = &next.configuration;
        let config = Config::load_for_node_with(file, &self.node.1, |config| {
            config.run.number = RunNumber(next.run);
        })?;
        let mut plan = Plan::new(config)?;
        plan.goes_on = true;
        plan.key.clone_from(&self.key);
        plan.code = Code::beside(&plan.config, file);
        let directory = plan.writes_files().then(|| run_paths::path_of(&plan.config));
        drop(alive);
        // Workers have a time limit of their own.
        let _alive = says_that_it_prepares(next.order, Duration::MAX)?;
        let is_over = || next.order > 0 && self.called_off.load(Ordering::Relaxed) >= next.order;
        self.early_farms.make(&plan, directory.as_deref(), (self.clock, &is_over))?;
        Ok(Arc::new(plan))
    }
}

/// Tells the parent at once that the node prepares a run, and again at intervals, for `longest` or until this is dropped: a slow disk is no reason
/// to give the node up.
fn says_that_it_prepares(order: u32, longest: Duration) -> anyhow::Result<Periodic<()>> {
    let say = move || relay::write(&Succession::Prepares(order).into());
    say();
    let begun = Instant::now();
    Periodic::begin("alive", move |turns: Turns| {
        while turns.next_after(SIGN_OF_LIFE) && begun.elapsed() < longest {
            say();
        }
    })
}
