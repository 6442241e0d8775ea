//! Reads the records of runs: slowly where there are thousands, so on a thread of its own.

use super::inbox::Lookup;
use crate::records;
use anyhow::Context as _;
use serde_json::json;
use sheaf_monitor::control::{Answer, Call};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Requests that wait. Beyond it they are refused.
const WAITING: usize = 16;

/// Most runs in an answer.
const MOST: usize = 1_000;

pub(super) fn begin(output: PathBuf) -> anyhow::Result<SyncSender<Lookup>> {
    let (sender, requests) = sync_channel::<Lookup>(WAITING);
    let body = move || {
        for (call, answer) in requests {
            // The client has gone, or waits.
            let _ = answer.send(look_up(&output, &call));
        }
    };
    std::thread::Builder::new().name("records".into()).spawn(body).context("cannot start a thread")?;
    Ok(sender)
}

fn look_up(output: &Path, call: &Call) -> Answer {
    let found = match call {
        Call::Runs(last) if output.is_dir() => records::read_all(output, Some((*last).min(MOST)))
            .map(|(runs, failed)| json!({ "runs": runs, "unreadable": failed })),
        Call::Configurations => records::named_configurations(output),
        Call::Run(number) => records::with_changes(*number, output),
        _ => Ok(json!({ "runs": [], "unreadable": 0 })),
    };
    match found {
        Ok(value) => Answer::json(200, &value),
        Err(error) => Answer::error(
            404,
            "not_found",
            &crate::describe(&error),
            "`GET /api/v1/runs` lists the runs that there are",
        ),
    }
}
