//! `sheaf runs`: every run of a directory is listed with its end, two runs are compared, and comments stay.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::{field, number};
use serde_json::{Value, json};

fn records(scratch: &ScratchDirectory) -> Vec<Value> {
    let list = scratch.sheaf("runs list --json").exits(0).json();
    field(&list, "runs").as_array().unwrap().clone()
}

#[test]
fn each_run_has_its_state_end_and_numbers() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --readouts 2 --builders 2 --events 200 --json").exits(0);
    scratch.sheaf("run --readouts 2 --builders 2 --duration 0.2 --json").exits(0);
    let stopped = scratch.start("run --readouts 2 --builders 2 --duration 0 --json");
    wait_until("the third run is in progress", || {
        records(&scratch).get(2).is_some_and(|record| record["state"] == "in_progress")
    });
    stopped.signal("INT");
    let summary = stopped.end().exits(0).json();
    let killed = scratch.start("run --readouts 2 --builders 2 --duration 0 --json");
    wait_until("the fourth run has begun", || records(&scratch).len() == 4);
    killed.signal("KILL");
    wait_until("its lock is free", || records(&scratch)[3]["state"] == "not_closed");
    let records = records(&scratch);
    let ends: Vec<_> = records.iter().map(|record| record["end"]["reason"].clone()).collect();
    assert_eq!(ends, [json!("events"), json!("duration"), json!("signal"), Value::Null]);
    assert!(records[..3].iter().all(|record| record["state"] == "good"), "{records:?}");
    assert_eq!(number(&records[0], "ledger.triggers"), 200);
    assert_eq!(records[2]["ledger"]["stored"], *field(&summary, "ledger.stored"));
    let text = scratch.sheaf("runs list --last 2").exits(0).stdout;
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("signal") && text.contains("not closed"), "{text}");
    let text = scratch.sheaf("runs show 4").exits(0).stdout;
    assert!(text.contains("its process died"), "{text}");
}

/// Its directory is there before its manifest.
#[test]
fn a_run_that_is_about_to_begin_does_not_spoil_the_list() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --readouts 1 --builders 1 --events 10 --json").exits(0);
    std::fs::create_dir(scratch.join("runs/run000002")).unwrap();
    let listed = scratch.sheaf("runs list --json").exits(0).json();
    assert_eq!(field(&listed, "runs").as_array().unwrap().len(), 1);
    std::fs::write(scratch.join("runs/run000002/notes.txt"), "not a run").unwrap();
    scratch.sheaf("runs list").exits(1).says(&["run000002 has no manifest"]);
}

#[test]
fn what_differs_between_two_runs_is_shown() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --readouts 2 --builders 2 --events 200 --json").exits(0);
    scratch.sheaf("run --readouts 2 --builders 2 --events 300 --fragment-size 512 --json").exits(0);
    let found = scratch.sheaf("runs compare 1 2 --json").exits(0).json();
    let settings = field(&found, "settings").as_object().unwrap();
    let keys: Vec<_> = settings.keys().map(String::as_str).collect();
    assert!(keys.contains(&"run.events") && keys.contains(&"source.emulated.mean_bytes"), "{keys:?}");
    assert_eq!(settings["run.events"], json!(["200", "300"]));
    let triggers =
        field(&found, "numbers").as_array().unwrap().iter().find(|it| it["name"] == "triggers").unwrap();
    assert_eq!(triggers["values"], json!([200.0, 300.0]));
    let text = scratch.sheaf("runs compare runs/run000001 runs/run000001").exits(0).stdout;
    assert!(text.contains("no setting differs"), "{text}");
}

