//! Runs tests that change their whole process, such as its limits, in separate processes.

#![allow(clippy::unwrap_used, reason = "a failing helper fails its test; a skipped one prints the reason")]

use std::process::Command;

/// Environment variable that is set in the separate process of a test.
const ALONE: &str = "SHEAF_TEST_ALONE";

/// Runs this program again with only the test `name`, and calls `body` there. `name` includes the module.
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
