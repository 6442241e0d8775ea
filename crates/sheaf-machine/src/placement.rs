//! Where a thread runs, how urgently, and whose memory it takes.

use crate::{CpuList, Root, sys};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Where a thread is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The processors that it may use; empty: as it is.
    pub cpus: CpuList,
    /// Its real-time priority (`SCHED_FIFO`), 1 to 99; `None`: as it is.
    pub priority: Option<u8>,
    /// Whose memory it takes.
    pub memory: MemoryPolicy,
}

/// Which NUMA node's memory a thread takes, for pages that are touched from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// As it is.
    #[default]
    System,
    /// Of the node of the processor that touches it first.
    Local,
    /// Only of the nodes of the thread's processors.
    Bind,
    /// Of all nodes in turn.
    Interleave,
}

/// Part of a placement that could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// Processors that the machine has not, or that are switched off.
    #[error("there is no processor {missing}; this machine has {online}")]
    NoSuchProcessor {
        /// Those that are not there.
        missing: CpuList,
        /// Those that are.
        online: CpuList,
    },
    /// Processors that this process may not use.
    #[error(
        "processor {refused} is not available to this process, which may use {allowed}; extend its cpuset (cgroup, container, batch system)"
    )]
    OutsideCpuset {
        /// Those that were asked for and not given.
        refused: CpuList,
        /// Those that it has.
        allowed: CpuList,
    },
    /// The kernel refused the processors for another reason.
    #[error("could not use the processors {cpus}")]
    Processors {
        /// Those that were asked for.
        cpus: CpuList,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Real-time priority refused.
    #[error("real-time priority {priority} was refused ({source}): {}", advice(*limit))]
    Priority {
        /// That was asked for.
        priority: u8,
        /// The highest that the limit `RLIMIT_RTPRIO` allows, where it is known.
        limit: Option<u64>,
        /// Why.
        source: io::Error,
    },
    /// A memory policy refused.
    #[error("memory of the NUMA nodes {nodes} cannot be requested; is the policy allowed in this container?")]
    Memory {
        /// Those that were asked for.
        nodes: CpuList,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Returns the change that makes a real-time priority possible.
fn advice(limit: Option<u64>) -> String {
    let limit = limit.map_or_else(String::new, |limit| format!(" (it is {limit})"));
    format!(
        "raise the limit RLIMIT_RTPRIO{limit}: `ulimit -r`, `LimitRTPRIO=` of the unit, or `rtprio` in \
         /etc/security/limits.conf; or give CAP_SYS_NICE; in a cgroup with RT_GROUP_SCHED also cpu.rt_runtime_us"
    )
}

impl Placement {
    /// Whether there is anything to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the placement to the calling thread, and returns the parts that failed. A failure of one part does not
    /// prevent the others. Threads that it starts later inherit processors and memory, but not the priority.
    #[must_use]
    pub fn apply(&self) -> Vec<PlacementError> {
        let steps = [self.apply_cpus(), self.apply_memory(), self.apply_priority()];
        steps.into_iter().filter_map(Result::err).collect()
    }

    fn apply_cpus(&self) -> Result<(), PlacementError> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        let online = Root::system().cpus_online();
        let missing = self.cpus.without(&online);
        if !online.is_empty() && !missing.is_empty() {
            return Err(PlacementError::NoSuchProcessor { missing, online });
        }
        let failed = |error: io::Error| PlacementError::Processors { cpus: self.cpus.clone(), source: error };
        let mut set = CpuSet::new();
        self.cpus.iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
        if let Err(error) = sched_setaffinity(None, &set) {
            // EINVAL: none of them is in the cpuset.
            let allowed = current_cpus().map_err(failed)?;
            let refused = self.cpus.without(&allowed);
            return Err(match refused.is_empty() {
                true => failed(error.into()),
                false => PlacementError::OutsideCpuset { refused, allowed },
            });
        }
        // The kernel silently ignores processors outside the cpuset.
        let allowed = current_cpus().map_err(failed)?;
        let refused = self.cpus.without(&allowed);
        if refused.is_empty() { Ok(()) } else { Err(PlacementError::OutsideCpuset { refused, allowed }) }
    }

    fn apply_memory(&self) -> Result<(), PlacementError> {
        let root = Root::system();
        let (mode, nodes) = match self.memory {
            MemoryPolicy::System => return Ok(()),
            MemoryPolicy::Local => (sys::mode::LOCAL, CpuList::default()),
            MemoryPolicy::Bind => (sys::mode::BIND, root.nodes_of(&current_cpus().unwrap_or_default())),
            MemoryPolicy::Interleave => (sys::mode::INTERLEAVE, root.nodes_with_memory()),
        };
        let one_node = root.nodes_with_memory().len() <= 1;
        match sys::set_memory_policy(mode, &nodes) {
            Ok(()) => Ok(()),
            // Without NUMA in the kernel, or with one node, all memory is where it is wanted.
            Err(_) if one_node => Ok(()),
            Err(source) => Err(PlacementError::Memory { nodes, source }),
        }
    }

    fn apply_priority(&self) -> Result<(), PlacementError> {
        let Some(priority) = self.priority else {
            return Ok(());
        };
        sys::set_fifo(priority).map_err(|source| {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Rtprio).current;
            PlacementError::Priority { priority, limit, source }
        })
    }
}

/// The processors that the calling thread may use now.
///
/// # Errors
/// The error of the operating system.
pub fn current_cpus() -> io::Result<CpuList> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// The real-time priority (`SCHED_FIFO`) of the calling thread; `None` for an ordinary thread.
///
/// # Errors
/// The error of the operating system.
pub fn current_priority() -> io::Result<Option<u8>> {
    sys::fifo_priority()
}

/// The memory policy of the calling thread, and the NUMA nodes that it names.
///
/// # Errors
/// Returns the kernel's error: a kernel without NUMA has no such call.
pub fn current_memory() -> io::Result<(MemoryPolicy, CpuList)> {
    let (mode, nodes) = sys::memory_policy()?;
    let policy = match mode {
        sys::mode::BIND => MemoryPolicy::Bind,
        sys::mode::INTERLEAVE => MemoryPolicy::Interleave,
        sys::mode::LOCAL => MemoryPolicy::Local,
        _ => MemoryPolicy::System,
    };
    Ok((policy, nodes))
}

#[cfg(test)]
mod tests;
