//! Limits of the machine itself, measured in turn with the rest.

use anyhow::Context;
use serde_json::{Value, json};
use sheaf_bench::memory::{self, Operation, WORKING_SET_BYTES};
use sheaf_bench::{cpu, plain};
use std::time::Duration;

/// Resource that limits a system.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// A plain vectored stream over one loopback socket.
    Socket,
    /// Copies in memory on one processor.
    Copy,
    /// Gathering of scattered fragments in memory, on a number of processors.
    Gather(usize),
}

/// A limit is steady: it is measured for no longer than this, however long the system is.
const LONGEST: f64 = 1.0;

impl Limit {
    /// Returns the limits for a system of at most `threads` threads or processes, whose payload passes through sockets
    /// or not.
    pub(super) fn of(sockets: bool, threads: usize) -> Self {
        if sockets { Self::Socket } else { Self::Gather(cpu::usable().len().min(threads).max(1)) }
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Socket => {
                format!("plain loopback stream, {} messages a call", plain::MESSAGES_A_CALL)
            }
            Self::Copy => "memory copy on one processor".to_owned(),
            Self::Gather(1) => "memory gather on one processor".to_owned(),
            Self::Gather(processors) => format!("memory gather on {processors} processors"),
        }
    }

    /// Bytes per second with messages of `bytes` bytes.
    pub(super) fn measure(self, bytes: u64, seconds: f64) -> anyhow::Result<f64> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).max(1);
        let span = Duration::from_secs_f64(seconds.min(LONGEST));
        match self {
            Self::Socket => plain::measure(bytes, span / 5, span).context("cannot measure a plain stream"),
            Self::Copy => Ok(memory::measure(Operation::Copy, bytes, 1, WORKING_SET_BYTES, span)),
            Self::Gather(processors) => {
                Ok(memory::measure(Operation::Gather, bytes, processors, WORKING_SET_BYTES, span))
            }
        }
    }
}

/// Describes the machine; a figure without it is worth nothing.
pub(super) fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    json!({
        "processor": model.map(|(_, name)| name.trim()),
        "processors": cpu::usable().len(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
