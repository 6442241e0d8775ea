//! The machine on which figures are measured.

use serde_json::{Value, json};
use std::fmt;

/// Properties of the machine on which a figure depends.
#[derive(Debug)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    memory_bytes: u64,
    kernel: String,
    /// Number of programs that wanted to run, averaged over the last minute.
    load: Option<f64>,
}

impl Machine {
    /// Returns the properties of this machine. Those that only Linux provides stay unknown elsewhere.
    pub(crate) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes = memory.trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            memory_bytes: kilobytes * 1024,
            kernel: if kernel.is_empty() { unknown() } else { kernel },
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()),
        }
    }

    /// Returns a reason why the figures may be worse than on an idle machine.
    pub(crate) fn warning(&self) -> Option<String> {
        let load = self.load.filter(|load| *load > 0.5)?;
        Some(format!(
            "the load average of the last minute is {load}: the figures are those of a busy machine"
        ))
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "processor": self.processor, "cores": self.cores, "memory_bytes": self.memory_bytes,
            "kernel": self.kernel, "os": std::env::consts::OS, "architecture": std::env::consts::ARCH,
            "load_before": self.load,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, kernel, .. } = self;
        let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
        let gib = self.memory_bytes >> 30;
        write!(f, "{processor}, {cores} cores, {gib} GiB, {os} {kernel}, {architecture}")
    }
}

/// Returns the value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let (_, value) =
        text.lines().filter_map(|line| line.split_once(':')).find(|(found, _)| found.trim() == name)?;
    Some(value.trim().to_owned())
}
