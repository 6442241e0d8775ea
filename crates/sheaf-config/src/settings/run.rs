//! What a run is, what triggers it, what is kept of it.

use super::{HOUR, MAX_INTEGER};
use crate::codec::{
    address, maybe, microseconds, milliseconds, parameters, path, pick, real, seconds, switch, symbol,
    tag_list, whole, zero_is_none,
};
use crate::knob::{choice, section};
use sheaf_wire::{EventId, Nanos, RunNumber, SourceId, TriggerType};
use std::path::PathBuf;

section! {
    /// What the run is called, where it is written and when it ends.
    Run "run" {
        /// The number of the run. It is in every message and file, so that leftovers of another run are recognised.
        /// 0: the first number above those that have a directory in `output`; nodes that are started one by one need a number
        /// that they agree on.
        number: RunNumber = RunNumber(0), "number", whole(0, u64::from(u32::MAX));
        /// The directory that gets a sub-directory for this run: `run000001` for run 1. Relative paths start at the
        /// working directory of the process.
        output: PathBuf = PathBuf::from("runs"), "output", path(), flag "--output";
        /// Whether a run directory that already has files may be emptied and written again. Without it, such a
        /// directory ends the run before it starts.
        overwrite: bool = false, "overwrite", switch();
        /// How long triggers are taken; then the run ends as soon as the events in flight are done. 0: no limit. Of
        /// this limit and `events`, the one that is reached first ends the run. Left out with a replay, there is no limit: a
        /// replay ends with its data.
        duration: Option<Nanos> = Some(Nanos::from_secs(10)), "duration_s",
            zero_is_none(seconds(Nanos(1), Nanos::from_secs(8_640_000))), flag "--duration";
        /// How long the run warms up, from its start: rates and latencies are of what ends after that. The books have
        /// everything. Less than `duration_s`.
        warm_up: Nanos = Nanos::ZERO, "warm_up_ms", milliseconds(Nanos::ZERO, HOUR);
        /// How many triggers are taken; then the run ends as soon as the events in flight are done. 0: no limit.
        events: Option<u64> = None, "events", zero_is_none(whole(1, MAX_INTEGER)), flag "--events";
        /// How many runs `sheaf run` makes, one after the other, each with the next number. Each begins with the filter, step filter
        /// and preprocessor that are installed then. 0: until it is stopped. Nodes that are started one by one make one run.
        runs: Option<u32> = Some(1), "runs", zero_is_none(whole(1, u64::from(u32::MAX))), flag "--runs";
        /// Whether `sheaf run` copies the libraries and scripts that a run loads into its directory, and loads the copies. Then
        /// nothing that is installed while it lasts changes it. A library that finds others beside itself (`$ORIGIN`), or a directory
        /// on a file system without the right to run code, needs `false`; then there is one run.
        copy_code: bool = true, "copy_code", switch();
    }
}

choice! {
    /// Where triggers come from.
    TriggerMode {
        /// as fast as the builders' credit allows
        Free = "free",
        /// at equal distances, `rate_hz` times a second
        Fixed = "fixed",
        /// at random, `rate_hz` times a second on average
        Poisson = "poisson",
        /// one for every event id that the reference source `source` delivers
        Source = "source",
        /// one for every event id that any source delivers
        Seen = "seen",
    }
}

section! {
    /// What makes the event manager start an event.
    Trigger "trigger" {
        /// Where triggers come from. A replay needs `source` or `seen`, because its event ids are in its data; left
        /// out, it is `seen` there.
        mode: TriggerMode = TriggerMode::Free, "mode", pick(), flag "--trigger-mode";
        /// The rate of the modes `fixed` and `poisson`, in triggers per second. The other modes have none, and refuse it.
        rate_hz: Option<f64> = None, "rate_hz", maybe(real(0.001, 1e9)), flag "--trigger-rate";
        /// The reference source of the mode `source`.
        source: Option<SourceId> = None, "source", maybe(whole(0, u64::from(u32::MAX)));
        /// How many triggers may wait for a builder. A trigger that finds this queue full is vetoed and counted as
        /// dead time.
        queue_events: u32 = 4_096, "queue_events", whole(1, 1 << 24);
        /// Start of the random numbers of the mode `poisson`: the same seed gives the same times.
        seed: u64 = 1, "seed", whole(0, MAX_INTEGER);
        /// The id of the first event, where the event manager numbers them: not with the modes `source` and `seen`.
        first_event: EventId = EventId(0), "first_event", whole(0, MAX_INTEGER);
        /// The trigger type that events carry, in the experiment's own numbering.
        trigger_type: TriggerType = TriggerType(0), "type", whole(0, u64::from(u16::MAX));
    }
}

