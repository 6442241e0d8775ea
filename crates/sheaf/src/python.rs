//! Functions in Python, as the processes that run them are started.

use std::path::Path;
use std::process::Command;

/// Keeps Python from writing compiled files next to the script, which may be the run's copy.
pub(crate) fn leaving_no_trace(python: &mut Command) -> &mut Command {
    python.env("PYTHONDONTWRITEBYTECODE", "1")
}

/// Returns the name of a function as the Python package expects it: `file.py:name`, or `file.py`.
pub(crate) fn function_name(path: &Path, function: Option<&str>) -> String {
    match function {
        Some(function) => format!("{}:{function}", path.display()),
        None => path.display().to_string(),
    }
}
