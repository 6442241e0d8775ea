//! Programs in C that feed a run over a network, with certificates and a key.

use crate::child::ScratchDirectory;
use crate::feed_in_c::{compile, run, text};
use crate::nodes::free_ports;
use crate::output::number;
use crate::tls::{issue, make_certificates};
use std::path::Path;

/// Writes the configuration of a run whose programs need a certificate for `source` and the key. Returns the address of its readout unit.
fn secured(scratch: &ScratchDirectory) -> String {
    let [port] = free_ports();
    let text = format!(
        "[source]\nkind = \"feed\"\ncount = 1\n[source.feed]\nlisten = \"127.0.0.1:{port}\"\n[readout]\ncount = 1\n\
         [builder]\ncount = 1\n[transport]\nkey_file = \"run.key\"\n[transport.tls]\ncertificate = \"node.pem\"\n\
         key = \"node.key\"\nauthority = \"authority.pem\"\n"
    );
    scratch.file("run.toml", &text);
    // A host without the socket, and with a certificate of its own.
    let elsewhere = text
        .replace("[source.feed]\n", "[source.feed]\ndirectory = \"absent\"\n")
        .replace("node.pem", "source.pem")
        .replace("node.key\"", "source.key\"");
    scratch.file("elsewhere.toml", &elsewhere);
    format!("127.0.0.1:{port}")
}

/// Runs the program, which must be refused and say why.
fn assert_refused(scratch: &ScratchDirectory, program: &Path, arguments: &[&str], reason: &str) {
    let output = run(scratch, program, arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(reason), "{arguments:?}: {said}");
}

#[test]
fn a_program_in_c_feeds_a_secured_run_and_learns_why_it_is_refused() {
    let scratch = ScratchDirectory::new();
    if !make_certificates(&scratch) {
        return;
    }
    issue(&scratch, "source", "DNS:source");
    issue(&scratch, "stranger", "DNS:stranger");
    let program = compile("crates/sheaf-capi/tests/programs/secure.c", &scratch);
    let address = secured(&scratch);
    let sheaf = scratch.start("run run.toml --json");
    crate::child::wait_until("its socket is there", || scratch.join("runs/ru0.feed").exists());
    let refused = |arguments: &[&str], reason: &str| assert_refused(&scratch, &program, arguments, reason);
    let own = ["source.pem", "source.key", "authority.pem"];
    let with = |key, files: [&'static str; 3]| [&[address.as_str(), key], &files[..]].concat();
    refused(&[&address], "tls_certificate");
    refused(&[&address, "run.key"], "tls_certificate");
    refused(&[&address, "run.key", "source.pem"], "set all three, or none");
    refused(&with("run.key", ["stranger.pem", "stranger.key", "authority.pem"]), "source.feed.guest_names");
    refused(&with("run.key", ["source.pem", "stranger.key", "authority.pem"]), "cannot be used together");
    refused(&with("run.key", ["source.pem", "source.key", "source.pem"]), "none of the authorities");
    refused(&with("none", own), "`key_file`");
    refused(&with("absent.key", own), "absent.key");
    let output = run(&scratch, &program, &with("run.key", own));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(number(&sheaf.end().exits(0).json(), "ledger.stored"), 100);
}

#[test]
fn a_configuration_file_gives_a_program_in_c_the_address_the_certificate_and_the_key() {
    let scratch = ScratchDirectory::new();
    if !make_certificates(&scratch) {
        return;
    }
    issue(&scratch, "source", "DNS:source");
    let program = compile("crates/sheaf-capi/tests/programs/secure.c", &scratch);
    secured(&scratch);
    // The certificate of the run's own file is not for programs: where the socket is, nobody asks for it.
    for file in ["elsewhere.toml", "run.toml"] {
        let sheaf = scratch.start("run run.toml --json");
        let output = run(&scratch, &program, &[file]);
        assert!(output.status.success(), "{file}: {}", text(&output.stderr));
        assert_eq!(number(&sheaf.end().exits(0).json(), "ledger.stored"), 100, "{file}");
    }
}
