//! When the tables and keys of a configuration have an effect. Those that are not listed always have one: the tests list them, so that a new
//! key has to be on one of the two lists.

mod sources;

use super::Condition;
use super::When::{self, All, Own};
use crate::Config;
use crate::settings::{
    FilterKind, FrontEnd, OutputCompression, OutputFormat, OutputKind, Protection, ShapingPolicy,
    StepFilterKind, Sync, TransportKind, TriggerMode,
};
use sheaf_wire::Role;

/// Makes a condition on keys of a table; no keys stand for all.
const fn when(
    table: &'static str,
    keys: &'static [&'static str],
    (by, acts): (&'static [&'static str], When),
    remedy: &'static str,
) -> Condition {
    Condition { table, keys, by, acts, remedy }
}

/// All conditions. A key has an effect if all conditions on it hold.
pub(super) const CONDITIONS: &[&[Condition]] = &[
    sources::TRIGGERS,
    sources::SOURCES,
    sources::EMULATED,
    sources::STREAM,
    sources::HITS,
    READOUT,
    STEPS,
    FILTER,
    OUTPUT,
    NETWORK,
];

const WINDOWED: (&[&str], When) = (
    &["source.build_by", "building.first_step"],
    All(|it| it.source.is_windowed() || it.building.finds_windows()),
);

const WINDOWS_REMEDY: &str =
    "write `build_by = \"window\"` in [source], or let a first step find windows, see [building]";

const READOUT: &[Condition] = &[
    when(
        "readout",
        &["orphan_timeout_ms"],
        (&["trigger.mode"], All(Config::has_orphans)),
        "write `mode = \"seen\"`, or another mode in which events begin elsewhere, in [trigger]: all others are requested",
    ),
    when(
        "readout",
        &["suspect_after_ms", "mirror_lag_ms"],
        (&["readout.protect"], All(|it| it.readout.protect == Protection::Mirror)),
        "set `protect = \"mirror\"`",
    ),
    when("windows", &[], WINDOWED, WINDOWS_REMEDY),
    when(
        "windows",
        &["spool_bytes"],
        (&["windows.spool"], All(|it| it.windows.spool.is_some())),
        "set `spool`",
    ),
    when(
        "preprocessing",
        &[
            "symbol",
            "parameters",
            "sources",
            "workers",
            "processes",
            "outstanding_events",
            "time_limit_ms",
            "extra_bytes",
            "memory_bytes",
        ],
        (&["preprocessing.path"], All(|it| it.preprocessing.path.is_some())),
        "set `path`",
    ),
];

const STEPS: &[Condition] = &[
    when(
        "builder",
        &["read_payload"],
        (&["builder.check_content"], All(|it| !it.builder.check_content)),
        "write `check_content = false`: what is checked is read",
    ),
    when(
        "building",
        &["filter", "prescale", "minimum_bytes", "windows", "path", "symbol", "parameters"],
        (&["building.first_step"], All(|it| !it.building.first_step.is_empty())),
        "set `first_step`",
    ),
    when(
        "building",
        &["prescale"],
        (&["building.filter"], All(|it| it.building.filter == StepFilterKind::Prescale)),
        "write `filter = \"prescale\"`",
    ),
    when(
        "building",
        &["minimum_bytes"],
        (&["building.filter"], All(|it| it.building.filter == StepFilterKind::Activity)),
        "write `filter = \"activity\"`",
    ),
    when(
        "building",
        &["windows", "path", "symbol", "parameters"],
        (&["building.filter"], All(|it| it.building.filter == StepFilterKind::Library)),
        "write `filter = \"library\"`",
    ),
    when(
        "check",
        &[],
        (&["check_fields"], All(|it| !it.check_fields.is_empty())),
        "say in a table [check_fields.NAME] where the numbers are",
    ),
];

