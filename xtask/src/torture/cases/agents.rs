//! Agents are killed, stopped for a while and started again during a run. Each is another host to the run; here they share its disk.

use super::{Case, Outcome, always, nightly};
use crate::torture::books::{Kept, Promise, Status, number};
use crate::torture::process;
use crate::torture::run::Run;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result, ensure};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

pub(super) const CASES: &[Case] = &[
    always("kill-agent", kill),
    nightly("restart-agent", restart),
    nightly("freeze-agent", freeze),
    always("freeze-agent-at-the-end", freeze_at_the_end),
];

/// Nodes of the system, with their roles and the agents that start them. Agents outside of the list: the process of the run.
const NODES: [(&str, &str, Option<usize>); 5] = [
    ("evm", "manager", None),
    ("ru0", "readout", None),
    ("ru1", "readout", Some(0)),
    ("bu0", "builder", Some(0)),
    ("bu1", "builder", Some(1)),
];

/// A run whose nodes are started by two agents.
struct Hosts {
    run: Run,
    addresses: Vec<String>,
    agents: Vec<Option<Run>>,
    /// Number of agents started so far, for the names of their outputs.
    lives: u64,
}

impl Hosts {
    fn start(trial: &mut Trial, system: &mut System) -> Result<Self> {
        system.transport = "tcp";
        let ports = free_ports(2 + NODES.len())?;
        let address = |index: usize| format!("127.0.0.1:{}", ports[index]);
        let addresses: Vec<String> = (0..2).map(address).collect();
        write_key(trial)?;
        // An agent is never too late here: it is killed for as long as the case wants.
        system.set("agents", "key_file = \"agents.key\"\nanswer_timeout_ms = 120000\npatience_ms = 120000");
        system.set("manager", "start_timeout_ms = 120000");
        let mut text = system.to_toml(&trial.output).replace("count = 2\n", "");
        for (index, (name, role, agent)) in NODES.iter().enumerate() {
            text += &node(name, role, &address(2 + index), agent.map(|agent| &*addresses[agent]));
        }
        std::fs::write(trial.directory.join("run.toml"), text)?;
        let mut agents = Vec::new();
        let mut lives = 0;
        for address in &addresses {
            lives += 1;
            agents.push(Some(begin(trial, &[], address, lives)?));
        }
        let mut run = trial.sheaf("run", &["run", "run.toml", "--json"])?;
        run.expect_bytes(system.stored_bytes());
        Ok(Self { run, addresses, agents, lives })
    }

    /// Starts an agent again.
    fn begin(&mut self, trial: &Trial, index: usize) -> Result<()> {
        self.lives += 1;
        self.agents[index] = Some(begin(trial, &[], &self.addresses[index], self.lives)?);
        Ok(())
    }

    /// Ends an agent by a signal, and waits for it.
    fn end_agent(&mut self, index: usize, signal: &str) -> Result<()> {
        let agent = self.agents[index].take().context("the agent was started")?;
        agent.signal(signal)?;
        agent.end()?;
        Ok(())
    }

    /// Waits for the end of the run, ends the agents, and checks what is left.
    fn end(self, trial: &mut Trial, promise: &Promise, sources: u64) -> Result<Option<serde_json::Value>> {
        let ended = self.run.end()?;
        for agent in self.agents.into_iter().flatten() {
            agent.signal("TERM")?;
            let ended = agent.end()?;
            if !ended.status.success() || ended.stderr.contains("panicked") {
                trial.problem(format!("an agent ended with {}: {}", ended.status, ended.stderr));
            }
        }
        trial.check(&ended, promise, sources)
    }
}

/// Writes the key of agents into `agents.key`.
pub(super) fn write_key(trial: &mut Trial) -> Result<()> {
    let key: String = trial.dice.bytes(32).iter().map(|byte| format!("{byte:02x}")).collect();
    let file = trial.directory.join("agents.key");
    std::fs::write(&file, key)?;
    Ok(std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?)
}

/// Returns the table of a node, which an agent starts if one is given.
pub(super) fn node(name: &str, role: &str, address: &str, agent: Option<&str>) -> String {
    let agent = agent.map_or_else(String::new, |agent| format!("agent = {agent:?}\n"));
    format!("[[node]]\nname = {name:?}\nrole = {role:?}\naddress = {address:?}\n{agent}")
}

/// Starts an agent, under a command that starts another.
pub(super) fn begin(trial: &Trial, prefix: &[String], address: &str, life: u64) -> Result<Run> {
    let arguments = ["agent", "--listen", address, "--key", "agents.key"];
    let mut agent = trial.sheaf_below(prefix, &format!("agent-{life}"), &arguments)?;
    ensure!(agent.says("listens on")?, "an agent ended before it listened");
    Ok(agent)
}

