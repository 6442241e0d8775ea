//! A run that takes data while strangers connect to its doors.

use super::record::{First, Recording};
use super::table::{self, Door, Evidence, Guise};
use crate::child::{Ended, Running, ScratchDirectory, wait_until};
use crate::ethernet::Hosts;
use crate::nodes::free_ports;
use crate::output::{assert_adds_up, number};
use serde_json::Value;
use sheaf_wire::Role;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A node of the run.
struct Node {
    name: &'static str,
    /// Name in the log of other nodes.
    id: &'static str,
    role: Role,
    more: &'static str,
}

const NODES: [Node; 4] = [
    Node { name: "evm", id: "evm", role: Role::Manager, more: "" },
    Node { name: "ru", id: "ru0", role: Role::Readout, more: "sources = [1]" },
    Node { name: "bu", id: "bu0", role: Role::Builder, more: "" },
    Node { name: "out", id: "out0", role: Role::Output, more: "" },
];

/// Host of a stranger on raw Ethernet. Each guise has its own.
const STRANGERS: [&str; 4] = ["s0", "s1", "s2", "s3"];

/// Addresses in a configuration: of the nodes in order, of the door for processors, and of that for consumers.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    nodes: [SocketAddr; 4],
    pub(super) farm: SocketAddr,
    pub(super) consumers: SocketAddr,
}

impl Addresses {
    /// Chooses free ports. Each node has its own host, which its certificate names.
    fn free() -> Self {
        let hosts = [0, 1, 2, 3, 4, 5].map(host);
        let mut ports = free_ports::<6>().into_iter();
        let [evm, ru, bu, out, farm, consumers] =
            hosts.map(|host| SocketAddr::from((host, ports.next().expect("one for each"))));
        Self { nodes: [evm, ru, bu, out], farm, consumers }
    }

    pub(super) fn manager(&self) -> SocketAddr {
        self.nodes[0]
    }
}

fn host(at: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, at + 2)
}

