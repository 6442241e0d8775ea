//! Inspects a host. Reports the settings that slow an event builder down, their cost, and the command to change each.
//!
//! | module | looks at |
//! |---|---|
//! | [`finding`] | the type of a finding |
//! | [`wanted`] | requirements of a configuration on the host |
//! | `processors` | processors and scheduling: quotas, governors, siblings, stolen time, priorities |
//! | `memory` | NUMA, huge pages, swap, locked memory, shared memory |
//! | `sockets` | limits and queues of the kernel's network |
//! | `interfaces`, `interrupts`, `routes` | each network interface, the processors that serve it, and the route to an address |
//! | `ethernet` | requirements of a run over raw Ethernet |
//! | `storage` | the file system that events are written to |
//! | `clock` | the clock and its discipline |
//! | `features` | kernel features for future transports |
//!
//! All probes read below a [`Root`]; none changes anything, and none fails: missing values are *unknown*.

mod clock;
mod ethernet;
mod features;
pub mod finding;
mod interfaces;
mod interrupts;
mod memory;
mod processors;
mod routes;
mod sockets;
mod storage;
pub mod wanted;

pub use finding::{Finding, Group, Remedy, Severity};
pub use wanted::{Ethernet, EthernetWay, Output, Wanted};

use crate::Root;

/// Everything that was found, in a fixed order: by group, as the probes look.
#[must_use]
pub fn examine(root: &Root, wanted: &Wanted) -> Vec<Finding> {
    let mut doctor = Doctor { root, wanted, group: Group::Processors, findings: Vec::new() };
    let groups: [(Group, Probe); 8] = [
        (Group::Processors, processors::probe),
        (Group::Memory, memory::probe),
        (Group::Network, sockets::probe),
        (Group::Interfaces, interfaces::probe),
        (Group::Interfaces, ethernet::probe),
        (Group::Storage, storage::probe),
        (Group::Clock, clock::probe),
        (Group::Features, features::probe),
    ];
    for (group, probe) in groups {
        doctor.group = group;
        probe(&mut doctor);
    }
    doctor.findings
}

/// Looks at one group.
type Probe = fn(&mut Doctor<'_>);

/// State that the probes share.
struct Doctor<'a> {
    root: &'a Root,
    wanted: &'a Wanted,
    group: Group,
    findings: Vec<Finding>,
}

impl Doctor<'_> {
    fn add(&mut self, severity: Severity, key: &str, value: impl Into<String>, source: &str) -> &mut Finding {
        let index = self.findings.len();
        self.findings.push(Finding {
            group: self.group,
            key: key.to_owned(),
            severity,
            value: value.into(),
            source: source.to_owned(),
            cost: String::new(),
            remedy: None,
        });
        &mut self.findings[index]
    }

    /// As it should be.
    fn good(&mut self, key: &str, value: impl Into<String>, source: &str) {
        self.add(Severity::Good, key, value, source);
    }

    /// Not reported by this kernel, or not readable.
    fn unknown(&mut self, key: &str, source: &str, why: &str) {
        self.add(Severity::Unknown, key, "unknown", source).cost = why.to_owned();
    }

    /// Something to know, which costs nothing in itself.
    fn note(&mut self, key: &str, value: impl Into<String>, source: &str, note: impl Into<String>) {
        self.add(Severity::Note, key, value, source).cost = note.into();
    }

    /// Costs something.
    fn warn(
        &mut self,
        key: &str,
        value: impl Into<String>,
        source: &str,
        cost: impl Into<String>,
        remedy: Option<Remedy>,
    ) {
        let finding = self.add(Severity::Warning, key, value, source);
        (finding.cost, finding.remedy) = (cost.into(), remedy);
    }

    /// Breaks what the configuration asks for.
    fn problem(
        &mut self,
        key: &str,
        value: impl Into<String>,
        source: &str,
        cost: impl Into<String>,
        remedy: Option<Remedy>,
    ) {
        let finding = self.add(Severity::Problem, key, value, source);
        (finding.cost, finding.remedy) = (cost.into(), remedy);
    }

    /// The soft limit with this name in `/proc/self/limits`; `None` if unknown, `u64::MAX` if unlimited.
    fn limit(&self, name: &str) -> Option<u64> {
        let limits = self.root.text(LIMITS)?;
        let soft = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
        if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
    }
}

/// The limits of this process, which one that it starts inherits.
const LIMITS: &str = "/proc/self/limits";

/// Formats a number of bytes with a binary unit.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find(|(_, shift)| bytes >> shift > 0);
    let Some((name, shift)) = unit else {
        return format!("{bytes} B");
    };
    // Tenths, so that no floating point is needed for what people read.
    let tenths = (u128::from(bytes) * 10) >> shift;
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        tenth => format!("{}.{tenth} {name}", tenths / 10),
    }
}

#[cfg(test)]
mod tests;
