//! The database of runs: an index that follows the directories, and never keeps a run from being made.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::field;
use serde_json::Value;
use sheaf_database::{Database, Table, Url};
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
    Database::open(&Url::Sqlite(file.to_owned()), None, Duration::from_secs(60)).unwrap()
}

/// Returns all rows about runs.
fn everything(file: &Path) -> Vec<String> {
    let mut database = open(file);
    let tables = Table::ALL.map(Table::name).into_iter().chain(["run"]);
    let rows = tables.flat_map(|table| database.query(&format!("SELECT * FROM {table}"), &[]).unwrap());
    let mut rows: Vec<_> = rows.map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

fn states(scratch: &ScratchDirectory) -> Vec<String> {
    let list = scratch.sheaf(&format!("runs list --json {FILE}")).exits(0).json();
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
    scratch.sheaf("runs rebuild").exits(0).prints(&["3 runs"]);
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
    assert_eq!(queries.len(), 3);
    let mut database = open(&scratch.join("runs/runs.db"));
    for query in queries {
        let rows = database.query(query, &[]).unwrap();
        assert!(!rows.is_empty(), "{query}");
    }
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
