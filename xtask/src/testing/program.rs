//! A test program: cargo's message about it, running it, and the results of its tests.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

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
    /// Names of the tests that failed.
    pub(super) failed: Vec<String>,
    /// Output of the program, if it failed.
    printed: String,
    seconds: f64,
    result: Result<()>,
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
        let printed = if result.is_ok() { String::new() } else { printed };
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

/// Returns the number of tests that passed, and the names of those that failed.
fn results(printed: &str) -> (u64, Vec<String>) {
    let mut passed = 0;
    let mut failed = Vec::new();
    let verdicts = printed.lines().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
    for (name, verdict) in verdicts {
        match verdict {
            "ok" => passed += 1,
            "FAILED" => failed.push(name.to_owned()),
            _ => {}
        }
    }
    (passed, failed)
}

impl Outcome {
    pub(super) fn is_good(&self) -> bool {
        self.result.is_ok()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, passed, seconds, .. } = self;
        let what = format!("{} {}", program.package, program.target.join(" "));
        match &self.result {
            Ok(()) => write!(f, "{seconds:>8.1} s  {what}: {passed} passed"),
            Err(error) => write!(
                f,
                "{}\n{seconds:>8.1} s  {what}: {} FAILED, {passed} passed; {error:#}",
                self.printed,
                self.failed.len()
            ),
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
        assert_eq!(results(printed), (2, vec!["b::c".to_owned()]));
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
            assert_eq!(outcome.to_string().contains("why"), !is_good, "{outcome}");
        }
        std::fs::remove_dir_all(logs).expect("it is there");
    }
}
