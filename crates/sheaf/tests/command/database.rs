//! The database of runs: an index that follows the directories, and never keeps a run from being made.

use crate::child::{Ended, ScratchDirectory, wait_until};
use crate::output::field;
use crate::serve::{Controller, SYSTEM};
use serde_json::Value;
#[cfg(feature = "postgres")]
use sheaf_database::testing::Server;
use sheaf_database::{Credentials, Database, Table, Url};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A run with this configuration waits longer for the database than a busy machine takes.
const RUN: &str = "run patient.toml --readouts 2 --builders 2 --json";
const FILE: &str = "--database sqlite:runs/runs.db";

fn patient() -> ScratchDirectory {
    let scratch = ScratchDirectory::new();
    scratch.file("patient.toml", "[database]\ntimeout_ms = 60000\n");
    scratch
}

fn open(file: &Path) -> Database {
    Database::open(&Url::Sqlite(file.to_owned()), &Credentials::default(), Duration::from_secs(60)).unwrap()
}

/// Returns all rows about runs.
pub(crate) fn everything(file: &Path) -> Vec<String> {
    let mut database = open(file);
    let tables = Table::ALL.map(Table::name).into_iter().chain(["run"]);
    let rows = tables.flat_map(|table| database.query(&format!("SELECT * FROM {table}"), &[]).unwrap());
    let mut rows: Vec<_> = rows.map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

fn states(scratch: &ScratchDirectory) -> Vec<String> {
    states_in(scratch, FILE)
}

fn states_in(scratch: &ScratchDirectory, place: &str) -> Vec<String> {
    let list = scratch.sheaf(&format!("runs list --json {place}")).exits(0).json();
    let state = |record: &Value| field(record, "state").as_str().unwrap().to_owned();
    field(&list, "runs").as_array().unwrap().iter().map(state).collect()
}

#[test]
fn the_database_has_what_the_directories_have_and_can_be_made_again() {
    let scratch = patient();
    scratch.sheaf(&format!("{RUN} --events 200")).exits(0);
    let killed = scratch.start(&format!("{RUN} --duration 0"));
    wait_until("the second run is in the database", || states(&scratch).len() == 2);
    assert_eq!(states(&scratch), ["good", "in_progress"]);
    killed.signal("KILL");
    killed.end();
    // The next run finds that the second has died.
    scratch.sheaf(&format!("{RUN} --events 300")).exits(0);
    assert_eq!(states(&scratch), ["good", "not_closed", "good"]);
    scratch.sheaf("runs comment 1 reference --quality good --author ann").exits(0);
    let file = scratch.join("runs/runs.db");
    let written = everything(&file);
    assert!(written.iter().any(|row| row.contains("reference")), "{written:#?}");
    for command in ["runs list", "runs compare 1 3"] {
        let of_directories = scratch.sheaf(command).exits(0).stdout;
        assert_eq!(scratch.sheaf(&format!("{command} {FILE}")).exits(0).stdout, of_directories);
    }
    scratch.sheaf(&format!("runs show 1 {FILE}")).exits(0).prints(&["reference", "good"]);
    scratch.sheaf("runs rebuild").exits(0).prints(&["3 runs", " s\n"]);
    assert_eq!(everything(&file), written);
    fs::remove_file(&file).unwrap();
    scratch.sheaf(&format!("runs list {FILE}")).exits(1).says(&["runs rebuild"]);
    scratch.sheaf("runs rebuild").exits(0);
    assert_eq!(everything(&file), written);
    fs::write(scratch.join("runs/run000003/run.json"), "{").unwrap();
    scratch.sheaf("runs rebuild").exits(1).says(&["run000003", "1 of 3"]);
    assert_eq!(states(&scratch), ["good", "not_closed"]);
}

#[test]
fn a_run_goes_on_without_the_database_and_a_later_one_writes_it() {
    let scratch = patient();
    fs::create_dir(scratch.join("runs")).unwrap();
    fs::write(scratch.join("runs/runs.db"), "no database\n".repeat(1000)).unwrap();
    scratch.sheaf(&format!("{RUN} --events 100")).exits(0).says(&["[database-behind]", "runs.db"]);
    fs::remove_file(scratch.join("runs/runs.db")).unwrap();
    scratch.sheaf(&format!("{RUN} --events 100")).exits(0);
    assert_eq!(states(&scratch), ["good", "good"]);
    scratch.file("without.toml", "[run]\nevents = 10\noutput = \"other\"\n[database]\nurl = \"none\"\n");
    scratch.sheaf("run without.toml --json").exits(0);
    assert!(!scratch.join("other/runs.db").exists());
}

/// The queries that operators copy.
#[test]
fn queries_of_the_page_work() {
    // More triggers than are taken in the first moment: the run takes some time.
    let scratch = patient();
    scratch.sheaf(&format!("{RUN} --events 20000")).exits(0);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/runs.md");
    let page = fs::read_to_string(page).unwrap();
    let queries: Vec<_> =
        page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(queries.len(), 4);
    let mut database = open(&scratch.join("runs/runs.db"));
    for query in queries {
        let rows = database.query(query, &[]).unwrap();
        assert!(!rows.is_empty(), "{query}");
    }
}

/// Comments on runs are pipes here, so that the command waits for the test: the signal comes while it reads.
#[test]
fn a_rebuild_that_is_interrupted_changes_nothing() {
    /// Enough to give the signal minutes to arrive, with a pause that is twice as long after each.
    const PIPES: u32 = 15;
    let scratch = patient();
    scratch.sheaf(&format!("{RUN} --events 100")).exits(0);
    let file = scratch.join("runs/runs.db");
    let before = everything(&file);
    let pipes: Vec<_> =
        (2..2 + PIPES).map(|run| scratch.join(&format!("runs/run{run:06}/comments.jsonl"))).collect();
    for pipe in &pipes {
        fs::create_dir(pipe.parent().unwrap()).unwrap();
        fs::copy(scratch.join("runs/run000001/run.json"), pipe.with_file_name("run.json")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(pipe).status().unwrap();
        assert!(made.success(), "mkfifo: {made}");
    }
    let rebuild = scratch.start("runs rebuild");
    // Returns when the command opens it for reading.
    let reading = fs::OpenOptions::new().write(true).open(&pipes[0]).unwrap();
    rebuild.signal("INT");
    drop(reading);
    for (turn, pipe) in (0..).zip(&pipes[1..]) {
        let without_waiting = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::WRONLY;
        let mut reading = None;
        wait_until("the command reads the next run or has ended", || {
            reading = rustix::fs::open(pipe, without_waiting, rustix::fs::Mode::empty()).ok();
            reading.is_some() || rebuild.has_ended()
        });
        if reading.is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10 << turn));
    }
    rebuild.end().exits(1).says(&["interrupted", "nothing has changed"]);
    assert_eq!(everything(&file), before);
}

