//! A test program: cargo's message about it, running it, and the results of its tests.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Number of lines at the beginning and at the end of a long output that are shown.
const FIRST_LINES: usize = 24;
const LAST_LINES: usize = 16;

/// A test program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    executable: PathBuf,
    package: String,
    /// Arguments of `cargo test` that select the program in its package.
    target: Vec<String>,
    /// Folder of the package, in which its tests run.
    folder: PathBuf,
}

/// Result of a test program.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) program: Program,
    pub(super) log: PathBuf,
    pub(super) passed: u64,
    /// The tests that failed.
    pub(super) failed: Vec<Failed>,
    /// End of the program's output, if it failed and names no failed test.
    printed: String,
    seconds: f64,
    result: Result<()>,
}

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) name: String,
    /// Its output; the middle is left out if that is long.
    pub(super) said: String,
}

impl Program {
    /// Returns the program that a message of cargo reports, if the message is about the test build of a target.
    pub(super) fn of_message(message: &Value) -> Option<Self> {
        let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
        if !is_test {
            return None;
        }
        let name = message["target"]["name"].as_str()?.to_owned();
        let target = match message["target"]["kind"][0].as_str()? {
            kind @ ("test" | "bin" | "example" | "bench") => vec![format!("--{kind}"), name],
            _ => vec!["--lib".to_owned()],
        };
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Self {
            executable: PathBuf::from(message["executable"].as_str()?),
            package: package(message["package_id"].as_str()?).to_owned(),
            target,
            folder,
        })
    }

    /// Returns whether the program starts commands of its package, or loads libraries of others, which cargo may build after it.
    pub(super) fn starts_commands(&self) -> bool {
        self.target[0] == "--test" && self.folder.join("src/main.rs").is_file()
    }

    /// Returns the command that runs only this program.
    pub(super) fn again(&self) -> String {
        format!("cargo test --package {} {}", self.package, self.target.join(" "))
    }

    /// Runs the program to its end. Its output goes to a file in `logs`.
    pub(super) fn run(self, logs: &Path, prepare: impl FnOnce(&mut Command)) -> Outcome {
        let began = Instant::now();
        let log = logs.join(self.executable.with_extension("log").file_name().unwrap_or_default());
        let mut command = Command::new(&self.executable);
        // The same environment as under cargo.
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        prepare(&mut command);
        let result = logged(&mut command, &log);
        let printed = std::fs::read(&log).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let (passed, failed) = results(&printed);
        let printed = match result.is_ok() || !failed.is_empty() {
            true => String::new(),
            false => without_middle(&printed),
        };
        Outcome {
            program: self,
            log,
            passed,
            failed,
            printed,
            seconds: began.elapsed().as_secs_f64(),
            result,
        }
    }
}

/// Returns the name in a package's id: `path+file:///sheaf/crates/sheaf-wire#0.1.0`, or `...#name@0.1.0` if the folder's name
/// differs.
fn package(id: &str) -> &str {
    let (path, rest) = id.split_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

/// Runs a command with standard output and standard error in one file.
fn logged(command: &mut Command, log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| log.display().to_string())?;
    let errors = file.try_clone().with_context(|| log.display().to_string())?;
    let mut child = command.stdin(std::process::Stdio::null()).stdout(file).stderr(errors).spawn()?;
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "it ended with {status}");
    Ok(())
}

/// Returns the number of tests that passed, and those that failed with what each printed.
fn results(printed: &str) -> (u64, Vec<Failed>) {
    let mut passed = 0;
    let mut failed = Vec::new();
    let verdicts = printed.lines().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
    for (name, verdict) in verdicts {
        match verdict {
            "ok" => passed += 1,
            "FAILED" => failed.push(Failed { name: name.to_owned(), said: said_by(name, printed) }),
            _ => {}
        }
    }
    (passed, failed)
}

/// Returns what a test that failed has printed: the test harness shows it in a section of its own.
fn said_by(name: &str, printed: &str) -> String {
    let heading = format!("---- {name} stdout ----\n");
    let Some((_, section)) = printed.split_once(&heading) else { return String::new() };
    let ends = ["\n---- ", "\nfailures:\n"].iter().filter_map(|end| section.find(end)).min();
    without_middle(section[..ends.unwrap_or(section.len())].trim())
}

/// Returns a text with the middle of its lines left out, if there are more than a screen shows.
fn without_middle(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let Some(left_out) = lines.len().checked_sub(FIRST_LINES + LAST_LINES).filter(|lines| *lines > 0) else {
        return lines.join("\n");
    };
    let (first, last) = (&lines[..FIRST_LINES], &lines[lines.len() - LAST_LINES..]);
    format!("{}\n[{left_out} lines are left out]\n{}", first.join("\n"), last.join("\n"))
}

impl Outcome {
    pub(super) fn is_good(&self) -> bool {
        self.result.is_ok()
    }

