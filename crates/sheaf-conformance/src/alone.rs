//! Tests that change their whole process, such as its limits, each in a process of its own.

#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test; one that skips says why")]

use std::process::Command;

/// Set in the process that a test has to itself.
const ALONE: &str = "SHEAF_TEST_ALONE";

/// Calls `body` in a process that runs the test `name` and no other: this program again. `name` includes the module.
pub fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut program = Command::new(std::env::current_exe().unwrap());
    let output = program.args(["--exact", name, "--nocapture"]).env(ALONE, "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("1 passed"), "no test has the name {name}: {said}");
}
