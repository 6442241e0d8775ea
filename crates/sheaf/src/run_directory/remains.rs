//! Files that a process which ends at once leaves in the directory of its run, and those of them that can be removed.

use sheaf_store::run::LOCK_NAME;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directory of the run in progress in this process.
static RUN: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Doors that are sockets, by the ends of their names.
const DOORS: [&str; 3] = ["tap", "farm", "monitor"];

/// Records the directory of the run in progress.
pub(super) fn expect(path: &Path) {
    *run() = Some(path.to_owned());
}

/// A run is over, or tidies up after itself.
pub(super) fn forget(path: &Path) {
    run().take_if(|run| run == path);
}

/// Removes the files that a run keeps in its directory only while it is in progress, for a process that exits at once
/// without closing anything. Event files stay unchanged. Returns the directory, if there is a run.
pub(crate) fn remove() -> Option<PathBuf> {
    let path = run().take()?;
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_door = Path::new(&name).extension().is_some_and(|end| DOORS.iter().any(|door| end == *door));
        if is_door || name == super::reserve::RESERVE_NAME || name == LOCK_NAME {
            // The process is about to exit, so a failure cannot be reported.
            let _ = fs::remove_file(entry.path());
        }
    }
    Some(path)
}

fn run() -> MutexGuard<'static, Option<PathBuf>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}
