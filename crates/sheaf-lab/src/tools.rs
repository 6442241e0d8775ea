//! Runs iproute2, and reports missing requirements.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use thiserror::Error;

/// Error of a command of iproute2.
#[derive(Debug, Error)]
pub enum ToolError {
    /// It cannot be started.
    #[error("cannot start `{command}`: {error}; the lab needs the package iproute2")]
    Start {
        /// The command line.
        command: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// It refused.
    #[error("`{command}` failed: {said}{}", hint(said))]
    Refused {
        /// The command line.
        command: String,
        /// Output of the tool, with the line of the batch if it names one.
        said: String,
    },
    /// The tool's output does not have the expected format.
    #[error("`{command}` printed unexpected output: {error}; the lab was made for iproute2 6.1")]
    Format {
        /// The command line.
        command: String,
        /// Error of the parser.
        error: serde_json::Error,
    },
}

/// Returns the kernel feature that a refusal points at.
fn hint(said: &str) -> &'static str {
    if said.contains("Operation not permitted") || said.contains("Permission denied") {
        "; the lab makes network namespaces: run it as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    } else if said.contains("qdisc kind is unknown") || said.contains("Unknown qdisc") {
        "; the kernel lacks the token bucket filter (CONFIG_NET_SCH_TBF)"
    } else if said.contains("Unknown device type") {
        "; the kernel lacks veth or bridge (CONFIG_VETH, CONFIG_BRIDGE)"
    } else {
        ""
    }
}

/// Runs `program` with `arguments`, and `input` on its standard input. Returns its output.
///
/// # Errors
/// If it cannot be started or ends with an error.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, ToolError> {
    let command = || format!("{program} {}", arguments.join(" "));
    let start = |error| ToolError::Start { command: command(), error };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that ends before it has read everything reports the reason itself.
        let _ = pipe.write_all(input.as_bytes());
    }
    let Output { status, stdout, stderr } = child.wait_with_output().map_err(start)?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        let failed = said.lines().find_map(|line| line.strip_prefix("Command failed -:"));
        let line = failed.and_then(|number| input.lines().nth(number.parse::<usize>().ok()?.checked_sub(1)?));
        let said = match line {
            Some(line) => format!("{} (in `{line}`)", said.lines().next().unwrap_or_default()),
            None if said.is_empty() => status.to_string(),
            None => said,
        };
        return Err(ToolError::Refused { command: command(), said });
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Runs many commands of `program` (`ip`, `tc` or `bridge`) with one process, in a namespace where one is named.
///
/// # Errors
/// With the first command that is refused; those before it were done.
pub fn batch(program: &str, namespace: Option<&str>, commands: &str) -> Result<(), ToolError> {
    let mut arguments = Vec::new();
    if let Some(namespace) = namespace {
        arguments.extend(["-n", namespace]);
    }
    arguments.extend(["-batch", "-"]);
    run(program, &arguments, commands).map(|_| ())
}

/// Describes what this process lacks to create a lab; empty if everything is present that can be checked without
/// trying.
#[must_use]
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    for program in ["ip", "tc", "bridge"] {
        if find(program).is_none() {
            missing.push(format!("the program `{program}` is missing: install iproute2"));
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    for (bit, name, what) in [
        (12, "CAP_NET_ADMIN", "makes interfaces and their queues"),
        (21, "CAP_SYS_ADMIN", "makes network namespaces and enters them"),
    ] {
        if effective & (1 << bit) == 0 {
            missing.push(format!("{name} is missing, which {what}: run it as root"));
        }
    }
    if !Path::new("/proc/self/ns/net").exists() {
        missing.push("the kernel has no network namespaces (CONFIG_NET_NS)".into());
    }
    missing
}

fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}
