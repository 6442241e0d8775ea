//! Files that a process which ends at once leaves in the directory of its run, and those of them that can be removed.

use sheaf_store::run::LOCK_NAME;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The directory of the run that goes on in this process.
static RUN: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Doors that are sockets, by the ends of their names.
const DOORS: [&str; 2] = ["tap", "farm"];

/// A run goes on in this directory.
pub(super) fn expect(path: &Path) {
    *run() = Some(path.to_owned());
}

/// The run is over, or tidies up after itself.
pub(super) fn forget() {
    *run() = None;
}

/// Removes what the run keeps in its directory only while it lasts: for a process that ends at once, and closes nothing. Files of
/// events stay as they are. The directory, if there is a run.
pub(crate) fn remove() -> Option<PathBuf> {
    let path = run().take()?;
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_door = Path::new(&name).extension().is_some_and(|end| DOORS.iter().any(|door| end == *door));
        if is_door || name == super::RESERVE_NAME || name == LOCK_NAME {
            // It is the last that this process does; nobody is there to hear that it failed.
            let _ = fs::remove_file(entry.path());
        }
    }
    Some(path)
}

fn run() -> MutexGuard<'static, Option<PathBuf>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}
