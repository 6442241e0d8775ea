//! Runs whose nodes are started by agents. All hosts are this machine, each with a working directory of its own.

use crate::child::{Running, ScratchDirectory, children_of, signal, start, wait_until};
use crate::nodes::free_ports;
use crate::output::{assert_adds_up, field, number, verify};
use crate::serve::Controller;
use serde_json::Value;
use std::fs;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const EVENTS: u64 = 3_000;

/// An agent in a working directory of its own.
pub(crate) struct Agent {
    pub(crate) directory: PathBuf,
    pub(crate) address: String,
    key: PathBuf,
    running: Option<Running>,
}

impl Agent {
    fn new(scratch: &ScratchDirectory, name: &str, key: &Path) -> Self {
        let directory = scratch.join(name);
        fs::create_dir(&directory).unwrap();
        Self::at(directory, key)
    }

    /// An agent in a directory that is there.
    pub(crate) fn at(directory: PathBuf, key: &Path) -> Self {
        let [port] = free_ports();
        let mut agent =
            Self { directory, address: format!("127.0.0.1:{port}"), key: key.to_owned(), running: None };
        agent.begin();
        agent
    }

    pub(crate) fn begin(&mut self) {
        let arguments = ["agent", "--listen", &self.address, "--key"].map(str::to_owned);
        let arguments = arguments.into_iter().chain([self.key.display().to_string()]);
        let mut running = start(&self.directory, arguments);
        running.wait_until_said("listens on");
        self.running = Some(running);
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("it was started")
    }

    /// The process of a node that the agent has started for a run.
    pub(crate) fn node(&self, name: &str) -> u32 {
        let agent = self.running.as_ref().expect("it was started").id();
        let find = || {
            let of_run = |run: u32| children_of(run).into_iter().find(|(node, _)| node == name);
            host_runs(agent).into_iter().find_map(of_run)
        };
        wait_until(&format!("{name} has a process"), || find().is_some());
        find().expect("it was there").1
    }

    /// Kills the agent alone; the processes of its runs learn of it.
    pub(crate) fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Asks the agent to end, and waits for it.
    fn end(&mut self) {
        let running = self.running.take().expect("it was started");
        running.signal("TERM");
        running.end().exits(0);
    }

    fn run(&self) -> PathBuf {
        self.directory.join("runs/run000001")
    }
}

/// The processes of an agent that look after the nodes of a run.
fn host_runs(agent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let id: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let arguments = fs::read(path.join("cmdline")).ok()?;
        let is_host_run = arguments.split(|byte| *byte == 0).nth(1)? == b"host-run";
        let status = fs::read_to_string(path.join("status")).ok()?;
        let parent =
            status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()?;
        (is_host_run && parent == agent).then_some(id)
    });
    processes.collect()
}

fn key(scratch: &ScratchDirectory, name: &str, digit: char) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = scratch.file(name, &String::from_iter([digit; 64]));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A system of two readout units and two builder units, some of them with agents.
pub(crate) struct System {
    pub(crate) scratch: ScratchDirectory,
    pub(crate) key: PathBuf,
    ports: [u16; 5],
}

impl System {
    pub(crate) fn new() -> Self {
        let scratch = ScratchDirectory::new();
        let key = key(&scratch, "agents.key", '7');
        fs::create_dir(scratch.join("run")).unwrap();
        Self { scratch, key, ports: free_ports() }
    }

    pub(crate) fn agent(&self, name: &str) -> Agent {
        Agent::new(&self.scratch, name, &self.key)
    }

