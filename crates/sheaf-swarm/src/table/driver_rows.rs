//! The rows of the table of the drivers.

use super::Row;
use super::rows::{kind, ratio, rows, text};
use crate::drivers::{DriverFaultKind, DriverOptions};
use sheaf_wire::Nanos;

/// Returns the number of planned faults of a kind.
fn faults(options: &DriverOptions, wanted: impl Fn(&DriverFaultKind) -> bool) -> String {
    options.faults.iter().filter(|fault| wanted(&fault.kind)).count().to_string()
}

/// All rows.
pub const DRIVER_ROWS: &[Row<DriverOptions>] = rows! {
    "readout units" ["readout.count"] |o| text(o.readouts);
    "sources of a readout unit" ["source.count"] |o| text(o.sources_per_readout);
    "builder units" ["builder.count"] |o| text(o.builders);
    "output nodes" ["output.nodes"] |o| text(o.outputs);
    "events" ["run.events"] |o| text(o.events);
    "interval of triggers" ["trigger.mode", "trigger.rate_hz"] |o| {
        text(o.trigger_period.map(|period| period.0.checked_ilog10()))
    };
    "trigger supervisor" ["trigger.network.latency_us"] |o| {
        text(o.supervisor.map(|supervisor| supervisor.latency.0.checked_ilog10()))
    };
    "deaths of the supervisor" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::SupervisorDies { .. }));
    "freezes of the supervisor" [] |o| {
        faults(o, |kind| matches!(kind, DriverFaultKind::SupervisorFreezes { .. }))
    };
    "time of an upload" [] |o| text(o.disk.uploads.map(|uploads| uploads.time));
    "triggers minutes apart" [] |o| text(o.trigger_period >= Some(Nanos::from_secs(20)));
    "announcing sources" ["trigger.source"] |o| text(o.announce);
    "first step" ["building.first_step"] |o| text(o.steps.first);
    "step filter" ["building.filter"] |o| format!("{} {}", ratio(o.steps.reject), ratio(o.steps.enough));
    "source rate" ["source.emulated.rate_hz"] |o| text(o.pace);
    "wrong content" ["source.emulated.faulty_triggers"] |o| ratio(o.corrupt);
    "builder slots" ["builder.slots"] |o| text(o.slots);
    "builder memory" ["builder.memory_bytes"] |o| text(o.memory);
    "readout buffer" ["readout.buffer_bytes"] |o| text(o.buffer);
    "events a batch" ["manager.batch_events"] |o| text(o.batch_events);
    "trigger queue" ["trigger.queue_events"] |o| text(o.queue_events);
    "shaping" ["shaping.policy"] |o| kind(o.gathering);
    "shaping credit" ["shaping.credit_bytes"] |o| text(o.gathering);
    "line rate" ["shaping.line_rate_bits"] |o| text(o.line_rate);
    "time of a filter call" ["filter.kind", "filter.busy_us"] |o| text(o.filter.time);
    "one long filter call" [] |o| text(o.filter.long.is_some());
    "share rejected" ["filter.prescale"] |o| ratio(o.filter.reject);
    "workers" ["filter.workers"] |o| text(o.filter.workers);
    "workers that die" ["filter.processes"] |o| ratio(o.filter.dies);
    "workers that hang" [] |o| ratio(o.filter.hangs);
    "time of a write" [] |o| text(o.disk.write);
    "time of a sync" ["output.sync"] |o| text(o.disk.sync);
    "interval of syncs" ["output.sync_interval_ms"] |o| text(o.disk.sync_interval);
    "files beside the node" ["output.own_thread"] |o| text(o.disk.is_beside);
    "events an output takes" [] |o| text(o.disk.room);
    "events of no stream" ["streams.prescale"] |o| ratio(o.disk.left_out);
    "frames of a link" ["transport.queue_frames"] |o| text(o.links.queue_frames);
    "freezes of a node" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Freeze { .. }));
    "suspensions of the machine" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Suspend { .. }));
    "starved threads" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Starve { .. }));
    "kills of nodes" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Kill { .. }));
    "disks that refuse to write" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::DiskFails { .. }));
    "forged messages" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Forge));
    "disks that hang" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::DiskHangs { .. }));
    "clogged links" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Clog { .. }));
    "pauses by the operator" [] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Pause { .. }));
    "stops by the operator" ["run.duration_s"] |o| faults(o, |kind| matches!(kind, DriverFaultKind::Stop { .. }));
};
