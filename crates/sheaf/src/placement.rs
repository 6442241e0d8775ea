//! Placement of the threads of nodes, applied to the machine from the configuration.

use crate::plan::Plan;
use anyhow::bail;
use sheaf_config::NodeConfig;
use sheaf_machine::{MemoryPolicy, Placement, PlacementError};
use sheaf_telemetry::log_as;

/// The place of a node's thread.
pub(crate) fn of(node: &NodeConfig) -> Placement {
    Placement {
        cpus: node.cpu.iter().copied().collect(),
        priority: node.priority,
        memory: match node.memory {
            sheaf_config::MemoryPolicy::System => MemoryPolicy::System,
            sheaf_config::MemoryPolicy::Local => MemoryPolicy::Local,
            sheaf_config::MemoryPolicy::Bind => MemoryPolicy::Bind,
            sheaf_config::MemoryPolicy::Interleave => MemoryPolicy::Interleave,
        },
    }
}

/// Tries each placement of the nodes of this host on a short-lived thread before anything of the run exists. Logs what this machine
/// does not allow, once per placement, and fails if `affinity.required` is set.
pub(crate) fn rehearse(plan: &Plan) -> anyhow::Result<()> {
    let mut tried: Vec<Placement> = Vec::new();
    let mut problems = Vec::new();
    for node in plan.nodes_here() {
        let place = of(node);
        if place.is_empty() || tried.contains(&place) {
            continue;
        }
        let of_thread = {
            let place = place.clone();
            std::thread::spawn(move || place.apply()).join()
        };
        let name = plan.full_name(node.id);
        let described =
            of_thread.unwrap_or_default().into_iter().map(|error| format!("{name}: {}", whole(&error)));
        problems.extend(described);
        tried.push(place);
    }
    report(&problems, plan.config.affinity.required)
}

/// Places this thread. [`rehearse`] has already reported failures.
pub(crate) fn take(place: &Placement) {
    for error in place.apply() {
        log::debug!("{}", whole(&error));
    }
}

/// Places this thread as configured for `node`; logs failures, and fails if the placement is required.
pub(crate) fn take_or_refuse(node: &NodeConfig, required: bool) -> anyhow::Result<()> {
    let problems: Vec<String> =
        of(node).apply().iter().map(|error| format!("{}: {}", node.name, whole(error))).collect();
    report(&problems, required)
}

fn report(problems: &[String], required: bool) -> anyhow::Result<()> {
    if required && !problems.is_empty() {
        bail!("{}\n(`affinity.required = false` lets the run continue without it)", problems.join("\n"));
    }
    for problem in problems {
        log_as!(CPU_NOT_AVAILABLE; "{problem}; the run continues without it");
    }
    Ok(())
}

/// An error with its cause, where its text does not hold it.
fn whole(error: &PlacementError) -> String {
    match std::error::Error::source(error).map(ToString::to_string) {
        Some(cause) if !error.to_string().contains(&cause) => format!("{error}: {cause}"),
        _ => error.to_string(),
    }
}