    /// Writes a configuration: `agents` are those of the event manager, the readout units and the builder units; an empty one is none.
    pub(crate) fn configure(&self, head: &str, agents: [&str; 5]) {
        let names = [
            ("evm", "manager"),
            ("ru0", "readout"),
            ("ru1", "readout"),
            ("bu0", "builder"),
            ("bu1", "builder"),
        ];
        let nodes = names.iter().zip(self.ports).zip(agents).map(|(((name, role), port), agent)| {
            let agent = if agent.is_empty() { String::new() } else { format!("agent = \"{agent}\"\n") };
            format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n{agent}")
        });
        let nodes: String = nodes.collect();
        let text = format!(
            "[transport]\nkind = \"tcp\"\n[agents]\nkey_file = \"{}\"\nanswer_timeout_ms = 120000\npatience_ms = 120000\n\
             [builder]\ncheck_content = true\n[manager]\nstart_timeout_ms = 240000\n{head}\n{nodes}",
            self.key.display()
        );
        self.scratch.file("run/run.toml", &text);
    }

    pub(crate) fn start(&self, arguments: &str) -> Running {
        let all = format!("run run.toml --json {arguments}");
        start(&self.scratch.join("run"), all.split_whitespace())
    }

    fn run(&self) -> PathBuf {
        self.scratch.join("run/runs/run000001")
    }

    /// Verifies the parts of a run, and all of their files together. Returns the number of events.
    fn verify_all(&self, agents: &[&Agent]) -> u64 {
        let whole = self.scratch.join("whole");
        fs::create_dir(&whole).unwrap();
        let parts = std::iter::once(self.run()).chain(agents.iter().map(|agent| agent.run()));
        for part in parts {
            verify(&part, 0);
            for entry in fs::read_dir(&part).unwrap() {
                let file = entry.unwrap().path();
                let to = whole.join(file.file_name().unwrap());
                if file.is_file() && !to.exists() {
                    fs::copy(&file, &to).unwrap();
                }
            }
        }
        let report = verify(&whole, 0);
        assert!(report.get("elsewhere").is_none(), "everything is here: {report:#}");
        number(&report, "events")
    }
}

fn stored(summary: &Value) -> u64 {
    assert_adds_up(summary);
    number(summary, "ledger.stored")
}

/// The test ends the run by a signal once enough has happened.
const UNTIL_STOPPED: &str = "[run]\nduration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 1000.0\n";

