//! What a finding is.

use serde::Serialize;
use std::fmt;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it belongs to.
    pub group: Group,
    /// Its name, for `--apply`; unique on a host.
    pub key: String,
    /// How much it matters.
    pub severity: Severity,
    /// What was read, in words.
    pub value: String,
    /// The file or call that said it.
    pub source: String,
    /// What it costs an event builder, or what there is to know; empty where nothing.
    pub cost: String,
    /// What would change it.
    pub remedy: Option<Remedy>,
}

/// What findings are sorted by.
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
        })
    }
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Something to know.
    Note,
    /// Not told by this kernel, or not readable.
    Unknown,
    /// Costs speed, or will under load.
    Warning,
    /// The configuration cannot work like this, or data will be lost.
    Problem,
}

/// What would change a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Remedy {
    /// A shell command, to be run as root; it lasts until the machine is started again.
    Command(String),
    /// What a person has to do.
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
