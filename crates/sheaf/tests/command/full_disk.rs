//! A disk that fills up during a run.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::{assert_adds_up, dump, field, number, verify};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A small file system in memory; unmounted when dropped.
pub(crate) struct SmallDisk {
    pub(crate) path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system. If this process is not permitted to, prints the reason and returns `None`.
    pub(crate) fn mount(path: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may mount a small file system");
            return None;
        }
        std::fs::create_dir(path).unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "sheaf-test"]).arg(path).output();
        let problem = match mount {
            Ok(output) if output.status.success() => return Some(Self { path: path.to_owned() }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("skipped: cannot mount a small file system: {problem}");
        None
    }

    /// Waits until the disk has been full long enough for writers to notice.
    pub(crate) fn wait_until_full(&self) {
        let free = || sheaf_machine::free_bytes(&self.path).unwrap();
        let (mut last, mut since) = (u64::MAX, Instant::now());
        wait_until("the disk is full", || {
            let now = free();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            // Less than a batch of events is left.
            now < 1 << 20 && since.elapsed() > Duration::from_secs(2)
        });
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a child of a failed test may still have files there.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// Triggers continue for a while after the disk is full. Those without room are vetoed or dropped, and counted.
fn assert_ends_cleanly(how: &str) {
    let scratch = ScratchDirectory::new();
    let Some(disk) = SmallDisk::mount(&scratch.join("disk")) else { return };
    let config = scratch.file(
        "full.toml",
        "[run]\noutput = \"disk\"\nduration_s = 0\n[readout]\ncount = 2\n[builder]\ncount = 2\n\
         [output]\nkeep_free_bytes = 0\n[manager]\nstop_timeout_ms = 500\n",
    );
    let running = scratch.start(&format!("run {} --json {how}", config.display()));
    disk.wait_until_full();
    running.signal("INT");
    let ended = running.end().exits(1).says(&["disk/run000001/", "No space left on device", "nodes failed"]);
    let summary = ended.json();
    assert_adds_up(&summary);
    let stored = number(&summary, "ledger.stored");
    assert!(stored > 0);
    assert!(number(&summary, "ledger.dropped.stopped") > 0, "{summary:#}");

    let run = disk.path.join("run000001");
    let report = verify(&run, 0);
    assert_eq!(number(&report, "events"), stored);
    assert_eq!(dump(&run).len() as u64, 2 * stored);
    assert!(field(&report, "files").as_array().unwrap().iter().all(|file| field(file, "finished") == true));
}

#[test]
fn a_full_disk_ends_one_process_cleanly() {
    assert_ends_cleanly("");
}

#[test]
fn a_full_disk_ends_many_processes_cleanly() {
    assert_ends_cleanly("--processes");
}

/// Output nodes on a full disk accept nothing more. Builder units keep the events, and the dead time is attributed to the disk.
#[test]
fn a_full_disk_at_output_nodes_makes_dead_time_of_its_own_and_loses_nothing() {
    let scratch = ScratchDirectory::new();
    let Some(disk) = SmallDisk::mount(&scratch.join("disk")) else { return };
    let config = scratch.file(
        "full.toml",
        "[run]\noutput = \"disk\"\nduration_s = 0\n[readout]\ncount = 2\n[builder]\ncount = 2\nslots = 64\n\
         [output]\nnodes = 2\nkeep_free_bytes = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 20000\nqueue_events = 64\n\
         [manager]\nbatch_events = 16\nstop_timeout_ms = 500\n",
    );
    let running = scratch.start(&format!("run {} --json", config.display()));
    disk.wait_until_full();
    running.signal("INT");
    let summary = running.end().exits(1).json();
    assert_adds_up(&summary);
    assert!(number(&summary, "ledger.stored") > 0);
    assert!(number(&summary, "dead_time.output.vetoed_triggers") > 0, "{summary:#}");
    // Triggers without room were vetoed; the events of a few slots waited for the disk until the end of the run.
    assert!(number(&summary, "ledger.dropped.stopped") <= 3 * 64, "{summary:#}");
}

/// The command monitors the disk and ends the run before writing fails.
#[test]
fn a_run_ends_orderly_before_the_disk_is_full_and_none_begins_without_room() {
    let scratch = ScratchDirectory::new();
    let Some(_disk) = SmallDisk::mount(&scratch.join("disk")) else { return };
    let config = |keep: u64| {
        let text = format!(
            "[run]\noutput = \"disk\"\nduration_s = 0\n[readout]\ncount = 2\n[builder]\ncount = 2\nslots = 64\n\
             [output]\nkeep_free_bytes = {keep}\n[trigger]\nmode = \"fixed\"\nrate_hz = 500\n"
        );
        scratch.file("keep.toml", &text).display().to_string()
    };
    let ended = scratch.sheaf(&format!("run {} --json", config(8 << 20))).exits(0);
    let ended = ended.says(&["the run ends", "output.keep_free_bytes"]);
    let summary = ended.json();
    assert_adds_up(&summary);
    assert!(number(&summary, "ledger.stored") > 0);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}), "what was in flight was finished");
    assert!(field(&summary, "ended_early.why").as_str().unwrap().contains("run000001"));

    let refused = scratch.sheaf(&format!("run {}", config(1 << 40))).exits(1);
    refused.says(&["disk has", "output.keep_free_bytes", "--output"]);
}