#[test]
fn nodes_of_two_agents_take_one_run_and_each_host_keeps_its_part() {
    let system = System::new();
    let (one, two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    system.configure(&format!("[run]\nevents = {EVENTS}\nduration_s = 0\n"), ["", a, b, a, b]);
    let summary = system.start("").end().exits(0).json();
    assert_eq!(stored(&summary), EVENTS);
    assert_eq!(system.verify_all(&[&one, &two]), EVENTS);
    let report = verify(&one.run(), 0);
    let elsewhere = field(&report, "elsewhere").as_array().unwrap();
    assert_eq!(elsewhere.len(), 1, "{report:#}");
    assert_eq!(number(&report, "events") + number(&elsewhere[0], "events"), EVENTS);
    for agent in [&one, &two] {
        let left: Vec<_> =
            ["run.key", "reserve", "running"].map(|name| agent.run().join(name).exists()).into();
        assert_eq!(left, [false; 3], "nothing temporary is left in {}", agent.run().display());
    }
    let log = fs::read_to_string(system.run().join("log.jsonl")).unwrap();
    assert!(log.contains("run-ended"), "{log}");
}

#[test]
fn hosts_that_share_a_disk_share_the_directory_of_the_run() {
    let system = System::new();
    let agent = Agent::at(system.scratch.join("run"), &system.key);
    let at = &*agent.address;
    system.configure(&format!("[run]\nevents = {EVENTS}\nduration_s = 0\n"), ["", at, "", at, ""]);
    let summary = system.start("").end().exits(0).json();
    assert_eq!(stored(&summary), EVENTS);
    let report = verify(&system.run(), 0);
    assert_eq!(number(&report, "events"), EVENTS);
    assert!(report.get("elsewhere").is_none());
}

#[test]
fn a_builder_unit_that_dies_on_the_host_of_an_agent_is_started_again() {
    let system = System::new();
    let agent = system.agent("one");
    let at = &*agent.address;
    system.configure(UNTIL_STOPPED, ["", "", at, at, at]);
    let mut running = system.start("");
    running.wait_until_said("running: ");
    let first = agent.node("bu0");
    signal(first, "KILL");
    running.wait_until_said("bu0 died (signal: 9 (SIGKILL)); it is restarted");
    wait_until("bu0 has another process", || agent.node("bu0") != first);
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_eq!(stored(&summary), system.verify_all(&[&agent]));
}

#[test]
fn the_builder_units_of_an_agent_that_is_started_again_join_the_run_again() {
    let system = System::new();
    let (mut lost, stays) = (system.agent("lost"), system.agent("stays"));
    let (a, b) = (lost.address.clone(), &*stays.address);
    system.configure(UNTIL_STOPPED, ["", "", b, &a, b]);
    let mut running = system.start("");
    running.wait_until_said("running: ");
    // Once it is killed, once it is asked to end.
    for times in 1..=2 {
        lost.node("bu0");
        match times {
            1 => lost.kill(),
            _ => lost.end(),
        }
        lost.begin();
        lost.node("bu0");
        wait_until("it writes events", || {
            let files = fs::read_dir(lost.run()).unwrap().flatten();
            files.filter(|file| file.file_name().to_string_lossy().contains("_bu0_")).count() > times
        });
    }
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_eq!(stored(&summary), system.verify_all(&[&lost, &stays]));
}

#[test]
fn the_readout_unit_of_an_agent_that_is_started_again_joins_the_run_again() {
    let system = System::new();
    let (mut lost, stays) = (system.agent("lost"), system.agent("stays"));
    let (a, b) = (lost.address.clone(), &*stays.address);
    system.configure(UNTIL_STOPPED, ["", "", &a, b, b]);
    let mut running = system.start("");
    running.wait_until_said("running: ");
    lost.node("ru1");
    lost.kill();
    lost.begin();
    lost.node("ru1");
    running.wait_until_said("ru1 restarted");
    let times = running.said().matches("running: ").count();
    wait_until("events are built", || running.said().matches("running: ").count() > times + 1);
    running.signal("INT");
    let summary = running.end().json();
    assert_eq!(summary["trouble"]["restarted_readouts"], 1, "{summary:#}");
    assert_eq!(summary["ledger"]["balanced"], true, "{summary:#}");
    assert_eq!(stored(&summary), system.verify_all(&[&lost, &stays]));
}

/// Passes connections on, and cuts all of them when it is asked to.
struct Cable {
    address: String,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    fn to(agent: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (held, agent) = (streams.clone(), agent.to_owned());
        std::thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let Ok(called) = TcpStream::connect(&agent) else { continue };
                held.lock().unwrap().extend([caller.try_clone().unwrap(), called.try_clone().unwrap()]);
                pass(&caller, &called);
                pass(&called, &caller);
            }
        });
        Self { address, streams }
    }

    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}

#[test]
fn connections_to_an_agent_that_are_cut_cost_nothing() {
    let system = System::new();
    let agent = system.agent("one");
    let cable = Cable::to(&agent.address);
    system.configure(UNTIL_STOPPED, ["", "", &cable.address, &cable.address, ""]);
    let mut running = system.start("");
    running.wait_until_said("running: ");
    for _ in 0..5 {
        cable.cut();
        wait_until("the connection is made again", || !cable.streams.lock().unwrap().is_empty());
    }
    running.wait_until_said("is connected again");
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.triggers"), stored(&summary));
    assert_eq!(stored(&summary), system.verify_all(&[&agent]));
}

#[test]
fn a_run_after_one_that_was_killed_has_the_addresses_of_its_nodes() {
    let system = System::new();
    let mut agent = system.agent("one");
    let at = agent.address.clone();
    system.configure(UNTIL_STOPPED, ["", &at, &at, &at, &at]);
    let mut running = system.start("");
    running.wait_until_said("running: ");
    agent.node("ru0");
    drop(running);
    system.configure(
        &format!("[run]\nnumber = 2\nevents = {EVENTS}\nduration_s = 0\n"),
        ["", &at, &at, &at, &at],
    );
    let summary = system.start("").end().exits(0).json();
    assert_eq!(stored(&summary), EVENTS);
    assert!(agent.running().said().contains("run 1 is gone: its nodes on this host end"));
}