#[test]
fn a_password_in_the_configuration_is_shown_nowhere() {
    let controller = Controller::begin(SYSTEM);
    let with_password = format!("{SYSTEM}[database]\nurl = \"postgres://daq:sesame@db.example.org/runs\"\n");
    let hides = |ended: Ended| {
        let Ended { stdout, stderr, .. } = &ended;
        assert!(!stdout.contains("sesame") && !stderr.contains("sesame"), "{stdout}{stderr}");
        ended.says(&["`database.url`", "without a password"])
    };
    controller.place.file("open.toml", &with_password);
    hides(controller.place.sheaf("run open.toml").exits(1));
    hides(controller.place.sheaf("doctor --config open.toml").exits(1));
    hides(controller.place.sheaf("serve open.toml").exits(1));
    controller
        .place
        .file("scan.csv", "run.events,database.url\n9,postgres://daq:sesame@db.example.org/runs\n");
    hides(controller.ctl("sequence start scan.csv").exits(1));
    // The file is changed while the controller runs, which reads it again for the next run.
    controller.place.file("run.toml", &with_password);
    hides(controller.ctl("start --events 5").exits(1));
    let (_, answer) = controller.http("GET", "/api/v1/state", &[], "");
    assert!(answer.is_object() && !answer.to_string().contains("sesame"), "{answer}");
    controller.place.file("wrong.toml", "[database]\npassword = \"sesame\"\n");
    let ended = controller.place.sheaf("run wrong.toml").exits(1).says(&["`password`", "password_file"]);
    assert!(!ended.stderr.contains("sesame"), "{}", ended.stderr);
}

