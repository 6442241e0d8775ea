//! Permitted dependencies. `cargo xtask docs` generates the diagram and the table of ARCHITECTURE.md from this.

/// A floor of the architecture. A package depends only on packages of its own floor and of those below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Floor {
    Vocabulary,
    Protocol,
    Ports,
    Transports,
    Nodes,
    Edges,
    Laboratories,
    Faces,
}

impl Floor {
    /// All floors, from the ground up.
    pub(super) const ALL: [Self; 8] = [
        Self::Vocabulary,
        Self::Protocol,
        Self::Ports,
        Self::Transports,
        Self::Nodes,
        Self::Edges,
        Self::Laboratories,
        Self::Faces,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Vocabulary => "vocabulary",
            Self::Protocol => "protocol",
            Self::Ports => "ports",
            Self::Transports => "transports",
            Self::Nodes => "nodes",
            Self::Edges => "edges",
            Self::Laboratories => "laboratories",
            Self::Faces => "faces",
        }
    }

    /// Contents of the floor, for readers of ARCHITECTURE.md.
    pub(super) const fn purpose(self) -> &'static str {
        match self {
            Self::Vocabulary => "ids, units, byte layouts; memory; keys",
            Self::Protocol => {
                "sans-IO machines: readout unit, builder unit, event manager, output node; links that recover from loss, shapers of traffic"
            }
            Self::Ports => "one crate for each external resource that a role needs",
            Self::Transports => "the port of all transports, and one crate for each transport",
            Self::Nodes => "roles on threads; the configuration; roles on a simulated switch",
            Self::Edges => "for other programs and languages: consumers, importers, C, Python, examples",
            Self::Laboratories => "measurement and simulation",
            Self::Faces => "the command, and the verbs of the repository",
        }
    }
}

/// Permitted dependencies of one package.
#[derive(Debug)]
pub(super) struct Layer {
    /// The package.
    pub(super) package: &'static str,
    /// Its floor.
    pub(super) floor: Floor,
    /// Packages of this workspace that it may depend on.
    pub(super) may_know: &'static [&'static str],
    /// External packages that it may depend on, each justified under `docs/decisions/`.
    pub(super) may_use: &'static [&'static str],
    /// Reason for the restriction.
    pub(super) reason: &'static str,
}

