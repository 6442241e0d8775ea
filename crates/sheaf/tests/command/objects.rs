//! Runs whose events count as stored when they are in an object store.

use crate::child::{Running, ScratchDirectory, signal, wait_until};
use crate::nodes::free_ports;
use crate::output::{
    SMALL_EVENTS, assert_adds_up, assert_books_match_files, directory, dump, field, number, verify,
};
use crate::run_records::feed_with_records;
use serde_json::{Value, json};
use sheaf_s3::testing::Server;
use std::path::{Path, PathBuf};

const IMPATIENT: &str = "\
slots = 1000
[output]
sync = \"uploaded\"
[object_store]
bucket = \"bucket\"
prefix = \"beam\"
quiet_ms = 100
";

fn config(scratch: &ScratchDirectory, server: &Server, more: &str) -> PathBuf {
    let endpoint = format!("endpoint = \"{}\"\n", server.endpoint());
    scratch.file("objects.toml", &format!("{SMALL_EVENTS}{IMPATIENT}{endpoint}[run]\n{more}\n"))
}

/// Copies the objects of run 1 to a directory, as a tool that copies buckets does.
fn fetch(scratch: &ScratchDirectory, server: &Server) -> PathBuf {
    let fetched = scratch.join("fetched");
    std::fs::create_dir_all(&fetched).unwrap();
    let state = server.state();
    assert!(state.open.is_empty(), "no upload is left open");
    for (key, bytes) in &state.objects {
        let name = key.strip_prefix("beam/run000001/").expect("nothing else is in the bucket");
        std::fs::write(fetched.join(name), bytes).unwrap();
    }
    fetched
}

/// Checks that the store contains a run directory with every event that counts exactly once, and that its contents equal those of
/// the local one.
fn assert_store_has_the_run(scratch: &ScratchDirectory, server: &Server, summary: &Value) {
    let fetched = fetch(scratch, server);
    let here = verify(&directory(scratch, summary), 0);
    let there = verify(&fetched, 0);
    for what in ["events", "fragments", "payload_bytes", "duplicates"] {
        assert_eq!(number(&here, what), number(&there, what), "{what}");
    }
    assert_eq!(number(&there, "events"), number(summary, "ledger.stored"));
    assert_eq!(number(&there, "duplicates"), 0);
    let manifest: Value = serde_json::from_slice(&std::fs::read(fetched.join("run.json")).unwrap()).unwrap();
    let files = field(&manifest, "files").as_array().unwrap();
    let with_events = files.iter().filter(|file| number(file, "events") > 0);
    assert!(with_events.clone().count() > 0);
    for file in with_events {
        let name = file["file"].as_str().unwrap();
        assert_eq!(file["object"], json!(format!("s3://bucket/beam/run000001/{name}")));
        assert!(fetched.join(name).exists());
    }
}

fn stored_objects(server: &Server) -> usize {
    let is_data = |key: &&String| key.ends_with(".sheaf") || key.ends_with(".h5");
    server.state().objects.keys().filter(is_data).count()
}

#[test]
fn every_event_of_a_run_is_in_the_object_store_when_the_run_ends() {
    for (how, nodes) in [("", ""), ("--processes", ""), ("", "nodes = 1\n"), ("--processes", "nodes = 2\n")] {
        let (scratch, server) = (ScratchDirectory::new(), Server::start());
        let config = config(&scratch, &server, "events = 1500");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("[output]\n", &format!("[output]\n{nodes}"))).unwrap();
        let summary = scratch.sheaf(&format!("run {} --json {how}", config.display())).exits(0).json();
        assert_books_match_files(&scratch, &summary);
        assert_eq!(number(&summary, "ledger.stored"), 1500);
        assert!(number(&summary, "counters.output_uploaded_files") > 0);
        assert_store_has_the_run(&scratch, &server, &summary);
    }
}

#[test]
fn a_run_does_not_begin_if_the_store_denies_access_or_already_has_the_run() {
    let (scratch, server) = (ScratchDirectory::new(), Server::start());
    server.state().is_locked = true;
    let config = config(&scratch, &server, "number = 1\nevents = 10");
    let run = format!("run {} --json", config.display());
    scratch.sheaf(&run).exits(1).says(&["the object store says 403"]);
    server.state().is_locked = false;
    server.state().keeps_checksums = false;
    scratch.sheaf(&run).exits(1).says(&["set `object_store.verify` to \"read\""]);
    assert!(server.state().objects.is_empty(), "what shows this is taken back");
    server.state().keeps_checksums = true;
    server.state().objects.insert("beam/run000001/run.json".into(), b"another".to_vec());
    assert!(!scratch.join("runs/run000001").exists());
    scratch.sheaf(&run).exits(1).says(&["the object store already has s3://bucket/beam/run000001/run.json"]);
    assert_eq!(server.state().objects["beam/run000001/run.json"], b"another");
}

