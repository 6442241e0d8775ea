//! A network that exists, and is removed when its value is dropped.

use crate::owner::{self, Owner};
use crate::plan::{Network as PlannedNetwork, Plan, Shape};
use crate::script::{reshaped, script};
use crate::tools::{ToolError, batch, missing};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use thiserror::Error;

/// Reason why a network could not be made.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// This machine or this process lacks something.
    #[error("this machine cannot create a lab: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// There is a lab of this name.
    #[error("the lab `{0}` already exists; `sheaf lab down {0}` removes it, or choose another name")]
    Exists(String),
    /// A command was refused. Parts made before are removed.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// Namespaces, cables and switches of a plan.
#[derive(Debug)]
pub struct Network {
    plan: Plan,
    owner: Owner,
    /// Whether it stays when this value is dropped.
    keep: bool,
    /// A process that removes the network if this one dies.
    watcher: Option<Child>,
}

impl Network {
    /// Makes the network of a plan for this process: it is removed when the value is dropped, or the process ends in
    /// any way. Labs of dead processes are removed first.
    ///
    /// # Errors
    /// If a requirement is missing, or a command is refused; nothing is left then.
    pub fn make(plan: Plan) -> Result<Self, NetworkError> {
        let mut network = Self::build(plan, Owner::this_process(), false)?;
        network.watch();
        Ok(network)
    }

    /// Makes a network that stays until [`owner::remove`] is called for its owner.
    ///
    /// # Errors
    /// As [`Network::make`], and where there is one of this name.
    pub fn keep(plan: Plan, name: &str) -> Result<Self, NetworkError> {
        let owner = Owner::Kept(name.to_owned());
        if owner::labs().contains_key(&owner) {
            return Err(NetworkError::Exists(name.to_owned()));
        }
        let mut network = Self::build(plan, owner, false)?;
        network.keep = true;
        Ok(network)
    }

    fn build(plan: Plan, owner: Owner, keep: bool) -> Result<Self, NetworkError> {
        let missing = missing();
        if !missing.is_empty() {
            return Err(NetworkError::Missing(missing));
        }
        for dead in owner::reclaim()? {
            log::info!("removed the remains of the lab {dead}");
        }
        // From here on, dropping it removes everything that was made.
        let network = Self { plan, owner, keep, watcher: None };
        let script = script(&network.plan, |name| network.owner.namespace(name));
        owner::make_namespaces(&script.namespaces)?;
        for (program, batches) in [("ip", &script.ip), ("bridge", &script.bridge), ("tc", &script.tc)] {
            for (namespace, commands) in batches {
                batch(program, Some(namespace), commands)?;
            }
        }
        Ok(network)
    }

    /// Starts this program a second time, in a group of its own that no Ctrl-C reaches. Its standard input ends when this
    /// process does.
    fn watch(&mut self) {
        let Ok(program) = std::env::current_exe() else { return };
        let started = Command::new(program)
            .args(["--quiet", "lab", "watch", &self.owner.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        match started {
            Ok(child) => self.watcher = Some(child),
            Err(error) => log::warn!("nothing removes the lab if this process is killed: {error}"),
        }
    }

    /// Returns the plan that it was made from.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The namespace of a host or switch.
    #[must_use]
    pub fn namespace(&self, name: &str) -> String {
        self.owner.namespace(name)
    }

    /// A command that runs `program` on a host.
    #[must_use]
    pub fn command(&self, host: &str, program: impl AsRef<OsStr>) -> Command {
        command_in(&self.namespace(host), program)
    }

    /// Sets another line rate for the output of a switch towards a host.
    ///
    /// # Errors
    /// If the command is refused.
    pub fn reshape(&self, network: &PlannedNetwork, host: usize, shape: Shape) -> Result<(), ToolError> {
        let switch = &network.switches[network.leaf_of_host[host]];
        let commands = reshaped(self.plan.mtu_bytes, &self.plan.hosts[host].name, shape);
        batch("tc", Some(&self.namespace(&switch.name)), &commands)
    }

    /// Cuts the cable between a switch and a host, or mends it: both ends see the link go down or up.
    ///
    /// # Errors
    /// If the command is refused.
    pub fn cut(&self, network: &PlannedNetwork, host: usize, is_cut: bool) -> Result<(), ToolError> {
        let switch = &network.switches[network.leaf_of_host[host]];
        let state = if is_cut { "down" } else { "up" };
        let command = format!("link set dev {} {state}\n", self.plan.hosts[host].name);
        batch("ip", Some(&self.namespace(&switch.name)), &command)
    }
}

/// A command that runs `program` in a namespace.
#[must_use]
pub fn command_in(namespace: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

impl Drop for Network {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = owner::remove(&self.owner)
        {
            log::error!(
                "the lab {} is not completely removed: {error}; `sheaf lab down` tries again",
                self.owner
            );
        }
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
    }
}
