//! The packages of the workspace as `cargo metadata` tells them, and the files of the repository.

pub(crate) use crate::root::root;

use crate::shell;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// All packages that take part in a build, by name, with what each needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packages {
    /// The packages of this workspace.
    pub(crate) members: BTreeSet<String>,
    /// For each package: what its library or binary links (normal dependencies).
    pub(crate) normal: BTreeMap<String, BTreeSet<String>>,
    /// For each package: what its tests and benchmarks need beside that.
    pub(crate) dev: BTreeMap<String, BTreeSet<String>>,
    /// Packages that run inside the compiler and are not linked.
    pub(crate) proc_macros: BTreeSet<String>,
}

impl Packages {
    /// Reads the workspace from `cargo metadata`.
    pub(crate) fn read() -> Result<Self> {
        // For this platform only: else cargo downloads the packages that only other platforms link.
        let platform = host()?;
        // With all features: what an optional part depends on is allowed or not like everything else.
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
            // Two versions of one package are one entry: what either needs, both need.
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

/// The platform that is compiled for, as rustc calls it.
fn host() -> Result<String> {
    let version = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV does not name its host")?.to_owned())
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("a text is missing")?.to_owned())
}

/// Returns the `cargo metadata` of the workspace alone.
fn own_metadata() -> Result<Value> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    Ok(serde_json::from_str(&shell::output(&mut shell::cargo(&arguments))?)?)
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(PathBuf::from(text(&own_metadata()?["target_directory"])?))
}

/// The benchmarks inside the crates: package and name of each.
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

/// The files of the repository that are committed or could be, as paths from its root.
pub(crate) fn files() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root());
    let listed = shell::output(&mut git).context("the list of files comes from git")?;
    let there = |path: &&str| !path.is_empty() && root().join(path).is_file();
    Ok(listed.split('\0').filter(there).map(str::to_owned).collect())
}

/// The commit that is checked out, with `-dirty` where files differ from it; `None` where git does not know.
pub(crate) fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]).current_dir(root());
    shell::output(&mut git).ok().map(|text| text.trim().to_owned())
}