/// Nodes that are started one by one upload their files themselves, also one that has records of the end of the run and no event.
#[test]
fn records_behind_the_last_event_are_in_the_store_also_if_nobody_seals_the_files() {
    let formats: &[&str] = if cfg!(feature = "hdf5") { &["sheaf", "hdf5"] } else { &["sheaf"] };
    for format in formats {
        let (scratch, server) = (ScratchDirectory::new(), Server::start());
        let [evm, ru0, bu0] = free_ports();
        let node = |name: &str, role: &str, port: u16, more: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n{more}\n"
            )
        };
        let head = format!(
            "[run]\nnumber = 1\nduration_s = 0\n[source]\nkind = \"feed\"\n[transport]\nkind = \"tcp\"\n\
             [manager]\nstart_timeout_ms = 60000\n[output]\nsync = \"uploaded\"\nformat = \"{format}\"\n\
             [object_store]\nbucket = \"bucket\"\nprefix = \"beam\"\nquiet_ms = 100\nendpoint = \"{}\"\n",
            server.endpoint()
        );
        let nodes = [
            node("evm", "manager", evm, ""),
            node("ru0", "readout", ru0, "sources = [0]"),
            node("bu0", "builder", bu0, ""),
        ];
        scratch.file("nodes.toml", &(head + &nodes.concat()));
        let running =
            ["bu0", "ru0", "evm"].map(|name| scratch.start(&format!("node nodes.toml {name} --json")));
        feed_with_records(&scratch, 1_000);
        for node in running {
            node.end().exits(0);
        }
        let fetched = verify(&fetch(&scratch, &server), 0);
        assert_eq!((number(&fetched, "events"), number(&fetched, "records")), (1_000, 12), "{format}");
    }
}

fn start(scratch: &ScratchDirectory, server: &Server, how: &str) -> Running {
    let config = config(scratch, server, "duration_s = 0");
    scratch.start(&format!("run {} --json {how}", config.display()))
}

fn wait_for_objects(server: &Server) {
    let before = stored_objects(server);
    wait_until("objects appear", || stored_objects(server) > before + 1);
}

#[test]
fn a_store_that_goes_away_holds_the_run_up_and_nothing_is_lost() {
    let (scratch, server) = (ScratchDirectory::new(), Server::start());
    let mut running = start(&scratch, &server, "");
    wait_for_objects(&server);
    server.state().is_locked = true;
    running.wait_until_said("the object store says 403");
    server.state().is_locked = false;
    wait_for_objects(&server);
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
    assert!(number(&summary, "counters.output_uploads_failed") > 0);
    assert_store_has_the_run(&scratch, &server, &summary);
}

#[test]
fn events_that_are_not_in_the_store_at_the_end_were_not_stored_and_the_rest_can_be_uploaded_later() {
    let (scratch, server) = (ScratchDirectory::new(), Server::start());
    let mut running = start(&scratch, &server, "");
    wait_for_objects(&server);
    // Objects that arrived without being counted are not stored.
    wait_until("objects were verified", || server.state().told_of > 3);
    server.state().is_locked = true;
    running.wait_until_said("the object store says 403");
    running.signal("INT");
    let ended = running.end().exits(1).says(&["sheaf upload"]);
    let _ = ended;
    let run = scratch.join("runs/run000001");
    let here = verify(&run, 0);
    assert!(number(&here, "events") > 0);
    scratch.sheaf(&format!("upload {}", run.display())).exits(1).says(&["403"]);
    server.state().is_locked = false;
    scratch.sheaf(&format!("upload {}", run.display())).exits(0);
    assert_eq!(number(&verify(&fetch(&scratch, &server), 0), "events"), number(&here, "events"));
}

#[test]
fn objects_that_came_too_late_to_count_are_removed_when_the_rest_is_uploaded() {
    let (scratch, server) = (ScratchDirectory::new(), Server::start());
    let mut running = start(&scratch, &server, "");
    wait_until("objects were verified", || server.state().told_of > 3);
    server.state().is_silent = true;
    wait_for_objects(&server);
    running.wait_until_said("the object store says 403");
    // There is no node left that could remove them.
    server.state().is_locked = true;
    running.signal("INT");
    running.end().exits(1).says(&["sheaf upload"]);
    let run = scratch.join("runs/run000001");
    let here = verify(&run, 0);
    let mut state = server.state();
    let unwanted = state.objects.keys().filter(|key| {
        let name = key.rsplit('/').next().unwrap_or_default();
        !run.join(name).exists()
    });
    assert!(unwanted.count() > 0, "some files were removed when their objects were there");
    (state.is_locked, state.is_silent) = (false, false);
    drop(state);
    scratch.sheaf(&format!("upload {}", run.display())).exits(0);
    assert_eq!(number(&verify(&fetch(&scratch, &server), 0), "events"), number(&here, "events"));
}

/// Kills these builders one after the other during uploads, then ends the run. All triggered events must be stored.
fn kill_while_uploading(running: Running, server: &Server, builders: &[&str]) -> Value {
    let mut killed = 0;
    for builder in builders {
        let process = running.wait_for_node(builder, killed);
        wait_for_objects(server);
        signal(process, "KILL");
        killed = process;
        running.wait_for_node(builder, killed);
        wait_for_objects(server);
    }
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), builders.len() as u64);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "ledger.triggers"));
    server.state().open.clear();
    summary
}