#[test]
fn comments_and_judgements_stay_with_the_run() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --readouts 1 --builders 1 --events 10 --json").exits(0);
    let comment = |arguments: &[&str]| {
        let fixed = ["runs", "comment", "1", "--author", "ann"];
        crate::child::sheaf(scratch.path(), fixed.iter().chain(arguments)).exits(0);
    };
    comment(&["beam was off"]);
    comment(&["--quality", "bad"]);
    comment(&["back again", "--quality", "good"]);
    let record = scratch.sheaf("runs show 1 --json").exits(0).json();
    let comments = field(&record, "comments").as_array().unwrap();
    let texts: Vec<_> = comments.iter().map(|comment| comment["text"].as_str()).collect();
    assert_eq!(texts, [Some("beam was off"), None, Some("back again")]);
    assert!(comments.iter().all(|comment| comment["author"] == "ann"));
    let text = scratch.sheaf("runs list").exits(0).stdout;
    assert!(text.contains("good back again"), "{text}");
    scratch.sheaf("verify runs/run000001").exits(0);
    scratch.sheaf("runs comment 1").exits(2);
    scratch.sheaf("runs comment 1 --quality great").exits(2).says(&["good, bad or unknown"]);
}

#[test]
fn runs_that_are_not_there_or_broken_are_named() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("runs list").exits(1).says(&["run.output"]);
    scratch.sheaf("run --readouts 1 --builders 1 --events 10 --json").exits(0);
    scratch.sheaf("runs show 7").exits(1).says(&["there is no run 7 among the 1 runs"]);
    scratch.sheaf("runs show monday").exits(1).says(&["neither a directory nor the number"]);
    scratch.sheaf("runs show .").exits(1).says(&["run.json"]);
    std::fs::create_dir(scratch.join("runs/run000002")).unwrap();
    std::fs::write(scratch.join("runs/run000002/run.json"), "{").unwrap();
    let ended = scratch.sheaf("runs list").exits(1).says(&["run000002", "1 of 2 runs could not be read"]);
    assert!(ended.stdout.contains("events"), "the other run is listed: {}", ended.stdout);
}

#[test]
fn runs_that_were_made_in_the_same_way_have_the_same_id_and_can_be_made_again() {
    let place = ScratchDirectory::new();
    place.file("physics.toml", "[run]\nduration_s = 0\n[readout]\ncount = 2\n[source.names]\n1 = \"ecal\"\n");
    place.sheaf("run physics.toml --events 20").exits(0);
    place.sheaf("run physics.toml --events 10").exits(0);
    place.sheaf("run physics.toml --events 10 --builders 3").exits(0);
    let configurations = |arguments: &str| -> Vec<(u64, Value, String)> {
        let listed = place.sheaf(&format!("runs list --json {arguments}")).exits(0).json();
        let of = |run: &Value| {
            let id = run["configuration"]["id"].as_str().unwrap().to_owned();
            (run["run"].as_u64().unwrap(), run["configuration"]["name"].clone(), id)
        };
        listed["runs"].as_array().unwrap().iter().map(of).collect()
    };
    let runs = configurations("");
    assert!(runs.iter().all(|(_, name, _)| name == "physics"), "{runs:?}");
    let id = &runs[0].2;
    assert!(*id == runs[1].2 && *id != runs[2].2, "{runs:?}");
    assert_eq!(configurations(&format!("--configuration {id}")), runs[..2]);
    assert_eq!(configurations("--configuration physics --last 1"), runs[2..]);
    assert_eq!(configurations("--configuration cosmics"), []);
    place.sheaf("runs show 1").exits(0).prints(&[&format!("physics {id}")]);

    for flags in ["", "--short"] {
        let text = place.sheaf(&format!("runs configuration 1 {flags}")).exits(0).stdout;
        assert!(text.starts_with("# Configuration of run 1 (physics), sheaf "), "{text}");
        assert_eq!(text.contains("mean_bytes"), flags.is_empty(), "{text}");
        place.file("again.toml", &text);
        place.sheaf("run again.toml --events 10").exits(0);
        let last = configurations("--last 1").remove(0);
        assert_eq!(
            (&last.1, &last.2),
            (&Value::from("again"), id),
            "it has the next number, and the same id"
        );
    }
    place.sheaf("runs configuration 9").exits(1).says(&["there is no run 9"]);
}
