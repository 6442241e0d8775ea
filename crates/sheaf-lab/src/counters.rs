//! Counters of ports, processors and nodes.

use crate::tools::{ToolError, run};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Transmit counters of an interface with a line rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounters {
    /// Bytes of packets with their Ethernet heads.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Packets that found the buffer full.
    pub(crate) drops: u64,
    /// Bytes in the buffer now.
    pub(crate) backlog_bytes: u64,
}

/// One line of `tc -s -j qdisc show`.
#[derive(Deserialize)]
struct Queue {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    dev: String,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    drops: u64,
    #[serde(default)]
    backlog: u64,
}

/// The interfaces with a line rate in a namespace.
pub(crate) fn ports(namespace: &str) -> Result<BTreeMap<String, PortCounters>, ToolError> {
    let arguments = ["-n", namespace, "-s", "-j", "qdisc", "show"];
    let text = run("tc", &arguments, "")?;
    let queues: Vec<Queue> = serde_json::from_str(&text)
        .map_err(|error| ToolError::Format { command: format!("tc {}", arguments.join(" ")), error })?;
    let port = |queue: Queue| {
        let Queue { bytes, packets, drops, backlog, .. } = queue;
        (queue.dev, PortCounters { bytes, packets, drops, backlog_bytes: backlog })
    };
    Ok(queues.into_iter().filter(|queue| queue.kind == "tbf").map(port).collect())
}

/// Processor time of all processors together so far, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessorTimes {
    pub(crate) total: u64,
    pub(crate) idle: u64,
    /// Time that the hypervisor gave to other machines.
    pub(crate) steal: u64,
    pub(crate) softirq: u64,
}

pub(crate) fn processors(root: &Path) -> ProcessorTimes {
    let text = std::fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    // user nice system idle iowait irq softirq steal; guest time is in user time.
    ProcessorTimes {
        total: fields.iter().take(8).sum(),
        idle: field(3) + field(4),
        steal: field(7),
        softirq: field(5) + field(6),
    }
}

/// Packets that the kernel dropped because no processor took them in time.
pub(crate) fn processor_drops(root: &Path) -> u64 {
    let text = std::fs::read_to_string(root.join("proc/net/softnet_stat")).unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}

/// Counters of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessCounters {
    pub(crate) resident_bytes: u64,
    /// Which host it is on: the name that the kernel has for its network.
    pub(crate) host: PathBuf,
    /// TCP segments that its host has sent again.
    pub(crate) retransmitted: u64,
    /// Datagrams that its host has dropped because a socket's buffer was full.
    pub(crate) socket_drops: u64,
}

pub(crate) fn process(root: &Path, pid: u32) -> ProcessCounters {
    let directory = root.join("proc").join(pid.to_string());
    let status = std::fs::read_to_string(directory.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let snmp = std::fs::read_to_string(directory.join("net/snmp")).unwrap_or_default();
    ProcessCounters {
        resident_bytes: kib.unwrap_or(0) * 1024,
        host: std::fs::read_link(directory.join("ns/net")).unwrap_or_default(),
        retransmitted: counter(&snmp, "Tcp:", "RetransSegs"),
        socket_drops: counter(&snmp, "Udp:", "RcvbufErrors"),
    }
}

/// Sums the counters of all hosts, each host once: segments sent again, and datagrams dropped at sockets. Processes
/// that share a host see the same counters.
pub(crate) fn of_hosts<'a>(processes: impl Iterator<Item = &'a ProcessCounters>) -> (u64, u64) {
    let mut hosts: BTreeMap<&Path, (u64, u64)> = BTreeMap::new();
    for process in processes {
        let host = hosts.entry(&process.host).or_default();
        *host = (host.0.max(process.retransmitted), host.1.max(process.socket_drops));
    }
    hosts.values().fold((0, 0), |sum, host| (sum.0 + host.0, sum.1 + host.1))
}

/// A counter of `/proc/net/snmp`: a line of names, then one of values.
fn counter(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    let value = names.zip(values).find(|(found, _)| *found == name).and_then(|(_, value)| value.parse().ok());
    value.unwrap_or(0)
}

#[cfg(test)]
mod tests;
