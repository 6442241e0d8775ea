//! Builds the tests of the workspace and runs each test program as soon as it is built, while the others are being built.
//!
//! `cargo test` runs one program after the other. Most tests of Sheaf wait for a socket, a time limit or a process. So several
//! programs run at a time, each with more threads than there are processors. The output of each goes to a file; what failed tests
//! have printed is shown at the end.

mod program;

use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail, ensure};
use program::{Outcome, Program};
use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of test threads of each program per processor: most tests wait.
const THREADS_PER_PROCESSOR: usize = 3;

/// Number of programs that run at the same time. While one finishes its last long test, the other uses the processors.
const PROGRAMS_AT_ONCE: usize = 2;

/// Arguments of `cargo test` that select what is built first. The tests of the command take longest to run and mostly wait, which they can
/// do while the others are being compiled. They load the C library, which the tests in `suite` are linked with. The features are those of
/// the whole workspace, so that nothing is built twice.
const FIRST: [&str; 4] = ["--test", "command", "--test", "suite"];

/// Programs that are built and have not run yet.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Program>,
    is_complete: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, program: Program) {
        self.state().waiting.push_back(program);
        self.changed.notify_one();
    }

    /// Marks the queue as complete: no other program follows.
    fn complete(&self) {
        self.state().is_complete = true;
        self.changed.notify_all();
    }

    /// Waits for the next program; `None` if none is left.
    fn next(&self) -> Option<Program> {
        let mut state = self.state();
        loop {
            if let Some(program) = state.waiting.pop_front() {
                return Some(program);
            }
            if state.is_complete {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Builds and runs all tests. `tests` is a call of `cargo test` for the workspace; the tests run with its environment.
/// A failing test does not hide those after it.
pub(crate) fn run(tests: &mut Command) -> Result<()> {
    let began = Instant::now();
    let environment: Vec<_> =
        tests.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    let documented = again(tests, &["--doc"]);
    let logs = workspace::target_directory()?.join("test-logs");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    let runner = Runner { logs, environment, threads: threads() };
    let queue = Queue::default();
    let (built, outcomes) = std::thread::scope(|scope| {
        let runners: Vec<_> = (0..PROGRAMS_AT_ONCE).map(|_| scope.spawn(|| runner.run_all(&queue))).collect();
        let built = build(tests, &queue);
        queue.complete();
        let built = built.and_then(|()| {
            println!("all tests are built after {:.0} s", began.elapsed().as_secs_f64());
            shell::run(&mut { documented })
        });
        let outcomes = runners.into_iter().flat_map(|runner| runner.join().expect("it does not panic"));
        (built, outcomes.collect::<Vec<_>>())
    });
    let failed = report(&outcomes, began);
    built?;
    ensure!(!outcomes.is_empty(), "cargo has built no test program");
    failed
}

/// Returns the same call of cargo with additional arguments.
fn again(tests: &Command, arguments: &[&str]) -> Command {
    let mut command = shell::cargo(&[]);
    command.args(tests.get_args()).args(arguments);
    for (name, value) in tests.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) * THREADS_PER_PROCESSOR
}

/// Builds the programs that [`FIRST`] selects, then all others.
fn build(tests: &Command, queue: &Queue) -> Result<()> {
    let mut queued = BTreeSet::new();
    build_some(tests, &FIRST, queue, &mut queued)?;
    build_some(tests, &[], queue, &mut queued)
}

/// Builds programs and queues each that is not in `queued`: those that start programs when all are built.
fn build_some(
    tests: &Command,
    selected: &[&str],
    queue: &Queue,
    queued: &mut BTreeSet<Program>,
) -> Result<()> {
    let mut build = again(tests, &["--no-run", "--message-format", "json-render-diagnostics"]);
    build.args(selected);
    println!("$ {}", shell::typed(&build));
    let mut cargo = build.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut waiting = Vec::new();
    let messages = cargo.stdout.take().context("standard output of cargo is a pipe")?;
    for line in BufReader::new(messages).lines() {
        let line = line.context("cannot read cargo's output")?;
        // Build scripts and compilers may print lines of their own.
        let program = serde_json::from_str(&line).ok().as_ref().and_then(Program::of_message);
        if let Some(program) = program.filter(|program| queued.insert(program.clone())) {
            match program.starts_commands() {
                true => waiting.push(program),
                false => queue.push(program),
            }
        }
    }
    waiting.into_iter().for_each(|program| queue.push(program));
    let status = cargo.wait().context("cannot wait for cargo")?;
    if !status.success() {
        bail!("the tests do not build: cargo ended with {status}");
    }
    Ok(())
}

/// Settings for running test programs.
#[derive(Debug)]
struct Runner {
    logs: PathBuf,
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    threads: usize,
}

impl Runner {
    fn run_all(&self, queue: &Queue) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while let Some(program) = queue.next() {
            let outcome = program.run(&self.logs, |command| {
                command.envs(self.environment.iter().cloned());
                command.env("RUST_TEST_THREADS", self.threads.to_string());
            });
            // A single call of println: another thread prints as well.
            println!("{outcome}");
            outcomes.push(outcome);
        }
        outcomes
    }
}

/// Prints the totals. The error lists the failed tests, with what they have printed.
fn report(outcomes: &[Outcome], began: Instant) -> Result<()> {
    let passed: u64 = outcomes.iter().map(|outcome| outcome.passed).sum();
    let and_failed = match outcomes.iter().map(|outcome| outcome.failed.len()).sum() {
        0 => String::new(),
        failed @ 1.. => format!(", {failed} failed"),
    };
    let seconds = began.elapsed().as_secs_f64();
    println!("\n{passed} tests in {} programs passed{and_failed} after {seconds:.0} s", outcomes.len());
    let failed: Vec<String> =
        outcomes.iter().filter(|outcome| !outcome.is_good()).map(Outcome::details).collect();
    if !failed.is_empty() {
        bail!("tests fail:\n{}", failed.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a documentation line begins an example that rustdoc runs, and not text, JSON or the like.
    fn begins_example(line: &str) -> bool {
        let documentation = line.trim_start().strip_prefix("///").or(line.trim_start().strip_prefix("//!"));
        let language = documentation.and_then(|text| text.trim_start().strip_prefix("```"));
        language.is_some_and(|language| {
            ["rust", "no_run", "should_panic"].iter().any(|word| language.starts_with(word))
        })
    }

    /// Returns whether a Rust file has examples: a fence without a language closes a block or opens an example.
    fn has_examples(text: &str) -> bool {
        let fence = |line: &str| line.trim_start().trim_start_matches(['/', '!']).trim() == "```";
        let others = |line: &str| {
            let line = line.trim_start();
            line.starts_with("//") && line.contains("```") && !fence(line)
        };
        let plain = text.lines().filter(|line| line.trim_start().starts_with("//") && fence(line)).count();
        text.lines().any(begins_example) || plain > text.lines().filter(|line| others(line)).count()
    }

    /// rustdoc takes a second or two for each library, even if it has no examples.
    #[test]
    fn examples_in_the_documentation_run_and_rustdoc_is_not_called_for_nothing() {
        let files = workspace::files().expect("git lists them");
        let manifests =
            files.iter().filter(|file| file.starts_with("crates/") && file.ends_with("/Cargo.toml"));
        let read =
            |file: &String| std::fs::read_to_string(workspace::root().join(file)).expect("it is there");
        for manifest in manifests {
            let sources = manifest.replace("Cargo.toml", "src/");
            if !files.contains(&format!("{sources}lib.rs")) {
                continue;
            }
            let mut of_crate =
                files.iter().filter(|file| file.starts_with(&sources) && file.ends_with(".rs"));
            let runs = !read(manifest).lines().any(|line| line == "doctest = false");
            assert_eq!(
                runs,
                of_crate.any(|file| has_examples(&read(file))),
                "`doctest = false` in {manifest}"
            );
        }
    }

    #[test]
    fn an_example_is_told_from_other_text() {
        assert!(has_examples("//! ```\n//! let a = 1;\n//! ```\n"));
        assert!(has_examples("/// ```no_run\n/// let a = 1;\n/// ```\n"));
        assert!(!has_examples("/// ```text\n/// a -> b\n/// ```\nlet fence = \"```\";\n"));
    }
}
