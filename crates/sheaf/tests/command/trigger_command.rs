//! `trigger.mode = "command"`: the run starts its trigger supervisor.

use crate::active::root;
use crate::child::ScratchDirectory;
use crate::output::{field, number};
use serde_json::Value;

/// Starts a run with a trigger supervisor of these arguments.
fn configuration(command: &[&str], more: &str) -> String {
    let command = serde_json::to_string(command).expect("texts");
    format!(
        "[trigger]\nmode = \"command\"\nqueue_events = 1000\n[trigger.command]\ncommand = {command}\n\
         [source.emulated]\nmean_bytes = 100\nrms_bytes = 0\n{more}"
    )
}

fn sheaf() -> &'static str {
    env!("CARGO_BIN_EXE_sheaf")
}

/// Both sides have counted the same.
fn assert_whole(summary: &Value, triggers: u64) {
    assert_eq!(field(summary, "ledger.balanced"), true, "{summary}");
    assert_eq!(number(summary, "ledger.stored"), triggers, "{summary}");
    assert_eq!(number(summary, "trigger_link.supervisor.sent"), triggers, "{summary}");
}

#[test]
fn a_supervisor_of_the_standard_library_of_python_gives_the_triggers_of_its_run() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        for name in ["supervisor.py", "started.toml"] {
            std::fs::copy(root().join("examples/triggers").join(name), scratch.join(name)).expect("copied");
        }
        let summary = scratch.sheaf(&format!("run started.toml --json {flags}")).exits(0).json();
        assert_whole(&summary, 2_000);
        let log = std::fs::read_to_string(scratch.join("runs/run000001/evm.trigger.log")).expect("a log");
        assert!(log.contains("2000 became events"), "{log}");
    }
}

#[test]
fn the_environment_of_a_supervisor_has_address_protocol_and_key() {
    for protocol in ["tcp", "udp"] {
        let scratch = ScratchDirectory::new();
        let command = [sheaf(), "emulate-trigger", "--rate", "5000", "--triggers", "1000"];
        let key = scratch.file("run.key", &"a".repeat(64));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(key, private).expect("its own file");
        let more =
            format!("[trigger.network]\nprotocol = \"{protocol}\"\n[transport]\nkey_file = \"run.key\"\n");
        scratch.file("run.toml", &configuration(&command, &more));
        let summary = scratch.sheaf("run run.toml --json").exits(0).json();
        assert_whole(&summary, 1_000);
        assert_eq!(field(&summary, "programs")[0]["starts"], 1, "{summary}");
    }
}

#[test]
fn a_supervisor_that_fails_is_started_again_and_continues_at_the_next_id() {
    let scratch = ScratchDirectory::new();
    let script = format!(
        "test -e second && exec {0} emulate-trigger --rate 5000 --triggers 500; touch second; \
         {0} emulate-trigger --rate 5000 & sleep 0.5; kill -9 $!; exit 1",
        sheaf()
    );
    scratch.file("run.toml", &configuration(&["sh", "-c", &script], ""));
    let summary = scratch.sheaf("run run.toml --json").exits(0).json();
    assert_eq!(field(&summary, "programs")[0]["starts"], 2, "{summary}");
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "trigger_link.accepted"), "{summary}");
    assert!(number(&summary, "trigger_link.accepted") >= 500, "{summary}");
}

#[test]
fn a_run_whose_supervisor_has_failed_for_good_ends() {
    let scratch = ScratchDirectory::new();
    let never = "[source.command]\nrestart = \"never\"\n";
    scratch.file("run.toml", &configuration(&["sh", "-c", "echo no hardware; exit 1"], never));
    let ended = scratch.sheaf("run run.toml --json").exits(3);
    let why = "the trigger supervisor has failed and is not started again";
    assert_eq!(field(&ended.json(), "ended_early.why"), why);
    assert!(ended.stderr.contains("it is not started again, and the run ends"), "{}", ended.stderr);
    assert_eq!(number(&ended.json(), "ledger.triggers"), 0);
    let log = std::fs::read_to_string(scratch.join("runs/run000001/evm.trigger.log")).expect("a log");
    assert!(log.contains("no hardware"), "{log}");
}

#[test]
fn a_command_that_is_missing_or_not_used_is_refused() {
    let scratch = ScratchDirectory::new();
    scratch.file("a.toml", "[trigger]\nmode = \"command\"\n");
    scratch.sheaf("run a.toml").exits(1).says(&["`trigger.command.command` is not set"]);
    scratch.file("b.toml", "[trigger.command]\ncommand = [\"sh\"]\n");
    scratch.sheaf("run b.toml").exits(1).says(&["there is a program for the triggers"]);
    scratch.file("c.toml", &configuration(&["no-such-program"], ""));
    scratch.sheaf("run c.toml").exits(1).says(&["no program `no-such-program` in PATH"]);
}
