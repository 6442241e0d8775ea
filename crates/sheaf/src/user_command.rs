//! Commands of the user: started with a text on standard input, awaited for a limited time, with their output line by line.
//!
//! A command can be anything, so nothing here waits for it beyond its time: its input is a file in memory, which it may leave unread, and
//! its output is read without blocking, also when a process that it has left behind keeps the other end.

use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use sheaf_config::Hook;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pause between two looks at a command.
const PAUSE: Duration = Duration::from_millis(10);

/// Time between SIGTERM and SIGKILL, and the longest time after SIGKILL: a process that waits for a disk is left behind.
const GRACE: Duration = Hook::GRACE.to_std();

/// Lines of a command that are passed on. The others are read and counted.
const MOST_LINES: u64 = 200;

/// Longest line that is passed on, in bytes. The rest of a longer one is left out.
const LONGEST_LINE: usize = 1_000;

/// Bytes that are read at a time, at most: a pipe holds no more, and a command that writes without pause must not keep its deadline from
/// being looked at.
const MOST_BYTES: usize = 1 << 20;

/// A command with everything that it gets.
pub(crate) struct UserCommand<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) arguments: &'a [String],
    pub(crate) variables: &'a [(&'static str, OsString)],
    /// Text on standard input.
    pub(crate) input: &'a str,
    /// Time after which it is ended.
    pub(crate) timeout: Duration,
    /// Whether it is killed when the calling thread ends.
    pub(crate) dies_with_caller: bool,
}

/// End of a command.
#[derive(Debug)]
pub(crate) enum CommandEnd {
    /// It ended by itself.
    Exited(ExitStatus),
    /// It was ended because its time was over.
    TimedOut(Duration),
    /// It was ended on request.
    Interrupted,
    /// It was not started.
    NotStarted(io::Error),
}

impl CommandEnd {
    pub(crate) fn is_good(&self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

impl fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "{status}"),
            Self::TimedOut(time) => {
                write!(f, "it did not end within {} s, and was ended", time.as_secs_f64())
            }
            Self::Interrupted => f.write_str("it was ended, because the run is stopped"),
            Self::NotStarted(error) => write!(f, "it cannot be started: {error}"),
        }
    }
}

impl UserCommand<'_> {
    /// Runs the command until it ends, its time is over, or `is_interrupted` returns true. Its standard output and standard error are
    /// passed to `take_line`, within limits.
    ///
    /// The command is ended with its process group. Processes that it has left behind after an end of its own are left alone.
    pub(crate) fn run(&self, is_interrupted: impl Fn() -> bool, take_line: impl FnMut(&str)) -> CommandEnd {
        let (mut child, reader) = match self.start() {
            Ok(started) => started,
            Err(error) => return CommandEnd::NotStarted(error),
        };
        let mut output = Output { reader: Some(reader), lines: Lines::new(take_line) };
        let group = Group::of(&child, self.dies_with_caller);
        let until = Instant::now() + self.timeout;
        let early_end = loop {
            output.read();
            if group.has_ended() {
                break None;
            }
            if is_interrupted() {
                break Some(CommandEnd::Interrupted);
            }
            if Instant::now() >= until {
                break Some(CommandEnd::TimedOut(self.timeout));
            }
            std::thread::sleep(PAUSE);
        };
        if early_end.is_some() {
            group.end(&mut output);
        }
        // From here on, the number may be that of another group.
        drop(group);
        let end = match early_end {
            Some(end) => {
                reap(&mut child);
                end
            }
            None => child.wait().map_or_else(CommandEnd::NotStarted, CommandEnd::Exited),
        };
        output.read();
        output.lines.finish();
        end
    }

    fn start(&self) -> io::Result<(Child, PipeReader)> {
        let mut input = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
        input.write_all(self.input.as_bytes())?;
        input.rewind()?;
        let (reader, writer) = io::pipe()?;
        fcntl_setfl(&reader, fcntl_getfl(&reader)? | OFlags::NONBLOCK)?;
        let mut command = Command::new(self.program);
        command.args(self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.process_group(0).stdin(input).stdout(writer.try_clone()?).stderr(writer);
        if self.dies_with_caller {
            sheaf_machine::dying_with_this_thread(&mut command);
        }
        // The command has copies of the writing end, which are closed with it.
        Ok((command.spawn()?, reader))
    }
}