    /// Returns how to run the program again, where its output is, and what each test that failed has printed.
    /// Empty if the program is good.
    pub(super) fn details(&self) -> String {
        if self.is_good() {
            return String::new();
        }
        let log = self.log.strip_prefix(crate::workspace::root()).unwrap_or(&self.log);
        let mut text = format!("  {} (output: {})", self.program.again(), log.display());
        let mut add = |indent: usize, lines: &str| {
            for line in lines.lines() {
                text.push_str(&format!("\n{:indent$}{line}", ""));
            }
        };
        add(4, &self.printed);
        for failed in &self.failed {
            add(4, &failed.name);
            add(8, &failed.said);
        }
        text
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, passed, seconds, .. } = self;
        let what = format!("{} {}", program.package, program.target.join(" "));
        match &self.result {
            Ok(()) => write!(f, "{seconds:>8.1} s  {what}: {passed} passed"),
            Err(error) => {
                let failed = self.failed.len();
                write!(f, "{seconds:>8.1} s  {what}: {failed} FAILED, {passed} passed; {error:#}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_the_command_wait_for_it() {
        let folder = crate::workspace::root().join("crates/sheaf");
        let program = |target: &[&str], folder: &Path| Program {
            executable: PathBuf::new(),
            package: String::new(),
            target: target.iter().map(|word| (*word).to_owned()).collect(),
            folder: folder.to_owned(),
        };
        assert!(program(&["--test", "command"], &folder).starts_commands());
        assert!(!program(&["--bin", "sheaf"], &folder).starts_commands());
        let library = crate::workspace::root().join("crates/sheaf-wire");
        assert!(!program(&["--test", "pages"], &library).starts_commands());
    }
    use serde_json::json;

    fn message(kind: &str, id: &str) -> Value {
        json!({
            "reason": "compiler-artifact", "package_id": id, "manifest_path": "/sheaf/crates/sheaf-wire/Cargo.toml",
            "target": {"kind": [kind], "name": "pages"}, "profile": {"test": true}, "executable": "/t/pages-0123",
        })
    }

    #[test]
    fn test_programs_are_told_from_other_messages_of_cargo() {
        let wire = "path+file:///sheaf/crates/sheaf-wire#0.1.0";
        let program = Program::of_message(&message("test", wire)).expect("it is one");
        assert_eq!(program.again(), "cargo test --package sheaf-wire --test pages");
        assert_eq!(program.folder, Path::new("/sheaf/crates/sheaf-wire"));
        let program = Program::of_message(&message("cdylib", "path+file:///x/rust#energy-sum@0.1.0"));
        assert_eq!(program.expect("it is one").again(), "cargo test --package energy-sum --lib");
        let mut library = message("lib", wire);
        library["profile"]["test"] = false.into();
        assert_eq!(Program::of_message(&library), None);
        assert_eq!(Program::of_message(&json!({"reason": "build-finished", "success": true})), None);
    }

    #[test]
    fn the_result_of_each_test_is_counted() {
        let printed = "\nrunning 4 tests\ntest a ... ok\ntest b::c ... FAILED\ntest d ... ignored\ntest e - should panic ... ok\n";
        let (passed, failed) = results(printed);
        assert_eq!((passed, failed.len(), failed[0].name.as_str()), (2, 1, "b::c"));
    }

    #[test]
    fn what_a_failed_test_printed_is_taken_from_its_section() {
        let printed = "test a ... FAILED\ntest b ... FAILED\n\nfailures:\n\n---- a stdout ----\n\nthread 'a' panicked\n\n\
             ---- b stdout ----\nfirst\nsecond\n\n\nfailures:\n    a\n    b\n";
        let (_, failed) = results(printed);
        assert_eq!(
            (failed[0].said.as_str(), failed[1].said.as_str()),
            ("thread 'a' panicked", "first\nsecond")
        );
    }

    #[test]
    fn the_middle_of_a_long_output_is_left_out() {
        let lines = |count: usize| (0..count).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(without_middle(&lines(40)), lines(40));
        let short = without_middle(&lines(100));
        assert!(short.contains("\n23\n[60 lines are left out]\n84\n") && short.ends_with("\n99"), "{short}");
    }

    #[test]
    fn a_program_that_fails_is_shown_with_its_output_and_how_to_run_it_again() {
        let logs = std::env::temp_dir().join(format!("sheaf-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&logs).expect("temporary files can be made");
        let mut program = Program::of_message(&message("test", "x#sheaf-wire@0.1.0")).expect("it is one");
        program.folder = logs.clone();
        program.executable = PathBuf::from("/bin/sh");
        for (script, is_good) in
            [("echo 'test a ... ok'", true), ("echo 'test a ... FAILED'; echo why; exit 101", false)]
        {
            let outcome = program.clone().run(&logs, |command| _ = command.args(["-c", script]));
            assert_eq!((outcome.is_good(), outcome.passed), (is_good, u64::from(is_good)), "{outcome}");
            assert_eq!(outcome.failed.is_empty(), is_good, "{outcome}");
            assert_eq!(outcome.details().contains("cargo test --package sheaf-wire"), !is_good);
        }
        // A program that aborts names no test: its last lines are all there is.
        let outcome = program.run(&logs, |command| _ = command.args(["-c", "echo why; kill -ABRT $$"]));
        assert!(outcome.details().contains("why"), "{outcome}");
        std::fs::remove_dir_all(logs).expect("it is there");
    }
}
