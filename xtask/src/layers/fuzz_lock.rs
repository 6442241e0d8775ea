//! The lock file of the fuzz targets, which are a workspace of their own: a build there with `--locked` needs all packages of this
//! workspace that the targets link, with the dependencies that they have here.

use crate::problem::Problem;
use crate::workspace::{self, Packages};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use toml::Value;

/// Path of the lock file in the repository.
const PATH: &str = "fuzz/Cargo.lock";

/// Compares the lock file with the dependencies between the packages of this workspace.
pub(super) fn check(packages: &Packages) -> Result<Vec<Problem>> {
    let text = std::fs::read_to_string(workspace::root().join(PATH)).context(PATH)?;
    let lock: Value = toml::from_str(&text).context(PATH)?;
    Ok(missing(packages, &lock))
}

fn missing(packages: &Packages, lock: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in array(lock, "package") {
        let Some(name) = package.get("name").and_then(Value::as_str) else { continue };
        if !packages.members.contains(name) {
            continue;
        }
        let locked: BTreeSet<&str> =
            array(package, "dependencies").iter().filter_map(Value::as_str).map(without_version).collect();
        let needed = packages.normal.get(name).into_iter().flatten();
        for needed in needed.filter(|needed| packages.members.contains(*needed)) {
            if !locked.contains(needed.as_str()) {
                let text =
                    format!("lacks `{needed}`, which {name} depends on: run `cargo metadata` in fuzz/");
                problems.push(Problem::new(PATH, text));
            }
        }
    }
    problems
}

/// Returns the name of a dependency, which has its version behind it if there are several.
fn without_version(dependency: &str) -> &str {
    dependency.split_once(' ').map_or(dependency, |(name, _)| name)
}

fn array<'a>(table: &'a Value, key: &str) -> &'a [Value] {
    table.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_the_lock_file_lacks_is_named() {
        let mut packages = Packages::default();
        packages.members.extend(["node", "feed", "wire"].map(String::from));
        packages.normal.insert("node".into(), ["feed", "wire", "log"].map(String::from).into());
        let lock = |dependencies: &str| {
            let text = format!("[[package]]\nname = \"node\"\ndependencies = [{dependencies}]");
            toml::from_str(&text).expect("a lock file")
        };
        assert!(missing(&packages, &lock("\"feed\", \"wire 0.1.0\"")).is_empty());
        let problems = missing(&packages, &lock("\"wire\""));
        assert_eq!(problems.len(), 1);
        assert!(format!("{:?}", problems[0]).contains("`feed`"));
    }
}