/// All packages, from the vocabulary upwards. A package depends only on packages above it in this table, so that there is no
/// cycle. Tests may use any package above, too.
pub(super) const LAYERS: &[Layer] = &[
    Layer {
        package: "sheaf-wire",
        floor: Floor::Vocabulary,
        may_know: &[],
        may_use: &["bytes", "crc-fast", "num-rational", "num-traits", "thiserror", "zerocopy"],
        reason: "the vocabulary of all crates; depends on none",
    },
    Layer {
        package: "sheaf-buffer",
        floor: Floor::Vocabulary,
        may_know: &[],
        may_use: &["bytes"],
        reason: "a memory pool does not depend on its contents",
    },
    Layer {
        package: "sheaf-telemetry",
        floor: Floor::Vocabulary,
        may_know: &[],
        may_use: &[],
        reason: "metrics and the memory that they are published through, whatever they count",
    },
    Layer {
        package: "sheaf-time",
        floor: Floor::Ports,
        may_know: &["sheaf-wire"],
        may_use: &["num-rational", "num-traits", "thiserror"],
        reason: "slices time without interpreting the items; knows exact durations",
    },
    Layer {
        package: "sheaf-machine",
        floor: Floor::Ports,
        may_know: &[],
        may_use: &["libc", "rustix", "serde", "thiserror"],
        reason: "inspects the machine and places threads, for any purpose",
    },
    Layer {
        package: "sheaf-shaping",
        floor: Floor::Protocol,
        may_know: &["sheaf-wire"],
        may_use: &[],
        reason: "a shaper counts bytes and knows neither roles nor transports",
    },
    Layer {
        package: "sheaf-recovery",
        floor: Floor::Protocol,
        may_know: &["sheaf-wire"],
        may_use: &["thiserror"],
        reason: "links that recover from loss are sans-IO machines, independent of the roles",
    },
    Layer {
        package: "sheaf-protocol",
        floor: Floor::Protocol,
        may_know: &["sheaf-shaping", "sheaf-wire"],
        may_use: &["rustc-hash", "thiserror"],
        reason: "the roles are sans-IO machines that run on any driver",
    },
    Layer {
        package: "sheaf-control",
        floor: Floor::Protocol,
        may_know: &["sheaf-wire"],
        may_use: &["serde", "thiserror"],
        reason: "run control is a pair of sans-IO machines that know neither processes nor HTTP",
    },
    Layer {
        package: "sheaf-key",
        floor: Floor::Vocabulary,
        may_know: &[],
        may_use: &["ring", "rustix", "thiserror"],
        reason: "a secret and its proofs, independent of the transport",
    },
    Layer {
        package: "sheaf-transport",
        floor: Floor::Transports,
        may_know: &["sheaf-wire"],
        may_use: &["bytes", "rtrb", "rustix", "thiserror", "zerocopy"],
        reason: "a transport carries opaque messages and does not know the protocol",
    },
    Layer {
        package: "sheaf-conformance",
        floor: Floor::Transports,
        may_know: &["sheaf-transport", "sheaf-wire"],
        may_use: &["bytes", "rustix"],
        reason: "the tests that every transport passes; used only by tests",
    },
    Layer {
        package: "sheaf-tcp",
        floor: Floor::Transports,
        may_know: &["sheaf-buffer", "sheaf-key", "sheaf-transport", "sheaf-wire"],
        may_use: &["bytes", "libc", "mio", "rustix", "rustls", "socket2", "thiserror", "zerocopy"],
        reason: "one transport depends on no other",
    },
    Layer {
        package: "sheaf-shm",
        floor: Floor::Transports,
        may_know: &["sheaf-buffer", "sheaf-transport", "sheaf-wire"],
        may_use: &["bytes", "rustix", "thiserror", "zerocopy"],
        reason: "processes of one host share memory, without other transports",
    },
    Layer {
        package: "sheaf-datagram",
        floor: Floor::Transports,
        may_know: &[
            "sheaf-buffer",
            "sheaf-key",
            "sheaf-recovery",
            "sheaf-shaping",
            "sheaf-transport",
            "sheaf-wire",
        ],
        may_use: &["bytes", "libc", "rustix", "socket2", "thiserror", "zerocopy"],
        reason: "networks that lose, with recovery from loss, for any messages",
    },
    Layer {
        package: "sheaf-libfabric",
        floor: Floor::Transports,
        may_know: &["sheaf-key", "sheaf-tcp", "sheaf-transport", "sheaf-wire"],
        may_use: &["bytes", "rustix", "thiserror", "zerocopy"],
        reason: "libfabric's datagrams have no connections, so nodes meet over TCP",
    },
    Layer {
        package: "sheaf-store",
        floor: Floor::Ports,
        may_know: &["sheaf-wire"],
        may_use: &[
            "bytes",
            "crc32fast",
            "hdf5-metno",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "zerocopy",
        ],
        reason: "files can be read without a run",
    },
    Layer {
        package: "sheaf-spool",
        floor: Floor::Ports,
        may_know: &["sheaf-key", "sheaf-store", "sheaf-wire"],
        may_use: &["log", "mio", "rustix", "serde_json", "thiserror", "zerocopy"],
        reason: "keeps hits of any source in files, and gives out windows without a run",
    },
    Layer {
        package: "sheaf-s3",
        floor: Floor::Ports,
        may_know: &["sheaf-store", "sheaf-wire"],
        may_use: &["base64", "log", "rusty-s3", "thiserror", "ureq"],
        reason: "uploads closed files of any writer",
    },
    Layer {
        package: "sheaf-source",
        floor: Floor::Ports,
        may_know: &["sheaf-buffer", "sheaf-store", "sheaf-time", "sheaf-wire"],
        may_use: &["bytes", "etherparse", "libm", "num-rational", "pcap-parser", "socket2", "thiserror"],
        reason: "a source makes or replays fragments, whatever their destination",
    },
    Layer {
        package: "sheaf-config",
        floor: Floor::Nodes,
        may_know: &["sheaf-wire"],
        may_use: &["strsim", "thiserror", "toml"],
        reason: "the only crate that knows the file format; used by two libraries: the simulator, for its messages, and the lab, which generates configurations",
    },
    Layer {
        package: "sheaf-import",
        floor: Floor::Edges,
        may_know: &["sheaf-store", "sheaf-wire"],
        may_use: &["flate2", "serde", "serde_json", "tempfile", "thiserror", "zerocopy"],
        reason: "an importer writes fragment streams and needs no run",
    },
    Layer {
        package: "sheaf-filter",
        floor: Floor::Ports,
        may_know: &["sheaf-wire"],
        may_use: &["bytes", "libloading", "thiserror"],
        reason: "authors of filters link it, so it needs no run",
    },
    Layer {
        package: "sheaf-monitor",
        floor: Floor::Edges,
        may_know: &["sheaf-machine", "sheaf-protocol", "sheaf-telemetry", "sheaf-wire"],
        may_use: &[
            "axum",
            "bytes",
            "futures-util",
            "log",
            "prometheus-client",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
        ],
        reason: "shows snapshots of any run, made by any nodes; of the protocol it knows causes and reasons",
    },
    Layer {
        package: "sheaf-tap",
        floor: Floor::Edges,
        may_know: &["sheaf-key", "sheaf-protocol", "sheaf-wire"],
        may_use: &["bytes", "log", "mio", "rtrb", "serde", "serde_json", "thiserror"],
        reason: "a small client for consumers; the protocol crate selects their events",
    },
    Layer {
        package: "sheaf-feed",
        floor: Floor::Transports,
        may_know: &[
            "sheaf-buffer",
            "sheaf-key",
            "sheaf-protocol",
            "sheaf-shm",
            "sheaf-source",
            "sheaf-tcp",
            "sheaf-transport",
            "sheaf-wire",
        ],
        may_use: &["bytes", "log", "rtrb", "thiserror"],
        reason: "fragments from programs of the user, and the client that these use",
    },
    Layer {
        package: "sheaf-node",
        floor: Floor::Nodes,
        may_know: &[
            "sheaf-buffer",
            "sheaf-feed",
            "sheaf-filter",
            "sheaf-key",
            "sheaf-protocol",
            "sheaf-shaping",
            "sheaf-source",
            "sheaf-store",
            "sheaf-telemetry",
            "sheaf-time",
            "sheaf-shm",
            "sheaf-tcp",
            "sheaf-transport",
            "sheaf-wire",
        ],
        may_use: &["bytes", "hdrhistogram", "log", "rand", "rand_pcg", "rtrb", "rustix", "thiserror"],
        reason: "nodes drive roles through traits; the command chooses the implementations",
    },
    Layer {
        package: "sheaf-swarm",
        floor: Floor::Laboratories,
        may_know: &[
            "sheaf-node",
            "sheaf-protocol",
            "sheaf-recovery",
            "sheaf-shaping",
            "sheaf-source",
            "sheaf-store",
            "sheaf-time",
            "sheaf-transport",
            "sheaf-wire",
        ],
        may_use: &["bytes", "clap", "rand_pcg", "serde_json"],
        reason: "the simulated cluster runs roles and drivers behind the traits of ports, without a transport or a clock; of files it needs only the choice of streams",
    },
    Layer {
        package: "sheaf-netsim",
        floor: Floor::Nodes,
        may_know: &["sheaf-protocol", "sheaf-shaping", "sheaf-wire"],
        may_use: &["hdrhistogram", "libm", "rand", "rand_pcg", "thiserror"],
        reason: "the switch simulator runs roles or traffic patterns, without files, threads or clocks",
    },
    Layer {
        package: "sheaf-plot",
        floor: Floor::Ports,
        may_know: &[],
        may_use: &["plotters", "thiserror"],
        reason: "a plot draws numbers and captions of any meaning",
    },
    Layer {
        package: "sheaf-netsim-scenarios",
        floor: Floor::Laboratories,
        may_know: &["sheaf-config", "sheaf-netsim", "sheaf-plot", "sheaf-store", "sheaf-wire"],
        may_use: &["serde", "serde_json", "thiserror", "toml"],
        reason: "scenario files, sweeps, reports and predictions; the command only prints",
    },
    Layer {
        package: "sheaf-lab",
        floor: Floor::Laboratories,
        may_know: &["sheaf-config", "sheaf-plot", "sheaf-wire"],
        may_use: &["log", "rustix", "serde", "serde_json", "thiserror"],
        reason: "the lab creates networks and starts any program on them",
    },
    Layer {
        package: "sheaf-bench",
        floor: Floor::Laboratories,
        may_know: &[
            "sheaf-buffer",
            "sheaf-feed",
            "sheaf-machine",
            "sheaf-node",
            "sheaf-protocol",
            "sheaf-source",
            "sheaf-store",
            "sheaf-libfabric",
            "sheaf-datagram",
            "sheaf-shm",
            "sheaf-tcp",
            "sheaf-transport",
            "sheaf-wire",
        ],
        may_use: &["bytes", "hdrhistogram", "rustix", "serde", "serde_json", "thiserror"],
        reason: "the test programs for transports, fed sources, storage and the machine; the command runs that of the event builder",
    },
    Layer {
        package: "sheaf-capi",
        floor: Floor::Edges,
        may_know: &[
            "sheaf-config",
            "sheaf-feed",
            "sheaf-filter",
            "sheaf-node",
            "sheaf-store",
            "sheaf-tap",
            "sheaf-wire",
        ],
        may_use: &["bytes", "thiserror"],
        reason: "the interface for C programs, without the command",
    },
    Layer {
        package: "sheaf",
        floor: Floor::Faces,
        may_know: &[
            "sheaf-bench",
            "sheaf-buffer",
            "sheaf-config",
            "sheaf-control",
            "sheaf-netsim",
            "sheaf-feed",
            "sheaf-filter",
            "sheaf-machine",
            "sheaf-import",
            "sheaf-key",
            "sheaf-lab",
            "sheaf-monitor",
            "sheaf-node",
            "sheaf-s3",
            "sheaf-plot",
            "sheaf-protocol",
            "sheaf-shaping",
            "sheaf-netsim-scenarios",
            "sheaf-source",
            "sheaf-spool",
            "sheaf-store",
            "sheaf-tap",
            "sheaf-telemetry",
            "sheaf-time",
            "sheaf-libfabric",
            "sheaf-datagram",
            "sheaf-shm",
            "sheaf-tcp",
            "sheaf-transport",
            "sheaf-wire",
        ],
        may_use: &[
            "anyhow",
            "bytes",
            "clap",
            "indicatif",
            "log",
            "rustix",
            "serde",
            "serde_json",
            "signal-hook",
            "thiserror",
            "tokio",
            "ureq",
        ],
        reason: "the command may use everything except the simulated cluster",
    },
    Layer {
        package: "energy-sum",
        floor: Floor::Edges,
        may_know: &["sheaf-filter"],
        may_use: &[],
        reason: "an example depends only on what its reader needs; the rest is for its tests",
    },
    Layer {
        package: "zero-suppression",
        floor: Floor::Edges,
        may_know: &["sheaf-filter"],
        may_use: &[],
        reason: "an example depends only on what its reader needs; the rest is for its tests",
    },
    Layer {
        package: "ramp-board",
        floor: Floor::Edges,
        may_know: &["sheaf-filter"],
        may_use: &[],
        reason: "an example depends only on what its reader needs; the rest is for its tests",
    },
    Layer {
        package: "pulser",
        floor: Floor::Edges,
        may_know: &["sheaf-filter"],
        may_use: &[],
        reason: "an example depends only on what its reader needs; the rest is for its tests",
    },
    Layer {
        package: "sheaf-python",
        floor: Floor::Edges,
        may_know: &["sheaf-config", "sheaf-feed", "sheaf-node", "sheaf-store", "sheaf-tap", "sheaf-wire"],
        may_use: &["bytes", "pyo3", "serde_json"],
        reason: "the Python package reads files, taps runs, feeds sources and runs filters",
    },
    Layer {
        package: "xtask",
        floor: Floor::Faces,
        may_know: &[],
        may_use: &["anyhow", "clap", "serde_json", "toml"],
        reason: "the verbs must build in seconds, even if another crate does not compile",
    },
];

