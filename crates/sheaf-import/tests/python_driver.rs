//! Failures of the driver of the Python importers: each cause has its own error, with its remedy. The interpreters here
//! are small shell scripts, so that nothing has to be installed.

#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

use sheaf_import::{Format, ImportError, ImportOptions, import};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Serialises the tests: a process that another test starts while a script is being written inherits the open file, and starting the
/// script then fails with "text file busy".
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the import with `script` as the interpreter.
fn import_with(script: &str) -> ImportError {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    run(&python, folder.path())
}

fn run(python: &Path, folder: &Path) -> ImportError {
    let options =
        ImportOptions { python: Some(python.to_owned()), progress: |_| {}, ..ImportOptions::default() };
    let out = folder.join("out");
    let error = import(Format::Km3net, &[PathBuf::from("run.root")], &out, &options).unwrap_err();
    assert!(!out.exists());
    error
}

#[test]
fn without_an_interpreter_the_error_says_how_to_name_one() {
    let folder = tempfile::tempdir().unwrap();
    let error = run(&folder.path().join("no-such-python"), folder.path());
    assert!(matches!(error, ImportError::NoPython { .. }), "{error}");
    assert!(error.to_string().contains("SHEAF_PYTHON"), "{error}");
}

#[test]
fn a_missing_package_comes_with_its_command() {
    let error = import_with(
        r#"echo '{"error": {"kind": "missing_package", "message": "no km3io", "remedy": "pip install km3io"}}'; exit 3"#,
    );
    assert!(
        matches!(&error, ImportError::MissingPackage { remedy, .. } if remedy == "pip install km3io"),
        "{error}"
    );
}

#[test]
fn noise_before_the_answer_does_no_harm() {
    let error = import_with(
        r#"echo noise; echo '{"error": {"kind": "input", "message": "bad file", "remedy": null}}'"#,
    );
    assert!(matches!(&error, ImportError::Input { message } if message == "bad file"), "{error}");
}

#[test]
fn an_importer_that_dies_silently_is_quoted() {
    let error = import_with("echo one >&2; echo two >&2; kill -KILL $$");
    assert!(matches!(error, ImportError::PythonFailed { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("signal: 9") && text.contains("one; two"), "{text}");
}

#[test]
fn a_report_from_an_importer_that_failed_is_not_believed() {
    let report = r#"{"report": {"format": "km3net", "output": "out", "run": 1, "sources": 1, "events": 1,
        "events_incomplete": 0, "fragments": 1, "fragments_repeated": 0, "bytes": 1, "missing": []}}"#;
    let error = import_with(&format!("echo '{}'; exit 1", report.replace('\n', "")));
    assert!(matches!(error, ImportError::PythonFailed { .. }), "{error}");
}

#[test]
fn an_interrupted_importer_is_called_so() {
    let error = import_with("exit 130");
    assert!(matches!(error, ImportError::Interrupted), "{error}");
}
