//! Partitions: runs of parts of one system at the same time.

use crate::child::{Running, ScratchDirectory, sheaf, signal, start, wait_until};
use crate::nodes::free_ports;
use crate::serve::kill_runs;
use serde_json::Value;

/// Two partitions of a slow emulated detector, and one that has nodes of both.
const SYSTEM: &str = "[readout]\ncount = 3\n[builder]\ncount = 2\n[source]\ncount = 6\n[trigger]\nmode = \"fixed\"\nrate_hz = 200\n\
     [source.emulated]\nmean_bytes = 256\nrms_bytes = 0\n\
     [partition.tracker]\nnodes = [\"ru0\", \"ru1\", \"bu0\"]\nset = [\"trigger.rate_hz=300\"]\n\
     [partition.calo]\nnodes = [\"ru2\", \"bu1\"]\n[partition.cosmics]\nnodes = [\"ru1\", \"ru2\", \"bu1\"]\n";

fn place() -> ScratchDirectory {
    let place = ScratchDirectory::new();
    place.file("system.toml", SYSTEM);
    place
}

/// Who has what, by the name of the partition; the whole system has none.
fn in_use(place: &ScratchDirectory) -> Vec<(Option<String>, Vec<Value>)> {
    let shown = place.sheaf("partitions system.toml --json").exits(0).json();
    let name = |state: &Value| state["partition"].as_str().map(str::to_owned);
    let uses = |state: &Value| state["in_use"].as_array().unwrap().clone();
    shown["partitions"].as_array().unwrap().iter().map(|state| (name(state), uses(state))).collect()
}

/// Starts a run without a limit, and waits until it has a number.
fn begin(place: &ScratchDirectory, partition: &str, more: &str) -> Running {
    let running = place.start(&format!("run system.toml --partition {partition} --duration 0 {more}"));
    wait_until("the run has its number", || {
        running.assert_runs();
        in_use(place).iter().any(|(name, uses)| {
            name.as_deref() == Some(partition)
                && uses.iter().any(|used| used["partition"] == partition && used["run"].is_u64())
        })
    });
    running
}

fn runs(place: &ScratchDirectory) -> Vec<Value> {
    place.sheaf("runs list --json").exits(0).json()["runs"].as_array().unwrap().clone()
}

#[test]
fn two_partitions_run_at_the_same_time_and_nobody_else_gets_their_nodes() {
    let place = place();
    let tracker = begin(&place, "tracker", "");
    let calo = begin(&place, "calo", "");
    let whole = place.sheaf("run system.toml --events 10").exits(1).stderr;
    assert!(whole.contains("is in use: run") && whole.contains("kill -INT"), "{whole}");
    let cosmics = place.sheaf("run system.toml --partition cosmics --events 10").exits(1).stderr;
    assert!(cosmics.contains("node bu1 is in use: run 2 of partition calo"), "{cosmics}");
    for running in [&tracker, &calo] {
        running.assert_runs();
        signal(running.id(), "INT");
    }
    for running in [tracker, calo] {
        running.end().exits(0);
    }
    let made = runs(&place);
    let of = |partition: &str| made.iter().find(|run| run["partition"] == partition).unwrap();
    assert_eq!((made.len(), &of("tracker")["run"], &of("calo")["run"]), (2, &1.into(), &2.into()));
    for (partition, sources) in [("tracker", 4), ("calo", 2)] {
        let run = of(partition);
        assert_eq!(run["state"], "good");
        let directory = place.join(run["directory"].as_str().unwrap());
        let verified = place.sheaf(&format!("verify {}", directory.display())).exits(0).stdout;
        let events = run["ledger"]["stored"].as_u64().unwrap();
        let fragments = format!("{} fragments", with_commas(events * sources));
        assert!(verified.contains(&fragments), "`{fragments}` is not in:\n{verified}");
    }
    let listed = place.sheaf("runs list").exits(0).stdout;
    assert!(listed.lines().next().unwrap().contains("partition"), "{listed}");
    // All nodes are free again, and a run of the whole takes them.
    assert!(in_use(&place).iter().all(|(_, uses)| uses.is_empty()));
    place.sheaf("run system.toml --events 10").exits(0);
    let whole = runs(&place).into_iter().find(|run| run["run"] == 3).unwrap();
    assert_eq!(whole["partition"], Value::Null);
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nodes that are started one by one, on hosts that all have the file of the whole system.
#[test]
fn a_node_takes_part_in_the_run_of_its_partition() {
    let place = ScratchDirectory::new();
    let ports: [u16; 4] = free_ports();
    let node = |name: &str, role: &str, port: u16, more: &str| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n{more}")
    };
    let system = [
        "[run]\nnumber = 7\nevents = 100\nduration_s = 0\n[transport]\nkind = \"tcp\"\n".to_owned(),
        node("evm", "manager", ports[0], ""),
        node("ru0", "readout", ports[1], "sources = [0]\n"),
        node("ru1", "readout", ports[2], "sources = [1, 2]\n"),
        node("bu0", "builder", ports[3], ""),
        "[partition.calo]\nnodes = [\"ru1\", \"bu0\"]\n".to_owned(),
    ];
    place.file("system.toml", &system.concat());
    let start = |name: &str| place.start(&format!("node system.toml {name} --partition calo --json"));
    let others = ["ru1", "bu0"].map(start);
    let summary = start("evm").end().exits(0).json();
    others.into_iter().for_each(|other| _ = other.end().exits(0));
    assert_eq!((&summary["ledger"]["stored"], &summary["fragments"]), (&100.into(), &200.into()));
    place.sheaf("node system.toml ru0 --partition calo").exits(1).says(&["ru0"]);
    place.sheaf("node system.toml ru1 --partition cal").exits(1).says(&["did you mean \"calo\"?"]);
}

