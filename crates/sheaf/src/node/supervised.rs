//! A node that another process has started: it tells that process all about its part, run after run.
//!
//! Where a run can follow without a gap, the process stays. Its node closes its files, reports, and hands its links and sources over to the
//! node of the next run, which begins when the parent says so: then all nodes have handed over.

use super::next_run::{NextRuns, Preparing};
use super::{NodeArguments, connect, summary_of};
use crate::Verdict;
use crate::console::{self, Console};
use crate::drivers::{Connect, DriverMaker, Reports};
use crate::leaving::Leaving;
use crate::plan::Plan;
use crate::programs::RunningPrograms;
use crate::relay::{HandedOver, Relay, Subjects};
use crate::steered::{self, NodeRequest};
use crate::summary::{ManagerSummary, NodeSummary, Summary, cpu_seconds};
use crate::{network, run_paths, tracing};
use anyhow::Context as _;
use serde::Serialize;
use sheaf_config::NodeConfig;
use sheaf_node::handover::Handover;
use sheaf_node::manager::ManagerHandover;
use sheaf_node::worker::{self, Ended};
use sheaf_node::{NodeDriver, NodeError};
use sheaf_protocol::Identity;
use sheaf_telemetry::Hub;
use sheaf_wire::{NodeId, Role, RunNumber};
use std::any::Any;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes part in a run, and in those that follow it without a gap.
pub(super) fn take_part(
    mut maker: DriverMaker,
    node: &NodeConfig,
    listener: Option<TcpListener>,
    (arguments, console): (&NodeArguments, &Console),
) -> anyhow::Result<Verdict> {
    let (relay, next) = tell_parent(&mut maker, node, arguments)?;
    let met_in = arguments.met_in.map_or(maker.plan.config.run.number, RunNumber);
    let mut connect = match arguments.met_in {
        Some(_) => connect_as_in(met_in, &maker.plan, listener),
        None => connect(&maker.plan, listener),
    };
    let mut cpu_before = 0.0;
    loop {
        let mut ended = run(&maker, node, (connect, console))?;
        let handover = ended.handovers.pop().map(|(_, handover)| handover);
        let left = Left::of(&maker, handover.filter(|_| next.is_some()));
        let (report, retired) = report(&maker, node, (&ended.errors, cpu_before))?;
        let (Some(left), Some(next), Some(relay)) = (left, &next, &relay) else {
            match relay {
                Some(relay) if retired => relay.leave(),
                relay => drop(relay),
            }
            crate::print::print(&report)?;
            // Its parent does not take the end of a replica without a part in the run for the end of the run.
            return Ok(if retired { Verdict::NotGood } else { Verdict::Good });
        };
        cpu_before = cpu_seconds();
        if node.id.role == Role::Manager {
            // It was for the run that has ended.
            maker.stop.store(false, Ordering::Relaxed);
        }
        let (run, next_event) = (maker.plan.config.run.number.0, left.next_event());
        relay.hand_over(HandedOver { run, next_event, report });
        let is_left = || node.id.role != Role::Manager && maker.stop.load(Ordering::Relaxed);
        match next.wait(is_left) {
            Some(Ok(plan)) => maker = following(maker, plan, (node.id, left)),
            Some(Err(why)) => {
                left.abandon();
                let summary =
                    NodeSummary { node: node.name.clone(), errors: vec![why], ..NodeSummary::default() };
                return print_last(&summary);
            }
            None => {
                left.abandon();
                return print_last(&NodeSummary { node: node.name.clone(), ..NodeSummary::default() });
            }
        }
        connect = connect_as_in(met_in, &maker.plan, None);
    }
}

fn print_last(summary: &NodeSummary) -> anyhow::Result<Verdict> {
    crate::print::print_json(summary)?;
    Ok(Verdict::Good)
}

/// Begins to tell the parent what it wants to know, and to take its requests.
fn tell_parent(
    maker: &mut DriverMaker,
    node: &NodeConfig,
    arguments: &NodeArguments,
) -> anyhow::Result<(Option<Relay>, Option<NextRuns>)> {
    if arguments.traced {
        maker.tracing = tracing::tracing(&maker.plan.config);
    }
    if arguments.relay {
        maker.publish_at(Hub::default());
    }
    let tells = arguments.relay || arguments.traced || arguments.logged;
    let stamps = maker.tracing.as_ref().map(|tracing| tracing.hub.clone());
    let (took_over, controls) = (maker.took_over.clone(), maker.controls.clone());
    let subjects = Subjects { metrics: arguments.relay, stamps, took_over, controls };
    let relay = tells.then(|| Relay::begin(maker.gauges.clone(), subjects)).transpose()?;
    let mut next = arguments.goes_on.then(|| NextRuns::begin(&Preparing::new(maker, node))).transpose()?;
    if arguments.steered || arguments.traced || arguments.goes_on {
        // A relay with a way to pass it requests waits for the last one when the node has ended.
        let waits = arguments.steered || arguments.traced;
        let mut of_relay = relay.as_ref().filter(|_| waits).map(Relay::requests);
        let mut of_next = next.as_mut().map(NextRuns::requests);
        let take = move |request| match (&request, &mut of_next, &mut of_relay) {
            (NodeRequest::Stamps(_), _, Some(take)) => take(request),
            (_, Some(take), _) => take(request),
            _ => {}
        };
        steered::follow(maker.controls.clone(), take)?;
    }
    Ok((relay, next))
}