/// Evidence by which a node authenticates.
#[derive(Clone, Copy)]
enum Shows {
    Nothing,
    /// The key in this file.
    Key(&'static str),
    /// The certificate of this node.
    Certificate(&'static str),
}

/// Time for which the event manager waits for its nodes while strangers connect: minutes, on a busy machine.
const START_TIMEOUT_MS: u64 = 600_000;

/// Message that every node prints when it begins.
const BEGINS: &str = " of run 7";

const RUN_KEY: &str = "run.key";
const OTHER_KEY: &str = "other.key";

/// A run that takes data.
pub(super) struct Run {
    scratch: ScratchDirectory,
    /// Working directory of strangers.
    elsewhere: ScratchDirectory,
    hosts: Option<Hosts>,
    door: Door,
    evidence: Evidence,
    pub(super) addresses: Addresses,
    /// Nodes in the order of [`NODES`].
    nodes: Vec<Running>,
    /// Recordings of each node that calls the event manager, by index in [`NODES`].
    recordings: Vec<Option<Recording>>,
}

impl Run {
    /// Starts a run with this door, which must detect strangers with this evidence. If this machine does not support it, prints the
    /// reason and returns `None`.
    pub(super) fn start(door: Door, evidence: Evidence) -> Option<Self> {
        let (scratch, elsewhere) = (ScratchDirectory::new(), ScratchDirectory::new());
        make_key(&scratch, RUN_KEY, 'a');
        make_key(&scratch, OTHER_KEY, 'b');
        if evidence == Evidence::OthersCertificate && !make_certificates(&scratch) {
            return None;
        }
        let all: Vec<_> = NODES.map(|node| node.name).into_iter().chain(STRANGERS).collect();
        let name = format!("strangers{}", evidence as u8);
        let hosts = if door == Door::Ethernet { Some(Hosts::new(&name, &all, 1, 1500)?) } else { None };
        let (addresses, nodes, recordings) = (Addresses::free(), Vec::new(), Vec::new());
        let mut run = Self { scratch, elsewhere, hosts, door, evidence, addresses, nodes, recordings };
        run.start_nodes();
        Some(run)
    }

    fn start_nodes(&mut self) {
        let (manager, others) = NODES.split_first().expect("an event manager");
        self.start_node(manager);
        let strangers = if self.evidence == Evidence::Recording { Vec::new() } else { self.come_early() };
        others.iter().for_each(|node| self.start_node(node));
        self.wait_for_events();
        strangers.into_iter().for_each(end_stranger);
    }

    /// Lets strangers connect in place of nodes that have not started yet; a live link would be a sufficient reason to refuse them.
    /// Returns those that cannot be distinguished from slow nodes: they must not have a link when the run takes data.
    fn come_early(&mut self) -> Vec<Running> {
        if matches!(self.door, Door::Farm | Door::Consumers) {
            return Vec::new();
        }
        let mut waiting = Vec::new();
        for role in table::tried(self.door, self.evidence).into_iter().filter_map(Guise::caller) {
            let own = Addresses::free();
            let seen = Addresses { farm: own.farm, consumers: own.consumers, ..self.addresses };
            let mut stranger = self.strange_node(role, seen);
            match self.door {
                Door::Shm => {
                    stranger.wait_until_said(BEGINS);
                    waiting.push(stranger);
                    continue;
                }
                // A node with the key does not answer nodes without it.
                Door::Udp | Door::Ethernet => self.nodes[0].wait_until_said(&no_link(role)),
                _ => stranger.wait_until_said("no link with"),
            }
            end_stranger(stranger);
        }
        waiting
    }

    fn start_node(&mut self, node: &Node) {
        let (mut seen, mut recording) = (self.addresses, None);
        let is_recorded = self.door == Door::Tcp && self.evidence == Evidence::Recording;
        if is_recorded && node.role != Role::Manager {
            let (begun, port) = Recording::begin(seen.manager());
            seen.nodes[0].set_port(port);
            recording = Some(begun);
        }
        let shows = match self.evidence {
            Evidence::OthersCertificate => Shows::Certificate(node.name),
            _ => Shows::Key(RUN_KEY),
        };
        let config = self.configuration(node.name, shows, &seen, START_TIMEOUT_MS);
        let arguments = format!("node {config} {} --json", node.name);
        self.nodes.push(match &self.hosts {
            Some(hosts) => hosts.start(&self.scratch, node.name, &arguments),
            None => self.scratch.start(&arguments),
        });
        self.recordings.push(recording);
    }

    fn path(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }

    /// Writes a configuration with this name and returns its path.
    fn configuration(&self, name: &str, shows: Shows, seen: &Addresses, start_timeout_ms: u64) -> String {
        let transport = match self.door {
            Door::TcpRails => "kind = \"tcp\"\nrails = 2",
            Door::Shm => "kind = \"shm\"",
            Door::Udp => "kind = \"udp\"",
            Door::Ethernet => "kind = \"ethernet\"\nframe_slots = 256",
            Door::Libfabric => "kind = \"libfabric\"\nprovider = \"tcp;ofi_rxm\"",
            _ => "kind = \"tcp\"",
        };
        let mut text = format!(
            "[run]\nnumber = 7\nduration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 100\n\
             [manager]\nstart_timeout_ms = {start_timeout_ms}\n[filter]\nworkers = 1\n"
        );
        if self.door != Door::Ethernet {
            text += &format!("listen = \"{}\"\n[consumers]\nlisten = \"{}\"\n", seen.farm, seen.consumers);
        }
        text += &format!("[transport]\n{transport}\n{}", self.lines(shows));
        for (node, address) in NODES.iter().zip(seen.nodes) {
            let role = format!("{:?}", node.role).to_lowercase();
            text += &format!("[[node]]\nname = \"{}\"\nrole = \"{role}\"\n{}\n", node.name, node.more);
            text += &match self.door {
                Door::Ethernet => "interfaces = [\"e0\"]\n".to_owned(),
                _ => format!("address = \"{address}\"\n"),
            };
        }
        self.scratch.file(&format!("{name}.toml"), &text).display().to_string()
    }

    /// Returns the lines of `[transport]`.
    fn lines(&self, shows: Shows) -> String {
        match shows {
            Shows::Nothing => String::new(),
            Shows::Key(file) => format!("key_file = \"{}\"\n", self.path(file)),
            Shows::Certificate(of) => format!(
                "[transport.tls]\ncertificate = \"{}\"\nkey = \"{}\"\nauthority = \"{}\"\n",
                self.path(&format!("{of}.pem")),
                self.path(&format!("{of}.key")),
                self.path("authority.pem")
            ),
        }
    }

    fn written(&self) -> u64 {
        let files = files_in(&self.scratch.join("runs/run000007"));
        files.iter().filter(|(name, _)| name.ends_with(".sheaf")).map(|(_, bytes)| bytes).sum()
    }

    /// Waits until the run has stored more events than now.
    pub(super) fn wait_for_events(&self) {
        let before = self.written();
        wait_until("more events are stored", || {
            self.nodes.iter().for_each(Running::assert_runs);
            self.written() > before + 10_000
        });
    }

    /// Starts a stranger in this guise, with evidence that the run must reject.
    pub(super) fn stranger(&self, guise: Guise) -> Running {
        match guise {
            Guise::Node(role) => {
                let own = Addresses::free();
                let mut seen = Addresses { farm: own.farm, consumers: own.consumers, ..self.addresses };
                // The address is in use: the stranger uses another one.
                seen.nodes[place_of(role)] = own.nodes[place_of(role)];
                if matches!(self.door, Door::Farm | Door::Consumers) {
                    seen.nodes[0] = self.target();
                }
                self.strange_node(role, seen)
            }
            Guise::Processor => self.guest(&format!("processor --join {} {}", self.target(), self.shown())),
            Guise::Client | Guise::Supervisor => unreachable!("the table has their tests elsewhere"),
            Guise::Consumer => self.guest(&format!("tap {} {}", self.target(), self.shown())),
        }
    }

    fn guest(&self, arguments: &str) -> Running {
        self.elsewhere.start(arguments)
    }

    /// Returns the address at which guests join.
    fn target(&self) -> SocketAddr {
        match self.door {
            Door::Farm => self.addresses.farm,
            Door::Consumers => self.addresses.consumers,
            _ => self.addresses.manager(),
        }
    }

    /// Returns the arguments of a guest.
    fn shown(&self) -> String {
        match self.evidence {
            Evidence::NoKey | Evidence::Recording => String::new(),
            Evidence::WrongKey => format!("--key {}", self.path(OTHER_KEY)),
            Evidence::OthersCertificate => {
                format!(
                    "--tls {} {} {}",
                    self.path("bu.pem"),
                    self.path("bu.key"),
                    self.path("authority.pem")
                )
            }
        }
    }

    fn strange_node(&self, role: Role, seen: Addresses) -> Running {
        let at = place_of(role);
        let shows = match self.evidence {
            Evidence::NoKey | Evidence::Recording => Shows::Nothing,
            Evidence::WrongKey => Shows::Key(OTHER_KEY),
            Evidence::OthersCertificate => Shows::Certificate(NODES[(at + 1) % NODES.len()].name),
        };
        let name = NODES[at].name;
        // These end when they have heard of nobody for long enough. The others are turned away in words, however slow this machine is.
        let ends = role == Role::Manager || matches!(self.door, Door::Farm | Door::Consumers);
        let patience_ms = if ends { 1_500 } else { START_TIMEOUT_MS };
        let config = self.configuration(&format!("stranger-{name}"), shows, &seen, patience_ms);
        let arguments = format!("node {config} {name}");
        match &self.hosts {
            Some(hosts) => hosts.start(&self.elsewhere, STRANGERS[at], &arguments),
            None => self.elsewhere.start(&arguments),
        }
    }

    /// Waits until the stranger has failed, or the called node has detected it. Then ends it.
    pub(super) fn turns_away(&mut self, guise: Guise, mut stranger: Running) {
        let Guise::Node(role) = guise else {
            return gets_nothing(&stranger.end());
        };
        let is_manager = role == Role::Manager;
        match self.door {
            Door::Ethernet => self.nodes[usize::from(is_manager)].wait_until_said(&no_link(role)),
            // Datagrams from a wrong address are ignored, and names that are not derived from the key do not exist.
            Door::Udp | Door::Shm => {
                stranger.wait_until_said(BEGINS);
                self.wait_for_events();
            }
            // No node calls it.
            _ if is_manager => {}
            // These doors expect no nodes: they may hang up before they request a proof.
            Door::Farm | Door::Consumers => {
                stranger.wait_until_said_one_of(&["no link with", "has not heard of the event manager"]);
            }
            _ => stranger.wait_until_said("no link with"),
        }
        if !is_manager {
            // It searches for the event manager until its patience is exceeded.
            stranger.signal("KILL");
        }
        gets_nothing(&stranger.end());
    }

    /// Replays the recording of a node in this role.
    pub(super) fn replay(&mut self, role: Role) {
        let at = place_of(role);
        let recording = self.recordings[at].clone().expect("it is recorded");
        for _ in 0..3 {
            recording.replay(self.addresses.manager(), First::Caller);
            self.wait_for_events();
        }
        self.nodes[0].wait_until_said(&no_link(role));
    }

    /// Lets a genuine guest join over a recorded connection, then replays its messages.
    pub(super) fn replay_guest(&mut self, guise: Guise) {
        let target = self.target();
        let speaks = if guise == Guise::Consumer { First::Called } else { First::Caller };
        let (recording, port) = Recording::begin(target);
        let (at, key) = (SocketAddr::new(target.ip(), port), self.path(RUN_KEY));
        if guise == Guise::Consumer {
            self.guest(&format!("tap {at} --key {key} --events 3")).end().exits(0);
        } else {
            let mut processor = self.guest(&format!("processor --join {at} --key {key} --wait 60"));
            processor.wait_until_said("judging events");
            self.wait_for_events();
            processor.signal("INT");
            processor.end().exits(0);
        }
        for _ in 0..3 {
            recording.replay(target, speaks);
        }
    }

    /// Ends the run, which must have lost no events and no nodes. Returns the counters of all nodes.
    pub(super) fn end(self) -> impl Fn(&str) -> u64 {
        self.wait_for_events();
        self.nodes[0].signal("INT");
        let said: Vec<Value> = self.nodes.into_iter().map(|node| node.end().exits(0).json()).collect();
        let summary = &said[0];
        assert_adds_up(summary);
        assert!(number(summary, "ledger.stored") > 0);
        assert_eq!(number(summary, "ledger.stored"), number(summary, "ledger.triggers"), "{summary:#}");
        assert_eq!(number(summary, "trouble.lost_builder_sessions"), 0, "{summary:#}");
        assert_eq!(number(summary, "ledger.in_flight"), 0, "{summary:#}");
        let directory = self.elsewhere.join("runs/run000007");
        for (name, _) in files_in(&directory).iter().filter(|(name, _)| name.ends_with(".sheaf")) {
            let dumped = self.elsewhere.sheaf(&format!("dump {}", directory.join(name).display()));
            assert!(dumped.stdout.lines().count() <= 1, "a stranger has stored {}", dumped.stdout);
        }
        move |name| said.iter().filter_map(|node| node["counters"][name].as_u64()).sum()
    }
}

/// Returns names and sizes of the files in a directory; none if it does not exist.
fn files_in(directory: &Path) -> Vec<(String, u64)> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files
        .filter_map(|file| Some((file.file_name().into_string().ok()?, file.metadata().ok()?.len())))
        .collect()
}

/// Returns the message of a node that refuses one of this role.
fn no_link(role: Role) -> String {
    format!("no link with {}", NODES[place_of(role)].id)
}

fn place_of(role: Role) -> usize {
    NODES.iter().position(|node| node.role == role).expect("the run has each role")
}

fn end_stranger(stranger: Running) {
    stranger.signal("KILL");
    gets_nothing(&stranger.end());
}

/// Checks that a stranger has failed or was killed, and has printed no event.
#[track_caller]
fn gets_nothing(ended: &Ended) {
    assert!(!ended.status.success(), "{}", ended.stderr);
    assert_eq!(ended.stdout, "", "{}", ended.stderr);
}

fn make_key(scratch: &ScratchDirectory, name: &str, digit: char) {
    let path = scratch.file(name, &digit.to_string().repeat(64));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Creates a certificate of the authority for each node, with its name and its host. Returns false if there is no `openssl`.
fn make_certificates(scratch: &ScratchDirectory) -> bool {
    let run = |command: String| {
        let done = Command::new("sh").args(["-c", &command]).current_dir(scratch.path()).output().unwrap();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    };
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: there is no openssl to make certificates with");
        return false;
    }
    let new = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    run(format!("{new} -x509 -days 2 -subj /CN=authority -keyout authority.key -out authority.pem"));
    for (at, Node { name, .. }) in (0..).zip(&NODES) {
        // Processors check that the called side has a certificate for its address.
        let farm = if *name == "bu" { format!(",IP:{}", host(4)) } else { String::new() };
        let host = host(at);
        run(format!(
            "{new} -subj /CN={name} -addext subjectAltName=DNS:{name},IP:{host}{farm} -keyout {name}.key -out {name}.csr && \
             openssl x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
             -copy_extensions copy -out {name}.pem"
        ));
    }
    true
}
