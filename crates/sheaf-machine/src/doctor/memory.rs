//! NUMA, huge pages, swap, locked memory, shared memory.

use super::{Doctor, LIMITS, Remedy, size};

const MEMINFO: &str = "/proc/meminfo";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SHARED_THP: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    available(doctor);
    numa(doctor);
    balancing(doctor);
    swap(doctor);
    transparent_huge_pages(doctor);
    shared_huge_pages(doctor);
    huge_pages(doctor);
    locked(doctor);
}

/// A line of `/proc/meminfo`, in its unit (mostly KiB).
fn meminfo(doctor: &Doctor<'_>, name: &str) -> Option<u64> {
    let text = doctor.root.text(MEMINFO)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

fn available(doctor: &mut Doctor<'_>) {
    let (Some(total), Some(available)) = (meminfo(doctor, "MemTotal"), meminfo(doctor, "MemAvailable"))
    else {
        return doctor.unknown(
            "memory.available",
            MEMINFO,
            "the available memory is unknown, so that the pools cannot be checked",
        );
    };
    let (total, available) = (total.saturating_mul(1024), available.saturating_mul(1024));
    let value = format!("{} of {} available", size(available), size(total));
    let wanted = doctor.wanted.memory_bytes;
    if wanted <= available {
        return doctor.good("memory.available", value, MEMINFO);
    }
    let cost = format!(
        "the configuration allows its nodes up to {}: if all of them run here and their buffers fill, the kernel kills one",
        size(wanted)
    );
    let remedy = Remedy::advice(
        "smaller `builder.memory_bytes`, `readout.buffer_bytes`, `source.memory_bytes` or `transport.receive_bytes`, \
         fewer nodes on this host, or more memory",
    );
    doctor.problem("memory.available", value, MEMINFO, cost, remedy);
}

fn numa(doctor: &mut Doctor<'_>) {
    let source = "/sys/devices/system/node/node*/cpulist";
    let nodes = doctor.root.nodes();
    let describe = |(node, cpus): &(usize, crate::CpuList)| format!("node {node}: processors {cpus}");
    let value = nodes.iter().map(describe).collect::<Vec<_>>().join("; ");
    match nodes.len() {
        0 => doctor.unknown(
            "memory.numa",
            source,
            "the kernel does not report which memory is near to which processor",
        ),
        1 => doctor.good("memory.numa", format!("one node: all memory is near ({value})"), source),
        _ => {
            let threads = doctor.wanted.threads.clone();
            let far = threads.iter().find(|(_, cpus)| doctor.root.nodes_of(cpus).len() > 1);
            let unplaced = threads.iter().find(|(_, cpus)| cpus.is_empty());
            match (far.or(unplaced), doctor.wanted.configured) {
                (Some((name, cpus)), true) => {
                    let cpus = if cpus.is_empty() { "all processors".to_owned() } else { cpus.to_string() };
                    let cost = format!(
                        "{name} may run on {cpus}, on more than one node: payload written by one thread is read across the link between the nodes"
                    );
                    let remedy = Remedy::advice(
                        "give each role the processors of one node in [affinity], the one of its network interface, and \
                         `..._memory = \"local\"`",
                    );
                    doctor.warn("memory.numa", value, source, cost, remedy);
                }
                _ => {
                    let note =
                        "threads, their memory and the network interface belong on one node: see [affinity]";
                    doctor.note("memory.numa", value, source, note);
                }
            }
        }
    }
}

fn balancing(doctor: &mut Doctor<'_>) {
    match (doctor.root.number(BALANCING), doctor.root.nodes().len()) {
        (None, _) => {
            doctor.unknown("memory.balancing", BALANCING, "this kernel has no automatic NUMA balancing")
        }
        (Some(1..), 2..) => {
            let cost = "the kernel unmaps pages briefly to see which node uses them, and moves them: page faults in a busy pool, for threads that are already placed";
            let remedy = Remedy::sysctl("kernel.numa_balancing", 0);
            doctor.warn("memory.balancing", "on", BALANCING, cost, remedy);
        }
        (Some(0), _) => doctor.good("memory.balancing", "off", BALANCING),
        (Some(_), _) => doctor.good("memory.balancing", "on, without effect on one node", BALANCING),
    }
}

fn swap(doctor: &mut Doctor<'_>) {
    match meminfo(doctor, "SwapTotal") {
        None => doctor.unknown(
            "memory.swap",
            MEMINFO,
            "the kernel does not report whether memory may be swapped out",
        ),
        Some(0) => doctor.good("memory.swap", "none", MEMINFO),
        Some(kib) => {
            let cost = "a swapped buffer returns at the speed of a disk, and the node is silent meanwhile";
            let value = size(kib.saturating_mul(1024));
            doctor.warn("memory.swap", value, MEMINFO, cost, Remedy::command("swapoff -a"));
        }
    }
}

fn transparent_huge_pages(doctor: &mut Doctor<'_>) {
    let text = doctor.root.text(THP).unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    match chosen {
        None => doctor.unknown(
            "memory.transparent",
            THP,
            "the kernel does not report whether there are transparent huge pages",
        ),
        Some("never") => {
            let cost = "every 4 KiB of a pool needs an entry in the processor's translation cache, which pools of many MiB overflow";
            let remedy = Remedy::command(format!("echo madvise > {THP}"));
            doctor.warn("memory.transparent", "never", THP, cost, remedy);
        }
        Some(word) => doctor.good("memory.transparent", word, THP),
    }
}

/// Huge pages for memory that processes share, which `transport.huge_pages` asks for.
fn shared_huge_pages(doctor: &mut Doctor<'_>) {
    let text = doctor.root.text(SHARED_THP).unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    match chosen {
        None => {
            let why = "the kernel does not report whether shared memory may have huge pages";
            doctor.unknown("memory.transparent_shared", SHARED_THP, why);
        }
        Some(word @ ("never" | "deny")) if doctor.wanted.huge_pages => {
            let cost = "`transport.huge_pages` requests them but they are not available: shared memory uses pages of 4 KiB";
            let remedy = Remedy::command(format!("echo advise > {SHARED_THP}"));
            doctor.warn("memory.transparent_shared", word, SHARED_THP, cost, remedy);
        }
        Some(word) => doctor.good("memory.transparent_shared", word, SHARED_THP),
    }
}

fn huge_pages(doctor: &mut Doctor<'_>) {
    let (Some(total), Some(free)) = (meminfo(doctor, "HugePages_Total"), meminfo(doctor, "HugePages_Free"))
    else {
        return doctor.unknown("memory.huge", MEMINFO, "this kernel has no huge pages");
    };
    let page = meminfo(doctor, "Hugepagesize").unwrap_or(0).saturating_mul(1024);
    let value = format!("{free} of {total} pages of {} free", size(page));
    let note = "no transport of this release asks for reserved huge pages; those that register memory with a network \
                interface will";
    doctor.note("memory.huge", value, MEMINFO, note);
}

fn locked(doctor: &mut Doctor<'_>) {
    let Some(limit) = doctor.limit("Max locked memory") else {
        return doctor.unknown(
            "memory.locked",
            LIMITS,
            "the kernel does not report how much memory may be locked",
        );
    };
    let value = if limit == u64::MAX { "unlimited".to_owned() } else { size(limit) };
    let wanted = doctor.wanted.memory_bytes;
    if limit >= wanted {
        return doctor.good("memory.locked", value, LIMITS);
    }
    let note = format!(
        "pools of up to {} could not be registered with a network interface (AF_XDP, RDMA); the transports of this release do not need it. \
         `ulimit -l unlimited`, `LimitMEMLOCK=infinity` in the unit, or `USER - memlock unlimited` in \
         /etc/security/limits.conf",
        size(wanted)
    );
    doctor.note("memory.locked", value, LIMITS, note);
}
