//! Configuration keys without a row in the table.

/// A configuration key, or all keys of a table (`transport.tls.*`), that simulated runs do not vary, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Excuse {
    /// Configuration key.
    pub knob: &'static str,
    /// Reason.
    pub reason: &'static str,
}

const FILES: &str = "files are written by sheaf-store, which has tests of its own; a simulated disk has none";
const REPLAY: &str = "how recorded fragments are read and paced is sheaf-source's; a role sees fragments";
const SIZES: &str = "the shape of the size distribution; sizes are drawn evenly up to the largest";
const LINKS: &str = "of the transports alone; no role or driver sees it";
const PLACES: &str = "where threads run; the simulation has none";
const LIBRARIES: &str = "which code judges or processes; the simulation judges by the event's id";
const TAGS: &str = "takes tags from an event before streams see it; tags are drawn with the event";
const WORDS: &str = "a name, a number or a path that decides nothing";
const CONSUMERS: &str =
    "how a consumer finds its door and greets is sheaf-tap's; who gets which event is drawn";
const STORE: &str = "how an object is asked for is sheaf-s3's; when it is there is drawn";
const TIMED: &str = "how packets become items with times is sheaf-source's; how items become slices is drawn";
const STREAMS: &str = "how a front end's packets become fragments is sheaf-source's; a role sees fragments";
const PROGRAMS: &str = "processes of the operating system; to a role their sources are fed ones, which come, go and end as drawn";
const SUPERVISOR: &str = "the link to a trigger supervisor has properties of its own in sheaf-protocol; a run here is driven by its triggers";
const CLUSTERS: &str =
    "a filter by coincidences decides by what is in an event; the simulation judges by its id";
const MEMORY: &str = "a source's pool of memory; to a role a source that has none pauses, which is drawn";

macro_rules! excused {
    ($($reason:expr => [$($knob:literal),* $(,)?];)*) => {
        &[$($(Excuse { knob: $knob, reason: $reason },)*)*]
    };
}

/// All excuses.
pub const EXCUSED: &[Excuse] = excused! {
    WORDS => [
        "run.access", "run.number", "run.output", "run.overwrite", "run.warm_up_ms", "run.runs", "run.copy_code", "trigger.seed",
        "trigger.first_event", "trigger.type", "node.name",
    ];
    TAGS => ["tags.prescale"];
    LINKS => ["source.feed.guest_names", "source.feed.listen"];
    STREAMS => ["source.stream.*"];
    PROGRAMS => ["source.command.*", "programs.*"];
    SUPERVISOR => ["trigger.network.*"];
    SIZES => [
        "source.emulated.size", "source.emulated.rms_bytes", "source.emulated.minimum_bytes",
        "source.emulated.peak_share", "source.emulated.content", "source.emulated.checksum", "source.emulated.seed",
    ];
    REPLAY => [
        "source.kind", "source.replay.directory", "source.replay.loop_count", "source.replay.pacing",
        "source.replay.rate_hz", "source.replay.rate_division", "source.replay.speed",
    ];
    MEMORY => ["source.memory_bytes", "source.block_bytes"];
    TIMED => [
        "source.timed.file", "source.timed.listen", "source.timed.front_end", "source.timed.cards", "source.timed.tick_ps",
        "clocks.cards", "clocks.tick_ps", "clocks.offset_ps", "clocks.bits",
    ];
    CLUSTERS => ["filter.gap_ps", "filter.window_ps", "filter.min_sources"];
    LIBRARIES => [
        "building.path", "building.symbol", "building.parameters", "builder.read_payload", "filter.path",
        "filter.symbol", "filter.function", "filter.python", "filter.parameters", "filter.door", "filter.guest_names", "filter.listen",
        "preprocessing.path", "preprocessing.symbol", "preprocessing.parameters",
    ];
    FILES => [
        "output.kind", "output.format", "output.compression", "output.compression_level", "output.keep_free_bytes",
        "output.buffer_bytes", "output.own_thread", "streams.format",
    ];
    STORE => [
        "object_store.endpoint", "object_store.bucket", "object_store.prefix", "object_store.region", "object_store.path_style",
        "object_store.part_bytes", "object_store.verify", "object_store.authorities",
    ];
    CONSUMERS => ["consumers.directory", "consumers.listen", "consumers.greeting_ms"];
    LINKS => [
        "transport.provider", "transport.queue_bytes", "transport.queue_frames", "transport.max_frame_bytes",
        "transport.block_bytes", "transport.receive_bytes", "transport.shared_bytes", "transport.huge_pages",
        "transport.flight_bytes", "transport.key_file", "transport.probe_ms", "transport.report_us", "transport.inject_seed",
        "transport.ethernet", "transport.ethertype", "transport.queues", "transport.frame_slots",
        "transport.busy_poll_us", "transport.send_buffer_bytes", "transport.receive_buffer_bytes",
        "transport.congestion", "transport.connect_timeout_ms", "transport.retry_min_ms", "transport.retry_max_ms",
        "transport.dead_peer_ms", "transport.tls.*", "node.address", "node.more_addresses", "node.interfaces",
    ];
    PLACES => ["affinity.*", "node.cpu"];
};
