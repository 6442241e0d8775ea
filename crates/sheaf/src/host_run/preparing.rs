//! Preparation of the nodes of a run on this host: directory, code, sockets and key.

use crate::claims::Claim;
use crate::code::{self, Code};
use crate::host_message::{HostReady, HostRun};
use crate::network::{self, Listeners};
use crate::node_process::{Launch, NodeKey};
use crate::plan::Plan;
use crate::run_directory::{HostPart, RunMark, Scratch};
use crate::{SOFTWARE, files, next, placement, programs, rehearsal, space, supervisor, tracing};
use anyhow::{Context as _, bail};
use sheaf_config::Config;
use sheaf_wire::{EventId, Role, RunNumber, Timestamp};
use std::path::PathBuf;
use std::time::Duration;

/// Time in which an address becomes free that nodes of an earlier run have, which end now.
const ADDRESS_IN_USE: Duration = Duration::from_secs(20);

/// A run for which this host has prepared its nodes.
pub(super) struct HostedRun {
    pub(super) run: HostRun,
    pub(super) plan: Plan,
    pub(super) part: HostPart,
    /// Configuration that nodes are started with, with copies of the code that they load beside.
    pub(super) configuration: PathBuf,
    /// Removed at the end, if it is temporary.
    pub(super) scratch: Scratch,
}

/// Parts that the first run of a series has for all of them.
pub(super) struct Lasting {
    pub(super) listeners: Listeners,
    /// Nodes that no other run has on this host.
    pub(super) claim: Option<Claim>,
}

/// Prepares everything for the first run of a series.
///
/// # Errors
/// Why the nodes cannot be started on this host. Nothing is left behind.
pub(super) fn prepare(run: HostRun) -> anyhow::Result<(HostedRun, HostReady, Lasting)> {
    if run.software != SOFTWARE {
        bail!("this is {SOFTWARE}, and the run is made by {}", run.software);
    }
    let plan = plan_of(&run)?;
    files::give_access(plan.config.run.access);
    let claim = Claim::take_on_host(&plan.config, &run)?;
    check(&plan)?;
    let listeners = network::configured_listeners(&plan, ADDRESS_IN_USE)?;
    // A run that is in progress has files.
    let is_kept = run.is_back;
    let (hosted, ready) = make((run, plan), is_kept)?;
    Ok((hosted, ready, Lasting { listeners, claim }))
}

/// Prepares everything for a run that follows in the same processes, and has their sockets.
///
/// # Errors
/// As above.
pub(super) fn prepare_next(run: HostRun) -> anyhow::Result<(HostedRun, HostReady)> {
    let plan = plan_of(&run)?;
    check(&plan)?;
    make((run, plan), false)
}

/// Returns the plan of a run, with the nodes of this host.
pub(super) fn plan_of(run: &HostRun) -> anyhow::Result<Plan> {
    let mut config = Config::parse(&run.configuration, "the configuration of the run")?;
    config.run.number = RunNumber(run.number);
    let mut plan = Plan::new(config)?;
    plan.here = plan.nodes.iter().filter(|node| run.nodes.contains(&node.name)).map(|node| node.id).collect();
    plan.take_key()?;
    Ok(plan)
}

/// Checks that this host can carry out its part.
fn check(plan: &Plan) -> anyhow::Result<()> {
    placement::rehearse(plan)?;
    programs::check(plan)?;
    supervisor::check(plan)?;
    space::check(&plan.config)
}

/// Makes the directory of the run on this host, and what is in it. `is_kept` is whether the directory stays if that fails.
fn make((run, mut plan): (HostRun, Plan), is_kept: bool) -> anyhow::Result<(HostedRun, HostReady)> {
    let part = HostPart::create(&plan.config, &plan.here, &mark(&run, run.is_back))?;
    match furnish(&run, &mut plan, &part) {
        Ok((scratch, configuration, ready)) => {
            Ok((HostedRun { run, plan, part, configuration, scratch }, ready))
        }
        Err(error) => {
            if !is_kept {
                part.abandon();
            }
            Err(error)
        }
    }
}

/// Returns what tells the run from all others.
pub(super) fn mark(run: &HostRun, is_back: bool) -> RunMark {
    RunMark { created: Timestamp(run.created_ns), host: run.host.clone(), process: run.process, is_back }
}

fn furnish(run: &HostRun, plan: &mut Plan, part: &HostPart) -> anyhow::Result<(Scratch, PathBuf, HostReady)> {
    let scratch = part.scratch(plan.config.run.number)?;
    let file = scratch.path.join("config.toml");
    std::fs::write(&file, &run.configuration).with_context(|| format!("cannot write {}", file.display()))?;
    let loading = code::of_roles(&plan.config, |role: Role| plan.has_here(role));
    let (code, records) = Code::take(&loading, &scratch.path)?;
    rehearsal::rehearse(&code.in_place(&loading), plan.config.run.number)?;
    plan.code = code;
    let ready = HostReady {
        run: Some(run.number),
        host: next::host(),
        directory: part
            .path()
            .map(std::path::absolute)
            .transpose()
            .context("there is no working directory")?,
        is_shared: part.is_shared(),
        code: records,
    };
    Ok((scratch, file, ready))
}

impl HostedRun {
    /// Returns the settings that processes are started with in this run.
    pub(super) fn launch(&self) -> anyhow::Result<Launch> {
        let run = &self.run;
        let key = run.key.as_deref().map(|digits| NodeKey::keep(&self.scratch.path, digits)).transpose()?;
        Ok(Launch {
            config: self.configuration.clone(),
            key,
            messages: true,
            metrics: run.metrics,
            stamps: tracing::tracing(&self.plan.config).is_some(),
            goes_on: run.goes_on,
            following: run.following.map(|(met_in, first)| (RunNumber(met_in), EventId(first))),
        })
    }
}
