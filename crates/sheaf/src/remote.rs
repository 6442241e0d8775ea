//! The hosts of a run whose nodes are started by agents: their preparation, their processes, and their parts of the run's directory.
//!
//! | module | holds |
//! |---|---|
//! | this | all [`Hosts`] of a run |
//! | `host` | one of them, and the thread that listens to it |
//! | `next` | the run that follows without a gap, on a host |
//! | `process` | the process of a node on it |

mod host;
mod next;
mod process;

pub(crate) use host::reason;
pub(crate) use process::RemoteProcess;

use crate::console;
use crate::console::message::Message;
use crate::host_message::{HostOrder, HostReady, HostRun};
use crate::node_output::TakeRecord;
use crate::plan::Plan;
use crate::run_directory::OtherParts;
use anyhow::{Context as _, anyhow, bail};
use host::{Host, LONGEST_PREPARATION, Phase};
use next::NextPhase;
use sheaf_agent::LinkOptions;
use sheaf_config::{Config, NodeConfig};
use sheaf_key::RunKey;
use sheaf_store::run::{CodeRecord, HostRecord, Manifest};
use sheaf_telemetry::log_as;
use sheaf_wire::NodeId;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Room for messages that an agent has not acknowledged.
const ROOM: usize = 64 << 20;

/// Time without a report after which a host is given up that closes its part of a run.
const CLOSING_PATIENCE: Duration = Duration::from_secs(30);

/// Interval at which a run says which host it waits for when it is closed.
const REMINDER: Duration = Duration::from_secs(10);

/// Time for the last messages.
const HANG_UP: Duration = Duration::from_secs(2);

/// Longest time between two looks at a host that closes its part.
const WAIT: Duration = Duration::from_millis(100);

/// Interval at which hosts are looked at that prepare a run.
const LOOK: Duration = Duration::from_millis(5);

/// Takes messages of the processes that look after nodes.
pub(crate) type TellMessage = Arc<dyn Fn(Message) + Send + Sync>;

/// A host, with the nodes that its agent starts.
type HostNodes = (Arc<Host>, Vec<NodeConfig>);

/// The hosts of runs that follow one another without a gap.
struct Team(Vec<HostNodes>);

impl Drop for Team {
    /// Lets the hosts know that nothing more is wanted.
    fn drop(&mut self) {
        self.0.iter().for_each(|(host, _)| host.hang_up(HANG_UP));
    }
}

/// All hosts of a run whose nodes are started by agents.
pub(crate) struct Hosts {
    team: Arc<Team>,
    /// Number of the run.
    run: u32,
    /// All nodes of the run.
    nodes: Vec<NodeId>,
    /// Whether the run is to follow another one, and has not begun.
    is_next: AtomicBool,
    /// Whether another run follows in the same processes.
    goes_on: AtomicBool,
}

/// When the preparation of a run that is to follow is given up.
#[derive(Clone, Copy)]
pub(crate) struct GiveUp<'a> {
    /// Whether nobody wants the run any more.
    pub(crate) is_over: &'a dyn Fn() -> bool,
    /// Whether the triggers of the run before have ended already: then nodes that are not there take part later.
    pub(crate) is_due: bool,
}

/// Returns the key and the settings of the links to agents.
pub(crate) fn link(config: &Config) -> anyhow::Result<(RunKey, LinkOptions)> {
    let agents = &config.agents;
    let file = agents.key_file.as_deref().context("`agents.key_file` is not set")?;
    let key = RunKey::load(file).context("`agents.key_file` cannot be used")?;
    let options = LinkOptions {
        patience: agents.patience.to_std(),
        connect_timeout: agents.answer_timeout.to_std(),
        room: ROOM,
    };
    Ok((key, options))
}

impl Hosts {
    /// Has all agents of a run prepare their nodes, at the same time, and waits until all are ready.
    ///
    /// An agent that does not answer is left out if the configuration has requirements: then the event manager decides whether the run may
    /// begin, and the agent may join later.
    ///
    /// # Errors
    /// The first host that cannot start its nodes, and why. All others have put away then what they prepared.
    pub(crate) fn prepare(plan: &Plan, run: &HostRun, tell: &TellMessage) -> anyhow::Result<Self> {
        let (key, options) = link(&plan.config)?;
        let mut team = Vec::new();
        for agent in plan.agents() {
            let of_agent = |node: &&NodeConfig| node.agent.as_ref() == Some(&agent);
            let nodes: Vec<NodeConfig> = plan.nodes.iter().filter(of_agent).cloned().collect();
            let run = HostRun { nodes: names(&nodes), ..run.clone() };
            team.push((Host::call(&agent, run, (key.clone(), options.clone()), tell.clone())?, nodes));
        }
        let hosts = Self::of(Arc::new(Team(team)), (plan, run.number), false);
        let prepared = hosts.wait_until_ready(plan);
        if let Err(error) = prepared {
            hosts.abandon();
            return Err(error);
        }
        hosts.hosts().iter().for_each(|(host, _)| host.note_begun());
        Ok(hosts)
    }

