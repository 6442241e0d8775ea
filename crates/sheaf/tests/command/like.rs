//! Runs with the configuration of an earlier run, or with one that has a name.

use crate::active::{compile, root};
use crate::child::ScratchDirectory;
use crate::serve::{Controller, SYSTEM};
use serde_json::{Value, json};

/// A filter in C.
const FILTER: &str = "examples/filters/c/energy_sum.c";
const PARAMETERS: &str = "parameters = \"sum=17000000 source=6000000\"\ntags = [\"sum\", \"pair\"]\n";

/// Settings of a run that are no matter of that run alone.
fn settings(place: &ScratchDirectory, run: u32) -> String {
    let text = place.sheaf(&format!("runs configuration {run}")).exits(0).stdout;
    // The first line names the run.
    text.lines().skip(1).map(|line| format!("{line}\n")).collect()
}

fn record(place: &ScratchDirectory, run: u32) -> Value {
    place.sheaf(&format!("runs show {run} --json")).exits(0).json()
}

/// Changes the manifest of a run.
fn change(place: &ScratchDirectory, run: u32, change: impl FnOnce(&mut Value)) {
    let path = place.join(&format!("runs/run{run:06}/run.json"));
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    std::fs::write(&path, manifest.to_string()).unwrap();
}

#[test]
fn a_run_like_an_earlier_one_has_its_settings_and_says_so() {
    let place = ScratchDirectory::new();
    place.file("map.csv", "source,name\n0,ecal\n1,hcal\n");
    place.file("run.toml", &format!("source.map = \"map.csv\"\n{SYSTEM}"));
    let mut controller = Controller { place, serve: None };
    controller.serve();
    let place = &controller.place;
    controller.ctl("start --events 100 --until-end").exits(0);
    // Everything is different now.
    std::fs::remove_file(place.join("map.csv")).unwrap();
    place.file("run.toml", &SYSTEM.replace("mean_bytes = 256", "mean_bytes = 64"));
    controller.ctl("start --events 50 --until-end").exits(0);
    controller.ctl("start --like 1 --until-end").exits(0).says(&["all 100 accepted triggers"]);
    assert_eq!(settings(place, 3), settings(place, 1));
    assert_ne!(settings(place, 3), settings(place, 2));
    let [first, third] = [1, 3].map(|run| record(place, run));
    assert_eq!(third["configuration"], first["configuration"]);
    assert_eq!(third["configuration_from"], json!({ "run": 1 }));
    assert_eq!(third["commands"][0]["target"], "like 1");
    place.sheaf("runs show 3").exits(0).prints(&["from run 1"]);
    // A source is found by the names of that run.
    controller.ctl("configure --like 1 --duration 3600").exits(0);
    controller.ctl("exclude hcal --no-wait").exits(0);
    controller.ctl("start --like 1").exits(1).says(&["is configured, with its settings"]);
    controller.ctl("reset").exits(0);
    controller.ctl("include 1").exits(0);
    place.sheaf("run --like 1 --events 30").exits(0);
    let last = record(place, 5);
    assert_eq!((&last["ledger"]["triggers"], &last["configuration_from"]["run"]), (&json!(30), &json!(1)));
}

#[test]
fn what_a_run_cannot_be_like_is_refused_in_words_before_anything_is_done() {
    let controller = Controller::begin(SYSTEM);
    let place = &controller.place;
    for _ in 0..4 {
        controller.ctl("start --events 20 --until-end").exits(0);
    }
    change(place, 1, |manifest| manifest["configuration"] = json!(""));
    change(place, 2, |manifest| {
        manifest["configuration"] = json!("[future]\nkey = 1\n");
        manifest["software"] = json!("sheaf 9.0.0");
    });
    change(place, 3, |manifest| {
        let text = manifest["configuration"].as_str().unwrap();
        let text = text.replace("[filter]\n", "[filter]\npath = \"/nowhere/filter.so\"\n");
        manifest["configuration"] = json!(text.replace("kind = \"accept-all\"", "kind = \"library\""));
    });
    std::fs::remove_file(place.join("runs/run000004/run.json")).unwrap();
    for (like, words) in [
        ("9", &["there is no run 9"][..]),
        ("1", &["run000001/run.json", "has no configuration"]),
        ("2", &["one of sheaf 9.0.0", "[future]"]),
        ("3", &["not there any more", "/nowhere/filter.so", "filter.path"]),
        ("4", &["run000004"]),
        ("beam", &["there is no configuration `beam`", "runs name"]),
        ("runs/run000001", &["neither the number of a run nor the name"]),
    ] {
        controller.ctl(&format!("start --like {like}")).exits(1).says(words);
        assert_eq!(controller.status()["state"], "idle", "{like}");
    }
    place.sheaf("run --like 2").exits(1).says(&["one of sheaf 9.0.0"]);
    let token = place.sheaf("token add bob").exits(0).stdout;
    let token = format!("Bearer {}", token.trim());
    let body = r#"{"command": "start", "request": "a", "like": "1"}"#;
    let (status, answer) = controller.http("POST", "/api/v1/operations", &[("Authorization", &token)], body);
    assert_eq!((status, &answer["code"]), (403, &json!("role")), "{answer}");
}

