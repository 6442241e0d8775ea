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
use sheaf_wire::{Role, RunNumber, Timestamp};
use std::time::Duration;

/// Time in which an address becomes free that nodes of an earlier run have, which end now.
const ADDRESS_IN_USE: Duration = Duration::from_secs(20);

pub(super) struct Prepared {
    pub(super) plan: Plan,
    pub(super) part: HostPart,
    pub(super) launch: Launch,
    pub(super) nodes: Listeners,
    pub(super) ready: HostReady,
    /// Removed at the end, if it is temporary.
    pub(super) scratch: Scratch,
    /// Nodes that no other run has on this host.
    pub(super) claim: Option<Claim>,
}

/// Prepares everything.
///
/// # Errors
/// Why the nodes cannot be started on this host. Nothing is left behind.
pub(super) fn prepare(run: &HostRun) -> anyhow::Result<Prepared> {
    if run.software != SOFTWARE {
        bail!("this is {SOFTWARE}, and the run is made by {}", run.software);
    }
    let mut config = Config::parse(&run.configuration, "the configuration of the run")?;
    config.run.number = RunNumber(run.number);
    files::give_access(config.run.access);
    let claim = Claim::take_on_host(&config, run)?;
    let mut plan = Plan::new(config)?;
    plan.here = plan.nodes.iter().filter(|node| run.nodes.contains(&node.name)).map(|node| node.id).collect();
    plan.take_key()?;
    placement::rehearse(&plan)?;
    programs::check(&plan)?;
    supervisor::check(&plan)?;
    space::check(&plan.config)?;
    let nodes = network::configured_listeners(&plan, ADDRESS_IN_USE)?;
    let mark = RunMark {
        created: Timestamp(run.created_ns),
        host: run.host.clone(),
        process: run.process,
        is_back: run.is_back,
    };
    let part = HostPart::create(&plan.config, &plan.here, &mark)?;
    match furnish(run, &mut plan, &part) {
        Ok((scratch, launch, ready)) => Ok(Prepared { plan, part, launch, nodes, ready, scratch, claim }),
        Err(error) => {
            if !run.is_back {
                part.abandon();
            }
            Err(error)
        }
    }
}

fn furnish(run: &HostRun, plan: &mut Plan, part: &HostPart) -> anyhow::Result<(Scratch, Launch, HostReady)> {
    let scratch = part.scratch(plan.config.run.number)?;
    let file = scratch.path.join("config.toml");
    std::fs::write(&file, &run.configuration).with_context(|| format!("cannot write {}", file.display()))?;
    let loading = code::of_roles(&plan.config, |role: Role| plan.has_here(role));
    let (code, records) = Code::take(&loading, &scratch.path)?;
    rehearsal::rehearse(&code.in_place(&loading), plan.config.run.number)?;
    plan.code = code;
    let key = run.key.as_deref().map(|digits| NodeKey::keep(&scratch.path, digits)).transpose()?;
    let launch = Launch {
        config: file,
        key,
        messages: true,
        metrics: run.metrics,
        stamps: tracing::tracing(&plan.config).is_some(),
        goes_on: false,
        following: None,
    };
    let ready = HostReady {
        host: next::host(),
        directory: part
            .path()
            .map(std::path::absolute)
            .transpose()
            .context("there is no working directory")?,
        is_shared: part.is_shared(),
        code: records,
    };
    Ok((scratch, launch, ready))
}
