//! Two hosts in this machine, with cables between them: network namespaces and veth pairs, removed with the value.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing helper fails its test; a skipped one prints the reason"
)]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sheaf_wire::ethernet::MacAddress;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Prefix of the names of all namespaces of these tests, followed by the process id.
const PREFIX: &str = "sheaf-ethernet-";

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// First host.
    A,
    /// Second host.
    B,
}

/// Cables between the hosts.
#[derive(Clone, Copy, Debug)]
pub struct Cables {
    /// Number of cables.
    pub rails: usize,
    /// Maximum size of a packet, in bytes.
    pub mtu: usize,
    /// Number of queues of each interface in each direction.
    pub queues: usize,
}

/// Two connected hosts. Rail `i` is the interface `e<i>` of each, with the address `10.77.<i>.1` or `.2`.
#[derive(Debug)]
pub struct World {
    names: [String; 2],
}

/// Returns the address of a host's interface.
pub fn address(host: Host, rail: usize) -> MacAddress {
    MacAddress([2, 0x5e, 0, rail as u8, 0, host as u8 + 1])
}

/// Error of the command `ip`. Tests that need it skip, and print why.
#[derive(Debug)]
pub enum ToolError {
    /// It cannot be run.
    Start(std::io::Error),
    /// It failed.
    Failed {
        /// Its arguments; empty for commands of a batch.
        arguments: String,
        /// Its error output.
        said: String,
    },
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => write!(f, "cannot run `ip`: {error}"),
            Self::Failed { arguments, said } if arguments.is_empty() => write!(f, "`ip`: {said}"),
            Self::Failed { arguments, said } => write!(f, "`ip {arguments}`: {said}"),
        }
    }
}

impl std::error::Error for ToolError {}

impl ToolError {
    fn of(arguments: &str, output: &Output) -> Self {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Self::Failed { arguments: arguments.to_owned(), said }
    }
}

/// Runs one command of `ip`, and returns its output.
///
/// # Errors
/// If `ip` cannot be run or fails.
pub fn ip(arguments: &str) -> Result<String, ToolError> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().map_err(ToolError::Start)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(ToolError::of(arguments, &output))
}

/// Runs commands of `ip`, one per line, in a single process.
///
/// # Errors
/// If `ip` cannot be run or fails.
pub fn ip_batch(commands: &str) -> Result<(), ToolError> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(ToolError::Start)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(commands.as_bytes()).map_err(ToolError::Start)?;
    }
    let output = child.wait_with_output().map_err(ToolError::Start)?;
    if output.status.success() { Ok(()) } else { Err(ToolError::of("", &output)) }
}

/// Removes namespaces left by killed test runs: those with the name `prefix` followed by the id of a process that no longer exists.
pub fn sweep(prefix: &str) {
    let left = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in left.filter_map(|entry| entry.file_name().into_string().ok()) {
        let process = name.strip_prefix(prefix).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

/// Calls `f` on a thread in a namespace.
pub fn inside<T: Send>(namespace: &str, f: impl FnOnce() -> T + Send) -> T {
    let path = Path::new("/run/netns").join(namespace);
    let namespace = File::open(path).unwrap();
    let moved = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        f()
    };
    std::thread::scope(|scope| scope.spawn(moved).join().unwrap())
}

impl World {
    /// Creates the hosts. If that is not possible, prints the reason and returns `None`.
    pub fn new(cables: Cables) -> Option<Self> {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        sweep(PREFIX);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("{PREFIX}{}-{number}{side}", std::process::id());
        let world = Self { names: [name('a'), name('b')] };
        match world.build(cables) {
            Ok(()) => Some(world),
            Err(reason) => {
                println!("skipped, cannot create network namespaces: {reason}");
                None
            }
        }
    }

    fn build(&self, cables: Cables) -> Result<(), ToolError> {
        let [a, b] = &self.names;
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        let Cables { rails, mtu, queues } = cables;
        for rail in 0..rails {
            let end = |name: &str, host| {
                let address = address(host, rail);
                let queues = format!("numrxqueues {queues} numtxqueues {queues}");
                format!("e{rail} netns {name} address {address} mtu {mtu} {queues}")
            };
            ip(&format!("link add {} type veth peer name {}", end(a, Host::A), end(b, Host::B)))?;
            for (name, host) in [(a, 1), (b, 2)] {
                ip(&format!("-n {name} address add 10.77.{rail}.{host}/24 dev e{rail}"))?;
                ip(&format!("-n {name} link set e{rail} up"))?;
            }
        }
        Ok(())
    }

    /// Returns the name of a host's namespace.
    #[must_use]
    pub fn name(&self, host: Host) -> &str {
        &self.names[host as usize]
    }

    /// Runs `ip` in a host.
    pub fn ip(&self, host: Host, arguments: &str) -> String {
        ip(&format!("-n {} {arguments}", self.name(host))).unwrap()
    }

    /// Calls `f` on a thread in a host.
    pub fn inside<T: Send>(&self, host: Host, f: impl FnOnce() -> T + Send) -> T {
        inside(self.name(host), f)
    }

    /// Returns whether a program of the system succeeds in a host.
    pub fn succeeds(&self, host: Host, program: &[&str]) -> bool {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(host)]).args(program);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}
