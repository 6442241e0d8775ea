//! A disk that hangs during a run and recovers.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::{assert_adds_up, field, number, verify};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A file system that can be frozen. Its writers then wait, as for an unreachable server. Thawed and unmounted when dropped.
struct FrozenDisk {
    path: PathBuf,
}

impl FrozenDisk {
    /// Mounts a file system. If this process is not permitted to, prints the reason and returns `None`.
    fn mount(image: &Path, path: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may mount a file system");
            return None;
        }
        std::fs::File::create(image).unwrap().set_len(256 << 20).unwrap();
        std::fs::create_dir(path).unwrap();
        let made = said("mkfs.ext4", &["-q", "-F"], &[image])
            .and_then(|()| said("mount", &["-o", "loop"], &[image, path]));
        let disk = Self { path: path.to_owned() };
        // Checks that freezing works: some containers permit mounting only.
        match made.and_then(|()| disk.freeze()).and_then(|()| disk.thaw()) {
            Ok(()) => Some(disk),
            Err(problem) => {
                println!("skipped: there is no file system to freeze: {problem}");
                None
            }
        }
    }

    fn freeze(&self) -> Result<(), String> {
        said("fsfreeze", &["-f"], &[&self.path])
    }

    fn thaw(&self) -> Result<(), String> {
        said("fsfreeze", &["-u"], &[&self.path])
    }
}

impl Drop for FrozenDisk {
    fn drop(&mut self) {
        let _ = self.thaw();
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

fn said(program: &str, arguments: &[&str], paths: &[&Path]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).args(paths).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{program}: {words}")) }
}

fn written(run: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(run) else { return 0 };
    let files = entries.map(|entry| entry.unwrap().path());
    let events = files.filter(|path| path.extension().is_some_and(|extension| extension == "sheaf"));
    events.map(|path| path.metadata().unwrap().len()).sum()
}

/// The disk hangs for longer than the patience with silent nodes.
#[test]
fn a_disk_that_hangs_makes_dead_time_of_its_own_and_the_run_goes_on_when_it_is_back() {
    let scratch = ScratchDirectory::new();
    let Some(disk) = FrozenDisk::mount(&scratch.join("image"), &scratch.join("disk")) else { return };
    let config = scratch.file(
        "hangs.toml",
        "[run]\noutput = \"disk\"\nduration_s = 0\n[readout]\ncount = 2\n[builder]\ncount = 2\nslots = 64\n\
         [output]\nkeep_free_bytes = 0\n\
         [transport]\nkind = \"tcp\"\n\
         [trigger]\nmode = \"fixed\"\nrate_hz = 2000\nqueue_events = 64\n\
         [manager]\npeer_timeout_ms = 3000\nbatch_events = 16\n",
    );
    let running = scratch.start(&format!("run {} --json", config.display()));
    let run = disk.path.join("run000001");
    wait_until("events are written", || written(&run) > 100_000);
    disk.freeze().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let before = written(&run);
    disk.thaw().unwrap();
    wait_until("events are written again", || written(&run) > before + 1_000_000);
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 0);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}), "{summary:#}");
    assert!(number(&summary, "dead_time.output.vetoed_triggers") > 0, "{summary:#}");
    assert_eq!(number(&verify(&run, 0), "events"), number(&summary, "ledger.stored"));
}
