//! Configuration keys without a row in the table.

/// A configuration key, or all keys of a table (`transport.tls.*`), that simulated runs do not vary, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Excuse {
    /// Configuration key.
    pub knob: &'static str,
    /// Reason.
    pub reason: &'static str,
}

const FILES: &str = "sheaf-store writes files and has tests of its own; a simulated disk has no files";
const REPLAY: &str = "sheaf-source reads and paces recorded fragments; a role receives fragments";
const SIZES: &str = "shape of the size distribution; sizes are drawn uniformly up to the largest";
const LINKS: &str = "used by transports only; it does not affect a role or driver";
const PLACES: &str = "placement of threads; the simulation has none";
const LIBRARIES: &str = "selects the code that filters or processes; the simulation decides by event id";
const TAGS: &str = "removes tags from an event before streams receive it; tags are drawn with the event";
const WORDS: &str = "a name, a number or a path without influence on a run";
const CONSUMERS: &str = "sheaf-tap finds doors and authenticates consumers; the selection of events is drawn";
const MONITOR: &str = "sheaf-monitor shows what nodes publish; it has no influence on a run";
const STANDBY: &str =
    "the votes are explored exhaustively in sheaf-protocol; a standby is tested with the command";
const MIRRORS: &str = "a unit and its mirror are compared for drawn inputs in sheaf-protocol, and die in worlds of the drivers (`--drivers mirrors`)";
const AGENTS: &str = "starts processes of nodes on hosts; no role or driver knows of it";
const HOOKS: &str = "the process of a run calls commands of the user; no role or driver waits for them";
const PARTITIONS: &str =
    "derives the configuration of a part before there is a plan; no role or driver knows of it";
const VALUES: &str = "the process of a run reads values from outside; no role or driver knows of them";
const SUCCESSION: &str = "a simulated run has one set of roles; what a run hands over is tested in sheaf-protocol and with the command";
const STORE: &str = "sheaf-s3 sends requests for objects; the time at which an object is stored is drawn";
const DATABASE: &str = "the process of a run writes its record there before it starts and after it has ended; no role or driver knows of it";
const TIMED: &str =
    "sheaf-source makes items with times from packets; the division of items into slices is drawn";
const HITS: &str = "a summary judges the counts of the slicer, which are compared with the items of the run";
const KEPT: &str = "sheaf-source keeps hits and cuts windows; for a role, a source gives fragments on request, or says that it no longer has the hits";
const STREAMS: &str = "sheaf-source makes fragments from packets of front ends; a role receives fragments";
const PROGRAMS: &str = "processes of the operating system; for a role their sources are fed ones, which connect and end as drawn";
const SUPERVISOR: &str = "where and how a supervisor connects; in a simulated run its latency is drawn, and the rate follows from the triggers";
const PAYLOADS: &str = "payloads of triggers reach their readout unit as fragments of a source that a program feeds, which is drawn";
const SIGNAL: &str =
    "a thread outside the roles writes it; it is tested in sheaf-node, with a command that is slow";
const QUANTITIES: &str = "in a simulated run all sources have values of one quantity; sources without one are those whose fragments are processed";
const CLUSTERS: &str =
    "a coincidence filter decides by the content of an event; the simulation decides by its id";
const MEMORY: &str = "memory pool of a source; for a role a source without memory pauses, which is drawn";

macro_rules! excused {
    ($($reason:expr => [$($knob:literal),* $(,)?];)*) => {
        &[$($(Excuse { knob: $knob, reason: $reason },)*)*]
    };
}

