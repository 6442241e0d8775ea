//! Events over a lossy network, from the configuration to the books.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, number};

const EVENTS: u64 = 2_000;

/// A configuration over UDP whose nodes drop every tenth datagram that they send, and check what they build.
fn lossy(scratch: &ScratchDirectory, rails: u16) -> String {
    let text = format!(
        "[run]\nevents = {EVENTS}\nduration_s = 0\n[transport]\nkind = \"udp\"\nrails = {rails}\nmtu_bytes = 9000\n\
         inject_loss = 0.1\n[builder]\ncheck_content = true\n[output]\nkind = \"none\"\n"
    );
    scratch.file("lossy.toml", &text).display().to_string()
}

#[test]
fn every_event_is_complete_and_as_it_was_sent_although_a_tenth_of_all_datagrams_is_lost() {
    for (rails, processes) in [(1, ""), (2, "--processes")] {
        let scratch = ScratchDirectory::new();
        let config = lossy(&scratch, rails);
        let flags = format!("run {config} --readouts 2 --builders 2 --json {processes}");
        let summary = scratch.sheaf(&flags).exits(0).json();
        assert_adds_up(&summary);
        assert_eq!(number(&summary, "ledger.stored"), EVENTS);
        assert_eq!(number(&summary, "events_incomplete"), 0);
        assert_eq!(number(&summary, "trouble.content_mismatches"), 0);
        let counter = |name: &str| number(&summary, &format!("counters.{name}"));
        assert!(counter("datagrams_dropped") > 0 && counter("datagrams_lost") > 0);
        assert!(counter("bytes_repeated") > 0);
    }
}

#[test]
fn a_node_with_too_few_addresses_for_its_rails_says_so() {
    let scratch = ScratchDirectory::new();
    let node = |name: &str, role: &str, port: u16| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n")
    };
    let text = "[run]\nnumber = 5\n[transport]\nkind = \"udp\"\nrails = 2\n".to_owned()
        + &node("evm", "manager", 1)
        + &node("ru", "readout", 2)
        + &node("bu", "builder", 3);
    let config = scratch.file("rails.toml", &text).display().to_string();
    let said = ["has 1 addresses", "`transport.rails` is 2"];
    scratch.sheaf(&format!("node {config} evm")).exits(1).says(&said);
}
