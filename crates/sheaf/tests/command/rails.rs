//! Links of several rails, over IPv4 and IPv6, from the configuration to the books.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, field, number};
use std::net::TcpListener;

const EVENTS: u64 = 2_000;

/// Returns a port of a loopback address that was free a moment ago.
fn free(host: &str) -> String {
    let listener = TcpListener::bind((host, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn nodes_with_an_address_of_each_family_take_one_run_over_two_rails() {
    let scratch = ScratchDirectory::new();
    let node = |name: &str, role: &str| {
        let (first, second) = (free("127.0.0.1"), free("::1"));
        format!(
            "[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"{first}\"\nmore_addresses = [\"{second}\"]\n"
        )
    };
    let head = format!(
        "[run]\nnumber = 5\nevents = {EVENTS}\nduration_s = 0\n[transport]\nkind = \"tcp\"\nrails = 2\n\
         [builder]\ncheck_content = true\n[manager]\nstart_timeout_ms = 60000\n"
    );
    let nodes = [node("evm", "manager"), node("ru", "readout"), node("bu", "builder")];
    let config = scratch.file("rails.toml", &(head + &nodes.concat())).display().to_string();
    let others = ["ru", "bu"].map(|name| scratch.start(&format!("node {config} {name} --json")));
    let summary = scratch.sheaf(&format!("node {config} evm --json")).exits(0).json();
    for other in others {
        let said = other.end().exits(0).json();
        assert_eq!(field(&said, "errors"), &serde_json::json!([]));
    }
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
}

#[test]
fn processes_of_one_host_take_their_rails_over_loopback() {
    let scratch = ScratchDirectory::new();
    let text = format!(
        "[run]\nevents = {EVENTS}\nduration_s = 0\n[transport]\nkind = \"tcp\"\nrails = 3\n[output]\nkind = \"none\"\n"
    );
    let config = scratch.file("rails.toml", &text).display().to_string();
    let summary =
        scratch.sheaf(&format!("run {config} --readouts 2 --builders 2 --processes --json")).exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.triggers"), EVENTS);
}

#[test]
fn an_address_without_a_rail_is_refused_with_a_remedy() {
    let scratch = ScratchDirectory::new();
    let config = "[transport]\nkind = \"tcp\"\n\
        [[node]]\nname = \"evm\"\nrole = \"manager\"\naddress = \"a:1\"\nmore_addresses = [\"b:1\", \"c:1\"]\n\
        [[node]]\nname = \"ru\"\nrole = \"readout\"\naddress = \"a:2\"\n\
        [[node]]\nname = \"bu\"\nrole = \"builder\"\naddress = \"a:3\"\n";
    let config = scratch.file("rails.toml", config).display().to_string();
    scratch.sheaf(&format!("run {config}")).exits(1).says(&["evm", "3 addresses", "rails = 3"]);
}
