//! Runs, their triggers and their output.

use super::{HOUR, KIB, MAX_INTEGER};
use crate::choice::choice;
use crate::codec::{
    address, bytes, command_line, maybe, microseconds, milliseconds, name, name_list, parameters, path, pick,
    real, seconds, source_id, switch, symbol, tag_list, variable_list, whole, zero_is_none,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, EventId, Nanos, RunNumber, SourceId, TriggerType};
use std::path::PathBuf;

section! {
    /// The run: its number, its output directory, and when it ends.
    Run "run" {
        /// Number of the run. Every message and file carries it, so that leftovers of another run are recognised. 0:
        /// the first number above those that have a directory in `output`; nodes that are started one by one need a
        /// number that they agree on.
        number: RunNumber = RunNumber(0), "number", whole(0, u64::from(u32::MAX));
        /// Directory in which the run directory is created: `run000001` for run 1. Relative paths start at the
        /// working directory of the process.
        output: PathBuf = PathBuf::from("runs"), "output", path(), flag "--output";
        /// Whether an existing run directory may be emptied and reused. If not, a run directory that has files
        /// prevents the run from starting.
        overwrite: bool = false, "overwrite", switch();
        /// Duration of the run, not counting pauses. After this time no more triggers are accepted, and the run ends when all in-flight
        /// events have ended. 0: no limit. If `events` is also set, the limit that is reached first ends the run. A
        /// replay without this key ends with its data.
        duration: Option<Nanos> = Some(Nanos::from_secs(10)), "duration_s",
            zero_is_none(seconds(Nanos(1), Nanos::from_secs(8_640_000))), flag "--duration";
        /// Warm-up time from the start of the run, not counting pauses. Rates and latencies exclude events that end within it; the ledger
        /// includes them. Must be less than `duration_s`.
        warm_up: Nanos = Nanos::ZERO, "warm_up_ms", milliseconds(Nanos::ZERO, HOUR);
        /// Number of triggers to accept. The run then ends when all in-flight events have ended. 0: no limit.
        events: Option<u64> = None, "events", zero_is_none(whole(1, MAX_INTEGER)), flag "--events";
        /// Number of consecutive runs of `sheaf run`. Each has the next number and loads the filter, step filter and
        /// preprocessor that are installed when it begins. 0: until stopped. Nodes that are started one by one take
        /// part in one run.
        runs: Option<u32> = Some(1), "runs", zero_is_none(whole(1, u64::from(u32::MAX))), flag "--runs";
        /// Whether consecutive runs follow one another without a gap: links and sources go on, and the event after the last one of a run is
        /// the first one of the next. Each run has files and books of its own.
        continuous: bool = false, "continuous", switch();
        /// Whether `sheaf run` copies the libraries and scripts of a run into its directory and loads the copies, so
        /// that files installed during the run do not affect it. Set `false` for a library that finds others beside
        /// itself (`$ORIGIN`), or if the directory is on a file system that does not allow execution; only one run is
        /// then possible.
        copy_code: bool = true, "copy_code", switch();
        /// [Partition](../operating/partitions.md) of the system that the runs are of. Flag: `--partition`. Default: the whole system.
        partition: Option<String> = None, "partition", maybe(name()), flag "--partition";
        /// Access to the files of the run: the modes of its directories and files.
        access: Access = Access::Group, "access", pick();
    }
}

choice! {
    /// Who may read files.
    Access {
        /// the user alone: directories 0700, files 0600
        User = "user",
        /// also the user's group: directories 0750, files 0640
        Group = "group",
        /// everybody: directories 0755, files 0644
        All = "all",
    }
}

impl Access {
    /// The permissions that new files and directories do not get.
    #[must_use]
    pub const fn mask(self) -> u32 {
        match self {
            Self::User => 0o077,
            Self::Group => 0o027,
            Self::All => 0o022,
        }
    }
}

