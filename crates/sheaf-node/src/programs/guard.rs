//! A process between a readout unit and a program.
//!
//! It starts the program in a process group of its own, reports its end, and ends the group on request. If the stream to the
//! readout unit ends, the readout unit has died, and the guard ends the program.
//!
//! The guard writes lines: `started PID`, then `ended STATUS` with the status as `wait` has it, or `failed REASON` instead of
//! both. It reads single bytes: [`TERMINATE`] and [`KILL`].

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use sheaf_wire::Nanos;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Request to end the program by SIGTERM.
pub const TERMINATE: u8 = b'T';

/// Request to end the program by SIGKILL.
pub const KILL: u8 = b'K';

/// Line of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The program runs as this process.
    Started(u32),
    /// It has ended.
    Ended(ExitStatus),
    /// It could not be started.
    Failed(String),
}

impl Said {
    /// Reads a line.
    pub(super) fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "started" => Some(Self::Started(rest.parse().ok()?)),
            "ended" => Some(Self::Ended(ExitStatus::from_raw(rest.parse().ok()?))),
            "failed" => Some(Self::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

/// Starts `command`, and ends with it. When the readout unit has gone, the program has `grace` from SIGTERM to SIGKILL.
///
/// # Errors
/// Error of the operating system when it watches the program.
pub fn guard(mut stream: UnixStream, command: &mut Command, grace: Nanos) -> io::Result<()> {
    let mut child = match command.stdin(Stdio::null()).process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            let reason = error.to_string().replace('\n', " ");
            return stream.write_all(format!("failed {reason}\n").as_bytes());
        }
    };
    let group = Pid::from_child(&child);
    let watched = watch(&mut stream, group, grace);
    // The group has its number until its leader is waited for.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    watched?;
    // Nobody may be there to read it.
    let _ = stream.write_all(format!("ended {}\n", status.into_raw()).as_bytes());
    Ok(())
}

/// Returns when the program has ended.
fn watch(stream: &mut UnixStream, group: Pid, grace: Nanos) -> io::Result<()> {
    let process = pidfd_open(group, PidfdFlags::empty())?;
    let is_there = stream.write_all(format!("started {}\n", group.as_raw_nonzero()).as_bytes()).is_ok();
    let mut kill_at = if is_there { None } else { Some(abandon(group, grace)) };
    loop {
        let wait = kill_at.map(|at: Instant| at.saturating_duration_since(Instant::now()));
        let timeout = wait.and_then(|wait| Timespec::try_from(wait + Duration::from_millis(1)).ok());
        let mut both = [PollFd::new(&process, PollFlags::IN), PollFd::new(&*stream, PollFlags::IN)];
        // A stream that has ended is always ready.
        let watched = if kill_at.is_some() { &mut both[..1] } else { &mut both[..] };
        match poll(watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (has_ended, has_said) = (!both[0].revents().is_empty(), !both[1].revents().is_empty());
        if has_ended {
            return Ok(());
        }
        if kill_at.is_some_and(|at| at <= Instant::now()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if has_said {
            let mut request = [0];
            match stream.read(&mut request) {
                Ok(1) if request[0] == TERMINATE => drop(kill_process_group(group, Signal::TERM)),
                Ok(1) => drop(kill_process_group(group, Signal::KILL)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => kill_at = Some(abandon(group, grace)),
            }
        }
    }
}

/// Ends a program whose readout unit has gone. Returns when it is to be killed.
fn abandon(group: Pid, grace: Nanos) -> Instant {
    let _ = kill_process_group(group, Signal::TERM);
    Instant::now() + grace.to_std()
}
