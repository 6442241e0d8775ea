//! The same over SQLite and PostgreSQL.

#![cfg(all(feature = "sqlite", feature = "postgres", feature = "testing"))]
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

use sheaf_database::testing::Server;
use sheaf_database::{Credentials, Database, DatabaseError, RunRow, Table, Url, Value};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

/// Longer than any test takes on a busy machine: it ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn open(url: &Url) -> Database {
    Database::open(url, &Credentials::default(), PATIENCE).unwrap()
}

/// Runs a test over both, each time with an empty database.
fn over_both(test: impl Fn(&Url)) {
    let place = tempfile::tempdir().unwrap();
    test(&Url::Sqlite(place.path().join("runs.db")));
    if let Some(server) = Server::start() {
        test(&server.url().parse().unwrap());
    }
}

fn row(run: u64, directory: &str) -> RunRow {
    RunRow {
        run,
        created_ns: 1_000 + run,
        host: "daq1".into(),
        directory: directory.into(),
        state: "good".into(),
        software: "sheaf 0.1.0".into(),
        configuration_name: Some("physics".into()),
        configuration_id: "5c01a3e2".into(),
        started_ns: Some(2_000 + run),
        triggers_ended_ns: Some(2_010 + run),
        ended_ns: Some(u64::MAX),
        end_reason: Some("events".into()),
        end_detail: None,
        lost: 0,
        run_ns: Some(10),
        live_ns: Some(9),
        quality: None,
        record: format!("{{\"run\":{run}}}"),
        parts: vec![
            (Table::Ledger, vec!["stored".into(), Value::Integer(7)]),
            (Table::DeadTime, vec!["busy".into(), Value::Integer(1)]),
            (Table::Culprit, vec!["busy".into(), "ru0".into(), Value::Integer(1)]),
            (Table::File, vec!["a.shf".into(), "events".into(), 7.into(), 900.into(), Value::Null]),
            (Table::Code, vec!["filter".into(), "f.so".into(), 12.into(), "00000001".into()]),
            (Table::Setting, vec!["run.events".into(), "7".into()]),
            (Table::Exclusion, vec!["{}".into()]),
            (Table::Comment, vec![5.into(), "ann".into(), "zero \0 and 'quotes'".into(), "good".into()]),
            (Table::Command, command()),
        ],
    }
}

fn command() -> Vec<Value> {
    let (via, target, comment) = ("sheaf ctl".into(), Value::Null, "end of shift".into());
    let (result, detail) = ("done".into(), Value::Null);
    vec![5.into(), "ann".into(), via, "stop".into(), target, comment, result, detail, 9.into()]
}

fn count(database: &mut Database, table: &str) -> i64 {
    database.query(&format!("SELECT count(*) FROM {table}"), &[]).unwrap()[0][0].integer().unwrap()
}

#[test]
fn a_run_is_replaced_and_never_there_twice() {
    over_both(|url| {
        let mut database = open(url);
        let mut begun = row(1, "/data/runs/run000001");
        (begun.state, begun.ended_ns) = ("in_progress".into(), None);
        database.write(&[begun]).unwrap();
        assert_eq!(database.in_progress("daq1").unwrap(), ["/data/runs/run000001"]);
        assert_eq!(database.in_progress("daq2").unwrap(), [""; 0]);
        database.write(&[row(1, "/data/runs/run000001"), row(2, "/data/runs/run000002")]).unwrap();
        // The directory was moved, and another was overwritten.
        database.write(&[row(1, "/archive/run000001"), row(3, "/data/runs/run000002")]).unwrap();
        assert_eq!(database.in_progress("daq1").unwrap(), [""; 0]);
        for table in Table::ALL.map(Table::name).into_iter().chain(["run"]) {
            assert_eq!(count(&mut database, table), 2, "{table}");
        }
        drop(database);
        let records = open(url).records(None).unwrap();
        assert_eq!(records, [("daq1".into(), "{\"run\":1}".into()), ("daq1".into(), "{\"run\":3}".into())]);
    });
}

#[test]
fn a_transaction_that_fails_leaves_nothing() {
    over_both(|url| {
        let mut database = open(url);
        database.write(&[row(1, "/runs/run000001")]).unwrap();
        let mut broken = row(2, "/runs/run000002");
        broken.parts.push((Table::Setting, vec!["without a value".into(), Value::Null]));
        assert!(database.write(&[row(3, "/runs/run000003"), broken]).is_err());
        assert_eq!(count(&mut database, "run"), 1);
        assert_eq!(count(&mut database, "run_setting"), 1);
    });
}

