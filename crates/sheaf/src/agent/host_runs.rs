//! The processes that an agent has started for runs.

use super::send;
use crate::host_message::{HostReport, HostRun, read_frame, write_frame};
use crate::own_program::own_program;
use anyhow::Context as _;
use sheaf_agent::{Conversation, EndReason, Received, SendError};
use sheaf_telemetry::log_as;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time that a thread waits for an order before it looks whether the process has ended.
const PERIOD: Duration = Duration::from_millis(100);

/// Time until a report is sent that has found no room.
const PAUSE: Duration = Duration::from_millis(5);

/// Time without a connection after which nodes end whose run has hung up: its process has died, or begins again soon.
const RUN_DIED: Duration = Duration::from_secs(15);

/// Time for all processes to end with the agent. Their nodes close their files.
const LAST_WAIT: Duration = Duration::from_secs(60);

/// A run that is served.
struct Served {
    number: u32,
    conversation: Arc<Conversation>,
    /// Orders to its process. Its nodes end when this is closed.
    orders: Option<ChildStdin>,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct HostRuns {
    served: Mutex<BTreeMap<u32, Served>>,
}

impl HostRuns {
    fn served(&self) -> MutexGuard<'_, BTreeMap<u32, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process for a run, and passes messages on until it ends.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn serve(
        &self,
        conversation: &Arc<Conversation>,
        run: &HostRun,
        first: &[u8],
    ) -> anyhow::Result<()> {
        self.end_unconnected();
        let program = own_program().context("cannot determine the path of this program")?;
        let mut command = Command::new(program);
        command.arg("host-run").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("cannot start the process that looks after the nodes")?;
        let mut orders = child.stdin.take().context("standard input is a pipe")?;
        let reports = child.stdout.take().context("standard output is a pipe")?;
        let process = child.id();
        log_as!(
            AGENT_SERVES;
            "run {} of {} begins to use this host for {}", run.number, run.host, run.nodes.join(", ")
        );
        send(conversation, &HostReport::Taken);
        write_frame(&mut orders, first, false).context("cannot pass on the first order")?;
        let served = Served { number: run.number, conversation: conversation.clone(), orders: Some(orders) };
        self.served().insert(process, served);
        std::thread::scope(|scope| {
            let passing = scope.spawn(|| pass_reports(conversation, reports));
            self.pass_orders(conversation, process, &mut child);
            let _ = passing.join();
        });
        self.served().remove(&process);
        let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        log_as!(AGENT_SERVES; "run {} of {} uses this host no more", run.number, run.host);
        send(conversation, &HostReport::Gone(status));
        Ok(())
    }

    /// Passes orders on to a process until it has ended.
    fn pass_orders(&self, conversation: &Conversation, process: u32, child: &mut Child) {
        let mut unconnected: Option<Instant> = None;
        while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            match conversation.receive(PERIOD) {
                Received::Message(order) => self.pass_order(process, &order),
                Received::Connected => unconnected = None,
                Received::Lost(why) => {
                    log::debug!("the connection to a run is lost: {why}");
                    unconnected = Some(Instant::now());
                }
                Received::Nothing => {}
                Received::Ended(EndReason::Closed) => {
                    // Its process ends by itself where it was told to.
                    drop(self.take_orders(process));
                    std::thread::sleep(PERIOD);
                }
                Received::Ended(over) => {
                    log::debug!("a run is over: {over:?}");
                    self.end(process);
                    std::thread::sleep(PERIOD);
                }
            }
            if conversation.was_hung_up() && unconnected.is_some_and(|since| since.elapsed() > RUN_DIED) {
                self.end(process);
            }
        }
    }

    fn pass_order(&self, process: u32, order: &[u8]) {
        // Not under the lock: a process that hangs must not keep others waiting.
        let Some(mut orders) = self.take_orders(process) else { return };
        if write_frame(&mut orders, order, false).is_ok()
            && let Some(served) = self.served().get_mut(&process)
        {
            served.orders = Some(orders);
        }
    }

    fn take_orders(&self, process: u32) -> Option<ChildStdin> {
        self.served().get_mut(&process).and_then(|served| served.orders.take())
    }

    /// Ends the nodes of a run.
    fn end(&self, process: u32) {
        let mut served = self.served();
        let Some(served) = served.get_mut(&process) else { return };
        if served.orders.take().is_some() {
            log_as!(AGENT_ENDS; "run {} is gone: its nodes on this host end", served.number);
        }
    }

    /// Ends the nodes of runs that are not connected: a run that begins may need their addresses.
    fn end_unconnected(&self) {
        let gone: Vec<u32> = {
            let served = self.served();
            let gone = served.iter().filter(|(_, served)| served.conversation.was_hung_up());
            gone.map(|(process, _)| *process).collect()
        };
        gone.into_iter().for_each(|process| self.end(process));
    }

    /// Ends all nodes, and waits until they have closed their files. Returns the number of runs that used this host.
    pub(super) fn end_all(&self) -> usize {
        let has_orders = |(process, served): (&u32, &Served)| served.orders.as_ref().map(|_| *process);
        let processes: Vec<u32> = self.served().iter().filter_map(has_orders).collect();
        processes.iter().for_each(|process| self.end(*process));
        let until = Instant::now() + LAST_WAIT;
        while !self.served().is_empty() && Instant::now() < until {
            std::thread::sleep(PERIOD);
        }
        processes.len()
    }
}

/// Passes the reports of a process on to its run until it has said everything.
fn pass_reports(conversation: &Conversation, reports: ChildStdout) {
    let mut reports = BufReader::new(reports);
    while let Ok(Some((report, may_be_lost))) = read_frame(&mut reports) {
        if may_be_lost {
            conversation.offer(&report);
            continue;
        }
        // Where there is no room, the process waits, and so do its nodes with their records. They do not wait with events.
        while matches!(conversation.send(&report), Err(SendError::Full)) {
            std::thread::sleep(PAUSE);
        }
    }
}