    fn of(team: Arc<Team>, (plan, run): (&Plan, u32), is_next: bool) -> Self {
        let nodes = plan.nodes.iter().map(|node| node.id).collect();
        let (is_next, goes_on) = (AtomicBool::new(is_next), AtomicBool::new(false));
        Self { team, run, nodes, is_next, goes_on }
    }

    fn hosts(&self) -> &[HostNodes] {
        &self.team.0
    }

    /// Has the hosts of this run prepare the one that follows without a gap, while this one goes on, and waits until all are ready.
    ///
    /// A host that is lost may come back for as long as an agent may take to answer. After that the run begins without it where that is possible,
    /// and it takes part when it is back.
    ///
    /// # Errors
    /// The first host that cannot prepare the run, and why. All have put away then what they prepared.
    pub(crate) fn prepare_next(
        &self,
        plan: &Plan,
        run: &HostRun,
        give_up: GiveUp<'_>,
    ) -> anyhow::Result<Self> {
        let next = Self::of(self.team.clone(), (plan, run.number), true);
        next.hosts().iter().for_each(|(host, _)| host.prepare_next(run));
        let prepared = next.hosts().iter().try_for_each(|host| next.wait_for_next(host, plan, give_up));
        if let Err(error) = prepared {
            next.abandon();
            return Err(error);
        }
        Ok(next)
    }

    fn wait_for_next(
        &self,
        (host, nodes): &HostNodes,
        plan: &Plan,
        GiveUp { is_over, is_due }: GiveUp<'_>,
    ) -> anyhow::Result<()> {
        let (agent, names, run) = (&host.agent, names(nodes).join(", "), self.run);
        let until = Instant::now() + LONGEST_PREPARATION;
        let why = loop {
            match host.next_phase(run, plan.config.agents.answer_timeout.to_std()) {
                NextPhase::Ready => return Ok(()),
                NextPhase::Refused(why) => {
                    bail!("the agent {agent}, which has started {names}, cannot prepare run {run}: {why}")
                }
                NextPhase::Absent(why) => break why,
                NextPhase::Silent(silence) => {
                    break format!("nothing has come from it for {} s", silence.as_secs());
                }
                NextPhase::Prepares if Instant::now() > until => {
                    break format!(
                        "it has not prepared run {run} within {} s: something on its host hangs, such as a disk or a library",
                        LONGEST_PREPARATION.as_secs()
                    );
                }
                NextPhase::Prepares => {}
            }
            if is_over() {
                bail!("the run has ended while the agent {agent} was preparing run {run}");
            }
            host.wait(LOOK);
        };
        if !is_due && plan.config.require.is_empty() {
            bail!(
                "the agent {agent}, which starts {names}, has not prepared run {run}: {why}; when it is back, ask for the next run again"
            );
        }
        log_as!(
            AGENT_ABSENT, peer = agent;
            "the agent {agent} has not prepared run {run} ({why}); the run begins without {names} if that is possible, and they join it later"
        );
        Ok(())
    }

    /// Begins the run, which was to follow: nodes that are started from now on take part in it. `following` is the run in which the nodes have
    /// met, and the first event of this one.
    pub(crate) fn begin(&self, following: (u32, u64)) {
        self.is_next.store(false, Ordering::Relaxed);
        self.hosts().iter().for_each(|(host, _)| host.begin_next(self.run, following));
    }

    /// Notes that the nodes go on with another run.
    pub(crate) fn note_going_on(&self) {
        self.goes_on.store(true, Ordering::Relaxed);
    }

    /// Returns the nodes of hosts that have not prepared the run.
    pub(crate) fn absent(&self) -> Vec<NodeId> {
        let absent = self.hosts().iter().filter(|(host, _)| host.ready(self.run).is_none());
        absent.flat_map(|(_, nodes)| nodes.iter().map(|node| node.id)).collect()
    }

