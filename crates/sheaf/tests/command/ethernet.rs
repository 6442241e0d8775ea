//! Events over raw Ethernet, between hosts made for the test: network namespaces on a bridge. Skipped, with the reason,
//! where these cannot be made.

use crate::child::{Running, ScratchDirectory};
use crate::output::{assert_adds_up, field, number};
use sheaf_conformance::namespaces::{ToolError, inside, ip, sweep};

const EVENTS: u64 = 2_000;
const NODES: [(&str, &str); 5] =
    [("evm", "manager"), ("ru0", "readout"), ("ru1", "readout"), ("bu0", "builder"), ("bu1", "builder")];

/// Hosts of these tests are called so, with the number of the process behind it.
const PREFIX: &str = "sheaf-command-";

/// A host for each node and one with a bridge for each rail, removed with the value.
pub(crate) struct Hosts {
    prefix: String,
    nodes: Vec<&'static str>,
}

impl Hosts {
    /// Makes hosts with these names, or says why that is impossible here.
    pub(crate) fn new(name: &str, nodes: &[&'static str], rails: usize, mtu: usize) -> Option<Self> {
        sweep(PREFIX);
        let prefix = format!("{PREFIX}{}-{name}", std::process::id());
        let hosts = Self { prefix, nodes: nodes.to_vec() };
        match hosts.build(rails, mtu) {
            Ok(()) => Some(hosts),
            Err(reason) => {
                println!("skipped, no network namespaces here: {reason}");
                None
            }
        }
    }

    fn host(&self, node: &str) -> String {
        format!("{}-{node}", self.prefix)
    }

    fn build(&self, rails: usize, mtu: usize) -> Result<(), ToolError> {
        let switch = self.host("switch");
        ip(&format!("netns add {switch}"))?;
        for rail in 0..rails {
            ip(&format!("-n {switch} link add b{rail} type bridge"))?;
            ip(&format!("-n {switch} link set b{rail} mtu {mtu} up"))?;
        }
        for node in &self.nodes {
            let host = self.host(node);
            ip(&format!("netns add {host}"))?;
            for rail in 0..rails {
                let ends = format!("e{rail} netns {host} mtu {mtu} numrxqueues 1 numtxqueues 1");
                let port = format!("{node}r{rail} netns {switch} mtu {mtu}");
                ip(&format!("link add {ends} type veth peer name {port}"))?;
                ip(&format!("-n {switch} link set {node}r{rail} master b{rail} up"))?;
                ip(&format!("-n {host} link set e{rail} up"))?;
            }
        }
        Ok(())
    }

    /// Starts `sheaf` in a node's host.
    pub(crate) fn start(&self, scratch: &ScratchDirectory, node: &str, arguments: &str) -> Running {
        // A child is where the thread is that starts it.
        inside(&self.host(node), || scratch.start(arguments))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for node in self.nodes.iter().chain(&["switch"]) {
            let _ = ip(&format!("netns delete {}", self.host(node)));
        }
    }
}

/// The configuration; `more` of `[transport]`.
fn configuration(rails: usize, more: &str) -> String {
    let interfaces: Vec<_> = (0..rails).map(|rail| format!("\"e{rail}\"")).collect();
    let interfaces = interfaces.join(", ");
    let node = |(name, role): (&str, &str)| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\ninterfaces = [{interfaces}]\n")
    };
    let head = format!(
        "[run]\nnumber = 5\nevents = {EVENTS}\nduration_s = 0\n[output]\nkind = \"none\"\n[builder]\ncheck_content = true\n\
         [manager]\nstart_timeout_ms = 60000\n[transport]\nkind = \"ethernet\"\nrails = {rails}\nframe_slots = 256\n{more}\n"
    );
    head + &NODES.map(node).concat()
}

/// Runs all nodes, each in its host. Returns the summary and the nodes' logs.
fn events(hosts: &Hosts, configuration: &str) -> (serde_json::Value, String) {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("ethernet.toml", configuration).display().to_string();
    let running = NODES.map(|(name, _)| hosts.start(&scratch, name, &format!("node {config} {name} --json")));
    let (mut summary, mut logs) = (serde_json::Value::Null, String::new());
    for ((name, _), running) in NODES.into_iter().zip(running) {
        let ended = running.end();
        logs.push_str(&ended.stderr);
        let said = ended.exits(0).json();
        if name == "evm" {
            summary = said;
        } else {
            assert_eq!(field(&said, "errors"), &serde_json::json!([]), "{name}");
        }
    }
    (summary, logs)
}

#[test]
fn nodes_on_hosts_of_their_own_build_every_event_over_raw_ethernet() {
    let Some(hosts) = Hosts::new("plain", &NODES.map(|(node, _)| node), 1, 1500) else { return };
    for (backend, says) in [("auto", "packet rings"), ("xdp", "AF_XDP")] {
        let (summary, logs) = events(&hosts, &configuration(1, &format!("ethernet = \"{backend}\"")));
        assert_adds_up(&summary);
        assert_eq!(number(&summary, "ledger.stored"), EVENTS, "{backend}");
        assert!(logs.contains(says), "the log says which way frames go: {logs}");
    }
}

#[test]
fn two_rails_with_jumbo_frames_carry_events_though_one_datagram_in_twenty_is_lost() {
    let Some(hosts) = Hosts::new("rails", &NODES.map(|(node, _)| node), 2, 9000) else { return };
    let (summary, _) = events(&hosts, &configuration(2, "mtu_bytes = 9000\ninject_loss = 0.05"));
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
}

#[test]
fn a_node_without_its_interfaces_is_refused_with_a_remedy() {
    let scratch = ScratchDirectory::new();
    let text = configuration(1, "").replacen("interfaces = [\"e0\"]", "", 1);
    let config = scratch.file("ethernet.toml", &text).display().to_string();
    let says = ["\"evm\" has 0 interfaces, but `transport.rails` is 1", "interfaces = [\"eth1\"]"];
    scratch.sheaf(&format!("node {config} evm")).exits(1).says(&says);
    let text = text.replacen("role = \"manager\"", "role = \"manager\"\ninterfaces = [\"no-such-one\"]", 1);
    let config = scratch.file("ethernet.toml", &text).display().to_string();
    scratch.sheaf(&format!("node {config} evm")).exits(1).says(&["no interface \"no-such-one\""]);
}
