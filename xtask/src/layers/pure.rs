//! Rules for pure packages, whose code does no I/O and reads no clock.

/// Packages that pure packages may link, directly or indirectly. Procedural macros run in the compiler and do not count.
pub(super) const PURE_MAY_LINK: &[&str] = &[
    "bytes",
    "crc-fast",
    // Dependencies of crc-fast: traits for digests. Dependencies of another version of them, which signs requests, count here,
    // too: they only compute.
    "block-buffer",
    "cmov",
    "const-oid",
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
    // The state of a role as values, for a snapshot: which bytes they become is not decided here.
    "serde",
    "serde_core",
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
