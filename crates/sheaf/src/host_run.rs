//! `sheaf host-run`: looks after the nodes of a run on a host whose agent has started it, and of the runs that follow it without a gap.
//!
//! It takes orders of the run on standard input, and reports on standard output. Whatever ends standard input ends the nodes: the agent has
//! ended, or has given up the run.
//!
//! | module | holds |
//! |---|---|
//! | this | the loop that takes orders |
//! | `series` | the runs that follow one another |
//! | `preparing` | directory, code, sockets and key of a run on this host |
//! | `nodes` | the processes of the nodes |
//! | `closer` | closing the parts of runs that have ended |

mod closer;
mod nodes;
mod preparing;
mod series;

use crate::Verdict;
use crate::console::{self, Console};
use crate::host_message::{HostOrder, HostReady, HostReport, HostRun, read_frame, write_frame};
use anyhow::{Context as _, bail};
use preparing::HostedRun;
use series::Series;
use sheaf_config::LogFormat;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which the processes are checked.
const PERIOD: Duration = Duration::from_millis(20);

/// Interval of signs of life while the last part is closed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Work that waits. Then the agent waits.
const WORK: usize = 256;

/// Name of this process in messages, until it knows that of its host.
const NAME: &str = "host";

/// Writes reports to standard output.
#[derive(Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<()>>);

impl Reports {
    /// Writes a report. Without a reader, the end of standard input follows.
    pub(crate) fn write(&self, report: &HostReport) {
        let Ok(text) = serde_json::to_vec(report) else { return };
        let _one_at_a_time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = write_frame(&mut std::io::stdout().lock(), &text, report.may_be_lost());
    }
}

/// Work of the process.
enum Work {
    Order(HostOrder),
    /// The run that is to follow is prepared, or cannot be.
    Prepared(Box<anyhow::Result<(HostedRun, HostReady)>>),
    /// There will be no more orders.
    NoMore,
}

pub(crate) fn command(console: &Console) -> anyhow::Result<Verdict> {
    let (sender, work) = sync_channel(WORK);
    take_orders(sender.clone())?;
    let Ok(Work::Order(HostOrder::Prepare(run))) = work.recv() else {
        bail!("the first order is not to prepare a run")
    };
    let name = crate::next::host();
    console.keep_log(if name.is_empty() { NAME } else { &name }, LogFormat::Text)?;
    console::begin_run(run.number, None);
    let reports = Reports::default();
    let own = reports.clone();
    console::listen(Some(Box::new(move |message| own.write(&HostReport::Message(message.json_line())))));
    let looked_after = look_after(*run, (sender, &work), &reports);
    console::flush();
    console::listen(None);
    if let Err(error) = looked_after {
        reports.write(&HostReport::Refused(crate::describe(&error)));
    }
    let _ = std::io::stdout().flush();
    Ok(Verdict::Good)
}

/// Reads orders on a thread of its own, until the end of standard input.
fn take_orders(work: SyncSender<Work>) -> anyhow::Result<()> {
    let body = move || {
        let mut input = std::io::stdin().lock();
        while let Ok(Some((message, _))) = read_frame(&mut input) {
            let order = match serde_json::from_slice(&message) {
                Ok(order) => order,
                Err(error) => {
                    log::debug!("an order cannot be read: {error}");
                    continue;
                }
            };
            if work.send(Work::Order(order)).is_err() {
                return;
            }
        }
        let _ = work.send(Work::NoMore);
    };
    std::thread::Builder::new().name("orders".into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}

/// Prepares the nodes, and carries out orders until no run follows any more.
///
/// # Errors
/// Why the nodes cannot be started on this host.
fn look_after(
    run: HostRun,
    (sender, work): (SyncSender<Work>, &Receiver<Work>),
    reports: &Reports,
) -> anyhow::Result<()> {
    let mut series = Series::begin(run, sender, reports)?;
    loop {
        match work.recv_timeout(PERIOD) {
            Ok(Work::Order(order)) => {
                if series.follow(order)? {
                    return Ok(());
                }
            }
            Ok(Work::Prepared(prepared)) => series.note_prepared(*prepared)?,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Work::NoMore) | Err(RecvTimeoutError::Disconnected) => {
                series.leave(work);
                return Ok(());
            }
        }
        series.check();
    }
}