choice! {
    /// How built events are judged.
    FilterKind {
        /// every event is accepted
        AcceptAll = "accept-all",
        /// every `prescale`-th event is accepted, the others are rejected
        Prescale = "prescale",
        /// time slices are accepted in which a coincidence of several sources begins
        Coincidence = "coincidence",
        /// a filter from the shared library `path` decides, written in C, C++, Rust or whatever else makes one
        Library = "library",
        /// a function or class of the Python file `path` decides, in worker processes
        Python = "python",
        /// every event is accepted after `busy_us` of processor time, for measurements
        Busy = "busy",
    }
}

section! {
    /// What decides whether a built event is stored.
    Filter "filter" {
        /// How built events are judged.
        kind: FilterKind = FilterKind::AcceptAll, "kind", pick();
        /// With the kind `prescale`: one event of so many is accepted.
        prescale: u32 = 1, "prescale", whole(1, u64::from(u32::MAX));
        /// With the kind `coincidence`: hits at most so many picoseconds after the one before belong to its cluster.
        gap_ps: u64 = 500_000, "gap_ps", whole(0, 1_000_000_000_000);
        /// With the kind `coincidence`: hits at most so many picoseconds after a cluster's first belong to it, instead of
        /// what `gap_ps` says. 0: not.
        window_ps: Option<u64> = None, "window_ps", zero_is_none(whole(1, 1_000_000_000_000));
        /// With the kind `coincidence`: how many sources must have part in a cluster.
        min_sources: u32 = 2, "min_sources", whole(1, 65_536);
        /// With the kind `library`: the shared library, which is loaded when the run starts. With the kind `python`: the Python file,
        /// or the name of an installed module.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// With the kind `library`: the function of the library that gives the filter.
        symbol: String = "sheaf_filter".into(), "symbol", symbol();
        /// With the kind `python`: the function or class of the file. Without it, the only one that is marked with `sheaf.filter`.
        function: Option<String> = None, "function", maybe(symbol());
        /// With the kind `python`: the interpreter, which has the package `sheaf`.
        python: PathBuf = PathBuf::from("python3"), "python", path();
        /// With the kind `busy`: processor time for an event.
        busy: Nanos = Nanos::from_micros(100), "busy_us", microseconds(Nanos::ZERO, HOUR);
        /// A text for the filter alone, such as a threshold; what is in it is the filter's choice.
        parameters: String = String::new(), "parameters", parameters();
        /// Names of the tags that the filter may give to events. The first is bit 0 of an event's tags in the files.
        tags: Vec<String> = Vec::new(), "tags", tag_list();
        /// How many workers judge the events of each builder unit. 0: the builder unit's own thread does.
        workers: u16 = 0, "workers", whole(0, 1_024);
        /// Whether the workers are processes, which are started again when they die. Otherwise they are threads: events go to
        /// them a little faster, but a filter that crashes takes the builder unit with it, and one that hangs cannot be ended.
        processes: bool = false, "processes", switch();
        /// Whether each builder unit opens a door at which further processors may join while the run goes on: `bu0.farm` in the
        /// run's directory (`sheaf processor --join`). With `processes` there always is one.
        door: bool = false, "door", switch();
        /// A TCP address at which processors of other hosts may join while the run goes on, as `host:port`: builder unit 0 listens
        /// at this port, builder unit 1 at the next, and so on (`sheaf processor --join HOST:PORT`). Whoever reaches it sees the
        /// run's events and judges them, unless `transport.tls` is set. Left out, there is none.
        listen: Option<String> = None, "listen", maybe(address());
        /// A worker that has events and gives no verdict for this time is given up: its events are judged elsewhere, and where
        /// it is a process of this run it is killed and started again. 0: it may take any time.
        time_limit: Option<Nanos> = Some(Nanos::from_secs(3)), "time_limit_ms", zero_is_none(milliseconds(Nanos::from_millis(1), HOUR));
        /// How often an event is tried again after a worker failed, died or hung with it. After that it is stored as it is, with
        /// the tag `quarantined`.
        retries: u16 = 1, "retries", whole(0, 100);
        /// How many events a worker has at a time, the one that it judges included.
        ahead: u32 = 32, "ahead", whole(1, 65_536);
        /// For how long events wait where there is no worker at all. After that they are stored as they are, with the tag
        /// `quarantined`. 0: without limit; then a run without workers stands still.
        patience: Option<Nanos> = Some(Nanos::from_secs(5)), "patience_ms", zero_is_none(milliseconds(Nanos::from_millis(1), HOUR));
    }
}

impl Filter {
    /// Whether events are judged by a farm, and not by the builder unit's own thread.
    #[must_use]
    pub fn has_farm(&self) -> bool {
        self.workers > 0 || self.door || self.listen.is_some()
    }

    /// Whether processes of the same host may join the farm.
    #[must_use]
    pub fn has_door(&self) -> bool {
        self.door || (self.processes && self.workers > 0)
    }
}
