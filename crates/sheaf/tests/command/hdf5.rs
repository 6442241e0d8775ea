//! Runs whose files are converted to HDF5.

use crate::child::{Running, ScratchDirectory, signal, wait_until};
use crate::full_disk::SmallDisk;
use crate::output::{SMALL_EVENTS, assert_adds_up, assert_books_match_files, directory, dump, field, number};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const SMALL_FILES: &str = "\
[output]
format = \"hdf5\"
compression = \"deflate\"
rotate_events = 700
";

fn config(scratch: &ScratchDirectory, more: &str) -> PathBuf {
    scratch.file("hdf5.toml", &format!("{SMALL_EVENTS}{SMALL_FILES}{more}\n"))
}

/// Returns the number of files of the run with this extension.
fn files(run: &Path, ending: &str) -> usize {
    let Ok(entries) = std::fs::read_dir(run) else { return 0 };
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(ending)).count()
}

/// Checks that only HDF5 files are left, that they contain each event once, and that h5py reads the same columns.
fn assert_all_is_hdf5(scratch: &ScratchDirectory, summary: &Value) {
    assert_books_match_files(scratch, summary);
    let run = directory(scratch, summary);
    assert!(files(&run, ".h5") > 0);
    for ending in [".sheaf", ".draft"] {
        assert_eq!(files(&run, ending), 0, "{ending}");
    }
    let kept = ["log.jsonl", "traces.jsonl"].map(|name| files(&run, name));
    assert_eq!(files(&run, ".jsonl"), kept.iter().sum::<usize>(), "the log and the traces");
    let python = std::env::var("SHEAF_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = "import glob, h5py, sys\n\
                  ids = [i for name in glob.glob(sys.argv[1] + '/*.h5') for i in h5py.File(name)['events/id'][:]]\n\
                  print(len(ids), len(set(ids)))";
    let output = Command::new(&python).args(["-c", script]).arg(&run).output();
    match output {
        Ok(output) if output.status.success() => {
            let stored = number(summary, "ledger.stored");
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{stored} {stored}"));
        }
        _ => println!("skipped: {python} has no h5py; name another with SHEAF_PYTHON"),
    }
}

#[test]
fn a_run_whose_files_become_hdf5_holds_every_event_once() {
    let scratch = ScratchDirectory::new();
    for how in ["", "--outputs 1"] {
        let config = config(&scratch, "[run]\nevents = 5000");
        let summary = scratch.sheaf(&format!("run {} --json {how}", config.display())).exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), 5000);
        assert!(number(&summary, "counters.output_converted_files") > 0, "{summary:#}");
        assert_all_is_hdf5(&scratch, &summary);
    }
}

#[test]
fn a_stream_alone_may_become_hdf5() {
    let scratch = ScratchDirectory::new();
    let file = scratch.file(
        "one.toml",
        "[run]\nevents = 300\n[streams.columns]\nprescale = 3\nformat = \"hdf5\"\n[readout]\ncount = 2\n",
    );
    let summary = scratch.sheaf(&format!("run {} --json", file.display())).exits(0).json();
    let run = directory(&scratch, &summary);
    assert!(files(&run, "_columns_0000.h5") > 0);
    assert_eq!(files(&run, "_columns_0000.sheaf"), 0);
    assert!(files(&run, "_0000.sheaf") > 0, "the stream `default` is in event files");
    assert_books_match_files(&scratch, &summary);
}

fn start(scratch: &ScratchDirectory, how: &str) -> Running {
    let config = config(scratch, "");
    scratch.start(&format!("run {} --json --processes --transport tcp {how}", config.display()))
}

fn kill_while_it_writes(nodes: &[&str], how: &str) -> (ScratchDirectory, Value) {
    let scratch = ScratchDirectory::new();
    let running = start(&scratch, how);
    let run = scratch.join("runs/run000001");
    let mut killed = 0;
    for node in nodes {
        let process = running.wait_for_node(node, killed);
        let before = files(&run, ".h5");
        wait_until("files become HDF5", || files(&run, ".h5") > before + 1);
        signal(process, "KILL");
        killed = process;
        running.wait_for_node(node, killed);
    }
    let before = files(&run, ".h5");
    wait_until("files become HDF5 again", || files(&run, ".h5") > before + 1);
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "ledger.triggers"));
    (scratch, summary)
}

#[test]
fn builders_that_are_killed_while_they_write_lose_no_event_and_store_none_twice() {
    let (scratch, summary) = kill_while_it_writes(&["bu1", "bu0", "bu1"], "");
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 3);
    assert_all_is_hdf5(&scratch, &summary);
}

#[test]
fn builders_and_output_nodes_that_are_killed_leave_no_void_event_in_a_file() {
    let (scratch, summary) = kill_while_it_writes(&["bu1", "out0", "bu0"], "--outputs 1");
    assert_all_is_hdf5(&scratch, &summary);
}

/// The event files fill the disk, so that there is no room to convert them to HDF5. All events that count are in one of the formats.
#[test]
fn a_full_disk_loses_nothing_that_was_stored() {
    let scratch = ScratchDirectory::new();
    let Some(disk) = SmallDisk::mount(&scratch.join("disk")) else { return };
    let config = scratch.file(
        "full.toml",
        "[run]\noutput = \"disk\"\nduration_s = 0\n[readout]\ncount = 2\n[builder]\ncount = 2\nslots = 64\n\
         [output]\nformat = \"hdf5\"\nrotate_events = 500\nkeep_free_bytes = 0\n\
         [trigger]\nmode = \"fixed\"\nrate_hz = 20000\nqueue_events = 64\n\
         [manager]\nbatch_events = 16\nstop_timeout_ms = 500\n",
    );
    let running = scratch.start(&format!("run {} --json", config.display()));
    disk.wait_until_full();
    running.signal("INT");
    let summary = running.end().exits(1).json();
    assert_adds_up(&summary);
    let stored = number(&summary, "ledger.stored");
    assert!(stored > 0 && number(&summary, "dead_time.output.vetoed_triggers") > 0, "{summary:#}");
    let run = disk.path.join("run000001");
    let lines = dump(&run);
    let events: std::collections::BTreeSet<_> = lines.iter().map(|line| line.event).collect();
    assert_eq!((lines.len() as u64, events.len() as u64), (2 * stored, stored));
}