#[test]
fn a_filter_that_has_changed_is_a_warning_with_both_checksums() {
    let place = ScratchDirectory::new();
    let library = place.join("filter.so");
    compile(&root().join(FILTER), &library);
    place.file(
        "run.toml",
        &format!(
            "{SYSTEM}[run]\nevents = 20\n[filter]\nkind = \"library\"\npath = \"./filter.so\"\n{PARAMETERS}"
        ),
    );
    place.sheaf("run run.toml").exits(0);
    let then = record(&place, 1)["code"][0]["crc32c"].as_str().unwrap().to_owned();
    // A loader does not look behind the end of a library.
    let bytes = [std::fs::read(&library).unwrap(), b"another version".to_vec()].concat();
    std::fs::write(&library, bytes).unwrap();
    place.sheaf("run --like 1").exits(0).says(&["[code-changed]", &then]);
    let now = record(&place, 2)["code"][0]["crc32c"].as_str().unwrap().to_owned();
    assert_ne!(then, now);
    place.sheaf("run --like 1").exits(0).says(&["[code-changed]", &then, &now]);
}

#[test]
fn configurations_have_names_and_versions_that_are_listed_compared_and_started() {
    let controller = Controller::begin(SYSTEM);
    let place = &controller.place;
    controller.ctl("start --events 40 --until-end").exits(0);
    place.file("run.toml", &SYSTEM.replace("mean_bytes = 256", "mean_bytes = 64"));
    controller.ctl("start --events 40 --until-end").exits(0);
    place.sheaf("runs name 1 cosmics").exits(0).prints(&["is now cosmics version 1"]);
    place.sheaf("runs name 1 cosmics").exits(0).prints(&["is already cosmics version 1"]);
    place.sheaf("runs name 2 cosmics").exits(0).prints(&["is now cosmics version 2"]);
    place.sheaf("runs name 2 2026").exits(1).says(&["is not the name of a configuration"]);
    let listed = place.sheaf("runs configurations --json").exits(0).json();
    let versions: Vec<_> = listed["configurations"].as_array().unwrap().iter().collect();
    assert_eq!(versions.len(), 2);
    assert_eq!((&versions[1]["version"], &versions[1]["run"]), (&json!(2), &json!(2)));
    let differ = ["source.emulated.mean_bytes", "256  ->  64"];
    place.sheaf("runs compare cosmics@1 cosmics").exits(0).prints(&differ);
    place.sheaf("runs compare 1 cosmics").exits(0).prints(&differ);
    // It needs the run no more.
    std::fs::remove_dir_all(place.join("runs/run000001")).unwrap();
    controller.ctl("start --like cosmics@1 --until-end").exits(0).says(&["all 40 accepted triggers"]);
    let run = record(place, 3);
    let from = json!({ "run": 1, "name": "cosmics", "version": 1 });
    assert_eq!((&run["configuration_from"], &run["configuration"]["name"]), (&from, &json!("cosmics")));
    let text = place.sheaf("runs configuration cosmics@1 --short").exits(0).stdout;
    assert!(text.contains("mean_bytes = 256"), "{text}");
    place.sheaf("run runs/configurations/cosmics/2.toml --events 10").exits(0);
}
