//! Memory of a run's processes: their configured pools, and little more.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::{assert_adds_up, number};
use std::cell::RefCell;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Memory that a process may use in addition to its pools: program, stacks, bookkeeping.
const BESIDE: u64 = 32 * MIB;

/// Share of the program in that memory: 9 MiB of the release build are resident. Tests run an unoptimised build, which takes
/// three times as much; the difference does not count.
const PROGRAM: u64 = 12 * MIB;

/// Pools, in bytes: for one source, for receiving (over TCP), and for sending (shared memory).
const SOURCE: u64 = 8 * MIB;
const RECEIVE: u64 = 6 * MIB;
const SHARED: u64 = 4 * MIB;
/// Number of sources of a readout unit.
const SOURCES: u64 = 2;
const READOUTS: u64 = 2;

/// Number of events of a run: each source fills its memory ten times.
const EVENTS: u64 = 10 * SOURCE / FRAGMENT;
const FRAGMENT: u64 = 2048;

/// Maximum observed memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    /// Peak resident memory, as recorded by the kernel.
    whole: u64,
    /// Private memory, and the program.
    own: u64,
    /// Shared memory, regardless of its owner.
    shared: u64,
}

impl Peak {
    fn note(&mut self, process: u32) {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            let kib = line.trim().trim_end_matches("kB").trim().parse::<u64>();
            kib.map_or(0, |kib| kib * 1024)
        };
        let program = bytes("RssFile:");
        self.whole = self.whole.max(bytes("VmHWM:") - program.saturating_sub(PROGRAM));
        self.own = self.own.max(bytes("RssAnon:") + program.min(PROGRAM));
        self.shared = self.shared.max(bytes("RssShmem:"));
    }
}

/// Runs under full load. Returns the observed memory of each node's process.
fn peaks(transport: &str) -> BTreeMap<String, Peak> {
    let scratch = ScratchDirectory::new();
    let pool = match transport {
        "shm" => format!("shared_bytes = {SHARED}"),
        _ => format!("receive_bytes = {RECEIVE}"),
    };
    let config = format!(
        "[run]\nevents = {EVENTS}\nduration_s = 0\n[output]\nkind = \"none\"\n[transport]\nkind = \"{transport}\"\n\
         block_bytes = 262144\n{pool}\nmax_frame_bytes = 1048576\n\
         queue_bytes = 1048576\n[source]\ncount = {}\nmemory_bytes = {SOURCE}\n\
         [source.emulated]\nsize = \"fixed\"\nmean_bytes = {FRAGMENT}\ncontent = \"fill\"\n\
         [readout]\ncount = {READOUTS}\nbuffer_bytes = {}\n\
         [builder]\ncount = 2\nmemory_bytes = 2097152\nread_payload = true\n",
        READOUTS * SOURCES,
        SOURCES * SOURCE,
    );
    let config = scratch.file("memory.toml", &config);
    let running = scratch.start(&format!("run {} --processes --json", config.display()));
    let peaks = RefCell::new(BTreeMap::<String, Peak>::new());
    wait_until("the nodes have come and gone", || {
        let children = running.children();
        for (node, process) in &children {
            peaks.borrow_mut().entry(node.clone()).or_default().note(*process);
        }
        children.is_empty() && !peaks.borrow().is_empty()
    });
    let summary = running.end().exits(0).json();
    assert_adds_up(&summary);
    let through = number(&summary, "bytes");
    assert!(
        through > 4 * SOURCES * READOUTS * SOURCE,
        "{through} bytes have not been through all of the memory"
    );
    let peaks = peaks.into_inner();
    assert_eq!(peaks.keys().collect::<Vec<_>>(), ["bu0", "bu1", "evm", "ru0", "ru1"]);
    peaks
}

/// Returns the memory of the sources of a node in bytes.
fn of_sources(node: &str) -> u64 {
    if node.starts_with("ru") { SOURCES * SOURCE } else { 0 }
}

#[test]
fn a_node_takes_its_pools_and_at_most_32_mib_more() {
    for (node, peak) in peaks("tcp") {
        let pools = RECEIVE + of_sources(&node);
        assert!(peak.whole <= pools + BESIDE, "{node}: {peak:?} where its pools have {pools}");
        assert!(peak.whole > MIB, "{node}: {peak:?} is no process");
    }
}

/// Shared memory belongs to the process that created it, but is resident in every process that maps it.
#[test]
fn a_node_that_shares_memory_takes_its_pools_and_at_most_32_mib_more() {
    let made_by = |node: &str| SHARED + of_sources(node);
    let peaks = peaks("shm");
    let all: u64 = peaks.keys().map(|node| made_by(node)).sum();
    for (node, peak) in &peaks {
        assert!(peak.own <= BESIDE, "{node}: {peak:?} beside what is shared");
        // The rings and positions of each link are shared, too.
        assert!(peak.shared <= all + BESIDE, "{node}: {peak:?} where {all} are shared");
    }
    let read_in_place = peaks["bu0"].shared;
    assert!(read_in_place > SOURCE, "{read_in_place}: a builder unit reads payload where it was written");
}
