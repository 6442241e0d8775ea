//! The other partitions of the system: a thread that looks who has what. A disk that hangs holds up this thread, and never run control.

use super::inbox::Input;
use crate::partitions;
use anyhow::Context as _;
use serde_json::Value;
use sheaf_config::PartitionParts;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// Pause between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// Begins to look, and sends what has changed. Does nothing for a system without partitions.
pub(super) fn watch(
    parts: Vec<PartitionParts>,
    output: PathBuf,
    inbox: SyncSender<Input>,
) -> anyhow::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let body = move || {
        let mut sent = None;
        loop {
            // What is not known is not shown as free.
            let seen = partitions::states(&parts, &output)
                .map_or(Value::Null, |states| states.iter().map(partitions::PartitionState::shown).collect());
            if sent.as_ref() != Some(&seen) {
                if inbox.send(Input::Partitions(seen.clone())).is_err() {
                    return;
                }
                sent = Some(seen);
            }
            std::thread::sleep(PERIOD);
        }
    };
    std::thread::Builder::new().name("partitions".into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
