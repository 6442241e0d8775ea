//! A shift at `examples/test-beam`: a run, a board that is silent, its repair, the end, and the records of runs.

use crate::active::root;
use crate::child::{Ended, Running, ScratchDirectory, wait_until};
use crate::serve::Controller;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the Python package: its sources, and beside them the module that a build puts there.
const PACKAGE: &str = "crates/sheaf-python/python";

/// Returns the interpreter that `SHEAF_PACKAGE_PYTHON` names; says why the test is left out where it is of no use.
fn interpreter() -> Option<PathBuf> {
    let Some(python) = std::env::var_os("SHEAF_PACKAGE_PYTHON").map(PathBuf::from) else {
        println!("skipped: SHEAF_PACKAGE_PYTHON does not name an interpreter");
        return None;
    };
    let mut probe = Command::new(&python);
    probe.args(["-c", "import sheaf, numpy"]).env("PYTHONPATH", root().join(PACKAGE));
    let has_package = probe.output().is_ok_and(|output| output.status.success());
    if !has_package {
        println!("skipped: {} cannot import sheaf and numpy", python.display());
    }
    has_package.then_some(python)
}

/// A controller in a copy of the example.
struct Shift {
    controller: Controller,
    python: PathBuf,
}

impl Shift {
    fn begin(python: &Path) -> Self {
        let place = ScratchDirectory::new();
        for entry in std::fs::read_dir(root().join("examples/test-beam")).expect("the example") {
            let path = entry.expect("a file").path();
            if path.is_file() {
                std::fs::copy(&path, place.join(path.file_name().unwrap().to_str().unwrap()))
                    .expect("copied");
            }
        }
        std::fs::create_dir(place.join("faults")).expect("a directory");
        // Interpreters of virtual environments find their environment by their path, so a link would not work.
        let script = format!(
            "#!/bin/sh\nPYTHONPATH='{}' exec '{}' \"$@\"\n",
            root().join(PACKAGE).display(),
            python.display()
        );
        let python = place.file("python3", &script);
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&python, executable).expect("its own file");
        let example = std::fs::read_to_string(place.join("test-beam.toml")).expect("the example");
        let own = format!("\"{}\"", python.display());
        let configuration = example
            .replace("\"python3\"", &own)
            .replace("alarm_hold_off_ms = 10000", "alarm_hold_off_ms = 0");
        assert!(configuration.matches(&own).count() >= 4 && configuration.contains("hold_off_ms = 0"));
        place.file("run.toml", &configuration);
        let mut controller = Controller { place, serve: None };
        controller.serve();
        Self { controller, python }
    }

    fn ctl(&self, arguments: &str) -> Ended {
        self.controller.ctl(arguments)
    }

    fn state(&self) -> Value {
        self.controller.http("GET", "/api/v1/state", &[], "").1
    }

    fn stored(&self) -> u64 {
        self.state()["events"]["stored"].as_u64().unwrap_or(0)
    }

    /// Waits until so many further events are stored.
    fn take(&self, events: u64) {
        let before = self.stored();
        wait_until("further events are stored", || self.stored() >= before + events);
    }

    /// The alarm with this code and culprit, if it is raised.
    fn alarm(&self, code: &str, culprit: &str) -> Option<Value> {
        let state = self.state();
        let alarms = state["alarms"].as_array()?.iter();
        alarms.clone().find(|alarm| alarm["code"] == code && alarm["culprit"] == culprit).cloned()
    }

    fn break_board(&self, name: &str) {
        self.controller.place.file(&format!("faults/{name}"), "");
    }

    fn repair_board(&self, name: &str) {
        std::fs::remove_file(self.controller.place.join(&format!("faults/{name}"))).expect("it was broken");
    }

    /// Starts the monitor of the example, for one run.
    fn monitor(&self) -> std::process::Child {
        let mut monitor = Command::new(&self.python);
        let log = std::fs::File::create(self.controller.place.join("monitor.log")).expect("a file");
        monitor.args(["monitor.py", "--runs", "1"]).current_dir(self.controller.place.path());
        monitor.stdout(log.try_clone().unwrap()).stderr(log).spawn().expect("it starts")
    }

    /// Records of the run: `sheaf runs show`.
    fn record(&self, run: u32) -> Value {
        self.controller.place.sheaf(&format!("runs show {run} --json")).exits(0).json()
    }
}

fn running(shift: &mut Shift) -> &mut Running {
    shift.controller.running()
}

