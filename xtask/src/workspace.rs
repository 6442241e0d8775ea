//! The packages of the workspace according to `cargo metadata`, and the files of the repository.

pub(crate) use crate::root::root;

use crate::shell;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// All packages that take part in a build, by name, with their dependencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packages {
    /// The packages of this workspace.
    pub(crate) members: BTreeSet<String>,
    /// For each package: dependencies that its library or binary links (normal dependencies).
    pub(crate) normal: BTreeMap<String, BTreeSet<String>>,
    /// For each package: additional dependencies of its tests and benchmarks.
    pub(crate) dev: BTreeMap<String, BTreeSet<String>>,
    /// Packages that run inside the compiler and are not linked.
    pub(crate) proc_macros: BTreeSet<String>,
}

impl Packages {
    /// Reads the workspace from `cargo metadata`.
    pub(crate) fn read() -> Result<Self> {
        // For this platform only: otherwise cargo downloads packages that only other platforms link.
        let platform = host()?;
        // With all features: the rules apply to the dependencies of optional parts, too.
        let arguments =
            ["metadata", "--all-features", "--format-version", "1", "--filter-platform", &platform];
        let json = shell::output(&mut shell::cargo(&arguments))?;
        Self::parse(&json).context("`cargo metadata` printed something unexpected")
    }

    fn parse(json: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(json)?;
        let mut names = BTreeMap::new();
        let mut packages = Self::default();
        for package in array(&metadata["packages"]) {
            let name = text(&package["name"])?;
            names.insert(text(&package["id"])?, name.clone());
            let mut kinds = array(&package["targets"]).flat_map(|target| array(&target["kind"]));
            if kinds.any(|kind| kind == "proc-macro") {
                packages.proc_macros.insert(name);
            }
        }
        let name_of = |id: &Value| -> Result<String> {
            let id = text(id)?;
            names.get(&id).cloned().with_context(|| format!("no package has the id {id}"))
        };
        for member in array(&metadata["workspace_members"]) {
            packages.members.insert(name_of(member)?);
        }
        for node in array(&metadata["resolve"]["nodes"]) {
            let name = name_of(&node["id"])?;
            // Two versions of one package share an entry, with the dependencies of both.
            let normal = packages.normal.entry(name.clone()).or_default();
            let dev = packages.dev.entry(name).or_default();
            for dependency in array(&node["deps"]) {
                let needed = name_of(&dependency["pkg"])?;
                for kind in array(&dependency["dep_kinds"]) {
                    match kind["kind"].as_str() {
                        None => normal.insert(needed.clone()),
                        Some("dev") => dev.insert(needed.clone()),
                        Some(_) => false,
                    };
                }
            }
        }
        Ok(packages)
    }

    /// Returns the packages that `package` links, directly or through others, without itself.
    pub(crate) fn linked(&self, package: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![package];
        while let Some(package) = open.pop() {
            for needed in self.normal.get(package).into_iter().flatten() {
                if !self.proc_macros.contains(needed) && found.insert(needed.clone()) {
                    open.push(needed);
                }
            }
        }
        found
    }
}

/// Returns the platform of this machine in rustc's notation.
pub(crate) fn host() -> Result<String> {
    let version = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV does not name its host")?.to_owned())
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("a string is missing")?.to_owned())
}

/// Returns the `cargo metadata` of the workspace without its dependencies.
fn own_metadata() -> Result<Value> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    Ok(serde_json::from_str(&shell::output(&mut shell::cargo(&arguments))?)?)
}

/// Returns cargo's target directory.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(PathBuf::from(text(&own_metadata()?["target_directory"])?))
}

/// Returns the version of the command.
pub(crate) fn version() -> Result<String> {
    let metadata = own_metadata()?;
    let command = array(&metadata["packages"]).find(|package| package["name"] == "sheaf");
    text(&command.context("there is no package sheaf")?["version"])
}

/// Returns the benchmarks inside the crates: package and name of each.
pub(crate) fn benchmarks() -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for package in array(&own_metadata()?["packages"]) {
        let is_bench = |target: &&Value| array(&target["kind"]).any(|kind| kind == "bench");
        for target in array(&package["targets"]).filter(is_bench) {
            found.push((text(&package["name"])?, text(&target["name"])?));
        }
    }
    Ok(found)
}

/// Returns the files that are tracked by git or could be, as paths from the root of the repository.
pub(crate) fn files() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root());
    let listed = shell::output(&mut git).context("cannot list the files of the repository")?;
    let there = |path: &&str| !path.is_empty() && root().join(path).is_file();
    Ok(listed.split('\0').filter(there).map(str::to_owned).collect())
}

/// Returns the checked-out commit, with `-dirty` if files differ from it; `None` if git cannot tell.
pub(crate) fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]).current_dir(root());
    shell::output(&mut git).ok().map(|text| text.trim().to_owned())
}