#[test]
fn builders_that_are_killed_while_they_upload_lose_no_event_and_store_none_twice() {
    let (scratch, server) = (ScratchDirectory::new(), Server::start());
    let running = start(&scratch, &server, "--processes --transport tcp");
    let summary = kill_while_uploading(running, &server, &["bu1", "bu0", "bu1"]);
    assert_store_has_the_run(&scratch, &server, &summary);
    assert_eq!(dump(&scratch.join("fetched")).len(), dump(Path::new(&directory(&scratch, &summary))).len());
}

/// Uploads of HDF5 files, made from event files that builder units have closed.
#[cfg(feature = "hdf5")]
mod columns {
    use super::*;

    const COLUMNS: &str = "[output]\nformat = \"hdf5\"\ncompression = \"deflate\"\nrotate_events = 700\n";

    fn begin(scratch: &ScratchDirectory, server: &Server, more: &str, run: &str) -> PathBuf {
        let config = config(scratch, server, run);
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("[output]\n", COLUMNS) + more).unwrap();
        config
    }

    /// Checks that the store contains event files only of these streams.
    fn assert_store_has_columns(server: &Server, but: &str) {
        let state = server.state();
        let of_other = |key: &&String| key.ends_with(".sheaf") && (but.is_empty() || !key.contains(but));
        assert_eq!(state.objects.keys().find(of_other), None);
        assert!(state.objects.keys().any(|key| key.ends_with(".h5")));
    }

    #[test]
    fn every_event_of_a_run_is_in_an_hdf5_object_when_the_run_ends() {
        for how in ["", "--processes --outputs 1"] {
            let (scratch, server) = (ScratchDirectory::new(), Server::start());
            let config = begin(&scratch, &server, "", "events = 5000");
            let summary = scratch.sheaf(&format!("run {} --json {how}", config.display())).exits(0).json();
            assert_books_match_files(&scratch, &summary);
            assert_eq!(number(&summary, "ledger.stored"), 5000);
            let uploaded = number(&summary, "counters.output_uploaded_files");
            assert!(uploaded > 0 && uploaded <= number(&summary, "counters.output_converted_files"));
            assert_store_has_columns(&server, "");
            assert_store_has_the_run(&scratch, &server, &summary);
        }
    }

    /// A stream of HDF5 files and one of event files are uploaded, another of HDF5 files stays here.
    #[test]
    fn each_stream_has_its_own_format_and_its_own_place() {
        let (scratch, server) = (ScratchDirectory::new(), Server::start());
        let streams = "[streams.raw]\nprescale = 2\nformat = \"sheaf\"\n[streams.here]\nprescale = 3\nsync = \"flush\"\n\
                       [streams.columns]\n";
        let config = begin(&scratch, &server, streams, "events = 2000");
        let summary = scratch.sheaf(&format!("run {} --json", config.display())).exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), 2000);
        assert_eq!(number(&verify(&directory(&scratch, &summary), 0), "events"), 2000);
        assert_store_has_columns(&server, "_raw_");
        let state = server.state();
        let of = |stream: &str, ending: &str| {
            state.objects.keys().filter(|key| key.contains(stream) && key.ends_with(ending)).count()
        };
        assert!(of("_raw_", ".sheaf") > 0 && of("_columns_", ".h5") > 0);
        assert_eq!((of("_raw_", ".h5"), of("_here_", "")), (0, 0));
    }

    #[test]
    fn builders_that_are_killed_while_columns_are_made_and_uploaded_lose_no_event_and_store_none_twice() {
        let (scratch, server) = (ScratchDirectory::new(), Server::start());
        let config = begin(&scratch, &server, "", "duration_s = 0");
        let running = scratch.start(&format!("run {} --json --processes --transport tcp", config.display()));
        let summary = kill_while_uploading(running, &server, &["bu1", "bu0"]);
        assert_store_has_columns(&server, "");
        assert_store_has_the_run(&scratch, &server, &summary);
    }

    #[test]
    fn columns_that_are_not_in_the_store_when_a_run_ends_can_be_brought_there_later() {
        let (scratch, server) = (ScratchDirectory::new(), Server::start());
        let config = begin(&scratch, &server, "", "duration_s = 0");
        let mut running = scratch.start(&format!("run {} --json", config.display()));
        wait_for_objects(&server);
        wait_until("objects were verified", || server.state().told_of > 3);
        server.state().is_locked = true;
        running.wait_until_said("the object store says 403");
        running.signal("INT");
        running.end().exits(1).says(&["sheaf upload"]);
        let run = scratch.join("runs/run000001");
        let here = verify(&run, 0);
        assert!(number(&here, "events") > 0);
        server.state().is_locked = false;
        scratch.sheaf(&format!("upload {}", run.display())).exits(0);
        assert_store_has_columns(&server, "");
        assert_eq!(number(&verify(&fetch(&scratch, &server), 0), "events"), number(&here, "events"));
    }
}
