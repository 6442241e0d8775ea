//! Which processors there are, how they belong together, and staying on one.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sheaf_machine::placement::{self, current_cpus};
use sheaf_machine::{CpuList, Root};
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
        let (nodes, core) = (Root::system().nodes(), core_of(first));
        let node_of = |cpu: usize| nodes.iter().position(|(_, processors)| processors.contains(cpu));
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

/// Returns the numbers of the processors that this process may use; empty if the system does not report them.
#[must_use]
pub fn usable() -> Vec<usize> {
    current_cpus().map(|cpus| cpus.iter().collect()).unwrap_or_default()
}

/// Returns the size in bytes of the second-level cache of a processor that this process may use. This is the last level
/// that is private to a core. 1 MiB if the system does not report it.
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
/// A processor does not exist, or this process may not use it.
pub fn pin(processors: &[usize]) -> std::io::Result<()> {
    let cpus: CpuList = processors.iter().copied().collect();
    let refused = placement::Placement { cpus, ..placement::Placement::default() }.apply();
    refused.into_iter().next().map_or(Ok(()), |error| Err(std::io::Error::other(error)))
}

/// Processor time of the calling thread, in seconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a few weeks fit exactly")]
pub fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns package and core of a processor, if the system reports them.
fn core_of(cpu: usize) -> (Option<String>, Option<String>) {
    let read =
        |name: &str| fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}")).ok();
    let core = read("core_id").or_else(|| Some(format!("{cpu}")));
    (read("physical_package_id"), core)
}

#[cfg(test)]
mod tests {
    use super::*;

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