/// All excuses.
pub const EXCUSED: &[Excuse] = excused! {
    WORDS => [
        "run.access", "run.number", "run.output", "run.overwrite", "run.warm_up_ms", "run.runs", "run.copy_code", "source.map", "trigger.seed",
        "trigger.first_event", "trigger.type", "node.name",
    ];
    SUCCESSION => ["run.continuous"];
    TAGS => ["tags.prescale"];
    LINKS => ["source.feed.guest_names", "source.feed.listen", "trigger.network.guest_names"];
    STREAMS => ["source.stream.*"];
    KEPT => ["windows.spool", "windows.spool_bytes"];
    PROGRAMS => ["source.command.*", "programs.*"];
    SUPERVISOR => [
        "trigger.command.*", "trigger.library.*", "trigger.network.listen", "trigger.network.max_rate_hz", "trigger.network.silence_ms",
    ];
    PAYLOADS => ["trigger.network.payload_source", "trigger.network.payload_maximum_bytes"];
    SIGNAL => ["trigger.busy_file", "trigger.busy_command"];
    QUANTITIES => ["check_fields.sources", "check_fields.quantity"];
    SIZES => [
        "source.emulated.size", "source.emulated.rms_bytes", "source.emulated.minimum_bytes",
        "source.emulated.peak_share", "source.emulated.content", "source.emulated.checksum", "source.emulated.seed",
        "source.emulated.faulty_source", "source.emulated.faulty_event",
    ];
    REPLAY => [
        "source.kind", "source.replay.directory", "source.replay.loop_count", "source.replay.pacing",
        "source.replay.rate_hz", "source.replay.rate_division", "source.replay.speed", "source.replay.expected",
    ];
    MEMORY => ["source.memory_bytes", "source.block_bytes"];
    HITS => ["source.timed.max_lost_fraction"];
    TIMED => [
        "source.ids", "source.time_unit", "source.epoch",
        "source.timed.file", "source.timed.listen", "source.timed.front_end", "source.timed.times", "source.timed.zero",
        "source.timed.cards", "source.timed.tick", "clocks.cards", "clocks.tick", "clocks.drift",
        "clocks.offset", "clocks.bits", "source.timed.pulse_period", "source.timed.pulse_tolerance", "clocks.pulse_delay", "source.hits.*", "source.decoder.*",
        "source.free_running.*",
    ];
    CLUSTERS => ["filter.gap_ps", "filter.window_ps", "filter.min_sources", "filter.min_hits", "filter.min_sum", "filter.min_groups",
        "filter.min_sources_in_group", "filter.margin_before_us", "filter.margin_after_us", "groups.sources"];
    LIBRARIES => [
        "building.path", "building.symbol", "building.parameters", "building.windows", "builder.read_payload", "filter.path",
        "filter.symbol", "filter.function", "filter.python", "filter.parameters", "filter.door", "filter.guest_names", "filter.listen",
        "source.library.*", "preprocessing.path", "preprocessing.symbol", "preprocessing.parameters",
    ];
    FILES => [
        "output.kind", "output.format", "output.compression", "output.compression_level", "output.keep_free_bytes",
        "output.begin_records", "output.buffer_bytes", "streams.format",
    ];
    STORE => [
        "object_store.endpoint", "object_store.bucket", "object_store.prefix", "object_store.region", "object_store.path_style",
        "object_store.part_bytes", "object_store.verify", "object_store.authorities",
    ];
    DATABASE => ["database.*"];
    MONITOR => ["monitor.alarm_command", "monitor.alertmanager", "monitor.histogram_bytes", "monitor.alarm_hold_off_ms", "monitor.linger_ms", "monitor.listen", "monitor.remote.listen", "monitor.remote.certificate", "monitor.remote.key", "log.format", "log.max_bytes", "trace.file_bytes", "trace.slow_ms", "trace.sample", "control.stop_timeout_ms", "control.cut_timeout_ms", "control.lock_ms"];
    AGENTS => ["agents.*", "node.agent"];
    STANDBY => ["manager.standby", "manager.voters", "manager.suspect_after_ms", "manager.standby_lag_ms"];
    MIRRORS => ["readout.protect", "readout.suspect_after_ms", "readout.mirror_lag_ms"];
    HOOKS => ["hook.*"];
    PARTITIONS => ["partition.*", "run.partition", "node.feed_index"];
    VALUES => ["value.*"];
    CONSUMERS => ["consumers.directory", "consumers.listen", "consumers.greeting_ms"];
    LINKS => [
        "transport.provider", "transport.queue_bytes", "transport.max_frame_bytes",
        "transport.block_bytes", "transport.receive_bytes", "transport.shared_bytes", "transport.huge_pages",
        "transport.flight_bytes", "transport.key_file", "transport.probe_ms", "transport.report_us", "transport.inject_seed",
        "transport.ethernet", "transport.ethertype", "transport.queues", "transport.frame_slots",
        "transport.busy_poll_us", "transport.send_buffer_bytes", "transport.receive_buffer_bytes",
        "transport.congestion", "transport.connect_timeout_ms", "transport.retry_min_ms", "transport.retry_max_ms",
        "transport.dead_peer_ms", "transport.tls.*", "node.address", "node.more_addresses", "node.interfaces",
    ];
    PLACES => ["affinity.*", "node.cpu"];
};
