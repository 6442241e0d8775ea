//! Traces of the events of a run, while it lasts.

use crate::next;
use crate::plan::Plan;
use anyhow::Context as _;
use sheaf_config::{Config, NodeConfig};
use sheaf_monitor::traces::{Ask, Collector, CollectorOptions, TRACE_NAME, TraceHeader};
use sheaf_node::traces::{Sample, Tracing};
use sheaf_telemetry::Hub;
use sheaf_telemetry::stamps::StampHub;
use sheaf_wire::{NodeId, SourceId};
use std::path::{Path, PathBuf};

/// Returns how the nodes of this process stamp events, if traces are wanted.
pub(crate) fn tracing(config: &Config) -> Option<Tracing> {
    let trace = &config.trace;
    (trace.file.0 > 0).then(|| Tracing {
        hub: StampHub::default(),
        sample: Sample::new(config.run.number, trace.sample),
        slow: trace.slow,
        is_alone: false,
    })
}

/// Returns the file of the traces of a run, if there is one, in the directory of the run or in that of its temporary files.
pub(crate) fn file(config: &Config, directory: &Path) -> Option<PathBuf> {
    (config.trace.file.0 > 0).then(|| directory.join(TRACE_NAME))
}

/// Begins to collect the stamps of a node that was started by hand, into a file of its own in the directory of the run on this host.
/// Returns how it stamps events, and the collector; nothing if it writes no files.
pub(crate) fn of_node(
    plan: &Plan,
    (node, directory): (&NodeConfig, Option<&Path>),
    metrics: Option<Hub>,
) -> anyhow::Result<Option<(Tracing, Collector)>> {
    let (Some(tracing), Some(directory)) = (tracing(&plan.config), directory) else { return Ok(None) };
    let tracing = Tracing { is_alone: node.id != NodeId::MANAGER, ..tracing };
    let file = directory.join(format!("traces.{}.jsonl", node.name));
    let collector = collect(plan, &tracing, Some(file), (metrics, None))?;
    Ok(Some((tracing, collector)))
}

/// Begins to collect the stamps of the nodes of this process, and those of others for which `ask` asks.
pub(crate) fn collect(
    plan: &Plan,
    tracing: &Tracing,
    file: Option<PathBuf>,
    (metrics, ask): (Option<Hub>, Option<Ask>),
) -> anyhow::Result<Collector> {
    let config = &plan.config;
    let named = |id: SourceId| Some((id.0, config.names.get(id)?.to_owned()));
    let options = CollectorOptions {
        header: TraceHeader {
            run: config.run.number.0,
            host: next::host(),
            sample: config.trace.sample,
            slow_ns: config.trace.slow.0,
        },
        file,
        file_bytes: config.trace.file.0,
        source_names: plan.source_ids().into_iter().filter_map(named).collect(),
        stamps: tracing.hub.clone(),
        metrics,
        ask,
    };
    Collector::start(options).context("cannot start a thread for traces")
}
