//! The processes of a case, as listed in `/proc`.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Environment variable that identifies every process of a case, regardless of its parent.
pub(super) const MARK: &str = "SHEAF_TORTURE";

/// A running process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) id: u32,
    pub(super) arguments: Vec<String>,
}

impl Process {
    /// Returns the name of its node, if the process is `sheaf node CONFIG NAME`.
    pub(super) fn node(&self) -> Option<&str> {
        let is_node = self.arguments.get(1).is_some_and(|word| word == "node");
        is_node.then(|| self.arguments.get(3).map(String::as_str))?
    }

    /// Returns whether the process judges events: `sheaf processor`.
    pub(super) fn is_processor(&self) -> bool {
        self.arguments.get(1).is_some_and(|word| word == "processor")
    }
}

/// Returns every process with this mark in its environment. A zombie has no environment and is not included.
pub(super) fn marked(mark: &str) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let wanted = format!("{MARK}={mark}");
    let mut found: Vec<Process> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let id = path.file_name()?.to_str()?.parse().ok()?;
            let environment = std::fs::read(path.join("environ")).ok()?;
            let is_marked = environment.split(|byte| *byte == 0).any(|line| line == wanted.as_bytes());
            is_marked.then(|| Process { id, arguments: arguments(&path) })
        })
        .collect();
    found.sort_by_key(|process| process.id);
    found
}

/// Returns the parent of a process.
pub(super) fn parent(id: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn arguments(process: &Path) -> Vec<String> {
    let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Sends a signal, given by its name for `kill`. Returns an error if the process no longer exists.
pub(super) fn signal(id: u32, name: &str) -> Result<()> {
    let mut kill = Command::new("kill");
    let sent = kill.arg(format!("-{name}")).arg(id.to_string()).output().context("cannot start kill")?;
    let said = String::from_utf8_lossy(&sent.stderr);
    ensure!(sent.status.success(), "kill -{name} {id}: {}", said.trim());
    Ok(())
}

/// Runs a tool of the system. If it fails, the error is its standard error.
pub(super) fn tool(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), said.trim());
    Ok(())
}