/// Makes the connections of sessions of later runs: the nodes have met in the first one.
fn connect_as_in(met_in: RunNumber, plan: &Arc<Plan>, mut listener: Option<TcpListener>) -> Connect {
    let plan = plan.clone();
    Box::new(move |me| {
        network::connect(&plan, &Identity { run: met_in, ..*me }, listener.take(), &plan.nodes)
    })
}

/// Runs the node until its part in the run is over.
fn run(
    maker: &DriverMaker,
    node: &NodeConfig,
    (connect, console): (Connect, &Console),
) -> anyhow::Result<Ended> {
    let driver = maker.make(node.id, connect)?;
    if node.id.role == Role::Manager {
        let _show = console.show(maker.gauges.clone());
        return Ok(worker::run(vec![driver], maker.clock));
    }
    let driver: Box<dyn NodeDriver> = Box::new(Leaving::new(driver, maker.stop.clone()));
    Ok(worker::run(vec![driver], maker.clock))
}

/// Parts of a node that the next run goes on with.
struct Left {
    handover: Box<dyn Handover>,
    programs: RunningPrograms,
}

impl Left {
    /// Returns what the node has left, if it hands over.
    fn of(maker: &DriverMaker, handover: Option<Box<dyn Handover>>) -> Option<Self> {
        let programs = &maker.reports.programs;
        handover.map(|handover| Self {
            handover,
            programs: std::mem::take(&mut *programs.lock().unwrap_or_else(PoisonError::into_inner)),
        })
    }

    /// Returns the first event of the next run, if this is the event manager.
    fn next_event(&self) -> Option<u64> {
        let handover: &dyn Any = &*self.handover;
        handover.downcast_ref::<ManagerHandover>().map(|handover| handover.next_event().0)
    }

    /// Ends everything, because no run follows after all.
    fn abandon(self) {
        self.handover.abandon();
        for (_, programs) in self.programs {
            let _ = programs.wait();
        }
    }
}

/// Returns the maker of the node in the next run.
fn following(maker: DriverMaker, plan: Arc<Plan>, (node, left): (NodeId, Left)) -> DriverMaker {
    console::begin_run(plan.config.run.number.0, None);
    let reports = Reports::default();
    *reports.programs.lock().unwrap_or_else(PoisonError::into_inner) = left.programs;
    let mut tracing = tracing::tracing(&plan.config).filter(|_| maker.tracing.is_some());
    if let (Some(tracing), Some(before)) = (&mut tracing, &maker.tracing) {
        // The process that collects stamps reads them there.
        tracing.hub = before.hub.clone();
    }
    let handovers = BTreeMap::from([(node, left.handover)]);
    DriverMaker {
        directory: plan.writes_files().then(|| run_paths::path_of(&plan.config)),
        plan,
        reports,
        tracing,
        over: Arc::default(),
        handovers: Arc::new(Mutex::new(handovers)),
        ..maker
    }
}

/// Returns the report of a node whose part in the run is over, as JSON, and whether it is a retired replica of the event manager. `cpu_before` is the processor time of earlier runs, in seconds.
fn report(
    maker: &DriverMaker,
    node: &NodeConfig,
    (ended, cpu_before): (&[NodeError], f64),
) -> anyhow::Result<(String, bool)> {
    if node.id.role != Role::Manager {
        let mut summary = summary_of(maker, node, ended);
        summary.extras.cpu_seconds -= cpu_before;
        return Ok((as_json(&summary)?, false));
    }
    let report = maker.reports.run.lock().unwrap_or_else(PoisonError::into_inner).take();
    let report = report.context("the event manager ended without a report")?;
    let mut extras = maker.reports.extras();
    extras.cpu_seconds -= cpu_before;
    let summary = Summary::new(&report, &extras, &maker.plan, maker.directory.clone());
    let errors = ended.iter().map(|error| maker.plan.explain(error)).collect();
    Ok((as_json(&ManagerSummary::new(summary, &report, errors))?, report.retired.is_some()))
}

fn as_json(summary: &impl Serialize) -> anyhow::Result<String> {
    serde_json::to_string(summary).context("a summary is JSON")
}