#[test]
fn an_agent_with_another_key_or_none_at_all_refuses_the_run_and_nothing_is_left() {
    let system = System::new();
    let stranger = Agent::new(&system.scratch, "stranger", &key(&system.scratch, "other.key", '8'));
    let at = &*stranger.address;
    system.configure(&format!("[run]\nevents = {EVENTS}\nduration_s = 0\n"), ["", at, "", "", ""]);
    system.start("").end().exits(1).says(&["cannot start ru0", "another key", "agents.key_file"]);
    assert!(!system.run().exists() && !stranger.run().exists());
    let nobody = format!("127.0.0.1:{}", free_ports::<1>()[0]);
    let head = format!("[run]\nevents = {EVENTS}\nduration_s = 0\n");
    system.configure(&head, ["", &nobody, "", "", ""]);
    let path = system.scratch.join("run/run.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("answer_timeout_ms = 120000", "answer_timeout_ms = 300")).unwrap();
    let words = ["which starts ru0, does not answer", "start `sheaf agent` on that host", "--local"];
    system.start("").end().exits(1).says(&words);
    assert!(!system.run().exists());
    // One host is ready when another one refuses.
    let mut ready = system.agent("ready");
    let there = ready.address.clone();
    system.configure(&head, ["", &there, "", at, ""]);
    system.start("").end().exits(1).says(&["cannot start bu0", "another key"]);
    ready.running().wait_until_said("uses this host no more");
    assert!(!system.run().exists() && !ready.run().exists());
    assert!(!ready.running().said().contains("warning"), "{}", ready.running().said());
    let summary = system.start("--local").end().exits(0).json();
    assert_eq!(stored(&summary), EVENTS);
}

#[test]
fn a_run_whose_requirements_are_met_begins_without_an_agent_which_joins_later() {
    let system = System::new();
    let mut late = system.agent("late");
    late.kill();
    let at = late.address.clone();
    let head = format!("[require.farm]\nnodes = [\"bu*\"]\nshare = 0.5\n{UNTIL_STOPPED}");
    system.configure(&head, ["", "", "", "", &at]);
    let path = system.scratch.join("run/run.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("answer_timeout_ms = 120000", "answer_timeout_ms = 300");
    fs::write(&path, text.replace("start_timeout_ms = 240000", "start_timeout_ms = 15000")).unwrap();
    let mut running = system.start("");
    running.wait_until_said("[agent-absent]");
    running.wait_until_said("running: ");
    late.begin();
    late.node("bu1");
    wait_until("it writes events", || {
        let files = fs::read_dir(late.run()).into_iter().flatten().flatten();
        files.filter(|file| file.file_name().to_string_lossy().ends_with(".sheaf")).count() > 0
    });
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_eq!(stored(&summary), system.verify_all(&[&late]));
}

#[test]
fn the_doctor_asks_the_agents_of_a_configuration() {
    let system = System::new();
    let agent = system.agent("one");
    let at = &*agent.address;
    system.configure("", ["", at, "", "", ""]);
    let ask = |code: i32| {
        let arguments = ["doctor", "--config", "run.toml", "--all"];
        let said = start(&system.scratch.join("run"), arguments).end();
        assert!(code == 0 || said.status.code() == Some(code), "{said:?}");
        said
    };
    ask(0).prints(&[&format!("ok       agent {at}"), "starts ru0"]);
    let nobody = format!("127.0.0.1:{}", free_ports::<1>()[0]);
    system.configure("", ["", &nobody, "", "", ""]);
    let path = system.scratch.join("run/run.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("answer_timeout_ms = 120000", "answer_timeout_ms = 300")).unwrap();
    ask(3).prints(&[&format!("PROBLEM  agent {nobody}"), "does not answer", "start `sheaf agent`"]);
}

/// Everything but a builder unit is on the hosts of agents, the event manager too: requests reach it, and its metrics the page.
#[test]
fn a_controller_operates_a_run_whose_event_manager_has_an_agent() {
    let system = System::new();
    let (one, two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    let head =
        "[trigger]\nmode = \"fixed\"\nrate_hz = 500.0\n[source.emulated]\nmean_bytes = 256\nrms_bytes = 0\n";
    system.configure(head, [a, a, b, "", b]);
    let text = fs::read_to_string(system.scratch.join("run/run.toml")).unwrap();
    let controller = Controller::begin(&text);
    controller.ctl("configure").exits(0).says(&["run 1 is configured"]);
    controller.ctl("start").exits(0).says(&["run 1 is running"]);
    wait_until("triggers are taken", || controller.triggers_so_far() > 20.0);
    controller.ctl("pause").exits(0).says(&["run 1 is paused"]);
    let at_pause = controller.triggers_so_far();
    controller.ctl("resume").exits(0).says(&["run 1 is running"]);
    wait_until("triggers are taken again", || controller.triggers_so_far() > at_pause + 20.0);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all", "0 rejected by the filter"]);
    assert_eq!(controller.status()["last_run"]["good"], true);
    for part in [controller.place.join("runs/run000001"), one.run(), two.run()] {
        verify(&part, 0);
    }
}

/// All nodes of a host are stopped, as if it had lost its power: one alarm names the host.
#[test]
fn a_host_whose_nodes_are_all_silent_has_one_alarm_until_they_are_back() {
    let system = System::new();
    let agent = system.agent("one");
    let at = &*agent.address;
    system.configure(UNTIL_STOPPED, ["", "", at, at, at]);
    let text = fs::read_to_string(system.scratch.join("run/run.toml")).unwrap();
    let controller = Controller::begin(&text);
    controller.ctl("start").exits(0);
    wait_until("triggers are taken", || controller.triggers_so_far() > 20.0);
    wait_until("all nodes have published", || {
        let (_, state) = controller.http("GET", "/api/v1/state", &[], "");
        state["nodes"].as_array().unwrap().iter().all(|node| node["age_ms"].is_number())
    });
    let nodes = ["ru1", "bu0", "bu1"].map(|name| agent.node(name));
    nodes.iter().for_each(|node| signal(*node, "STOP"));
    let alarms = || controller.http("GET", "/api/v1/alarms", &[], "").1["alarms"].clone();
    let codes = |alarms: &Value| -> Vec<String> {
        let alarms = alarms.as_array().unwrap().iter();
        alarms.map(|alarm| alarm["code"].as_str().unwrap().to_owned()).collect()
    };
    let mut raised = Value::Null;
    wait_until("an alarm names the host", || {
        raised = alarms();
        codes(&raised).iter().any(|code| code == "host-silent")
    });
    let of_nodes = |code: &String| code.starts_with("node-");
    assert!(!codes(&raised).iter().any(of_nodes), "{raised:#}");
    let host = raised.as_array().unwrap().iter().find(|alarm| alarm["code"] == "host-silent").unwrap();
    assert_eq!(host["text"], "all 3 nodes on 127.0.0.1 are silent");
    assert_eq!(codes(&host["folded"]), ["node-silent"; 3]);
    let status = controller.ctl("status").exits(0);
    status.prints(&["alarm     error: all 3 nodes on 127.0.0.1 are silent", "stands for ru1, bu0, bu1"]);
    let metrics = controller.place.sheaf("top --once").exits(0);
    metrics.prints(&["stands for ru1, bu0, bu1"]);
    nodes.iter().for_each(|node| signal(*node, "CONT"));
    wait_until("the alarm ends", || {
        !codes(&alarms()).iter().any(|code| code == "host-silent" || of_nodes(code))
    });
    controller.ctl("stop").exits(0);
    assert_eq!(controller.runs()[0]["ledger"]["balanced"], true);
}