    /// Returns whether the nodes end with this run.
    fn is_last(&self) -> bool {
        !self.is_next.load(Ordering::Relaxed) && !self.goes_on.load(Ordering::Relaxed)
    }

    fn wait_until_ready(&self, plan: &Plan) -> anyhow::Result<()> {
        let patience = plan.config.agents.answer_timeout.to_std();
        for (host, nodes) in self.hosts() {
            let (agent, names) = (&host.agent, names(nodes).join(", "));
            match host.wait_until_ready(patience) {
                Phase::Ready => {}
                Phase::Prepares => bail!(
                    "the agent {agent} is not ready to start {names} after {} s: something on its host hangs, such as a disk or a library",
                    LONGEST_PREPARATION.as_secs()
                ),
                Phase::Called => {
                    let why = host.trouble().unwrap_or_else(|| "it does not answer".to_owned());
                    if plan.config.require.is_empty() {
                        bail!(
                            "the agent {agent}, which starts {names}, does not answer: {why}; start `sheaf agent` on that host, \
                             correct `agent` in the configuration, or run all nodes here with --local"
                        );
                    }
                    log_as!(
                        AGENT_ABSENT, peer = agent;
                        "the agent {agent} does not answer ({why}); the run begins without {names} if its requirements permit that"
                    );
                }
                Phase::Refused(why) | Phase::Lost(why) => {
                    bail!("the agent {agent} cannot start {names}: {why}");
                }
            }
        }
        Ok(())
    }

    /// Checks that all hosts load the same code. `here` is the code of this host, which may load none of it.
    ///
    /// # Errors
    /// The first difference.
    pub(crate) fn compare_code(&self, here: &[CodeRecord]) -> anyhow::Result<()> {
        let mut hosts = vec![("this host".to_owned(), here.to_vec())];
        hosts.extend(self.ready().into_iter().map(|ready| (ready.host, ready.code)));
        compare(&hosts)
    }

    /// Returns the code that the run loads on other hosts, once for each table, but for what `here` has.
    pub(crate) fn code_besides(&self, here: &[CodeRecord]) -> Vec<CodeRecord> {
        let mut records: Vec<CodeRecord> = Vec::new();
        for record in self.ready().into_iter().flat_map(|ready| ready.code) {
            if !here.iter().chain(&records).any(|known| known.table == record.table) {
                // The copy is in the directory of that host.
                records.push(CodeRecord { copy: None, ..record });
            }
        }
        records
    }

    fn ready(&self) -> Vec<HostReady> {
        self.hosts().iter().filter_map(|(host, _)| host.ready(self.run)).collect()
    }

    /// Starts the process of a node on the host of its agent. `take` takes its records.
    pub(crate) fn start(&self, node: &NodeConfig, take: TakeRecord) -> anyhow::Result<RemoteProcess> {
        let host = self.hosts().iter().find(|(host, _)| node.agent.as_ref() == Some(&host.agent));
        let (host, _) = host.with_context(|| format!("no agent starts {}", node.name))?;
        Ok(RemoteProcess::start(host.clone(), &node.name, take))
    }

    /// Returns why the run must end, if a host has a reason.
    pub(crate) fn take_no_space(&self) -> Option<String> {
        self.hosts().iter().find_map(|(host, _)| host.take_no_space(self.run))
    }

    /// Lets hosts go that are lost from now on: the run is over.
    pub(crate) fn let_go(&self) {
        self.hosts().iter().for_each(|(host, _)| host.let_go());
    }

