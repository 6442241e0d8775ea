//! Which processors there are, how they belong together, and staying on one.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs;

/// Where the two sides of a ping-pong run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Both on one processor: each message costs a change of threads.
    SameCore,
    /// On two processors of one NUMA node ("near").
    OtherCore,
    /// On processors of two NUMA nodes ("far").
    OtherNumaNode,
}

impl Placement {
    /// All, near ones first.
    pub const ALL: [Self; 3] = [Self::SameCore, Self::OtherCore, Self::OtherNumaNode];

    /// In words, as tables have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameCore => "same core",
            Self::OtherCore => "other core",
            Self::OtherNumaNode => "other NUMA node",
        }
    }

    /// Two processors that this process may use and that lie so; `None` where this machine has none.
    #[must_use]
    pub fn processors(self) -> Option<(usize, usize)> {
        let usable = usable();
        let first = *usable.first()?;
        let (nodes, core) = (numa_nodes(), core_of(first));
        let node_of = |cpu: usize| nodes.iter().position(|node| node.contains(&cpu));
        match self {
            Self::SameCore => Some((first, first)),
            Self::OtherCore => {
                // Two threads of one core share its units and caches: "other core" means another one.
                let near = |cpu: &usize| *cpu != first && node_of(*cpu) == node_of(first);
                let other = usable.iter().copied().find(|cpu| near(cpu) && core_of(*cpu) != core);
                Some((first, other.or_else(|| usable.iter().copied().find(near))?))
            }
            Self::OtherNumaNode => {
                Some((first, usable.iter().copied().find(|cpu| node_of(*cpu) != node_of(first))?))
            }
        }
    }
}

/// The processors that this process may use, by number.
#[must_use]
pub fn usable() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The second-level cache of a processor that this process may use, in bytes: the last one that is a core's own. 1 MiB
/// where the system does not tell.
#[must_use]
pub fn core_cache_bytes() -> u64 {
    const UNKNOWN: u64 = 1 << 20;
    let cpu = usable().first().copied().unwrap_or_default();
    let Ok(entries) = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}/cache")) else { return UNKNOWN };
    let size = |entry: fs::DirEntry| {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let is_second = read("level")?.trim() == "2" && read("type")?.trim() != "Instruction";
        is_second.then(|| parse_size(read("size")?.trim()))?
    };
    entries.filter_map(Result::ok).find_map(size).unwrap_or(UNKNOWN)
}

/// A size as the kernel writes it: `2048K`.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// Keeps the calling thread on some processors; an empty list changes nothing.
///
/// # Errors
/// What the system says, where it refuses: a processor that does not exist, or is not this process'.
pub fn pin(processors: &[usize]) -> std::io::Result<()> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in processors.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Processor time of the calling thread, in seconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a few weeks fit exactly")]
pub fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The processors of each NUMA node; none where the system does not tell.
fn numa_nodes() -> Vec<Vec<usize>> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/node") else { return Vec::new() };
    let list = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let number: usize = name.to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((number, parse_list(&fs::read_to_string(entry.path().join("cpulist")).ok()?)))
    };
    let mut nodes: Vec<_> = entries.filter_map(Result::ok).filter_map(list).collect();
    nodes.sort();
    nodes.into_iter().map(|(_, processors)| processors).collect()
}

/// Package and core of a processor, as far as the system tells.
fn core_of(cpu: usize) -> (Option<String>, Option<String>) {
    let read =
        |name: &str| fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}")).ok();
    let core = read("core_id").or_else(|| Some(format!("{cpu}")));
    (read("physical_package_id"), core)
}

/// A list of numbers and ranges as the kernel writes it: `0-3,8`.
fn parse_list(text: &str) -> Vec<usize> {
    let part = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(part).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_understood() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("5"), [5]);
        assert_eq!(parse_list("\n"), [0_usize; 0]);
    }

    #[test]
    fn sizes_of_caches_are_understood() {
        assert_eq!(parse_size("2048K"), Some(2 << 20));
        assert_eq!(parse_size("1M"), Some(1 << 20));
        assert_eq!(parse_size("512"), Some(512));
        for wrong in ["", "K", "0K", "12G", "1 K"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert!((64 << 10..1 << 30).contains(&core_cache_bytes()));
    }

    #[test]
    fn a_placement_has_processors_that_may_be_used() {
        let usable = usable();
        for placement in Placement::ALL {
            let Some((one, other)) = placement.processors() else { continue };
            assert!(usable.contains(&one) && usable.contains(&other));
            assert_eq!(one == other, placement == Placement::SameCore);
        }
    }

    #[test]
    fn a_pinned_thread_is_where_it_was_told_to_be() {
        let first = usable()[0];
        let seen = std::thread::spawn(move || {
            pin(&[first]).expect("the processor may be used");
            super::usable()
        });
        assert_eq!(seen.join().expect("the thread ends"), [first]);
    }
}