#[test]
fn the_nodes_of_a_process_that_was_killed_are_free_at_once() {
    let place = place();
    let tracker = begin(&place, "tracker", "");
    signal(tracker.id(), "KILL");
    assert!(!tracker.end().status.success());
    assert!(in_use(&place).iter().all(|(_, uses)| uses.is_empty()));
    place.sheaf("run system.toml --partition tracker --events 10").exits(0);
    place.sheaf("run system.toml --events 10").exits(0);
}

#[test]
fn nodes_in_processes_of_their_own_and_an_earlier_configuration_have_the_same_part() {
    let place = place();
    place.sheaf("run system.toml --partition calo --processes --events 50").exits(0);
    let tracker = begin(&place, "tracker", "--processes");
    // The record says which part it was.
    place.sheaf("run --like 1 --events 20").exits(0);
    let refused = place.sheaf("run --like 1 --partition tracker --events 20").exits(1).stderr;
    assert!(refused.contains("is that of partition `calo`"), "{refused}");
    signal(tracker.id(), "INT");
    tracker.end().exits(0);
    let partitions: Vec<_> = runs(&place).iter().map(|run| run["partition"].clone()).collect();
    assert_eq!(partitions.iter().filter(|partition| **partition == "calo").count(), 2, "{partitions:?}");
}

#[test]
fn a_partition_that_is_not_there_is_refused() {
    let place = place();
    for (arguments, said) in [
        ("run system.toml --partition trackr", "did you mean \"tracker\"?"),
        ("serve system.toml --partition trackr", "did you mean \"tracker\"?"),
        ("run --partition tracker", "--partition needs a configuration"),
    ] {
        let ended = place.sheaf(arguments).exits(1);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    place.file("plain.toml", "[readout]\ncount = 2\n");
    let plain = place.sheaf("run plain.toml --partition tracker").exits(1).stderr;
    assert!(plain.contains("the configuration has no partitions"), "{plain}");
    let none = place.sheaf("partitions plain.toml").exits(1).stderr;
    assert!(none.contains("has no partitions"), "{none}");
    assert!(!place.join("runs/claims").exists());
}

/// Ends the runs of controllers, which outlive these, when a test has failed.
struct Runs<'a>(&'a ScratchDirectory);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        for partition in ["tracker", "calo", "cosmics"] {
            kill_runs(&self.0.join(&format!("runs/control-{partition}")));
        }
    }
}

