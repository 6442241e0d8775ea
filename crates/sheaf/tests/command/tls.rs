//! TLS, from the commands of the page about certificates to the books of a run.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, number};
use std::process::Command;

const EVENTS: u64 = 2_000;

/// Returns the commands of `docs/howto/tls.md`.
fn commands() -> Vec<String> {
    commands_of(include_str!("../../../../docs/howto/tls.md"))
}

/// Returns the commands of a page.
pub(crate) fn commands_of(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("\n```")?.0.to_owned())).collect()
}

/// Runs the commands in a directory. Returns false if there is no `openssl`.
pub(crate) fn make_certificates(scratch: &ScratchDirectory) -> bool {
    has_openssl() && {
        commands().iter().for_each(|command| shell(scratch, command));
        true
    }
}

/// Returns whether certificates can be made, and says so if they cannot.
pub(crate) fn has_openssl() -> bool {
    let is_there = Command::new("openssl").arg("version").output().is_ok();
    if !is_there {
        println!("skipped: there is no openssl to make certificates with");
    }
    is_there
}

/// Makes a certificate of the authority for these alternative names, in `NAME.pem` and `NAME.key`.
pub(crate) fn issue(scratch: &ScratchDirectory, name: &str, alternatives: &str) {
    let request = format!(
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -addext \
         subjectAltName={alternatives} -keyout {name}.key -out {name}.csr"
    );
    let sign = format!(
        "openssl x509 -req -in {name}.csr -days 365 -CA authority.pem -CAkey authority.key -copy_extensions copy -out \
         {name}.pem"
    );
    shell(scratch, &request);
    shell(scratch, &sign);
}

pub(crate) fn shell(scratch: &ScratchDirectory, command: &str) {
    let run = Command::new("sh").args(["-c", command]).current_dir(scratch.path()).output().unwrap();
    assert!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stderr));
}

fn config(scratch: &ScratchDirectory, authority: &str) -> String {
    let text = format!(
        "[run]\nevents = {EVENTS}\nduration_s = 0\n[builder]\ncheck_content = true\n[output]\nkind = \"none\"\n\
         [manager]\nstart_timeout_ms = 3000\n[transport]\nkind = \"tcp\"\nkey_file = \"run.key\"\n[transport.tls]\n\
         certificate = \"node.pem\"\nkey = \"node.key\"\nauthority = \"{authority}\"\n"
    );
    scratch.file("tls.toml", &text).display().to_string()
}

#[test]
fn the_pages_commands_create_a_key_and_certificates_that_a_run_accepts() {
    assert_eq!(commands().len(), 4, "one makes a key, and the page promises three for certificates");
    let scratch = ScratchDirectory::new();
    if !make_certificates(&scratch) {
        return;
    }
    let config = config(&scratch, "authority.pem");
    let summary =
        scratch.sheaf(&format!("run {config} --readouts 2 --builders 2 --processes --json")).exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
}

#[test]
fn a_run_with_a_wrong_authority_does_not_start_and_reports_the_reason() {
    let scratch = ScratchDirectory::new();
    if !make_certificates(&scratch) {
        return;
    }
    // A node's certificate is not the authority of other nodes.
    let config = config(&scratch, "node.pem");
    let said = scratch.sheaf(&format!("run {config} --readouts 1 --builders 1 --processes"));
    let text = said.exits(1).stderr;
    assert!(
        text.contains("signed by none of the authorities") || text.contains("does not know the authority"),
        "{text}"
    );
}
