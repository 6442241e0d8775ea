//! Traces of one machine that do not belong in a repository: its paths and its package registries.

use crate::problem::Problem;
use crate::workspace;
use std::path::Path;

/// The only registry that a Cargo.lock may name.
const PUBLIC_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Settings of package registries, which belong in a machine's own configuration. Split in halves, so that this file does not
/// match itself.
const REGISTRY_SETTINGS: &[&str] = &[
    concat!("sparse", "+http"),
    concat!("index", "-url"),
    concat!("--find", "-links"),
    concat!("[source.", "crates-io]"),
];

/// Folders that are too general to identify a machine.
const GENERAL: &[&str] =
    &["/", "/home", "/tmp", "/usr", "/usr/local", "/opt", "/var", "/srv", "/mnt", "/data"];

/// Paths that occur only on this machine.
#[derive(Debug)]
pub(super) struct Traces {
    paths: Vec<String>,
}

impl Traces {
    /// Returns the paths of this checkout, this user and this build.
    pub(super) fn of_this_machine() -> Self {
        let variables = ["HOME", "CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_HOME"];
        let folders = variables.iter().filter_map(std::env::var_os).map(Into::into);
        Self::of(workspace::root(), folders.collect())
    }

    /// Returns the traces of a checkout at `root` and of these folders.
    pub(super) fn of(root: &Path, mut folders: Vec<std::path::PathBuf>) -> Self {
        folders.push(root.to_owned());
        folders.extend(root.parent().map(Path::to_owned));
        folders.retain(|folder| {
            folder.is_absolute() && !GENERAL.iter().any(|general| folder == Path::new(general))
        });
        let mut paths: Vec<String> = folders.iter().map(|folder| format!("{}/", folder.display())).collect();
        paths.push(concat!("/tmp/", "target").to_owned());
        Self { paths }
    }

    pub(super) fn check(&self, path: &str, text: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, line) in text.lines().enumerate() {
            for trace in &self.paths {
                if is_path_in(line, trace) {
                    let text = format!("has the path {trace} of this machine: use a relative path");
                    problems.push(Problem::at_line(path, index + 1, text));
                }
            }
            let registry = REGISTRY_SETTINGS.iter().any(|setting| line.contains(setting))
                || (path.ends_with("Cargo.lock")
                    && line.starts_with("source")
                    && !line.contains(PUBLIC_REGISTRY));
            if registry {
                problems.push(Problem::at_line(
                    path,
                    index + 1,
                    "names a package registry; move that to the machine's own configuration",
                ));
            }
        }
        problems
    }
}

/// Returns whether the line contains this path, and not only as the end of a longer one.
fn is_path_in(line: &str, path: &str) -> bool {
    let part_of_longer = |at: usize| {
        line[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}'))
    };
    line.match_indices(path).any(|(at, _)| !part_of_longer(at))
}