#[test]
fn rebuilding_forgets_what_is_below_a_directory_and_nothing_else() {
    over_both(|url| {
        let mut database = open(url);
        let mut elsewhere = row(4, "/runs/run000004");
        elsewhere.host = "daq2".into();
        database
            .write(&[
                row(1, "/runs/run000001"),
                row(2, "/runs/run000002"),
                row(3, "/runs2/run000003"),
                elsewhere,
            ])
            .unwrap();
        let rows = [row(2, "/runs/run000002"), row(5, "/runs/run000005")];
        let before = database.records(None).unwrap();
        let mut rebuild = |end: usize| {
            let mut told = Vec::new();
            let done = database.rebuild("daq1", &["/runs".into()], &rows, &mut |written| {
                told.push(written);
                if written == end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            told.dedup();
            (done, told)
        };
        for (end, steps) in [(0, vec![0]), (1, vec![0, 1])] {
            let (done, told) = rebuild(end);
            assert!(matches!(done, Err(DatabaseError::Interrupted)), "{done:?}");
            assert_eq!(told, steps);
        }
        assert_eq!(open(url).records(None).unwrap(), before);
        let (done, told) = rebuild(usize::MAX);
        assert!(done.is_ok(), "{done:?}");
        assert_eq!(told, [0, 1, 2]);
        for table in Table::ALL.map(Table::name).into_iter().chain(["run"]) {
            assert_eq!(count(&mut database, table), 4, "{table}");
        }
        let left: Vec<_> = database.records(None).unwrap().into_iter().map(|(_, record)| record).collect();
        assert_eq!(left, ["{\"run\":2}", "{\"run\":3}", "{\"run\":4}", "{\"run\":5}"]);
    });
}

#[test]
fn a_database_of_an_earlier_version_is_brought_up_to_date_and_keeps_its_runs() {
    over_both(|url| {
        let mut database = open(url);
        let mut early = row(1, "/runs/run000001");
        early.parts.retain(|(table, _)| *table != Table::Command);
        database.write(&[early]).unwrap();
        // As version 1 had left it.
        for statement in ["DROP TABLE run_command", "DELETE FROM schema_version WHERE version > 1"] {
            database.query(statement, &[]).unwrap();
        }
        drop(database);
        let mut database = open(url);
        database.write(&[row(2, "/runs/run000002")]).unwrap();
        assert_eq!(["run", "run_command"].map(|table| count(&mut database, table)), [2, 1]);
    });
}

#[test]
fn a_newer_schema_is_refused() {
    over_both(|url| {
        open(url).query("INSERT INTO schema_version (version) VALUES (99)", &[]).unwrap();
        let error = Database::open(url, &Credentials::default(), PATIENCE).err().unwrap();
        assert!(matches!(error, DatabaseError::NewerSchema { found: 99, known: 2, .. }), "{error}");
        let error = Database::look(url, &Credentials::default(), PATIENCE).err().unwrap();
        assert!(matches!(error, DatabaseError::NewerSchema { found: 99, .. }), "{error}");
    });
}

#[test]
fn writers_at_the_same_time_make_the_tables_once_and_get_numbers_of_their_own() {
    over_both(|url| {
        let take = |writer: u64| {
            let mut database = open(url);
            (0..10_u64)
                .flat_map(|turn| {
                    let run = 100 * writer + turn;
                    database.write(&[row(run, &format!("/runs/run{run}"))]).unwrap();
                    // What the directories have raises the sequence; what they lack does not lower it.
                    let first = database.take_numbers(turn, 1 + turn % 3).unwrap();
                    first..=first + turn % 3
                })
                .collect::<Vec<_>>()
        };
        let taken: Vec<u64> = thread::scope(|scope| {
            let writers: Vec<_> = (0..6).map(|writer| scope.spawn(move || take(writer))).collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len(), "a number was given twice");
        let mut database = open(url);
        assert_eq!(count(&mut database, "run"), 60);
        assert_eq!(count(&mut database, "schema_version"), 2);
        assert_eq!(database.take_numbers(5_000, 1).unwrap(), 5_001);
        assert_eq!(database.take_numbers(0, 1).unwrap(), 5_002);
    });
}

#[test]
fn a_look_changes_nothing() {
    over_both(|url| {
        let look = || Database::look(url, &Credentials::default(), PATIENCE).unwrap();
        let kinds = ["SQLite 3.", "PostgreSQL "];
        let found = look();
        assert!(kinds.iter().any(|kind| found.starts_with(kind)), "{found}");
        let file = matches!(url, Url::Sqlite(file) if file.metadata().is_ok_and(|file| file.len() > 0));
        assert!(!file, "a look makes tables");
        open(url).write(&[row(1, "/runs/run000001")]).unwrap();
        assert_eq!(look(), found);
        assert_eq!(open(url).records(None).unwrap().len(), 1);
    });
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("runs.db");
    std::fs::write(&file, "this is a text and has been one for a long time\n".repeat(100)).unwrap();
    let error = Database::open(&Url::Sqlite(file.clone()), &Credentials::default(), PATIENCE)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("not a database") && error.contains(file.to_str().unwrap()), "{error}");
}

#[test]
fn a_server_that_goes_away_is_an_error_and_the_next_connection_works() {
    let Some(server) = Server::start() else { return };
    let url: Url = server.url().parse().unwrap();
    let mut database = open(&url);
    database.write(&[row(1, "/runs/run000001")]).unwrap();
    server.stop();
    assert!(database.write(&[row(2, "/runs/run000002")]).is_err());
    assert!(matches!(
        Database::open(&url, &Credentials::default(), PATIENCE),
        Err(DatabaseError::Open { .. })
    ));
    server.launch();
    let mut database = open(&url);
    database.write(&[row(2, "/runs/run000002")]).unwrap();
    assert_eq!(count(&mut database, "run"), 2);
}
