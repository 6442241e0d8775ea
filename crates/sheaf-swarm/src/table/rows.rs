//! The rows of the table of the roles.

use super::Row;
use crate::dice::Ratio;
use crate::options::{FaultKind, Options, TriggerOptions};
use sheaf_wire::{NodeId, Role};
use std::fmt::Debug;

/// Returns the number of planned faults of a kind.
fn faults(options: &Options, wanted: impl Fn(&FaultKind) -> bool) -> String {
    options.faults.iter().filter(|fault| wanted(&fault.kind)).count().to_string()
}

fn crashes(options: &Options, role: Role) -> String {
    faults(options, |kind| matches!(kind, FaultKind::Crash { node, .. } if node.role == role))
}

fn stalls(options: &Options, wanted: impl Fn(NodeId) -> bool) -> String {
    faults(options, |kind| matches!(kind, FaultKind::Stall { node, .. } if wanted(*node)))
}

pub(super) fn text(value: impl Debug) -> String {
    format!("{value:?}")
}

/// Returns `never` or the decade of a ratio.
pub(super) fn ratio(value: Ratio) -> String {
    value.per_million.checked_ilog10().map_or("never".into(), |decade| format!("10^{decade} ppm"))
}

/// Returns the name of a variant without its fields.
pub(super) fn kind(value: impl Debug) -> String {
    text(value).split([' ', '(']).next().unwrap_or_default().to_owned()
}

macro_rules! rows {
    ($($name:literal [$($knob:literal),*] |$options:ident| $value:expr;)*) => {
        &[$(Row { name: $name, knobs: &[$($knob),*], value: |$options| $value },)*]
    };
}

pub(super) use rows;

