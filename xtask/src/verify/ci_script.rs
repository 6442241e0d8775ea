//! `.ci/run`, with programs in place of cargo and the others that only note how they were called.

use crate::workspace;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A copy of the script in a directory of its own. Removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("sheaf-ci-script-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        for folder in [".ci", "programs"] {
            std::fs::create_dir_all(place.join(folder)).expect("a directory can be made");
        }
        std::fs::copy(workspace::root().join(".ci/run"), place.join(".ci/run")).expect("it is there");
        let scratch = Self(place);
        // None of them installs or builds anything.
        for program in ["cc", "rustc", "rustup", "pkg-config", "apt-get"] {
            scratch.add(program, "exit 0");
        }
        scratch.add("python3", "exit 1");
        scratch
    }

    fn add(&self, name: &str, body: &str) {
        let path = self.0.join("programs").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a file can be written");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it can be made a program");
    }

    /// Runs the script with a cargo that does this.
    fn run(&self, cargo: &str) -> Output {
        self.add("cargo", &format!("echo \"cargo $*\" >> {}\n{cargo}", self.0.join("calls").display()));
        let path = format!("{}:/usr/bin:/bin", self.0.join("programs").display());
        let mut command = Command::new("bash");
        command.arg(self.0.join(".ci/run")).env("PATH", path).env("CARGO_TARGET_DIR", self.0.join("target"));
        command.output().expect("bash can be started")
    }

    fn calls(&self) -> String {
        std::fs::read_to_string(self.0.join("calls")).expect("cargo was called")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn has_bash() -> bool {
    let has_bash = Path::new("/bin/bash").exists() || Path::new("/usr/bin/bash").exists();
    if !has_bash {
        println!("skipped: there is no bash");
    }
    has_bash
}

/// The build in the background has ended before the script does.
#[test]
fn it_is_good_if_all_steps_are() {
    if !has_bash() {
        return;
    }
    let scratch = Scratch::new("good");
    let output = scratch.run("exit 0");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("== parts of .ci/run") && said.contains("s  in all"), "{said}");
    let calls = scratch.calls();
    for call in ["cargo xtask check", "cargo xtask ci --build", "cargo xtask ci --checked"] {
        assert!(calls.lines().any(|line| line == call), "{calls}");
    }
}

#[test]
fn it_fails_with_a_step_and_leaves_no_build_behind() {
    if !has_bash() {
        return;
    }
    for (failing, is_called) in [("xtask check", false), ("xtask ci --checked", true)] {
        let scratch = Scratch::new(if is_called { "ci" } else { "check" });
        let cargo = format!(
            "case \"$*\" in \"{failing}\") exit 3;; *--build) echo $$ > {}; exec sleep 600;; esac",
            scratch.0.join("build").display()
        );
        let begun = Instant::now();
        let output = scratch.run(&cargo);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("== parts of .ci/run"), "{output:?}");
        assert_eq!(scratch.calls().contains("ci --checked"), is_called, "{}", scratch.calls());
        // It may have been killed before it wrote its process id.
        if let Ok(process) = std::fs::read_to_string(scratch.0.join("build")) {
            // It sleeps for ten minutes otherwise.
            while lives(process.trim()) {
                std::thread::sleep(Duration::from_millis(10));
                assert!(begun.elapsed() < Duration::from_mins(5), "the build goes on");
            }
        }
    }
}

/// Returns whether the process lives. One that was killed may still wait to be collected.
fn lives(process: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['S', 'R', 'D']))
}
