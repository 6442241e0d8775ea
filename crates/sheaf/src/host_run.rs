//! `sheaf host-run`: looks after the nodes of one run on a host whose agent has started it.
//!
//! It takes orders of the run on standard input, and reports on standard output. Whatever ends standard input ends the nodes: the agent has
//! ended, or has given up the run.
//!
//! | module | holds |
//! |---|---|
//! | this | the loop that carries out orders |
//! | `preparing` | directory, code, sockets and key of the run on this host |
//! | `nodes` | the processes of the nodes |

mod nodes;
mod preparing;

use crate::Verdict;
use crate::console::{self, Console};
use crate::host_message::{HostOrder, HostReport, HostRun, read_frame, write_frame};
use crate::periodic::{Periodic, Turns};
use crate::space;
use anyhow::{Context as _, bail};
use nodes::Nodes;
use preparing::Prepared;
use sheaf_config::LogFormat;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which the processes are checked.
const PERIOD: Duration = Duration::from_millis(20);

/// Interval of signs of life while the part of the run is closed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Orders that wait to be carried out. Then the agent waits.
const ORDERS: usize = 256;

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

    /// Reports that this process is alive while it does something that takes long.
    fn while_alive<T>(&self, work: impl FnOnce() -> T) -> anyhow::Result<T> {
        let own = self.clone();
        let _alive = Periodic::begin("alive", move |turns: Turns| {
            while turns.next_after(SIGN_OF_LIFE) {
                own.write(&HostReport::Lives(Vec::new()));
            }
        })?;
        Ok(work())
    }
}

pub(crate) fn command(console: &Console) -> anyhow::Result<Verdict> {
    let orders = orders()?;
    let first = orders.recv().context("the agent gives no orders")?;
    let HostOrder::Prepare(run) = first else { bail!("the first order is not to prepare a run") };
    let name = crate::next::host();
    console.keep_log(if name.is_empty() { NAME } else { &name }, LogFormat::Text)?;
    console::begin_run(run.number, None);
    let reports = Reports::default();
    let own = reports.clone();
    console::listen(Some(Box::new(move |message| own.write(&HostReport::Message(message.json_line())))));
    let looked_after = look_after(&run, &orders, &reports);
    console::flush();
    console::listen(None);
    if let Err(error) = looked_after {
        reports.write(&HostReport::Refused(crate::describe(&error)));
    }
    let _ = std::io::stdout().flush();
    Ok(Verdict::Good)
}

/// Reads orders on a thread of its own. The channel is disconnected at the end of standard input.
fn orders() -> anyhow::Result<Receiver<HostOrder>> {
    let (sender, orders) = sync_channel(ORDERS);
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
            if sender.send(order).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("orders".into()).spawn(body).context("cannot start a thread")?;
    Ok(orders)
}

/// Prepares the nodes, and carries out orders until the run is over.
///
/// # Errors
/// Why the nodes cannot be started on this host.
fn look_after(run: &HostRun, orders: &Receiver<HostOrder>, reports: &Reports) -> anyhow::Result<()> {
    let Prepared { part, launch, nodes, ready, plan, scratch: _scratch, claim: _claim } =
        preparing::prepare(run)?;
    let mut nodes = Nodes::new(launch, (&plan, nodes), run.is_steered, reports.clone());
    reports.write(&HostReport::Ready(ready));
    let no_space = Arc::new(AtomicBool::new(false));
    let keep = plan.config.output.keep_free.0;
    let mut watch = Some(space::Watch::begin(part.path(), keep, &no_space)?);
    loop {
        match orders.recv_timeout(PERIOD) {
            Ok(HostOrder::Start { node }) => nodes.start(&node),
            Ok(HostOrder::Signal { node, signal }) => nodes.signal(&node, signal),
            Ok(HostOrder::Request { node, request }) => nodes.request(&node, &request),
            Ok(HostOrder::Close(manifest)) => {
                drop(watch.take().and_then(space::Watch::end));
                nodes.end_all(&plan);
                let closed = reports.while_alive(|| part.close(&manifest))?;
                reports.write(&match closed {
                    Ok(part) => HostReport::Closed(part),
                    Err(error) => HostReport::NotClosed(crate::describe(&error)),
                });
                return Ok(());
            }
            Ok(HostOrder::Abandon) => {
                nodes.end_all(&plan);
                // Their key is in the directory.
                drop(nodes);
                part.abandon();
                return Ok(());
            }
            Ok(HostOrder::Describe | HostOrder::Prepare(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                nodes.end_with_agent(&plan);
                part.leave();
                return Ok(());
            }
        }
        nodes.check();
        if no_space.load(Ordering::Relaxed)
            && let Some(why) = watch.take().and_then(space::Watch::end)
        {
            reports.write(&HostReport::NoSpace(format!("{}: {why}", crate::next::host())));
        }
    }
}
