//! The thread that keeps the commands in the manifest of a run up to date.

use crate::commands::RunCommands;
use crate::periodic::{Periodic, Turns};
use sheaf_store::run::Manifest;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval between two looks at the commands. A look reads the number and the size of a file.
const PERIOD: Duration = Duration::from_millis(500);

/// Begins the thread.
pub(super) fn begin(
    manifest: Arc<Mutex<Manifest>>,
    path: PathBuf,
    commands: Arc<RunCommands>,
) -> anyhow::Result<Periodic<()>> {
    let look = move || {
        let mut manifest = manifest.lock().unwrap_or_else(PoisonError::into_inner);
        // What a full disk does not take is in memory, and is written when the run is closed.
        if commands.fill(&mut manifest, None)
            && let Err(error) = manifest.write(&path)
        {
            log::debug!("the commands of the run cannot be recorded yet: {error}");
        }
    };
    Periodic::begin("commands", move |turns: Turns| {
        look();
        while turns.next_after(PERIOD) {
            look();
        }
    })
}