choice! {
    /// Source of triggers.
    TriggerMode {
        /// as fast as the credit of the builder units allows
        Free = "free",
        /// periodically, at `rate_hz`
        Fixed = "fixed",
        /// at random times (Poisson), at `rate_hz` on average
        Poisson = "poisson",
        /// one trigger for every event id that the reference source `source` delivers
        Source = "source",
        /// one trigger for every event id that any source delivers
        Seen = "seen",
        /// from a trigger supervisor, see `[trigger.network]`
        Network = "network",
        /// from a trigger supervisor that Sheaf starts and ends, see `[trigger.command]`
        Command = "command",
        /// from a shared library of your own, see `[trigger.library]`
        Library = "library",
    }
}

section! {
    /// Triggers: when the event manager starts an event.
    Trigger "trigger" {
        /// Source of triggers. A replay takes its event ids from its data and needs `source` or `seen` (its default).
        mode: TriggerMode = TriggerMode::Free, "mode", pick(), flag "--trigger-mode";
        /// The rate of the modes `fixed` and `poisson`, in triggers per second. The other modes have none, and refuse
        /// it.
        rate_hz: Option<f64> = None, "rate_hz", maybe(real(0.001, 1e9)), flag "--trigger-rate";
        /// Reference source for the mode `source`.
        source: Option<SourceId> = None, "source", maybe(source_id());
        /// Maximum number of triggers that wait for a builder unit. Further triggers are vetoed and counted as dead
        /// time.
        queue_events: u32 = 4_096, "queue_events", whole(1, 1 << 24);
        /// Seed of the mode `poisson`: the same seed gives the same trigger times.
        seed: u64 = 1, "seed", whole(0, MAX_INTEGER);
        /// Id of the first event, if the event manager numbers events (all modes but `source` and `seen`). With
        /// `network`, `command` and `library`: id of the first trigger.
        first_event: EventId = EventId(0), "first_event", whole(0, MAX_INTEGER);
        /// The trigger type that events carry, in the experiment's own numbering.
        trigger_type: TriggerType = TriggerType(0), "type", whole(0, u64::from(u16::MAX));
        /// File to whose beginning the event manager writes `1` while triggers are not taken, and `0` while they are, such as that
        /// of an output line of the host. It is made if it does not exist. Default: none.
        busy_file: Option<PathBuf> = None, "busy_file", maybe(path());
        /// Command that is run with `1` as its last argument when triggers are not taken, and with `0` when they are. While it
        /// runs, changes wait, and only the last one is passed on. It is killed after 10 s. Empty: none.
        busy_command: Vec<String> = Vec::new(), "busy_command", command_line();
    }
    nested {
        /// A trigger supervisor.
        network: TriggerNetwork;
        /// A trigger supervisor that Sheaf starts.
        command: TriggerCommand;
        /// A library of triggers.
        library: TriggerLibrary;
    }
}

impl TriggerMode {
    /// Whether a trigger supervisor gives the triggers.
    #[must_use]
    pub fn has_supervisor(self) -> bool {
        matches!(self, Self::Network | Self::Command | Self::Library)
    }

    /// Whether Sheaf starts this trigger supervisor.
    #[must_use]
    pub fn starts_supervisor(self) -> bool {
        matches!(self, Self::Command | Self::Library)
    }
}

choice! {
    /// Protocol below the messages of a trigger supervisor.
    TriggerProtocol {
        /// messages follow each other in a connection; none is lost
        Tcp = "tcp",
        /// datagrams, for devices without TCP; lost triggers are counted, and are no events
        Udp = "udp",
    }
}