/// Two controllers, each with its own state, lock and journal.
#[test]
fn each_partition_has_a_controller_and_a_lock_of_its_own() {
    let place = place();
    let _runs = Runs(&place);
    let serve = |partition: &str| {
        let mut serve = place.start(&format!("serve system.toml --partition {partition} --page 127.0.0.1:0"));
        serve.wait_until_said("run control is at");
        serve
    };
    let (tracker, calo) = (serve("tracker"), serve("calo"));
    let ctl = |partition: &str, command: &str| {
        place.sheaf(&format!("ctl --directory runs/control --partition {partition} {command}"))
    };
    ctl("tracker", "lock").exits(0);
    let status = |partition: &str| ctl(partition, "status --json").exits(0).json();
    assert!(status("tracker")["lock"].is_object() && status("calo")["lock"].is_null());
    ctl("tracker", "start").exits(0);
    ctl("calo", "start").exits(0);
    assert_eq!(status("calo")["system"], "partition calo of system.toml");
    for (name, uses) in in_use(&place) {
        let expected = match name.as_deref() {
            // A run of the whole needs the nodes of both.
            None | Some("cosmics") => 2,
            Some(_) => 1,
        };
        assert_eq!(uses.len(), expected, "{name:?}: {uses:?}");
    }
    // The whole is refused in words that name the controller.
    let whole = place.sheaf("run system.toml --events 10").exits(1).stderr;
    assert!(
        whole.contains("page http://127.0.0.1:") && whole.contains("sheaf ctl stop --directory"),
        "{whole}"
    );
    // A third controller has its own page, and its run is refused.
    let cosmics = serve("cosmics");
    let refused = ctl("cosmics", "start").exits(1).stderr;
    assert!(refused.contains("is in use"), "{refused}");
    // A run outlives its controller, and keeps its nodes.
    signal(calo.id(), "KILL");
    calo.end();
    ctl("cosmics", "start").exits(1);
    let calo = serve("calo");
    ctl("calo", "stop").exits(0);
    ctl("tracker", "stop").exits(0);
    ctl("cosmics", "start").exits(0);
    ctl("cosmics", "stop").exits(0);
    for running in [tracker, calo, cosmics] {
        signal(running.id(), "INT");
        running.end().exits(0);
    }
    assert!(runs(&place).iter().all(|run| run["state"] == "good"));
}

/// Two directories stand for two hosts that share no disk, and one for the host of the nodes.
#[test]
fn an_agent_gives_a_node_to_one_of_two_controllers_that_share_no_disk() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = ScratchDirectory::new();
    let key = place.file("agents.key", &"7".repeat(64));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let [agent, evm, ru0, ru1, bu0, bu1, first, second] = free_ports();
    let system = |tracker: u16| {
        let node = |name: &str, role: &str, port: u16, more: &str| {
            format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n{more}")
        };
        let by_agent = format!("agent = \"127.0.0.1:{agent}\"\n");
        let reads = |sources: &str| format!("{by_agent}sources = {sources}\n");
        [
            "[trigger]\nmode = \"fixed\"\nrate_hz = 200\n[source.emulated]\nmean_bytes = 256\nrms_bytes = 0\n".to_owned(),
            format!("[transport]\nkind = \"tcp\"\n[agents]\nkey_file = \"{}\"\n", key.display()),
            node("evm", "manager", evm, ""),
            node("ru-trk", "readout", ru0, &reads("[0, 1]")),
            node("ru-cal", "readout", ru1, &reads("[2]")),
            node("bu-trk", "builder", bu0, &by_agent),
            node("bu-cal", "builder", bu1, &by_agent),
            format!("[partition.tracker]\nnodes = [\"*-trk\"]\nmanager = \"127.0.0.1:{tracker}\"\n"),
            format!("[partition.calo]\nnodes = [\"*-cal\"]\nmanager = \"127.0.0.1:{second}\"\n"),
        ]
        .concat()
    };
    for name in ["here", "there", "nodes"] {
        std::fs::create_dir(place.join(name)).unwrap();
    }
    let (here, there) = (place.join("here"), place.join("there"));
    place.file("here/system.toml", &system(first));
    place.file("there/system.toml", &system(evm));
    // Without a database, numbers of the two are kept apart by hand.
    std::fs::create_dir_all(there.join("runs/run000100")).unwrap();
    let mut host = start(
        &place.join("nodes"),
        ["agent", "--key", key.to_str().unwrap(), "--listen", &format!("127.0.0.1:{agent}")],
    );
    host.wait_until_said("listens on");
    let run = |partition| ["run", "system.toml", "--partition", partition, "--events"];
    let tracker = start(&here, ["run", "system.toml", "--partition", "tracker", "--duration", "0"]);
    let claims = place.join("nodes/runs/claims");
    let is_claim = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().path().extension().is_some_and(|extension| extension == "json")
    };
    wait_until("the agent has claimed the nodes", || {
        tracker.assert_runs();
        std::fs::read_dir(&claims).is_ok_and(|mut entries| entries.any(is_claim))
    });
    let refused = sheaf(&there, run("tracker").into_iter().chain(["10"])).exits(1).stderr;
    assert!(refused.contains("node bu-trk is in use: run 1 of partition tracker"), "{refused}");
    sheaf(&there, run("calo").into_iter().chain(["10"])).exits(0);
    signal(tracker.id(), "INT");
    tracker.end().exits(0);
    sheaf(&there, run("tracker").into_iter().chain(["10"])).exits(0);
    host.signal("TERM");
    host.end().exits(0);
}