fn free_ports(count: usize) -> Result<Vec<u16>> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
    ports.collect()
}

/// An agent dies with its nodes, and is started again in the same run. The builder unit loses nothing; the emulated sources of the readout
/// unit go on where the run is.
fn kill(trial: &mut Trial) -> Result<Outcome> {
    lose_agents(trial, "KILL")
}

/// As `kill`, but the agents are asked to end.
fn restart(trial: &mut Trial) -> Result<Outcome> {
    lose_agents(trial, "TERM")
}

fn lose_agents(trial: &mut Trial, signal: &str) -> Result<Outcome> {
    let mut system = System::new(trial.by_scale(40_000, 200_000));
    let mut hosts = Hosts::start(trial, &mut system)?;
    let times = trial.by_scale(2, 8);
    let mut readouts = 0;
    for time in 0..times {
        if !hosts.run.reaches_part(time + 1, times + 2)? {
            trial.problem("the run ended before its agents were lost");
            break;
        }
        let index = usize::try_from(trial.dice.below(2))?;
        // Its nodes must be there, so that their death is one.
        let (name, ..) = NODES[3 + index];
        if hosts.run.node(name, 0)?.is_none() {
            break;
        }
        hosts.end_agent(index, signal)?;
        trial.tally.kills += 1;
        trial.note(format!("SIG{signal} to the agent of {name}"));
        readouts += u64::from(index == 0);
        let pause = trial.dice.magnitude(1, 3_000);
        std::thread::sleep(std::time::Duration::from_millis(pause));
        hosts.begin(trial, index)?;
        hosts.run.node(name, 0)?;
    }
    let promise = Promise {
        status: Status::ByLoss,
        kept: Kept::ButSources(vec![1]),
        verify: &[0, 3],
        says: vec!["it was started again, and its nodes have ended".to_owned()],
    };
    let promise = if readouts == 0 { Promise::nothing_lost() } else { promise };
    if let Some(summary) = hosts.end(trial, &promise, system.readouts)? {
        let restarted = number(&summary["trouble"]["restarted_readouts"]);
        if restarted > readouts {
            trial.problem(format!("{restarted} readout units were restarted, and {readouts} died"));
        }
    }
    Ok(Outcome::Done)
}

/// An agent is stopped for a while. Its nodes go on, so nothing is lost.
fn freeze(trial: &mut Trial) -> Result<Outcome> {
    let mut system = System::new(trial.by_scale(60_000, 400_000));
    let mut hosts = Hosts::start(trial, &mut system)?;
    let percent = trial.dice.between(5, 40);
    if trial.wait_for(&mut hosts.run, percent)? {
        let time = trial.freeze_time();
        freeze_one(trial, &hosts, time)?;
    }
    hosts.end(trial, &Promise::nothing_lost(), system.readouts)?;
    Ok(Outcome::Done)
}

/// An agent is stopped when the run ends, which waits for the files of that host.
fn freeze_at_the_end(trial: &mut Trial) -> Result<Outcome> {
    let mut system = System::new(trial.by_scale(12_000, 60_000));
    let mut hosts = Hosts::start(trial, &mut system)?;
    if trial.wait_for(&mut hosts.run, 60)? {
        let time = std::time::Duration::from_millis(trial.by_scale(8_000, 60_000));
        freeze_one(trial, &hosts, time)?;
    }
    hosts.end(trial, &Promise::nothing_lost(), system.readouts)?;
    Ok(Outcome::Done)
}

fn freeze_one(trial: &mut Trial, hosts: &Hosts, time: std::time::Duration) -> Result<()> {
    let index = usize::try_from(trial.dice.below(2))?;
    let agent = hosts.agents[index].as_ref().context("the agent was started")?.id();
    // The process that looks after the nodes of the run is a child of the agent.
    let parts = match trial.dice.below(3) {
        0 => vec![agent],
        1 => children(trial, "host-run", agent),
        _ => std::iter::once(agent).chain(children(trial, "host-run", agent)).collect(),
    };
    trial.freeze(&format!("{} processes of agent {index}", parts.len()), &parts, time);
    Ok(())
}

/// Returns the processes of a case that run this command and have this parent.
fn children(trial: &Trial, command: &str, parent: u32) -> Vec<u32> {
    let of_case = process::marked(&trial.mark).into_iter();
    let wanted = of_case.filter(|process| process.arguments.get(1).is_some_and(|word| word == command));
    wanted.filter(|process| process::parent(process.id) == Some(parent)).map(|process| process.id).collect()
}