section! {
    /// A trigger supervisor: a device or program of the experiment that gives the triggers of a run over TCP or UDP, and holds
    /// them back while the event manager is busy.
    TriggerNetwork "trigger.network" {
        /// Address at which the event manager accepts one trigger supervisor, as `host:port`; required for the mode
        /// `network`. With `command` the default is a free port of this host, and with `library` it is always one. Anyone who can reach it can give triggers, unless `transport.key_file` or, over TCP, `transport.tls` is set.
        listen: Option<String> = None, "listen", maybe(address());
        /// Protocol at `listen`.
        protocol: TriggerProtocol = TriggerProtocol::Tcp, "protocol", pick();
        /// Names accepted in the certificate of a supervisor over TCP, if `transport.tls` is set. One of them must be among the subject
        /// alternative names of the certificate. The certificate of a node is not accepted.
        guest_names: Vec<String> = vec!["trigger".to_owned()], "guest_names", name_list();
        /// Over UDP: time after which a silent supervisor counts as gone. It answers 20 times a second.
        silence: Nanos = Nanos::from_secs(3), "silence_ms", milliseconds(Nanos::from_millis(100), HOUR);
        /// Maximum time of a message from the supervisor to the event manager, and back. Room for the triggers of twice this
        /// time at `max_rate_hz` is kept free in `trigger.queue_events`: busy is sent when only this room is left.
        latency: Nanos = Nanos::from_millis(1), "latency_us", microseconds(Nanos::ZERO, HOUR);
        /// Maximum rate of the supervisor's triggers, in triggers per second: the inverse of the shortest distance between two
        /// of them.
        max_rate_hz: f64 = 100_000.0, "max_rate_hz", real(0.001, 1e9);
        /// Source whose fragments are the payloads of the triggers; a trigger without one gives an empty fragment. The event
        /// manager feeds it to its readout unit, which must run on the same host. Default: triggers have no payload.
        payload_source: Option<SourceId> = None, "payload_source", maybe(source_id());
        /// Maximum payload of a trigger. `trigger.queue_events` of them may wait for the readout unit.
        payload_maximum: ByteCount = ByteCount(1_024), "payload_maximum_bytes", bytes(1, 64 * KIB);
    }
}

section! {
    /// A trigger supervisor that the event manager starts, with `trigger.mode = "command"`. It finds address, protocol and key file in its
    /// environment (`SHEAF_TRIGGER_ADDRESS`, `SHEAF_TRIGGER_PROTOCOL`, `SHEAF_TRIGGER_KEY_FILE`), and connects as described for
    /// `[trigger.network]`, whose keys apply. Restarts, end and log follow `[source.command]`. If it will not be started again, the run
    /// ends.
    TriggerCommand "trigger.command" {
        /// The program and its arguments: `["python3", "supervisor.py"]`. Required for the mode `command`. A program without `/` is
        /// looked up in `PATH`.
        command: Vec<String> = Vec::new(), "command", command_line();
        /// Variables of its environment, `NAME=value`, in addition to those of the event manager's process.
        environment: Vec<String> = Vec::new(), "environment", variable_list();
        /// Its working directory. Default: the one of the event manager's process.
        directory: Option<PathBuf> = None, "directory", maybe(path());
    }
}

section! {
    /// A shared library that is polled for triggers, with `trigger.mode = "library"`. It is in a process of its own, which the event manager
    /// starts: a crash or a hang does not affect the run. `latency_us`, `max_rate_hz`, `payload_source` and `payload_maximum_bytes` of
    /// `[trigger.network]` apply. Restarts, end and log follow `[source.command]`. If it will not be started again, the run ends.
    TriggerLibrary "trigger.library" {
        /// The shared library, required for the mode `library`.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// Function of the library that returns the table of its functions.
        symbol: String = "sheaf_trigger".into(), "symbol", symbol();
        /// Text that is passed to the library, such as the address of a crate. Sheaf does not interpret it.
        parameters: String = String::new(), "parameters", parameters();
        /// Maximum number of triggers of a poll.
        batch_triggers: u32 = 256, "batch_triggers", whole(1, 65_536);
    }
}

impl TriggerNetwork {
    /// Number of triggers that may be in flight when busy is sent.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        sheaf_wire::trigger_link::reserve(self.latency, self.max_rate_hz)
    }
}