#[test]
fn a_silent_board_is_named_excluded_repaired_and_included_and_no_event_is_lost() {
    let Some(python) = interpreter() else { return };
    let mut shift = Shift::begin(&python);
    shift.ctl("configure --comment late").exits(0).says(&["run 1 is configured"]);
    shift.ctl("start").exits(0).says(&["run 1 is running"]);
    shift.take(50);
    shift.break_board("plane-2");
    wait_until("an alarm names the board", || shift.alarm("source-silent", "plane-2").is_some());
    let alarm = shift.alarm("source-silent", "plane-2").expect("it lasts until the board is back");
    assert!(alarm["remedy"].as_str().unwrap().contains("sheaf ctl exclude"), "{alarm}");
    running(&mut shift).wait_until_said("source plane-2 has given nothing");
    let alarms = || std::fs::read_to_string(shift.controller.place.join("alarms.jsonl")).unwrap_or_default();
    wait_until("the command of the example has the alarm", || alarms().contains("\"culprit\":\"plane-2\""));
    let before = shift.stored();
    shift.ctl("exclude plane-2").exits(0).prints(&["2 (plane-2)"]);
    wait_until("events are stored without it", || shift.stored() > before + 50);
    shift.repair_board("plane-2");
    shift.ctl("include plane-2").exits(0);
    shift.controller.wait_for("it is back", |status| status["sources"].as_array().unwrap().is_empty());
    shift.take(50);
    shift.ctl("stop").exits(0).says(&["run 1 ended: all"]);
    let record = shift.record(1);
    assert_eq!(
        (&record["state"], &record["ledger"]["balanced"]),
        (&json!("good"), &json!(true)),
        "{record:#}"
    );
    let range = &record["ledger"]["exclusions"][0];
    assert!(
        range["source"] == 2 && range["included_from_event"].as_u64() > range["first_event"].as_u64(),
        "{range}"
    );
    let verified = shift.controller.place.sheaf("verify runs/run000001").exits(0);
    verified.prints(&["source 2 (plane-2) is missing in"]);
}

#[test]
fn runs_at_two_energies_are_looked_up_commented_and_compared() {
    let Some(python) = interpreter() else { return };
    let shift = Shift::begin(&python);
    let place = &shift.controller.place;
    let configuration = std::fs::read_to_string(place.join("run.toml")).expect("it was written");
    for (run, energy) in [(1, 20), (2, 40)] {
        place.file("run.toml", &configuration.replace("BEAM_GEV=20", &format!("BEAM_GEV={energy}")));
        let mut monitor = shift.monitor();
        shift.ctl("start").exits(0);
        wait_until("the monitor has filled enough", || {
            let (_, listed) = shift.controller.http("GET", "/api/v1/histograms?name=energy", &[], "");
            listed["histograms"][0]["entries"].as_f64() > Some(300.0)
        });
        shift.ctl("stop").exits(0).says(&[&format!("run {run} ended: all")]);
        let mut ended = None;
        wait_until("the monitor ends with the run", || {
            ended = monitor.try_wait().expect("it is a child");
            ended.is_some()
        });
        assert!(ended.is_some_and(|status| status.success()), "run {run}");
        let record = shift.record(run);
        let energies = record["histograms"].as_array().unwrap().iter().find(|it| it["name"] == "energy");
        let mean = energies.expect("it is in the record")["mean"][0].as_f64().expect("a mean");
        assert!(
            (mean - f64::from(energy)).abs() < 1.0,
            "the peak is at {mean} GeV, and the beam has {energy}"
        );
    }
    place.sheaf("runs comment 2 fine --quality good").exits(0);
    assert_eq!(shift.record(2)["comments"][0]["quality"], "good");
    let compared = place.sheaf("runs compare 1 2 --json").exits(0).json();
    let histograms = compared["histograms"].as_array().unwrap();
    let energies = histograms.iter().find(|it| it["name"] == "energy").expect("both runs have it");
    assert_eq!(energies["comparison"]["differs"], true, "{energies:#}");
    let inspected = place.sheaf("inspect runs/run000002 --json").exits(0).json();
    let records = &inspected["records"];
    assert_eq!(records[0]["name"], "beam.toml", "the energy is in the files: {records}");
}

#[test]
fn the_table_of_energies_makes_good_runs() {
    let Some(python) = interpreter() else { return };
    let shift = Shift::begin(&python);
    let place = &shift.controller.place;
    let table = std::fs::read_to_string(place.join("energies.csv")).expect("the example");
    place.file("few.csv", &table.replace(",400,", ",50,"));
    shift.ctl("sequence start few.csv --until-end").exits(0);
    let states: Vec<_> = shift.controller.runs().iter().map(|run| run["state"].clone()).collect();
    assert_eq!(states, ["good", "good", "good"]);
}
