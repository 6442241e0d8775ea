//! The nodes of a measurement, each in a process of its own.
//!
//! The parent makes the receivers' sockets; a child gets its socket as standard input, its assignment as an argument, and
//! prints its outcome. Children are in process groups of their own: Ctrl-C reaches the parent, which ends them.

use anyhow::{Context, anyhow, bail};
use rustix::process::Signal;
use sheaf_bench::job::{Assignment, BenchError, Job, Measurement, Outcome};
use sheaf_bench::{node, wiring};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the parent checks its children.
const PERIOD: Duration = Duration::from_millis(5);

/// Runs `job` with its nodes in processes; `processors` are theirs, in the order of [`Job::nodes`], or the system's.
pub(super) fn measure(job: &Job, processors: &[usize], stop: &AtomicBool) -> anyhow::Result<Measurement> {
    let (sockets, addresses) = wiring::meeting_places(job)?;
    let mut family = Family(Vec::new());
    let senders = (0..job.senders).map(|index| (true, index, None));
    let receivers = (0..job.receivers).zip(sockets).map(|(index, socket)| (false, index, socket));
    for (number, (sends, index, socket)) in senders.chain(receivers).enumerate() {
        let processors = processors.get(number).copied().into_iter().collect();
        let assignment = Assignment { job: *job, sends, index, addresses: addresses.clone(), processors };
        family.0.push(spawn(&assignment, socket)?);
    }
    let outcomes = family.collect(stop)?;
    Ok(job.combine(&outcomes)?)
}

fn spawn(assignment: &Assignment, socket: Option<OwnedFd>) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let text = serde_json::to_string(assignment).context("an assignment is JSON")?;
    let stdin = socket.map_or_else(Stdio::null, Stdio::from);
    let mut command = Command::new(program);
    command.args(["bench", "node", &text]).stdin(stdin).stdout(Stdio::piped()).process_group(0);
    command.spawn().context("cannot start a process of the measurement")
}

/// Runs the child: carries out its assignment and prints the result.
pub(super) fn be_node(assignment: &str) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot watch the parent")?;
    let assignment: Assignment =
        serde_json::from_str(assignment).context("this command is internal to `sheaf bench --processes`")?;
    let socket = if assignment.sends || !wiring::meets_at_a_socket(assignment.job.transport) {
        None
    } else {
        Some(std::io::stdin().as_fd().try_clone_to_owned().context("no socket on standard input")?)
    };
    let outcome = node::run_assigned(&assignment, socket, &AtomicBool::new(false))?;
    crate::print::print_json(&outcome)
}

/// Children that end by themselves soon after the run that they take part in. Those that do not are killed.
#[derive(Debug, Default)]
pub(super) struct Companions(pub(super) Vec<Child>);

/// Time that a companion has to end after the run.
const FAREWELL: Duration = Duration::from_secs(5);

impl Companions {
    /// Returns the exit status of the first that has ended and failed.
    pub(super) fn failed(&mut self) -> Option<ExitStatus> {
        let ended = self.0.iter_mut().filter_map(|child| child.try_wait().ok().flatten());
        ended.into_iter().find(|status| !status.success())
    }
}

impl Drop for Companions {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let start = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && start.elapsed() < FAREWELL {
                std::thread::sleep(Duration::from_millis(2));
            }
            // Both fail where it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Children that end with this process' interest in them.
struct Family(Vec<Child>);

impl Family {
    /// Waits until all have ended well; the first that does not ends all.
    fn collect(&mut self, stop: &AtomicBool) -> anyhow::Result<Vec<Outcome>> {
        loop {
            if stop.load(Ordering::Relaxed) {
                bail!(BenchError::Interrupted);
            }
            let mut running = false;
            for child in &mut self.0 {
                match child.try_wait().context("cannot wait for a process")? {
                    None => running = true,
                    Some(status) if status.success() => {}
                    Some(status) => bail!("a process of the measurement ended: {status}"),
                }
            }
            if !running {
                break;
            }
            std::thread::sleep(PERIOD);
        }
        let outcome = |child: &mut Child| {
            let mut text = String::new();
            // An outcome is far smaller than a pipe, so the child did not wait for this reader.
            let pipe = child.stdout.as_mut().context("standard output is a pipe")?;
            pipe.read_to_string(&mut text).context("cannot read the outcome of a process")?;
            serde_json::from_str(&text)
                .map_err(|error| anyhow!("the outcome of a process is invalid: {error}"))
        };
        self.0.iter_mut().map(outcome).collect()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
