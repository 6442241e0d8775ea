//! The thread that starts, restarts and ends the programs of a readout unit.

use super::guard::{KILL, Said, TERMINATE};
use super::output::ProgramOutput;
use super::{
    LaunchProgram, Outlook, ProgramProcess, ProgramReport, ProgramRules, ProgramSetup, REFUSED, Shared,
    StartError,
};
use crate::restarts::{RestartPolicy, Restarts};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use sheaf_telemetry::log_as;
use sheaf_wire::NodeId;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Time in which a guard answers: the machine may be busy.
const TIME_TO_START: Duration = Duration::from_secs(60);

/// Bytes of output that are read at a time.
const READ_BYTES: usize = 16_384;

/// Wakes the keeper to end the programs.
#[derive(Debug)]
pub(super) struct Bell {
    stops: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { stops: AtomicBool::new(false), event })
    }

    /// Takes note that the run has ended.
    pub(super) fn stop(&self) {
        if !self.stops.swap(true, Ordering::AcqRel) {
            // The counter cannot overflow: it is added to once.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    fn is_stopped(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }
}

pub(super) struct Keeper {
    node: NodeId,
    rules: ProgramRules,
    launch: LaunchProgram,
    shared: Arc<Shared>,
    waker: Waker,
    posts: Vec<Post>,
    stopping_since: Option<Instant>,
    room: Vec<u8>,
}

/// A program and its process.
struct Post {
    node: NodeId,
    setup: ProgramSetup,
    title: String,
    state: State,
    output: Option<ProgramOutput>,
    restarts: Option<Restarts>,
    report: ProgramReport,
}

enum State {
    /// To be started.
    Waiting(Instant),
    Running(Process),
    Over,
}

struct Process {
    guard: Option<Child>,
    stream: UnixStream,
    /// Words of the guard, up to a line that is not whole.
    said: Vec<u8>,
    pipe: PipeReader,
    /// Whether the program, or the guard, has the other end of the pipe.
    is_open: bool,
    started: Instant,
    requests: u8,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard ends the program when it sees the end of the stream; this thread does not wait for that.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Keeper {
    pub(super) fn new(
        node: NodeId,
        setups: &[ProgramSetup],
        rules: ProgramRules,
        launch: LaunchProgram,
        (shared, waker): (Arc<Shared>, Waker),
    ) -> Self {
        let post = |setup: &ProgramSetup| Post {
            node,
            title: format!("{node}: {}", setup.name),
            state: State::Waiting(Instant::now()),
            output: None,
            restarts: rules.restarts.map(|policy: RestartPolicy| Restarts::new(policy)),
            report: ProgramReport { name: setup.name.clone(), ..ProgramReport::default() },
            setup: setup.clone(),
        };
        let posts = setups.iter().map(post).collect();
        Self { node, rules, launch, shared, waker, posts, stopping_since: None, room: vec![0; READ_BYTES] }
    }

    /// Starts all programs, and waits until each runs.
    pub(super) fn start_all(&mut self) -> Result<(), StartError> {
        let rules = self.rules;
        for (index, post) in self.posts.iter_mut().enumerate() {
            let name = post.setup.name.clone();
            let failed = |reason: String| StartError { name: name.clone(), reason };
            let (title, path) = (post.title.clone(), post.setup.log.as_deref());
            let output = ProgramOutput::open(title, path, rules.log_bytes, rules.log_lines);
            post.output = Some(output.map_err(|error| {
                let path = path.map(|path| path.display().to_string()).unwrap_or_default();
                failed(format!("cannot write its output to {path}: {error}"))
            })?);
            if let Some(output) = post.output.as_mut().filter(|_| post.setup.counts) {
                output.count();
            }
            let mut process =
                post.launch(index, &mut self.launch).map_err(|error| failed(error.to_string()))?;
            let said = process.first_word().map_err(|error| failed(error.to_string()))?;
            match said {
                Said::Started(pid) => {
                    log_as!(
                        PROGRAM_STARTED, node = self.node, peer = post.setup.name;
                        "{}: program {} is process {pid}", self.node, post.setup.name
                    );
                    post.state = State::Running(process);
                }
                Said::Failed(reason) => return Err(failed(reason)),
                Said::Ended(status) => return Err(failed(status.to_string())),
            }
        }
        Ok(())
    }

    /// Watches the programs until the run has ended and all of them have.
    pub(super) fn run(mut self) -> Vec<ProgramReport> {
        loop {
            if self.shared.bell.is_stopped() && self.stopping_since.is_none() {
                self.stopping_since = Some(Instant::now());
            }
            let is_busy = (0..self.posts.len()).fold(false, |busy, index| self.attend(index) | busy);
            let all_over = self.posts.iter().all(|post| matches!(post.state, State::Over));
            if self.stopping_since.is_some() && all_over {
                return self.posts.into_iter().map(Post::into_report).collect();
            }
            if !is_busy {
                self.sleep();
            }
        }
    }

    /// Does what is due for a program. Returns whether there may be more at once.
    fn attend(&mut self, index: usize) -> bool {
        let Self { posts, rules, launch, stopping_since, shared, waker, room, .. } = self;
        let post = &mut posts[index];
        let is_busy = match &mut post.state {
            State::Over => false,
            State::Waiting(_) if stopping_since.is_some() => {
                post.state = State::Over;
                false
            }
            State::Waiting(at) if *at > Instant::now() => false,
            State::Waiting(_) => {
                match post.launch(index, launch) {
                    Ok(process) => post.state = State::Running(process),
                    Err(error) => {
                        post.fail(&format!("cannot be started again: {error}"), (shared, waker), index)
                    }
                }
                true
            }
            State::Running(process) => {
                let has_output = process.read_output(post.output.as_mut(), room);
                if let Some(since) = *stopping_since {
                    post.report.killed |= process.ask_to_end(since, rules);
                }
                match process.receive() {
                    None => has_output,
                    Some(Said::Started(_)) => true,
                    Some(Said::Failed(reason)) => {
                        post.fail(&format!("cannot be started again: {reason}"), (shared, waker), index);
                        true
                    }
                    Some(Said::Ended(status)) => {
                        // What it has written is in the pipe; something that it left behind may hold the pipe open.
                        while process.read_output(post.output.as_mut(), room) {}
                        post.handle_end(status, stopping_since.is_some(), (shared, waker), index);
                        true
                    }
                }
            }
        };
        if let Some(output) = post.output.as_mut().filter(|_| !is_busy) {
            output.flush();
        }
        is_busy
    }

    /// Sleeps until a program says something or something is due.
    fn sleep(&self) {
        let mut due: Option<Instant> = None;
        let mut files = Vec::new();
        // Once the bell has rung it stays so.
        if self.stopping_since.is_none() {
            files.push(PollFd::new(&self.shared.bell.event, PollFlags::IN));
        }
        for post in &self.posts {
            let at = match &post.state {
                State::Over => None,
                State::Waiting(at) => Some(*at),
                State::Running(process) => {
                    files.push(PollFd::from_borrowed_fd(process.stream.as_fd(), PollFlags::IN));
                    if process.is_open {
                        files.push(PollFd::from_borrowed_fd(process.pipe.as_fd(), PollFlags::IN));
                    }
                    self.stopping_since.and_then(|since| process.next_request(since, &self.rules))
                }
            };
            let of_output = post.output.as_ref().and_then(ProgramOutput::poll_timeout);
            due = due.into_iter().chain(at).chain(of_output).min();
        }
        let wait = due.map(|due| due.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let timeout = wait.and_then(|wait| Timespec::try_from(wait).ok());
        // Interrupted or not: whatever there is to do is found.
        let _ = poll(&mut files, timeout.as_ref());
    }
}

impl Post {
    fn launch(&mut self, index: usize, launch: &mut LaunchProgram) -> io::Result<Process> {
        let (pipe, its_end) = io::pipe()?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let ProgramProcess { stream, child } = launch(index, its_end)?;
        stream.set_nonblocking(true)?;
        self.report.starts += 1;
        let started = Instant::now();
        Ok(Process { guard: child, stream, said: Vec::new(), pipe, is_open: true, started, requests: 0 })
    }

    /// Takes note of the end of the program, and decides whether it is started again.
    fn handle_end(&mut self, status: ExitStatus, stopping: bool, said: (&Shared, &Waker), index: usize) {
        let State::Running(process) = std::mem::replace(&mut self.state, State::Over) else { return };
        let lived = process.started.elapsed();
        process.reap();
        if let Some(output) = &mut self.output {
            output.end();
            output.note(&format!("--- ended: {status}"));
            output.flush();
        }
        let (shared, waker) = said;
        let has_work = shared.with(index, |program| program.open_sources > 0);
        if stopping || status.success() || !has_work {
            if !stopping && status.success() {
                log_as!(PROGRAM_ENDED, node = self.node, peer = self.setup.name; "{} has ended", self.title);
            } else if !status.success() {
                log_as!(PROGRAM_ENDED, node = self.node, peer = self.setup.name; "{} has ended ({status})", self.title);
            }
            shared.with(index, |program| program.outlook = Outlook::Finished);
            waker.wake_by_ref();
            return;
        }
        self.report.failures += 1;
        if self.setup.counts && self.report.starts == 1 && status.code() == Some(REFUSED.into()) {
            self.fail("cannot open its library", said, index);
            return;
        }
        match self.restarts.as_mut().map(|restarts| restarts.died(lived.into())) {
            Some(Some(pause)) => {
                log_as!(
                    PROGRAM_RESTARTED, node = self.node, peer = self.setup.name;
                    "{} failed ({status}); it is started again in {pause}{}", self.title, self.see()
                );
                self.state = State::Waiting(Instant::now() + pause.to_std());
            }
            Some(None) => {
                let failures = self.report.failures;
                self.fail(&format!("failed {failures} times, at last with {status}"), said, index);
            }
            None => self.fail(&format!("failed ({status})"), said, index),
        }
    }

    /// Gives the program up.
    fn fail(&mut self, reason: &str, (shared, waker): (&Shared, &Waker), index: usize) {
        let end = if self.setup.sources.is_empty() { "the run ends" } else { "its sources end" };
        log_as!(
            PROGRAM_GIVEN_UP, node = self.node, peer = self.setup.name;
            "{} {reason}; it is not started again, and {end}{}", self.title, self.see()
        );
        self.state = State::Over;
        self.report.given_up = true;
        let reason = format!("it {reason}{}", self.see());
        shared.with(index, |program| program.outlook = Outlook::GivenUp(reason));
        waker.wake_by_ref();
    }

    /// Returns where its output is.
    fn see(&self) -> String {
        let path = self.output.as_ref().and_then(ProgramOutput::path);
        path.map_or_else(String::new, |path| format!("; its output is in {}", path.display()))
    }

    fn into_report(self) -> ProgramReport {
        let mut output = self.output;
        let counts = output.as_mut().map(ProgramOutput::take_counts).unwrap_or_default();
        let (log_lines, log_lines_dropped) = output.map_or((0, 0), |output| output.counts());
        ProgramReport { log_lines, log_lines_dropped, counts, ..self.report }
    }
}

impl Process {
    /// Reads output that is there. Returns whether there may be more.
    fn read_output(&mut self, output: Option<&mut ProgramOutput>, room: &mut [u8]) -> bool {
        match self.pipe.read(room) {
            Ok(0) => {
                self.is_open = false;
                false
            }
            Err(_) => false,
            Ok(length) => {
                if let Some(output) = output {
                    output.take(&room[..length]);
                }
                true
            }
        }
    }

    /// Returns the next line of the guard, if there is one. The end of its stream is the end of the program.
    fn receive(&mut self) -> Option<Said> {
        let mut bytes = [0; 256];
        let has_ended = loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break true,
                Ok(length) => self.said.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break true,
            }
        };
        if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.said.drain(..=end).collect();
            return Said::read(String::from_utf8_lossy(&line).trim_end());
        }
        // The guard was killed, and the program with it.
        has_ended.then(|| Said::Ended(ExitStatus::from_raw(Signal::KILL.as_raw())))
    }

    /// Waits for the guard, whose program has ended.
    fn reap(mut self) {
        if let Some(mut guard) = self.guard.take() {
            // It ends after its last word.
            let _ = guard.wait();
        }
    }

    /// Waits for the first line of the guard.
    fn first_word(&mut self) -> io::Result<Said> {
        let until = Instant::now() + TIME_TO_START;
        loop {
            if let Some(said) = self.receive() {
                return Ok(said);
            }
            if Instant::now() >= until {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no answer of the process that starts it",
                ));
            }
            let mut file = [PollFd::new(&self.stream, PollFlags::IN)];
            let _ = poll(&mut file, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
        }
    }

    /// Returns when the next request to end is due.
    fn next_request(&self, stopping_since: Instant, rules: &ProgramRules) -> Option<Instant> {
        (self.requests < 2)
            .then(|| stopping_since + rules.stop_timeout.to_std() * (u32::from(self.requests) + 1))
    }

    /// Sends the request that is due, if any. Returns whether it was the last.
    fn ask_to_end(&mut self, stopping_since: Instant, rules: &ProgramRules) -> bool {
        if self.next_request(stopping_since, rules).is_none_or(|at| at > Instant::now()) {
            return false;
        }
        let request = if self.requests == 0 { TERMINATE } else { KILL };
        self.requests += 1;
        // A guard that has gone has taken the program with it.
        let _ = self.stream.write_all(&[request]);
        request == KILL
    }
}