#[test]
fn doctor_says_whether_the_database_works_and_does_not_make_it() {
    let scratch = patient();
    let look = || {
        let json = scratch.sheaf("doctor --json --root /nowhere --config patient.toml").json();
        let findings = field(&json, "findings").as_array().unwrap().clone();
        findings.into_iter().find(|finding| field(finding, "group") == "database").unwrap()
    };
    assert_eq!(field(&look(), "severity"), "good");
    assert!(!scratch.join("runs").exists());
    scratch.sheaf(&format!("{RUN} --events 10")).exits(0);
    let found = look();
    assert_eq!(field(&found, "severity"), "good");
    assert!(field(&found, "value").as_str().unwrap().contains("runs.db: SQLite 3."), "{found}");
    fs::write(scratch.join("runs/runs.db"), "no database\n".repeat(1000)).unwrap();
    let found = look();
    assert_eq!(field(&found, "severity"), "warning");
    assert!(field(&found, "value").as_str().unwrap().contains("not a database"), "{found}");
    scratch.file("patient.toml", "[database]\nurl = \"postgres://daq@127.0.0.1:1/runs\"\n");
    let found = look();
    assert_eq!(field(&found, "severity"), "problem");
    let why = if cfg!(feature = "postgres") { "refused" } else { "--features postgres" };
    assert!(field(&found, "value").as_str().unwrap().contains(why), "{found}");
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_that_stops_in_the_middle_of_a_run_gets_the_run_with_the_next() {
    let Some(server) = Server::start() else { return };
    let scratch = ScratchDirectory::new();
    let url = server.url();
    scratch.file("patient.toml", &format!("[database]\nurl = \"{url}\"\ntimeout_ms = 60000\n"));
    let place = format!("--database {url}");
    let running = scratch.start(&format!("{RUN} --duration 0"));
    wait_until("the run is in the database", || {
        running.assert_runs();
        states_in(&scratch, &place).len() == 1
    });
    assert_eq!(states_in(&scratch, &place), ["in_progress"]);
    server.stop();
    running.signal("INT");
    running.end().exits(0).says(&["[database-behind]"]);
    assert_eq!(states_in(&scratch, "runs"), ["good"]);
    let waiting = || fs::read_to_string(scratch.join("runs/runs.waiting")).unwrap();
    let directory = scratch.path().canonicalize().unwrap().join("runs/run000001");
    assert!(waiting().ends_with(&format!(" {}\n", directory.display())), "{}", waiting());
    assert_eq!(waiting().lines().count(), 1);
    server.launch();
    let ended = scratch.sheaf(&format!("{RUN} --events 100")).exits(0);
    assert!(!ended.stderr.contains("database-behind"), "{}", ended.stderr);
    assert_eq!(states_in(&scratch, &place), ["good", "good"]);
    assert_eq!(waiting(), "");
}

/// A server that accepts and never answers.
#[cfg(feature = "postgres")]
#[test]
fn a_server_that_says_nothing_does_not_keep_a_run() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://daq@{}/runs", silent.local_addr().unwrap());
    let scratch = ScratchDirectory::new();
    let config = format!("[run]\nevents = 100\n[database]\nurl = \"{url}\"\ntimeout_ms = 200\n");
    scratch.file("silent.toml", &config);
    scratch.sheaf("run silent.toml --json").exits(1).says(&["database.timeout_ms", "set run.number"]);
    let numbered = config.replace("events", "number = 7\nevents");
    scratch.file("silent.toml", &numbered);
    scratch.sheaf("run silent.toml --json").exits(0).says(&["[database-behind]"]);
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_build_without_postgresql_says_what_is_missing() {
    let scratch = ScratchDirectory::new();
    let ended = scratch.sheaf("runs list --database postgres://daq:secret@127.0.0.1:1/runs").exits(1);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    ended.says(&["--features postgres"]);
}