/// Packages that do no I/O, read no clock, start no thread and use no randomness of the system.
pub(super) const PURE: &[&str] =
    &["sheaf-wire", "sheaf-protocol", "sheaf-recovery", "sheaf-shaping", "sheaf-time"];

/// Packages that pure packages may link, directly or indirectly. Procedural macros run in the compiler and do not count.
pub(super) const PURE_MAY_LINK: &[&str] = &[
    "bytes",
    "crc-fast",
    // Dependencies of crc-fast: traits for digests. Dependencies of another version of them, which signs requests, count here,
    // too: they only compute.
    "block-buffer",
    "cmov",
    "crypto-common",
    "ctutils",
    "digest",
    "generic-array",
    "hybrid-array",
    // Exact fractions, of which neither reads a clock nor the system.
    "num-integer",
    "num-rational",
    "num-traits",
    "rustc-hash",
    "spin",
    "thiserror",
    "typenum",
    "zerocopy",
];

/// Names that must not occur in sources of pure packages outside tests, with reasons.
pub(super) const PURE_NEVER_NAMES: &[(&str, &str)] = &[
    ("std::net", "sockets belong in the transports"),
    ("std::fs", "files belong in sheaf-store"),
    ("std::io", "input and output belong to the driver of a role"),
    ("std::os", "the operating system belongs to the driver of a role"),
    ("std::process", "a role is not a process"),
    ("std::env", "settings are given to a role by its driver"),
    ("std::thread", "a role has no thread of its own"),
    ("thread_local", "a role has no thread of its own"),
    ("Instant", "a role receives the time as `Timestamp`"),
    ("SystemTime", "a role receives the time as `Timestamp`"),
    (
        "RandomState",
        "the same seed must give the same log: use `FxHashMap` and never iterate it, or a `BTreeMap`",
    ),
    ("HashMap", "its hasher is seeded by the system: use `FxHashMap` or `BTreeMap`"),
    ("HashSet", "its hasher is seeded by the system: use `FxHashSet` or `BTreeSet`"),
    ("DefaultHasher", "its result may change with the compiler"),
];