const FILTER: &[Condition] = &[
    when(
        "filter",
        &["prescale"],
        (&["filter.kind"], All(|it| it.filter.kind == FilterKind::Prescale)),
        "write `kind = \"prescale\"`",
    ),
    when(
        "filter",
        &[
            "gap_ps",
            "window_ps",
            "min_sources",
            "min_hits",
            "min_sum",
            "min_groups",
            "min_sources_in_group",
            "margin_before_us",
            "margin_after_us",
        ],
        (&["filter.kind", "building.filter"], All(finds_coincidences)),
        "write `kind = \"coincidence\"`",
    ),
    when(
        "filter",
        &["gap_ps"],
        (&["filter.window_ps"], All(|it| it.filter.window_ps.is_none())),
        "remove `window_ps`, which replaces it",
    ),
    when(
        "filter",
        &["path"],
        (&["filter.kind"], All(has_code)),
        "write `kind = \"library\"` or `kind = \"python\"`",
    ),
    when(
        "filter",
        &["parameters"],
        // Processors that join with a filter of their own get them.
        (
            &["filter.kind", "filter.door", "filter.listen"],
            All(|it| has_code(it) || it.filter.has_door() || it.filter.listen.is_some()),
        ),
        "write `kind = \"library\"` or `kind = \"python\"`",
    ),
    when(
        "filter",
        &["symbol"],
        (&["filter.kind"], All(|it| it.filter.kind == FilterKind::Library)),
        "write `kind = \"library\"`",
    ),
    when(
        "filter",
        &["function", "python"],
        (&["filter.kind"], All(|it| it.filter.kind == FilterKind::Python)),
        "write `kind = \"python\"`",
    ),
    when(
        "filter",
        &["busy_us"],
        (&["filter.kind"], All(|it| it.filter.kind == FilterKind::Busy)),
        "write `kind = \"busy\"`",
    ),
    when(
        "filter",
        &["guest_names"],
        (
            &["filter.listen", "transport.tls.certificate"],
            All(|it| it.filter.listen.is_some() && has_tls(it)),
        ),
        "set `listen`, and the files of [transport.tls]",
    ),
    when(
        "filter",
        &["time_limit_ms", "load_time_limit_ms", "retries", "ahead", "patience_ms"],
        (&["filter.kind", "filter.workers", "filter.door", "filter.listen"], All(|it| it.filter.has_farm())),
        "let workers judge the events, such as `workers = 2`",
    ),
];

const OUTPUT: &[Condition] = &[
    when(
        "output",
        &[
            "format",
            "compression",
            "compression_level",
            "begin_records",
            "rotate_bytes",
            "rotate_events",
            "rotate_s",
            "buffer_bytes",
            "sync",
            "sync_interval_ms",
        ],
        (&["output.kind"], All(|it| it.output.kind == OutputKind::File)),
        "write `kind = \"file\"`",
    ),
    when(
        "output",
        &["compression", "compression_level"],
        (&["output.format"], All(writes_hdf5)),
        "write `format = \"hdf5\"`",
    ),
    when(
        "output",
        &["compression_level"],
        (&["output.compression"], All(|it| it.output.compression != OutputCompression::None)),
        "set `compression`",
    ),
    when("output", &["window_bytes", "window_events"], (&["output.nodes"], All(has_outputs)), "set `nodes`"),
    when(
        "output",
        &["sync_interval_ms"],
        (&["output.sync"], All(|it| has_sync(it, Sync::Fsync))),
        "write `sync = \"fsync\"`",
    ),
    when(
        "object_store",
        &[],
        (&["output.kind", "output.sync"], All(|it| has_sync(it, Sync::Uploaded))),
        "write `sync = \"uploaded\"` in [output]",
    ),
    when(
        "database",
        &["password_file", "ca_file"],
        (
            &["database.url"],
            All(|it| it.database.url.as_deref().is_some_and(|url| url.starts_with("postgres"))),
        ),
        "write the address of a PostgreSQL server, such as `url = \"postgresql://USER@HOST/NAME\"`",
    ),
    when(
        "consumers",
        &[
            "directory",
            "listen",
            "consumers",
            "queue_events",
            "queue_bytes",
            "rate_hz",
            "copy_bytes_per_second",
            "greeting_ms",
            "patience_ms",
        ],
        (&["consumers.open"], All(|it| it.consumers.open)),
        "write `open = true`",
    ),
    when(
        "trace",
        &["slow_ms", "sample"],
        (&["trace.file_bytes"], All(|it| it.trace.file.0 > 0)),
        "set `file_bytes`",
    ),
    when(
        "value.NAME",
        &["period_ms", "age"],
        (&["read"], Own(|table| table.write("read").is_some())),
        "set `read`: programs send the value when they want",
    ),
];

