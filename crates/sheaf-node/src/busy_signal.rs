//! Busy as a signal outside of Sheaf: a file, or a command of the user, for those who drive a line of hardware.
//!
//! A thread of its own writes the file and runs the command. The event manager only says when the state changes, and never waits. If
//! the state changes faster than it can be written, only the last state is: changes in between are counted, and left out.

use rustix::fs::OFlags;
use sheaf_telemetry::log_as;
use sheaf_wire::NodeId;
use sheaf_wire::times::Times;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time after which a command is killed.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// Interval at which the end of a command is looked for.
const COMMAND_PAUSE: Duration = Duration::from_micros(500);

/// Signal that is `1` while triggers are not taken, and `0` while they are.
#[derive(Debug)]
pub struct BusySignal {
    shared: Arc<Shared>,
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    is_busy: bool,
    /// Number of changes since the start.
    changes: u64,
    stops: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { is_busy: true, changes: 1, stops: false }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BusySignal {
    /// Starts the signal, which is busy at first. `file` gets the character `0` or `1` at its beginning; `command`, if it is not empty, is run
    /// with this as a last argument.
    ///
    /// # Errors
    /// The file cannot be opened for writing, or no thread can be started.
    pub fn start(file: Option<&Path>, command: &[String]) -> io::Result<Self> {
        // A file of a device or a pipe must not hold up the start.
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let open = |path: &Path| {
            OpenOptions::new().write(true).create(true).truncate(false).custom_flags(nonblocking).open(path)
        };
        let file = file.map(open).transpose()?;
        let shared = Arc::new(Shared::default());
        let mut writer = Writer {
            shared: shared.clone(),
            file,
            command: command.to_vec(),
            seen: 0,
            written: 0,
            failures: 0,
        };
        let thread = std::thread::Builder::new().name("busy signal".into()).spawn(move || writer.run())?;
        Ok(Self { shared, is_busy: true, thread: Some(thread) })
    }

    /// Sets the state.
    pub(crate) fn set(&mut self, is_busy: bool) {
        if std::mem::replace(&mut self.is_busy, is_busy) == is_busy {
            return;
        }
        let mut state = self.shared.lock();
        state.is_busy = is_busy;
        state.changes += 1;
        drop(state);
        self.shared.changed.notify_one();
    }
}

/// The signal ends busy.
impl Drop for BusySignal {
    fn drop(&mut self) {
        self.set(true);
        self.shared.lock().stops = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    shared: Arc<Shared>,
    file: Option<File>,
    command: Vec<String>,
    /// Number of changes of which the last was written.
    seen: u64,
    written: u64,
    failures: u64,
}

impl Writer {
    fn run(&mut self) {
        while let Some(is_busy) = self.next_state() {
            self.written += 1;
            if let Err(error) = self.write(is_busy) {
                self.failures += 1;
                if let Some(times) = Times::to_log(self.failures) {
                    log_as!(BUSY_SIGNAL_FAILED, node = NodeId::MANAGER; "busy cannot be signalled: {error}{times}");
                }
            }
        }
        log_as!(
            BUSY_SIGNAL_TOTALS, node = NodeId::MANAGER;
            "busy signal: changes: {}, written: {}, failed: {}", self.seen, self.written, self.failures
        );
    }

    /// Waits for the next state. Returns `None` after the last.
    fn next_state(&mut self) -> Option<bool> {
        let seen = self.seen;
        let is_old = |state: &mut State| state.changes == seen && !state.stops;
        let state = self.shared.changed.wait_while(self.shared.lock(), is_old);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let is_new = state.changes > seen;
        self.seen = state.changes;
        is_new.then_some(state.is_busy)
    }

    fn write(&self, is_busy: bool) -> io::Result<()> {
        let digit = if is_busy { "1" } else { "0" };
        let to_file = self.file.as_ref().map_or(Ok(()), |file| file.write_all_at(digit.as_bytes(), 0));
        let [program, arguments @ ..] = &self.command[..] else { return to_file };
        run(Command::new(program).args(arguments).arg(digit).stdin(Stdio::null()).stdout(Stdio::null()))?;
        to_file
    }
}

/// Runs a command to its end, or kills it after the limit.
fn run(command: &mut Command) -> io::Result<()> {
    let mut child = command.spawn()?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() {
                Ok(())
            } else {
                Err(io::Error::other(format!("the command ended with {status}")))
            };
        }
        if began.elapsed() >= COMMAND_LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other(format!("the command was killed after {COMMAND_LIMIT:?}")));
        }
        std::thread::sleep(COMMAND_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_command_gets_the_last_state_and_holds_nobody_up() {
        let directory = std::env::temp_dir().join(format!("sheaf-busy-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let (line, log, go) = (directory.join("line"), directory.join("log"), directory.join("go"));
        let script =
            format!("echo $1 >> {}; while ! test -e {}; do sleep 0.01; done", log.display(), go.display());
        let command = ["sh", "-c", &script, "busy"].map(str::to_owned);
        let mut signal = BusySignal::start(Some(&line), &command).expect("started");
        let watch = Instant::now();
        while !log.exists() {
            assert!(watch.elapsed() < Duration::from_secs(300), "the first state was written");
            std::thread::sleep(COMMAND_PAUSE);
        }
        assert_eq!(std::fs::read_to_string(&line).expect("written"), "1");
        // The command does not end: a thousand changes are one, and this thread does not wait.
        (0..1_001).for_each(|change| signal.set(change % 2 == 1));
        std::fs::write(&go, "").expect("written");
        while std::fs::read_to_string(&line).expect("written") != "0" {
            assert!(watch.elapsed() < Duration::from_secs(300), "the last state was written");
            std::thread::sleep(COMMAND_PAUSE);
        }
        drop(signal);
        assert_eq!(std::fs::read_to_string(&line).expect("written"), "1", "the signal ends busy");
        assert_eq!(std::fs::read_to_string(&log).expect("written"), "1\n0\n1\n");
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}
