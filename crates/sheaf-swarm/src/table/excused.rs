//! Knobs of the configuration that are in no row of the table.

/// A knob, or all of a table (`transport.tls.*`), that no simulated run draws, and why not.
#[derive(Clone, Copy, Debug)]
pub struct Excuse {
    /// The knob.
    pub knob: &'static str,
    /// Why it is not drawn.
    pub reason: &'static str,
}

const FILES: &str = "files are written by sheaf-store, which has tests of its own; a simulated disk has none";
const REPLAY: &str = "how recorded fragments are read and paced is sheaf-source's; a role sees fragments";
const SIZES: &str = "the shape of the size distribution; sizes are drawn evenly up to the largest";
const LINKS: &str = "sheaf-transport's own; no role or driver sees it";
const PLACES: &str = "where threads run; the simulation has none";
const LIBRARIES: &str = "which code judges or processes; the simulation judges by the event's id";
const WORDS: &str = "a name, a number or a path that decides nothing";
const CONSUMERS: &str = "consumers look on and cannot hold a run up; sheaf-tap has tests of its own";
const STORE: &str = "how objects are stored is sheaf-s3's; to a run it is a slow disk, which is drawn";
const TIMED: &str =
    "how packets become fragments is sheaf-time's; a time slice is an event with an announced id";
const WORKERS: &str = "workers of active readout units are threads; sheaf-node tests them with real ones";
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
        "trigger.first_event", "trigger.type", "tags.*", "node.name", "filter.tags",
    ];
    SIZES => [
        "source.emulated.size", "source.emulated.rms_bytes", "source.emulated.minimum_bytes",
        "source.emulated.peak_share", "source.emulated.content", "source.emulated.checksum", "source.emulated.seed",
    ];
    REPLAY => [
        "source.kind", "source.replay.directory", "source.replay.loop_count", "source.replay.pacing",
        "source.replay.rate_hz", "source.replay.rate_division", "source.replay.speed",
    ];
    MEMORY => ["source.memory_bytes", "source.block_bytes"];
    TIMED => ["source.timed.*", "clocks.*", "filter.gap_ps", "filter.window_ps", "filter.min_sources"];
    WORKERS => ["preprocessing.*"];
    LIBRARIES => [
        "building.path", "building.symbol", "building.parameters", "builder.read_payload", "filter.path",
        "filter.symbol", "filter.function", "filter.python", "filter.parameters", "filter.door", "filter.guest_names", "filter.listen",
    ];
    FILES => [
        "output.kind", "output.format", "output.compression", "output.compression_level", "output.rotate_bytes",
        "output.keep_free_bytes", "output.rotate_events", "output.rotate_s", "output.buffer_bytes", "output.own_thread", "streams.*",
    ];
    STORE => ["object_store.*"];
    CONSUMERS => ["consumers.*"];
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