const NETWORK: &[Condition] = &[
    when(
        "agents",
        &[],
        (&["node.agent"], All(|it| it.node.iter().any(|node| node.agent.is_some()))),
        "write the `agent` of a node in its [[node]] table",
    ),
    when(
        "transport",
        &["provider"],
        (&["transport.kind"], All(|it| it.transport.kind == TransportKind::Libfabric)),
        "write `kind = \"libfabric\"`",
    ),
    when(
        "transport",
        &["receive_bytes"],
        (
            &["transport.kind"],
            All(|it| !matches!(it.transport.kind, TransportKind::Memory | TransportKind::Shm)),
        ),
        "write `kind = \"tcp\"`, or another kind with receive memory",
    ),
    when(
        "transport",
        &["shared_bytes", "huge_pages"],
        (&["transport.kind"], All(|it| it.transport.kind.shares_memory())),
        "write `kind = \"shm\"` or `kind = \"mixed\"`",
    ),
    when(
        "transport",
        &["mtu_bytes", "flight_bytes", "probe_ms", "report_us", "inject_loss", "inject_seed"],
        (&["transport.kind"], All(|it| it.transport.kind.sends_datagrams())),
        "write `kind = \"udp\"` or `kind = \"ethernet\"`",
    ),
    when(
        "transport",
        &["inject_seed"],
        (&["transport.inject_loss"], All(|it| it.transport.inject_loss > 0.0)),
        "set `inject_loss`",
    ),
    when(
        "transport",
        &["ethernet", "ethertype", "queues", "frame_slots", "busy_poll_us"],
        (&["transport.kind"], All(|it| it.transport.kind == TransportKind::Ethernet)),
        "write `kind = \"ethernet\"`",
    ),
    when(
        "node",
        &["interfaces"],
        (&["transport.kind"], All(|it| it.transport.kind == TransportKind::Ethernet)),
        "write `kind = \"ethernet\"` in [transport]",
    ),
    when(
        "shaping",
        &["credit_bytes"],
        (
            &["shaping.policy"],
            All(|it| matches!(it.shaping.policy, ShapingPolicy::Paced | ShapingPolicy::Barrel)),
        ),
        "write `policy = \"paced\"`",
    ),
    when(
        "shaping",
        &["block_bytes", "guard_us", "synchronised"],
        (&["shaping.policy"], All(|it| it.shaping.policy == ShapingPolicy::Barrel)),
        "write `policy = \"barrel\"`",
    ),
    when(
        "shaping",
        &["burst_bytes"],
        (&["shaping.line_rate_bits"], All(|it| it.shaping.line_rate.is_some())),
        "set `line_rate_bits`",
    ),
    when(
        "affinity",
        &["output_cpu", "output_priority", "output_memory"],
        (&["output.nodes"], All(has_outputs)),
        "set `nodes` in [output]",
    ),
];

/// Returns whether events begin with their data, and not with triggers.
fn follows_data(config: &Config) -> bool {
    matches!(config.trigger.mode, TriggerMode::Seen | TriggerMode::Source)
}

fn has_tls(config: &Config) -> bool {
    config.transport.tls.files().is_some()
}

/// Returns whether the filter is code of the user's own.
fn has_code(config: &Config) -> bool {
    matches!(config.filter.kind, FilterKind::Library | FilterKind::Python)
}

/// Returns whether a decoder of the user's own finds the hits.
fn is_decoded(config: &Config) -> bool {
    matches!(config.source.timed.front_end, FrontEnd::Library | FrontEnd::Python)
}

fn finds_coincidences(config: &Config) -> bool {
    let is_first_step =
        config.building.filter == StepFilterKind::Coincidence && !config.building.first_step.is_empty();
    config.filter.kind == FilterKind::Coincidence || is_first_step
}

fn has_outputs(config: &Config) -> bool {
    config.output.nodes > 0 || config.node.iter().any(|node| node.role == Role::Output)
}

/// Returns whether files of the run, or of one of its streams, are as durable as this.
fn has_sync(config: &Config, sync: Sync) -> bool {
    let of_stream = config.streams.values().any(|stream| stream.sync == Some(sync));
    config.output.kind == OutputKind::File && (config.output.sync == sync || of_stream)
}

fn writes_hdf5(config: &Config) -> bool {
    let of_stream = config.streams.values().any(|stream| stream.format == Some(OutputFormat::Hdf5));
    config.output.format == OutputFormat::Hdf5 || of_stream
}