/// Process groups of commands that die with this process.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Kills the commands that die with this process, with their process groups. For a process that ends at once.
pub(crate) fn kill_all() {
    for group in
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().filter_map(Pid::from_raw)
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The process group of a command. Its number is that of the command, and stays so until somebody takes the exit status.
struct Group(i32);

impl Group {
    fn of(child: &Child, dies_with_caller: bool) -> Self {
        let number = child.id().cast_signed();
        if dies_with_caller {
            GROUPS.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        }
        Self(number)
    }

    /// Returns whether the command has ended, and leaves its exit status.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = Pid::from_raw(self.0).map(|pid| waitid(WaitId::Pid(pid), options));
        // A process that cannot be waited for is none.
        status.is_none_or(|status| status.map_or(true, |status| status.is_some()))
    }

    /// Ends the whole group.
    fn end<F: FnMut(&str)>(&self, output: &mut Output<F>) {
        let Some(group) = Pid::from_raw(self.0) else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let until = Instant::now() + GRACE;
        while !self.has_ended() && Instant::now() < until {
            output.read();
            std::thread::sleep(PAUSE);
        }
        let _ = kill_process_group(group, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Takes the exit status of a command that was killed. One that waits for a disk is left behind.
fn reap(child: &mut Child) {
    let until = Instant::now() + GRACE;
    while child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

/// Output of a command.
struct Output<F> {
    /// `None` when there will be no more.
    reader: Option<PipeReader>,
    lines: Lines<F>,
}

impl<F: FnMut(&str)> Output<F> {
    /// Reads what is there.
    fn read(&mut self) {
        let mut buffer = [0; 8 << 10];
        let mut read = 0;
        while let Some(reader) = self.reader.as_mut().filter(|_| read < MOST_BYTES) {
            match reader.read(&mut buffer) {
                Ok(0) => self.reader = None,
                Ok(bytes) => {
                    read += bytes;
                    self.lines.add(&buffer[..bytes]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.reader = None,
            }
        }
    }
}

/// Divides output into lines, and passes on a limited number of them.
struct Lines<F> {
    line: Vec<u8>,
    /// Lines passed on, and left out.
    count: (u64, u64),
    take_line: F,
}

impl<F: FnMut(&str)> Lines<F> {
    fn new(take_line: F) -> Self {
        Self { line: Vec::new(), count: (0, 0), take_line }
    }

    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            // One byte more shows that something is left out.
            let room = (LONGEST_LINE + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let is_cut = self.line.len() > LONGEST_LINE;
        self.line.truncate(LONGEST_LINE);
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim_end();
        if text.is_empty() {
            // An empty line says nothing in a log.
        } else if self.count.0 == MOST_LINES {
            self.count.1 += 1;
        } else {
            self.count.0 += 1;
            match is_cut {
                true => (self.take_line)(&format!("{text} ... (longer than {LONGEST_LINE} bytes)")),
                false => (self.take_line)(text),
            }
        }
        self.line.clear();
    }

    fn finish(&mut self) {
        self.end_line();
        if self.count.1 > 0 {
            let noun = if self.count.1 == 1 { "line is" } else { "lines are" };
            let left_out = crate::console::count(self.count.1);
            (self.take_line)(&format!("{left_out} more {noun} left out: only {MOST_LINES} are kept"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{kill_process, test_kill_process_group};

    fn run(script: &str, input: &str, timeout: Duration) -> (CommandEnd, Vec<String>) {
        let mut lines = Vec::new();
        let command = UserCommand {
            program: OsStr::new("sh"),
            arguments: &["-c".to_owned(), script.to_owned()],
            variables: &[("SHEAF_HOOK", "test".into())],
            input,
            timeout,
            dies_with_caller: true,
        };
        let end = command.run(|| false, |line| lines.push(line.to_owned()));
        (end, lines)
    }

    /// For commands that end by themselves: nothing is measured.
    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_command_gets_its_input_and_variables_and_its_output_is_lines() {
        let (end, lines) = run("cat; echo \"to $SHEAF_HOOK\" >&2; printf end", "{}\n", LONG);
        assert!(end.is_good(), "{end}");
        assert_eq!(lines, ["{}", "to test", "end"]);
    }

    #[test]
    fn an_input_that_nobody_reads_holds_nothing_up() {
        let (end, lines) = run("exec true", &"x".repeat(1 << 20), LONG);
        assert!(end.is_good() && lines.is_empty(), "{end}");
    }

    #[test]
    fn the_end_is_an_exit_status_or_a_signal() {
        assert_eq!(run("exit 3", "", LONG).0.to_string(), "exit status: 3");
        let killed = run("kill -9 $$", "", LONG).0;
        assert!(!killed.is_good() && killed.to_string().contains("signal: 9"), "{killed}");
    }

    #[test]
    fn a_program_that_is_not_there_is_not_started() {
        let command = UserCommand {
            program: OsStr::new("/no/such/program"),
            arguments: &[],
            variables: &[],
            input: "",
            timeout: LONG,
            dies_with_caller: true,
        };
        let end = command.run(|| false, |_| ());
        assert!(end.to_string().contains("cannot be started"), "{end}");
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended_with_all_that_it_has_started() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pids");
        // Both ignore SIGTERM; the second one is in the group of the first.
        let script = format!(
            "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $$ $! > {0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        let command = UserCommand {
            program: OsStr::new("sh"),
            arguments: &["-c".to_owned(), script],
            variables: &[],
            input: "",
            timeout: LONG,
            dies_with_caller: true,
        };
        let end = command.run(|| file.exists(), |_| ());
        assert!(matches!(end, CommandEnd::Interrupted), "{end}");
        let pids = std::fs::read_to_string(&file).unwrap();
        let group = pids.split_whitespace().next().unwrap().parse().unwrap();
        let group = Pid::from_raw(group).unwrap();
        // The one that was left to init may be a zombie for a moment.
        while test_kill_process_group(group).is_ok() {
            std::thread::yield_now();
        }
        let (end, lines) = run("echo before; exec sleep 3600", "", Duration::from_millis(1));
        assert!(matches!(end, CommandEnd::TimedOut(_)), "{end} {lines:?}");
    }

    #[test]
    fn a_process_that_keeps_the_output_open_holds_nothing_up() {
        let (end, lines) = run("sleep 3600 & echo $!", "", LONG);
        assert!(end.is_good(), "{end}");
        let left = Pid::from_raw(lines[0].parse().unwrap()).unwrap();
        kill_process(left, Signal::KILL).expect("it is left alone");
    }

    #[test]
    fn output_is_bounded_in_lines_and_in_their_length() {
        let (end, lines) = run("yes | head -n 100000; printf end", "", LONG);
        assert!(end.is_good(), "{end}");
        assert_eq!(lines.len() as u64, MOST_LINES + 1);
        assert_eq!(lines.last().unwrap(), "99,801 more lines are left out: only 200 are kept");
        let (_, lines) = run("head -c 5000 /dev/zero | tr '\\0' x; echo; echo next", "", LONG);
        assert!(lines[0].starts_with("xxx") && lines[0].ends_with("(longer than 1000 bytes)"), "{lines:?}");
        assert_eq!(lines[1], "next");
    }
}
