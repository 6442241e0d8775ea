//! Evidence that a trigger supervisor must show: the key of the run, or a certificate.

use crate::child::ScratchDirectory;
use crate::output::{field, number};
use crate::triggers::{assert_agree, start, supervise};
use serde_json::Value;
use sheaf_key::{CallerProof, DoorPurposes, RunKey};
use sheaf_wire::trigger_link::{FromManager, FromSupervisor, HEAD_BYTES, Refusal, declared_length};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

const KEYED: &str = "[transport]\nkey_file = \"run.key\"\n";

fn make_key(scratch: &ScratchDirectory, name: &str, digit: char) -> PathBuf {
    let path = scratch.file(name, &digit.to_string().repeat(64));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Runs a supervisor to its end. Returns its messages, if it has failed.
fn fails(scratch: &ScratchDirectory, port: u16, flags: &str) -> String {
    let ended = supervise(scratch, port, &format!("--triggers 10 {flags}")).end().exits(1);
    assert_eq!(ended.stdout, "", "{flags}: a stranger gets no account");
    ended.stderr
}

/// Runs a supervisor that is let in, and checks that the run has its triggers and no others.
fn gives_triggers(
    scratch: &ScratchDirectory,
    (run, port): (crate::child::Running, u16),
    flags: &str,
) -> Value {
    let account = supervise(scratch, port, &format!("--rate 5000 --triggers 500 {flags}"));
    let account = account.end().exits(0).json();
    let summary = run.end().exits(0).json();
    assert_agree(&summary, &account);
    assert_eq!(number(&summary, "ledger.stored"), 500, "{summary}");
    summary
}

#[test]
fn supervisors_without_the_key_of_the_run_give_no_trigger() {
    for protocol in ["tcp", "udp"] {
        let scratch = ScratchDirectory::new();
        make_key(&scratch, "run.key", 'a');
        make_key(&scratch, "other.key", 'b');
        let (run, port) = start(&scratch, &format!("protocol = \"{protocol}\""), KEYED, "");
        let way = if protocol == "udp" { "--udp" } else { "" };
        let said = fails(&scratch, port, way);
        assert!(said.contains("asks for the key of the run"), "{protocol}: {said}");
        let said = fails(&scratch, port, &format!("{way} --key other.key"));
        assert!(said.contains("did not prove that it has the key"), "{protocol}: {said}");
        let summary = gives_triggers(&scratch, (run, port), &format!("{way} --key run.key"));
        assert!(number(&summary, "trigger_link.refused.wrong_key") > 0, "{protocol}: {summary}");
    }
}

#[test]
fn a_supervisor_with_a_key_does_not_take_part_in_a_run_without_one() {
    for protocol in ["tcp", "udp"] {
        let scratch = ScratchDirectory::new();
        make_key(&scratch, "run.key", 'a');
        let (run, port) = start(&scratch, &format!("protocol = \"{protocol}\""), "", "");
        let way = if protocol == "udp" { "--udp" } else { "" };
        let said = fails(&scratch, port, &format!("{way} --key run.key"));
        assert!(said.contains("has no key, so it cannot prove"), "{protocol}: {said}");
        run.signal("INT");
        assert_eq!(number(&run.end().json(), "ledger.triggers"), 0);
    }
}

/// Returns the next message of the event manager.
fn receive(stream: &mut TcpStream) -> FromManager {
    let mut bytes = vec![0; HEAD_BYTES];
    stream.read_exact(&mut bytes).expect("a message");
    let length = declared_length(bytes.first_chunk().expect("a head")).expect("valid");
    bytes.resize(length, 0);
    stream.read_exact(&mut bytes[HEAD_BYTES..]).expect("a message");
    FromManager::read(&bytes).expect("valid")
}

#[test]
fn the_messages_of_a_supervisor_prove_nothing_again() {
    let scratch = ScratchDirectory::new();
    let key = RunKey::load(&make_key(&scratch, "run.key", 'a')).expect("a key");
    let (run, port) = start(&scratch, "", KEYED, "");
    let hello = FromSupervisor::Hello { name: "TLU".into() }.emit();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(&hello).expect("sent");
    let FromManager::Challenge(nonce) = receive(&mut stream) else { panic!("no challenge") };
    let caller = CallerProof::new(key, DoorPurposes::TRIGGERS, nonce).expect("random");
    let (nonce, proof) = caller.answer();
    let answer = FromSupervisor::Answer { nonce, proof }.emit();
    stream.write_all(&answer).expect("sent");
    assert!(matches!(receive(&mut stream), FromManager::Proof(proof) if caller.verify(&proof)));
    assert!(matches!(receive(&mut stream), FromManager::Welcome { .. }));
    drop(stream);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(&[hello, answer].concat()).expect("sent");
    assert!(matches!(receive(&mut stream), FromManager::Challenge(_)));
    assert!(matches!(receive(&mut stream), FromManager::Refused { refusal: Refusal::WrongKey, .. }));
    run.signal("INT");
    let summary = run.end().json();
    assert_eq!(number(&summary, "trigger_link.refused.wrong_key"), 1, "{summary}");
    assert_eq!(number(&summary, "trigger_link.connections"), 1, "{summary}");
}

/// Makes certificates for the run, for a supervisor, and for another node. Returns false if there is no `openssl`.
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
    for (name, names) in [("node", "DNS:evm,IP:127.0.0.1"), ("trigger", "DNS:trigger"), ("bu", "DNS:bu0")] {
        run(format!(
            "{new} -subj /CN={name} -addext subjectAltName={names} -keyout {name}.key -out {name}.csr && \
             openssl x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \
             -copy_extensions copy -out {name}.pem"
        ));
    }
    true
}

#[test]
fn a_supervisor_needs_a_certificate_of_its_own() {
    let scratch = ScratchDirectory::new();
    if !make_certificates(&scratch) {
        return;
    }
    let tls =
        "[transport.tls]\ncertificate = \"node.pem\"\nkey = \"node.key\"\nauthority = \"authority.pem\"\n";
    let (run, port) = start(&scratch, "", tls, "");
    let said = fails(&scratch, port, "");
    assert!(said.contains("pass `--tls`") || said.contains("is invalid"), "{said}");
    let said = fails(&scratch, port, "--tls bu.pem bu.key authority.pem");
    assert!(said.contains("trigger.network.guest_names"), "{said}");
    let summary = gives_triggers(&scratch, (run, port), "--tls trigger.pem trigger.key authority.pem");
    assert!(number(&summary, "trigger_link.refused.wrong_certificate") >= 2, "{summary}");
    assert_eq!(field(&summary, "ledger.balanced"), true);
}

#[test]
fn tls_over_udp_without_a_key_is_refused() {
    let scratch = ScratchDirectory::new();
    scratch.file(
        "a.toml",
        "[trigger]\nmode = \"network\"\n[trigger.network]\nlisten = \"127.0.0.1:7300\"\nprotocol = \"udp\"\n\
         [transport.tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\nauthority = \"b.pem\"\n",
    );
    scratch.sheaf("run a.toml").exits(1).says(&["there is no TLS over UDP", "transport.key_file"]);
}