    /// Has all hosts put away what they prepared for this run.
    pub(crate) fn abandon(&self) {
        let (run, is_last) = (self.run, self.is_last());
        for (host, _) in self.hosts() {
            if is_last {
                host.let_go();
            }
            host.forget(run);
            host.order(&HostOrder::Abandon { run, is_last });
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.hosts().iter().for_each(|(host, _)| host.forget(self.run));
    }
}

fn names(nodes: &[NodeConfig]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

/// Checks that hosts load the same code.
fn compare(hosts: &[(String, Vec<CodeRecord>)]) -> anyhow::Result<()> {
    let mut seen: Vec<(&str, &CodeRecord)> = Vec::new();
    for (host, record) in hosts.iter().flat_map(|(host, code)| code.iter().map(move |record| (host, record)))
    {
        let same = seen.iter().find(|(_, other)| other.table == record.table);
        if let Some((first, other)) = same.filter(|(_, other)| other.crc32c != record.crc32c) {
            bail!(
                "`{}.path` is not the same on all hosts: {} on {first} has CRC-32C {:08x}, {} on {host} has {:08x}; install the \
                 same file on all of them",
                record.table,
                other.path.display(),
                other.crc32c,
                record.path.display(),
                record.crc32c
            );
        }
        seen.push((host, record));
    }
    Ok(())
}

impl OtherParts for Hosts {
    fn records(&self) -> Vec<HostRecord> {
        let record = |(host, nodes): &(Arc<Host>, Vec<NodeConfig>)| {
            let HostReady { host: name, directory, is_shared, .. } = host.ready(self.run)?;
            let nodes = nodes.iter().map(|node| node.id).collect();
            let (agent, directory) = (Some(host.agent.clone()), directory.unwrap_or_default());
            (!is_shared).then_some(HostRecord { host: name, agent, directory, nodes })
        };
        self.hosts().iter().filter_map(record).collect()
    }

    fn nodes_here(&self) -> Vec<NodeId> {
        let elsewhere: Vec<NodeId> = self.records().into_iter().flat_map(|host| host.nodes).collect();
        self.nodes.iter().copied().filter(|node| !elsewhere.contains(node)).collect()
    }

    fn begin_close(&self, manifest: &Manifest) -> anyhow::Result<()> {
        let text = serde_json::to_string(manifest).context("a manifest is JSON")?;
        self.hosts().iter().for_each(|(host, _)| host.begin_close(self.run, &text, self.is_last()));
        Ok(())
    }

    fn wait(&self) -> (Vec<Manifest>, anyhow::Result<()>) {
        let (mut parts, mut errors) = (Vec::new(), Vec::new());
        for (host, _) in self.hosts() {
            match wait_for_close(host, self.run) {
                Ok(part) => parts.extend(part.and_then(|text| serde_json::from_str(&text).ok())),
                Err(why) => {
                    let place = host.ready(self.run).and_then(|ready| ready.directory);
                    errors.push(not_closed(&host.agent, place.as_deref(), &why));
                }
            }
        }
        (parts, if errors.is_empty() { Ok(()) } else { Err(anyhow!("{}", errors.join("; "))) })
    }
}

/// Waits until a host has closed its part of a run. Returns its manifest.
fn wait_for_close(host: &Host, run: u32) -> Result<Option<String>, String> {
    let mut reminded = Instant::now();
    loop {
        if let Some(closed) = host.closed(run) {
            return closed;
        }
        if host.ready(run).is_none() {
            // It has never come.
            return Ok(None);
        }
        if host.silence() > CLOSING_PATIENCE {
            return Err(host.trouble().unwrap_or_else(|| "its process reports nothing any more".to_owned()));
        }
        if reminded.elapsed() > REMINDER {
            reminded = Instant::now();
            log_as!(AGENT_CLOSES, peer = host.agent; "waiting for the agent {} to close its files", host.agent);
        }
        host.wait(WAIT);
    }
}

fn not_closed(agent: &str, directory: Option<&Path>, why: &str) -> String {
    let place = directory.map_or_else(String::new, |directory| {
        let shown = directory.display();
        format!("; its files are in {shown} there, and `sheaf verify {shown}` lists their events")
    });
    format!("the agent {agent} has not closed its part of the run: {why}{place}")
}

/// Returns what keeps messages of the processes that look after nodes.
pub(crate) fn tell(page: Option<&crate::page::Page>) -> TellMessage {
    let page = page.cloned();
    Arc::new(move |message| {
        if let Some(page) = &page {
            page.add_message(&message);
        }
        console::pass_on(message);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_different_code_are_told_apart() {
        let record = |table: &str, crc32c| CodeRecord {
            table: table.into(),
            path: format!("{table}.so").into(),
            copy: None,
            bytes: 1,
            crc32c,
        };
        let host = |name: &str, code: Vec<CodeRecord>| (name.to_owned(), code);
        let same = [
            host("this host", vec![record("filter", 1)]),
            host("daq2", vec![record("filter", 1), record("source.library", 2)]),
        ];
        assert!(compare(&same).is_ok());
        let other = [same[1].clone(), host("daq3", vec![record("filter", 3)])];
        let error = compare(&other).expect_err("they differ").to_string();
        for words in
            ["`filter.path`", "daq2 has CRC-32C 00000001", "daq3 has 00000003", "install the same file"]
        {
            assert!(error.contains(words), "{error}");
        }
    }
}
