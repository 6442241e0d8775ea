//! Findings of the doctor.

use serde::Serialize;
use std::fmt;

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Group that it belongs to.
    pub group: Group,
    /// Its name, for `--apply`; unique on a host.
    pub key: String,
    /// Severity for an event builder.
    pub severity: Severity,
    /// Value that was read, in words.
    pub value: String,
    /// File or system call that the value comes from.
    pub source: String,
    /// Cost for an event builder, or further information. May be empty.
    pub cost: String,
    /// Remedy, if there is one.
    pub remedy: Option<Remedy>,
}

/// Group by which findings are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Processors and who may use them.
    Processors,
    /// Memory.
    Memory,
    /// The kernel's network.
    Network,
    /// Network interfaces.
    Interfaces,
    /// Where events are written.
    Storage,
    /// The clock.
    Clock,
    /// Requirements of other transports.
    Features,
    /// Agents on other hosts.
    Agents,
    /// The database of runs.
    Database,
    /// The standby event manager.
    Standby,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processors => "processors",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Interfaces => "interfaces",
            Self::Storage => "storage",
            Self::Clock => "clock",
            Self::Features => "features",
            Self::Agents => "agents",
            Self::Database => "database",
            Self::Standby => "standby",
        })
    }
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Something to know.
    Note,
    /// Not reported by this kernel, or not readable.
    Unknown,
    /// Costs speed, or will under load; or leaves a run without a protection that it asks for.
    Warning,
    /// The configuration cannot work like this, or data will be lost.
    Problem,
}

/// Remedy of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Remedy {
    /// A shell command, to be run as root; it lasts until the machine is started again.
    Command(String),
    /// Advice to a person.
    Advice(String),
}

impl Remedy {
    /// A kernel setting.
    pub(super) fn sysctl(name: &str, value: impl fmt::Display) -> Option<Self> {
        Some(Self::Command(format!("sysctl -w {name}='{value}'")))
    }

    pub(super) fn command(text: impl Into<String>) -> Option<Self> {
        Some(Self::Command(text.into()))
    }

    pub(super) fn advice(text: impl Into<String>) -> Option<Self> {
        Some(Self::Advice(text.into()))
    }
}