choice! {
    /// Kind of filter.
    FilterKind {
        /// every event is accepted
        AcceptAll = "accept-all",
        /// every `prescale`-th event is accepted, all others are rejected
        Prescale = "prescale",
        /// time slices in which a coincidence of several sources begins are accepted
        Coincidence = "coincidence",
        /// a filter in the shared library `path`, written in C, C++, Rust or any language that makes one
        Library = "library",
        /// a function or class of the Python file `path`, in worker processes
        Python = "python",
        /// every event is accepted after `busy_us` of processor time, for measurements
        Busy = "busy",
    }
}

section! {
    /// The filter: decides whether a built event is stored.
    Filter "filter" {
        /// Kind of filter.
        kind: FilterKind = FilterKind::AcceptAll, "kind", pick();
        /// With the kind `prescale`: accepts one event in this many.
        prescale: u32 = 1, "prescale", whole(1, u64::from(u32::MAX));
        /// With the kind `coincidence`: longest gap, in picoseconds, between consecutive hits of a cluster.
        gap_ps: u64 = 500_000, "gap_ps", whole(0, 1_000_000_000_000);
        /// With the kind `coincidence`: length of a cluster, in picoseconds from its first hit; replaces `gap_ps`. 0:
        /// not used.
        window_ps: Option<u64> = None, "window_ps", zero_is_none(whole(1, 1_000_000_000_000));
        /// With the kind `coincidence`: minimum number of sources in a cluster.
        min_sources: u32 = 2, "min_sources", whole(1, 65_536);
        /// With the kind `coincidence`: minimum number of hits in a cluster.
        min_hits: u32 = 1, "min_hits", whole(1, u64::from(u32::MAX));
        /// With the kind `coincidence`: minimum sum of the values of the hits in a cluster.
        min_sum: u64 = 0, "min_sum", whole(0, MAX_INTEGER);
        /// With the kind `coincidence`: minimum number of groups in `[groups]` with a hit in a cluster.
        min_groups: u32 = 0, "min_groups", whole(0, 65_536);
        /// With the kind `coincidence`: minimum number of sources of one group in a cluster. With a group for each source and its
        /// neighbours, this asks for neighbouring sources. 0: not asked for.
        min_sources_in_group: u32 = 0, "min_sources_in_group", whole(0, 65_536);
        /// With the kind `coincidence`: time before the first hit of a cluster that belongs to its window.
        margin_before: Nanos = Nanos::ZERO, "margin_before_us", microseconds(Nanos::ZERO, HOUR);
        /// With the kind `coincidence`: time after the last hit of a cluster that belongs to its window.
        margin_after: Nanos = Nanos::ZERO, "margin_after_us", microseconds(Nanos::ZERO, HOUR);
        /// With the kind `library`: path of the shared library, which is loaded when the run starts. With the kind
        /// `python`: path of the Python file, or name of an installed module.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// With the kind `library`: function of the library that returns the filter.
        symbol: String = "sheaf_filter".into(), "symbol", symbol();
        /// With the kind `python`: function or class of the file. Default: the only one that is marked with
        /// `sheaf.filter`.
        function: Option<String> = None, "function", maybe(symbol());
        /// With the kind `python`: interpreter that can import the package `sheaf`.
        python: PathBuf = PathBuf::from("python3"), "python", path();
        /// With the kind `busy`: processor time per event.
        busy: Nanos = Nanos::from_micros(100), "busy_us", microseconds(Nanos::ZERO, HOUR);
        /// Text that is passed to the filter, such as a threshold. Sheaf does not interpret it.
        parameters: String = String::new(), "parameters", parameters();
        /// Names of the tags that the filter may give to events. The first is bit 0 of the tags in event files.
        tags: Vec<String> = Vec::new(), "tags", tag_list();
        /// Number of workers that judge the events of each builder unit. Default: 1; 0 with the kinds `accept-all` and
        /// `prescale`, which take no time, and if processors join by themselves (`door`, `listen`). Set it to 0 only
        /// for a fast filter: the builder unit then judges on its own thread, and does nothing else meanwhile.
        workers: Option<u16> = None, "workers", maybe(whole(0, 1_024));
        /// Whether workers are processes, which are restarted when they die. Otherwise they are threads: slightly
        /// faster, but a filter that crashes takes the builder unit with it, and one that hangs cannot be ended.
        processes: bool = false, "processes", switch();
        /// Whether each builder unit lets additional processors of the same host join during the run, at the socket
        /// `bu0.farm` in the run directory (`sheaf processor --join`). Always on with `processes`.
        door: bool = false, "door", switch();
        /// TCP address at which processors of other hosts may join during the run, as `host:port`: builder unit 0
        /// listens at this port, builder unit 1 at the next, and so on (`sheaf processor --join HOST:PORT`). Anyone
        /// who can reach it can read and judge the events of the run, unless `transport.key_file`
        /// or `transport.tls` is set. Default: none.
        listen: Option<String> = None, "listen", maybe(address());
        /// Names accepted in the certificates of processors that join at `listen`, if `transport.tls` is set. One of
        /// them must be among the subject alternative names of the certificate. The certificate of a node is not
        /// accepted.
        guest_names: Vec<String> = vec!["processor".to_owned()], "guest_names", name_list();
        /// Time without a verdict after which a worker that has events counts as hung: its events are judged elsewhere,
        /// and a process of this run is killed and restarted. Choose a time longer than any call of a working filter.
        /// 0: no limit.
        time_limit: Option<Nanos> = Some(Nanos::from_secs(300)), "time_limit_ms", zero_is_none(milliseconds(Nanos::from_millis(1), HOUR));
        /// Time that a worker has to load its filter, with the start of its interpreter, before it counts as hung and is
        /// restarted. The run begins when the workers of each builder unit have loaded their filters. If a worker ends three times
        /// before, the run does not begin. Processors that join by themselves are not awaited. 0: no limit.
        load_time_limit: Option<Nanos> = Some(Nanos::from_secs(300)), "load_time_limit_ms", zero_is_none(milliseconds(Nanos::from_millis(1), HOUR));
        /// Number of retries of an event after a worker failed, died or hung with it. After that it is stored
        /// unfiltered, with the tag `quarantined`.
        retries: u16 = 1, "retries", whole(0, 100);
        /// Number of events that a worker holds at a time, including the one that it judges.
        ahead: u32 = 32, "ahead", whole(1, 65_536);
        /// Time for which events wait while there is no worker at all: long enough to start an interpreter on a busy
        /// host. After that they are stored without a verdict, with the tag `quarantined`. 0: no limit; a run without
        /// workers then stands still.
        patience: Option<Nanos> = Some(Nanos::from_secs(60)), "patience_ms", zero_is_none(milliseconds(Nanos::from_millis(1), HOUR));
    }
}

impl Filter {
    /// Returns the number of workers of each builder unit: the configured number, or the default of the kind of filter.
    ///
    /// A filter that is not known to be fast runs on a builder unit's main thread only if it is configured to: that thread
    /// also answers the event manager and requests fragments.
    #[must_use]
    pub fn started_workers(&self) -> u16 {
        let joined = self.door || self.listen.is_some();
        let automatic = match self.kind {
            _ if self.processes => 1,
            FilterKind::AcceptAll | FilterKind::Prescale | FilterKind::Python => 0,
            FilterKind::Coincidence | FilterKind::Library | FilterKind::Busy => u16::from(!joined),
        };
        self.workers.unwrap_or(automatic)
    }

    /// Whether events are judged by a farm, and not by the builder unit's own thread.
    #[must_use]
    pub fn has_farm(&self) -> bool {
        self.started_workers() > 0 || self.door || self.listen.is_some()
    }

    /// Whether processes of the same host may join the farm.
    #[must_use]
    pub fn has_door(&self) -> bool {
        self.door || (self.processes && self.started_workers() > 0)
    }
}