/// All rows.
pub const ROWS: &[Row<Options>] = rows! {
    "readout units" ["readout.count", "node.role"] |o| text(o.system.readouts);
    "sources of a readout unit" ["source.count", "node.sources"] |o| text(o.system.sources_per_readout);
    "builder units" ["builder.count"] |o| text(o.system.builders);
    "output nodes" ["output.nodes"] |o| text(o.system.outputs);
    "optional sources" ["source.optional"] |o| text(o.system.optional_sources);
    "events" ["run.events"] |o| text(o.events);
    "trigger mode" ["trigger.mode", "trigger.source"] |o| match &o.triggers {
        TriggerOptions::Driven { poisson: true, .. } => "poisson".into(),
        TriggerOptions::Announced { reference_only: true, .. } => "reference source".into(),
        other => kind(other),
    };
    "trigger rate" ["trigger.rate_hz"] |o| match o.triggers {
        TriggerOptions::Driven { period, .. } => text(period),
        _ => "none".into(),
    };
    "latency of the trigger supervisor" ["trigger.network.latency_us"] |o| match o.supervisor {
        Some(supervisor) => text(supervisor.latency),
        None => "none".into(),
    };
    "fragments whose size counts for the room" [] |o| match o.supervisor {
        Some(supervisor) => text(supervisor.size_window),
        None => "none".into(),
    };
    "datagrams of triggers lost" ["trigger.network.protocol"] |o| match o.supervisor.and_then(|it| it.datagrams) {
        Some(datagrams) => text(datagrams.lost),
        None => "none".into(),
    };
    "datagrams of triggers repeated" [] |o| match o.supervisor.and_then(|it| it.datagrams) {
        Some(datagrams) => text(datagrams.repeated),
        None => "none".into(),
    };
    "deaths of the trigger supervisor" [] |o| match o.supervisor.and_then(|it| it.deaths) {
        Some(deaths) => text(deaths.dies),
        None => "none".into(),
    };
    "addresses of the trigger supervisor" [] |o| match o.supervisor.and_then(|it| it.deaths) {
        Some(deaths) if deaths.moves => "another for each life".into(),
        _ => "one".into(),
    };
    "ids of announced events" [] |o| match o.triggers {
        TriggerOptions::Announced { stride, .. } => text(stride),
        _ => "none".into(),
    };
    "trigger queue" ["trigger.queue_events"] |o| text(o.bounds.queue_events);
    "trigger types" ["triggers.type", "triggers.weight", "triggers.readouts"] |o| text(o.steps.types);
    "source rate" ["source.emulated.rate_hz"] |o| text(o.sources.period);
    "largest fragment sent" ["source.emulated.mean_bytes", "source.emulated.maximum_bytes"] |o| text(o.sources.largest);
    "slow source" [] |o| text(o.sources.slow.map(|(_, factor)| factor));
    "events ahead of triggers" [] |o| text(o.sources.surplus);
    "readout buffer, bytes" ["readout.buffer_bytes"] |o| text(o.bounds.buffer);
    "readout buffer, events" ["readout.buffer_events"] |o| text(o.bounds.buffer_events);
    "largest fragment taken" ["readout.max_fragment_bytes"] |o| text(o.bounds.max_fragment);
    "merge timeout" ["readout.merge_timeout_ms"] |o| text(o.times.merge);
    "orphan timeout" ["readout.orphan_timeout_ms"] |o| text(o.times.orphan);
    "builder slots" ["builder.slots"] |o| text(o.bounds.slots);
    "builder memory" ["builder.memory_bytes"] |o| text(o.bounds.memory);
    "event timeout" ["builder.event_timeout_ms"] |o| text(o.times.event);
    "request retry" ["builder.request_retry_ms"] |o| text(o.times.retry);
    "events a report" ["builder.report_events"] |o| text(o.bounds.report_events);
    "batch time" ["builder.report_delay_us", "manager.release_delay_us"] |o| text(o.times.batch);
    "policy for incomplete events" ["incomplete.policy"] |o| text(o.policy);
    "events a batch" ["manager.batch_events"] |o| text(o.bounds.batch_events);
    "attempts" ["manager.max_attempts"] |o| text(o.bounds.max_attempts);
    "expected event size" ["manager.expected_event_bytes"] |o| text(o.bounds.expected_event);
    "start timeout" ["manager.start_timeout_ms"] |o| text(o.times.start);
    "stop timeout" ["manager.stop_timeout_ms"] |o| text(o.times.stop);
    "peer timeout" ["manager.patience", "manager.peer_timeout_ms"] |o| text(o.times.peer);
    "links reported, and silence" ["manager.silence_timeout_ms"] |o| text(o.times.silence.map(|silence| silence.0 / o.times.peer.0));
    "first step" ["building.first_step"] |o| text(o.steps.first);
    "step filter" ["building.filter", "building.prescale", "building.minimum_bytes"] |o| {
        format!("{} {} {}", ratio(o.steps.reject), ratio(o.steps.enough), ratio(o.steps.region))
    };
    "shaping" ["shaping.policy"] |o| kind(o.gathering);
    "shaping credit" ["shaping.credit_bytes"] |o| text(o.gathering);
    "barrel's line and block" ["shaping.line_rate_bits", "shaping.block_bytes", "shaping.burst_bytes"] |o| {
        text((o.slots.rate, o.slots.block))
    };
    "barrel's guard" ["shaping.guard_us"] |o| text(o.slots.guard);
    "barrel's slots synchronised" ["shaping.synchronised"] |o| text(o.slots.synchronised);
    "bytes a message" ["protocol.message_bytes"] |o| text(o.bounds.message_bytes);
    "events a message" ["protocol.message_events"] |o| text(o.bounds.message_events);
    "events a request" ["protocol.request_events"] |o| text(o.bounds.request_events);
    "heartbeat" ["protocol.heartbeat_ms"] |o| text(o.times.heartbeat);
    "acknowledgement" ["protocol.acknowledge_ms"] |o| text(o.times.acknowledge);
    "retransmission" ["protocol.retransmit_ms"] |o| text(o.times.retransmit);
    "output window, events" ["output.window_events"] |o| text(o.bounds.window_events);
    "output window, bytes" ["output.window_bytes"] |o| text(o.bounds.window);
    "time of a write" [] |o| text(o.storage.write);
    "time until durable" ["output.sync", "output.sync_interval_ms", "streams.sync", "streams.sync_interval_ms"] |o| text(o.storage.report);
    "events an output takes" [] |o| text(o.storage.queue_events);
    "late writes" [] |o| ratio(o.storage.late);
    "slow builder" ["filter.busy_us"] |o| text(o.storage.slow_builder.map(|(_, factor)| factor));
    "share rejected" ["filter.kind", "filter.prescale"] |o| ratio(o.storage.reject);
    "failed writes" [] |o| ratio(o.storage.fail);
    "content mismatch" ["builder.check_content"] |o| ratio(o.storage.mismatch);
    "farm, processors" ["filter.workers", "filter.processes"] |o| text(o.farm.map(|farm| farm.processors));
    "farm, events ahead" ["filter.ahead"] |o| text(o.farm.map(|farm| farm.ahead));
    "farm, time limit" ["filter.time_limit_ms"] |o| text(o.farm.map(|farm| farm.time_limit));
 "farm, time to load" ["filter.load_time_limit_ms"] |o| text(o.farm.map(|farm| farm.load));
    "farm, processor dies while it loads" [] |o| text(o.farm.map(|farm| ratio(farm.dies_loading)));
    "farm, retries" ["filter.retries"] |o| text(o.farm.map(|farm| farm.retries));
    "farm, patience" ["filter.patience_ms"] |o| text(o.farm.map(|farm| farm.patience));
    "farm, time of a verdict" [] |o| text(o.farm.map(|farm| farm.judge));
    "farm, filter fails" [] |o| text(o.farm.map(|farm| ratio(farm.fails)));
    "farm, filter dies" [] |o| text(o.farm.map(|farm| ratio(farm.dies)));
    "farm, filter hangs" [] |o| text(o.farm.map(|farm| ratio(farm.hangs)));
    "farm, processor falls silent" [] |o| text(o.farm.map(|farm| ratio(farm.falls_silent)));
    "farm, processor leaves" [] |o| text(o.farm.map(|farm| ratio(farm.leaves)));
    "farm, processor contradicts itself" [] |o| text(o.farm.map(|farm| ratio(farm.contradicts)));
    "farm, requested events" [] |o| text(o.farm.map(|farm| farm.asks));
    "farm, processors killed" [] |o| faults(o, |kind| matches!(kind, FaultKind::KillProcessor { .. }));
    "preprocessing, workers" ["preprocessing.workers", "preprocessing.processes"] |o| text(o.preprocessing.map(|it| it.workers));
    "preprocessing, sources" ["preprocessing.sources"] |o| text(o.preprocessing.map(|it| it.every));
    "preprocessing, events at a time" ["preprocessing.outstanding_events"] |o| {
        text(o.preprocessing.map(|it| it.outstanding_events))
    };
    "preprocessing, time limit" ["preprocessing.time_limit_ms"] |o| text(o.preprocessing.map(|it| it.time_limit));
    "preprocessing, slow calls" [] |o| text(o.preprocessing.map(|it| ratio(it.slow)));
    "preprocessing, calls that hang" [] |o| text(o.preprocessing.map(|it| ratio(it.hangs)));
    "preprocessing, no result" ["preprocessing.memory_bytes"] |o| text(o.preprocessing.map(|it| ratio(it.fails)));
    "preprocessing, reduction" [] |o| text(o.preprocessing.map(|it| it.factor));
    "preprocessing, larger results" ["preprocessing.extra_bytes"] |o| text(o.preprocessing.map(|it| it.extra));
    "time slices" ["source.timed.slice_us"] |o| text(o.slices.map(|it| it.items));
    "time slices, overlaps" ["source.timed.before_us", "source.timed.after_us"] |o| {
        text(o.slices.map(|it| (it.before, it.after)))
    };
    "time slices, disorder" [] |o| text(o.slices.map(|it| it.disorder));
    "time slices, tolerance" ["source.timed.tolerance_us", "clocks.tolerance_us"] |o| text(o.slices.map(|it| it.tolerance));
    "time slices, items held" ["source.timed.held_hits", "clocks.held_hits"] |o| text(o.slices.map(|it| it.held));
    "time slices, items" ["source.timed.max_hits"] |o| text(o.slices.map(|it| it.max_items));
    "time slices, empty ones" ["source.timed.max_empty"] |o| text(o.slices.map(|it| it.max_empty));
    "windows on request" ["source.build_by"] |o| match o.windows {
        Some(_) if o.has_trigger_windows() => "of triggers".into(),
        Some(_) => "of a first step".into(),
        None => "none".into(),
    };
    "windows on request, extent" ["windows.before_us", "windows.after_us"] |o| text(o.trigger_windows().map(|it| it.extent));
    "windows on request, extent of a type" ["triggers.before_us", "triggers.after_us"] |o| {
        text(o.trigger_windows().and_then(|it| it.by_type.into_values().next()))
    };
    "windows on request, time of an answer" [] |o| text(o.windows.map(|it| it.delay));
    "windows on request, late answers" [] |o| text(o.windows.map(|it| ratio(it.late)));
    "windows on request, time of a late answer" [] |o| text(o.windows.map(|it| it.late_time));
    "windows on request, hits no longer kept" ["windows.memory_bytes"] |o| text(o.windows.map(|it| ratio(it.expired)));
    "windows on request, triggers before time 0" [] |o| text(o.windows.map(|it| it.zero));
    "streams" ["streams.tags", "filter.tags"] |o| {
        text(o.streams.iter().map(|rule| (rule.name.as_str(), rule.tags)).collect::<Vec<_>>())
    };
    "streams, prescales" ["streams.prescale"] |o| {
        text(o.streams.iter().map(|rule| rule.prescale).collect::<Vec<_>>())
    };
    "uploads, events of a file" [
        "output.rotate_events", "output.rotate_bytes", "streams.rotate_events", "streams.rotate_bytes"
    ] |o| text(o.uploads.map(|it| it.rotate_events));
    "uploads, age of a file" ["output.rotate_s", "streams.rotate_s"] |o| text(o.uploads.map(|it| it.rotate));
    "uploads, quiet time" ["object_store.quiet_ms"] |o| text(o.uploads.map(|it| it.quiet));
    "uploads, files at a time" ["object_store.connections"] |o| text(o.uploads.map(|it| it.connections));
    "uploads, time" [] |o| text(o.uploads.map(|it| it.time));
    "uploads, failed tries" ["object_store.timeout_s"] |o| text(o.uploads.map(|it| it.fails));
    "consumers" ["consumers.open", "consumers.consumers"] |o| text(o.consumers.as_ref().map(|it| it.selections.len()));
    "consumers, subscriptions" [] |o| text(o.consumers.as_ref().map(|it| it.selections[0].0));
    "consumers that never read" ["consumers.patience_ms"] |o| {
        text(o.consumers.as_ref().map(|it| it.selections.iter().filter(|(_, pace)| pace.is_none()).count()))
    };
    "consumers, events that wait" ["consumers.queue_events"] |o| text(o.consumers.as_ref().map(|it| it.queue_events));
    "consumers, bytes that wait" ["consumers.queue_bytes"] |o| text(o.consumers.as_ref().map(|it| it.queue));
    "consumers, rate" ["consumers.rate_hz"] |o| text(o.consumers.as_ref().map(|it| it.interval));
    "consumers, bytes copied" ["consumers.copy_bytes_per_second"] |o| {
        text(o.consumers.as_ref().map(|it| it.copy_rate))
    };
    "fed sources" ["source.feed.directory"] |o| text(o.feed.map(|feed| feed.every));
    "fed sources, programs" ["source.feed.max_clients"] |o| text(o.feed.map(|feed| feed.programs));
    "fed sources, window" ["source.feed.window_fragments"] |o| {
        text(o.feed.map(|feed| (feed.window_fragments, feed.window_events)))
    };
    "fed sources, kept" [] |o| text(o.feed.map(|feed| feed.keeps));
    "fed sources, time to start" ["source.feed.wait"] |o| text(o.feed.map(|feed| feed.start));
    "fed sources, time of a message" [] |o| text(o.feed.map(|feed| feed.way));
    "fed sources, time to reconnect" [] |o| text(o.feed.map(|feed| feed.retry));
    "fed sources, repeats" [] |o| text(o.feed.map(|feed| feed.repeats));
    "fed sources, start declined" [] |o| text(o.feed.map(|feed| feed.declines));
    "fed sources, end lost" [] |o| text(o.feed.map(|feed| feed.loses_end));
    "fed sources, run records" [] |o| text(o.run_records().map(|it| (it.count, it.bytes, it.pause)));
    "fed sources, run records with a number in common" [] |o| text(o.run_records().map(|it| it.same_number));
    "fed sources, run records at the end" [] |o| text(o.run_records().map(|it| it.late));
    "fed sources, faults of programs" [] |o| faults(o, |kind| matches!(kind, FaultKind::Program { .. }));
    "check values" ["check_fields.value", "check_fields.offset"] |o| {
        text(o.numbers.is_some())
    };
    "check values, modulus and tolerance" ["check_fields.modulus", "check_fields.tolerance"] |o| {
        text(o.numbers.as_ref().map(|it| it.quantity))
    };
    "check values, reference" ["check.reference"] |o| text(o.numbers.as_ref().map(|it| it.reference.is_some()));
    "check values, reaction" ["check.on_shift"] |o| text(o.numbers.as_ref().map(|it| it.on_shift));
    "check values, events of a shift" ["check.events"] |o| text(o.numbers.as_ref().map(|it| it.events));
    "check values, longest shift" ["check.longest_shift"] |o| text(o.numbers.as_ref().map(|it| it.longest));
    "sources that are off" [] |o| {
        text(o.numbers.as_ref().map(|it| it.faults.iter().map(|fault| fault.shift).collect::<Vec<_>>()))
    };
    "datagrams" ["transport.kind", "transport.mtu_bytes"] |o| text(o.recovery.map(|recovery| recovery.datagram));
    "rails" ["transport.rails"] |o| text(o.recovery.map(|recovery| recovery.rails));
    "loss" ["transport.inject_loss"] |o| ratio(o.network.loss);
    "duplication" [] |o| ratio(o.network.duplicate);
    "reordering" [] |o| ratio(o.network.reorder);
    "clogs" [] |o| ratio(o.network.clog);
    "broken links" [] |o| faults(o, |kind| matches!(kind, FaultKind::Link { .. }));
    "crashes of readout units" [] |o| crashes(o, Role::Readout);
    "crashes of builder units" [] |o| crashes(o, Role::Builder);
    "crashes of output nodes" [] |o| crashes(o, Role::Output);
    "stalls of the event manager" [] |o| stalls(o, |node| node == NodeId::MANAGER);
    "stalls of other nodes" [] |o| stalls(o, |node| node != NodeId::MANAGER);
    "freezes of all nodes" [] |o| faults(o, |kind| matches!(kind, FaultKind::Freeze { .. }));
    "silent sources" [] |o| ratio(o.sources.silent);
    "silent optional sources" [] |o| ratio(o.sources.optional_silent);
    "duplicates" [] |o| ratio(o.sources.duplicate);
    "fragments out of order" [] |o| ratio(o.sources.out_of_order);
    "events that wait for later triggers, in a small buffer" [] |o| text(o.may_wait_for_later_triggers());
    "fragments too large" [] |o| ratio(o.sources.oversize);
    "unknown events" [] |o| ratio(o.sources.unknown_event);
    "unknown sources" [] |o| ratio(o.sources.unknown_source);
    "pauses of sources" ["source.replay.pause_us"] |o| ratio(o.sources.pause);
    "early end of a source" [] |o| text(o.sources.early_end.is_some());
    "stops by the operator" ["run.duration_s"] |o| text(o.stops.len());
    "start held by the operator" [] |o| text(o.held_until.is_some());
    "pauses by the operator" [] |o| text(o.pauses.len());
    "exclusions of sources" [] |o| text(o.exclusions.len());
    "exclusions of nodes" [] |o| text(o.node_exclusions.len());
    "nodes that the run requires" ["require.least", "require.nodes", "require.on_loss", "require.share"] |o| text(o.requirements.len());
    "messages through the codec" [] |o| text(o.through_codec);
    "late timers" [] |o| text(o.timer_slack.0 > 0);
};
