//! Programs of shell commands, with guards on threads.

use super::*;
use sheaf_source::{Batch, BatchEnd, SourceEvent, SourcePoll, SourceStats};
use sheaf_wire::Timestamp;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Minutes: a machine that does much else makes a test slow, never red.
const WATCHDOG: Duration = Duration::from_secs(300);

const RULES: ProgramRules = ProgramRules {
    restarts: Some(RestartPolicy {
        pause: (Nanos::from_millis(1), Nanos::from_millis(4)),
        works_after: Nanos::from_secs(3_600),
        in_a_row: Some(4),
    }),
    stop_timeout: Nanos::from_millis(50),
    log_bytes: 1 << 20,
    log_lines: 0,
};

/// A source that nobody feeds.
struct Silent(SourceId);

impl Source for Silent {
    fn id(&self) -> SourceId {
        self.0
    }

    fn poll(&mut self, _: Timestamp) -> SourcePoll {
        SourcePoll::Idle
    }

    fn is_fed(&mut self) -> bool {
        false
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

/// Starts shell commands, the program with the number `n` for source `n`.
fn start(scripts: &[&str], directory: &Path, rules: ProgramRules) -> Result<Programs, StartError> {
    start_some(scripts, directory, rules, false)
}

/// As [`start`], for programs of the user or processes of Sheaf.
fn start_some(
    scripts: &[&str],
    directory: &Path,
    rules: ProgramRules,
    are_own: bool,
) -> Result<Programs, StartError> {
    let setup = |(index, _): (usize, &&str)| ProgramSetup {
        name: format!("p{index}"),
        sources: vec![SourceId(index as u32)],
        awaited: true,
        log: Some(directory.join(format!("p{index}.log"))),
        counts: are_own,
    };
    let setups = scripts.iter().enumerate().map(setup).collect();
    let scripts: Vec<String> = scripts.iter().map(|script| (*script).to_owned()).collect();
    let launch = move |index: usize, pipe: PipeWriter| {
        let (stream, its_end) = UnixStream::pair()?;
        let mut command = match scripts[index].strip_prefix("! ") {
            Some(program) => Command::new(program),
            None => Command::new("sh"),
        };
        command.arg("-c").arg(&scripts[index]).stdout(pipe.try_clone()?).stderr(pipe);
        std::thread::spawn(move || guard::guard(its_end, &mut command, rules.stop_timeout));
        Ok(ProgramProcess { stream, child: None })
    };
    Programs::start(NodeId::readout(0), setups, rules, Box::new(launch), Waker::noop().clone())
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < WATCHDOG, "the watchdog waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn lines(directory: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
    text.lines().map(|line| line.split_once(' ').map_or("", |(_, line)| line).to_owned()).collect()
}

fn has_line(directory: &Path, name: &str, line: &str) -> bool {
    lines(directory, name).iter().any(|other| other == line)
}

fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A process that nobody has waited for has ended.
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_program_that_fails_is_restarted_until_the_limit_and_then_its_source_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let programs =
        start(&["echo begins; echo fails >&2; exit 3"], directory.path(), RULES).expect("it starts");
    let mut source = programs.watch(Box::new(Silent(SourceId(0))));
    let mut declined = None;
    wait_until("the start is declined", || {
        declined = source.poll_event();
        declined.is_some()
    });
    let Some(SourceEvent::Declined { name, reason }) = declined else { panic!("{declined:?}") };
    assert_eq!(name, "program p0");
    assert!(reason.contains("failed 5 times, at last with exit status: 3"), "{reason}");
    source.start();
    let mut batch = Batch::default();
    wait_until("it ends", || source.poll_batch(Timestamp(1), 1, &mut batch) == BatchEnd::Ended);
    let [report] = &programs.wait()[..] else { panic!("one program") };
    let expected = ProgramReport {
        name: "p0".into(),
        starts: 5,
        failures: 5,
        given_up: true,
        log_lines: 10,
        ..ProgramReport::default()
    };
    assert_eq!(*report, expected);
    assert_eq!(lines(directory.path(), "p0.log")[..3], ["begins", "fails", "--- ended: exit status: 3"]);
}

#[test]
fn programs_end_with_the_run_also_stubborn_ones_and_their_children() {
    let directory = tempfile::tempdir().expect("a directory");
    let scripts = [
        "trap '' TERM; echo ready; sleep 10000 & echo child $!; while :; do sleep 0.01; done",
        "sleep 10000 & echo child $!; exit 0",
    ];
    let programs = start(&scripts, directory.path(), RULES).expect("they start");
    let directory = directory.path();
    wait_until("one is ready", || has_line(directory, "p0.log", "ready"));
    wait_until("the other has ended", || has_line(directory, "p1.log", "--- ended: exit status: 0"));
    let child_of = |log: &str| {
        let found =
            || lines(directory, log).iter().find_map(|line| Some(line.strip_prefix("child ")?.to_owned()));
        wait_until("it has a child", || found().is_some());
        found().expect("it was there")
    };
    let children = [child_of("p0.log"), child_of("p1.log")];
    wait_until("the child of a program that ended has ended", || !runs(&children[1]));
    let reports = programs.wait();
    wait_until("the other has ended, too", || !runs(&children[0]));
    let killed: Vec<bool> = reports.iter().map(|report| report.killed).collect();
    assert_eq!(killed, [true, false]);
    assert!(reports.iter().all(|report| report.failures == 0 && !report.given_up), "{reports:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_with_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let error =
        start(&["sleep 10000", "! /no/such/program"], directory.path(), RULES).expect_err("it is absent");
    assert!(error.to_string().starts_with("program p1 cannot be started: No such file"), "{error}");
}

#[test]
fn the_policy_never_means_never() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = ProgramRules { restarts: None, ..RULES };
    let programs = start(&["exit 1"], directory.path(), rules).expect("it starts");
    let mut source = programs.watch(Box::new(Silent(SourceId(0))));
    wait_until("the start is declined", || source.poll_event().is_some());
    assert_eq!(source.poll_event(), None, "said once");
    drop(source);
    let [report] = &programs.wait()[..] else { panic!("one program") };
    assert_eq!((report.starts, report.failures, report.given_up), (1, 1, true));
}

#[test]
fn a_process_whose_library_refuses_at_first_is_given_up_and_later_started_again() {
    let given_up = |script: &str, are_own: bool| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!("cd {}; {script}", directory.path().display());
        let programs = start_some(&[&script], directory.path(), RULES, are_own).expect("it starts");
        let view = programs.view();
        wait_until("it has ended for good", || view.have_ended());
        let [report] = &programs.wait()[..] else { panic!("one program") };
        (report.starts, report.given_up)
    };
    assert_eq!(given_up("exit 5", true), (1, true));
    assert_eq!(given_up("exit 5", false), (5, true), "in programs of the user the status means nothing");
    let crashes = "echo >> lives; case $(wc -l < lives) in 1) kill -9 $$;; 2) exit 5;; esac; exit 0";
    assert_eq!(given_up(crashes, true), (3, false), "hardware may need time after a crash");
}

#[test]
fn a_program_is_asked_before_it_is_killed() {
    let (mut stream, its_end) = UnixStream::pair().expect("a pair");
    let (output, pipe) = io::pipe().expect("a pipe");
    let mut command = Command::new("sh");
    command.args(["-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"]).stdout(pipe);
    std::thread::spawn(move || guard::guard(its_end, &mut command, Nanos::ZERO));
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\n");
    stream.write_all(&[guard::TERMINATE]).expect("the guard is there");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it ends");
    let status = said.lines().last().and_then(guard::Said::read);
    assert_eq!(status, Some(guard::Said::Ended(ExitStatus::from_raw(7 << 8))), "{said}");
}

#[test]
fn a_guard_whose_readout_unit_dies_ends_its_program() {
    let (stream, its_end) = UnixStream::pair().expect("a pair");
    let mut command = Command::new("sleep");
    command.arg("10000");
    let guard = std::thread::spawn(move || guard::guard(its_end, &mut command, Nanos::from_millis(20)));
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("it speaks");
    let pid = line.trim().strip_prefix("started ").expect("it has started").to_owned();
    assert!(runs(&pid));
    drop(stream);
    guard.join().expect("it ends").expect("it could watch");
    assert!(!runs(&pid));
}
