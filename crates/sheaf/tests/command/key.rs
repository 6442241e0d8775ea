//! The key of a run: nodes with one key take a run, a node with another gets nothing.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, number};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

const EVENTS: u64 = 500;

fn key(scratch: &ScratchDirectory, name: &str, digit: char) -> String {
    let path = scratch.file(name, &digit.to_string().repeat(64));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// A system of one node of each role, whose nodes know the key in the file.
fn system(scratch: &ScratchDirectory, name: &str, transport: &str, ports: [u16; 3], key: &str) -> String {
    let [evm, ru, bu] = ports;
    let text = format!(
        "[run]\nnumber = 7\nevents = {EVENTS}\nduration_s = 0\n[output]\nkind = \"none\"\n\
         [manager]\nstart_timeout_ms = 5000\n[transport]\nkind = \"{transport}\"\nkey_file = \"{key}\"\n\
         [[node]]\nname = \"evm\"\nrole = \"manager\"\naddress = \"127.0.0.1:{evm}\"\n\
         [[node]]\nname = \"ru\"\nrole = \"readout\"\naddress = \"127.0.0.1:{ru}\"\nsources = [1]\n\
         [[node]]\nname = \"bu\"\nrole = \"builder\"\naddress = \"127.0.0.1:{bu}\"\n"
    );
    scratch.file(name, &text).display().to_string()
}

fn ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

#[test]
fn nodes_with_one_key_take_a_run() {
    for transport in ["tcp", "shm"] {
        let scratch = ScratchDirectory::new();
        let config = system(&scratch, "system.toml", transport, ports(), &key(&scratch, "run.key", 'a'));
        let others = ["ru", "bu"].map(|name| scratch.start(&format!("node {config} {name}")));
        let summary = scratch.start(&format!("node {config} evm --json")).end().exits(0).json();
        for other in others {
            other.end().exits(0);
        }
        assert_adds_up(&summary);
        assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    }
}

/// One node has another key: the two others refuse it, and it refuses them.
fn assert_gets_nothing(stranger: &str) {
    let scratch = ScratchDirectory::new();
    let ports = ports();
    let good = system(&scratch, "good.toml", "tcp", ports, &key(&scratch, "run.key", 'a'));
    let bad = system(&scratch, "bad.toml", "tcp", ports, &key(&scratch, "other.key", 'b'));
    let config = |name: &str| if name == stranger { &bad } else { &good };
    let others = ["ru", "bu"].map(|name| scratch.start(&format!("node {} {name}", config(name))));
    let manager = scratch.start(&format!("node {} evm", config("evm"))).end();
    manager.exits(1).says(&["could not start", "has another key"]);
    // They would search for their event manager for some time.
    drop(others);
}

#[test]
fn an_event_manager_with_another_key_gets_nothing() {
    assert_gets_nothing("evm");
}

#[test]
fn a_readout_unit_with_another_key_gets_nothing() {
    assert_gets_nothing("ru");
}

#[test]
fn a_builder_unit_with_another_key_gets_nothing() {
    assert_gets_nothing("bu");
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let scratch = ScratchDirectory::new();
    let path = key(&scratch, "run.key", 'a');
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let config = system(&scratch, "system.toml", "tcp", ports(), &path);
    scratch.sheaf(&format!("node {config} evm")).exits(1).says(&[
        "transport.key_file",
        "mode 0644",
        "umask 077",
    ]);
    scratch.sheaf(&format!("run {config}")).exits(1).says(&["transport.key_file", "mode 0644"]);
}

#[test]
fn permissions_of_a_runs_files_follow_the_configuration() {
    for (access, of_directory, of_file) in [("", 0o750, 0o640), ("user", 0o700, 0o600), ("all", 0o755, 0o644)]
    {
        let scratch = ScratchDirectory::new();
        let line = if access.is_empty() { String::new() } else { format!("access = \"{access}\"\n") };
        let config = scratch.file("run.toml", &format!("[run]\nevents = 100\nduration_s = 0\n{line}"));
        scratch.sheaf(&format!("run {} --readouts 1 --builders 1", config.display())).exits(0);
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let run = scratch.join("runs/run000001");
        assert_eq!((mode(&scratch.join("runs")), mode(&run)), (of_directory, of_directory), "{access}");
        for entry in std::fs::read_dir(&run).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), of_file, "{access}: {}", path.display());
        }
    }
}

/// Opening a pipe blocks until its other end is opened, which never happens here.
#[test]
fn commands_do_not_wait_for_pipes() {
    let scratch = ScratchDirectory::new();
    let pipe = scratch.join("pipe.sheaf");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let pipe = pipe.display();
    for command in ["inspect", "verify", "dump"] {
        scratch.sheaf(&format!("{command} {pipe}")).exits(1).says(&["pipe.sheaf", "named pipe"]);
    }
    scratch.sheaf(&format!("run {pipe}")).exits(1).says(&["not a regular file"]);
}

#[test]
fn the_key_that_a_run_creates_is_removed_with_the_run() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --processes --events 100 --duration 0 --readouts 1 --builders 1").exits(0);
    let left: Vec<_> = std::fs::read_dir(scratch.join("runs/run000001")).unwrap().flatten().collect();
    assert!(!left.is_empty());
    assert!(left.iter().all(|entry| entry.file_name() != "run.key"), "{left:?}");
}
