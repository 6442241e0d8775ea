//! The bill of materials: every package that the command links, with version, licence and checksum, in the format CycloneDX.

use super::release::Release;
use crate::{shell, workspace};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A package as `cargo tree` prints it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    name: String,
    version: String,
    licence: String,
}

impl Part {
    /// Reads `name vVERSION (...)` and a licence.
    fn parse(package: &str, licence: &str) -> Option<Self> {
        let mut words = package.split_whitespace();
        let name = words.next()?.to_owned();
        let version = words.next()?.strip_prefix('v')?.to_owned();
        Some(Self { name, version, licence: licence.to_owned() })
    }

    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    fn component(&self, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
        let reference = self.reference();
        let mut component = json!({
            "type": kind,
            "bom-ref": reference,
            "name": self.name,
            "version": self.version,
            "purl": reference,
        });
        if !self.licence.is_empty() {
            // Old packages separate alternatives by a slash.
            component["licenses"] = json!([{"expression": self.licence.replace('/', " OR ")}]);
        }
        if let Some(sum) = checksums.get(&(self.name.clone(), self.version.clone())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        component
    }
}

/// Parts, and which other parts each of them links.
#[derive(Debug, Default)]
struct Graph {
    root: Option<Part>,
    links: BTreeMap<Part, BTreeSet<String>>,
}

impl Graph {
    /// Reads the output of `cargo tree --prefix depth`, in which the parts that one links are behind it, a level deeper. What a part
    /// links is shown once.
    fn parse(tree: &str) -> Result<Self> {
        let mut graph = Self::default();
        let mut path: Vec<Part> = Vec::new();
        for line in tree.lines().filter(|line| !line.is_empty()) {
            let mut fields = line.split('|');
            let mut next = || fields.next().with_context(|| format!("`cargo tree` printed {line:?}"));
            let depth: usize = next()?.parse().with_context(|| line.to_owned())?;
            let part = Part::parse(next()?, next()?).with_context(|| line.to_owned())?;
            path.truncate(depth);
            match path.last().and_then(|parent| graph.links.get_mut(parent)) {
                Some(links) => drop(links.insert(part.reference())),
                None => graph.root = Some(part.clone()),
            }
            graph.links.entry(part.clone()).or_default();
            path.push(part);
        }
        Ok(graph)
    }
}

/// Returns the bill of materials of the command for a platform in rustc's notation.
pub(super) fn of_command(release: &Release, platform: &str) -> Result<String> {
    let arguments = ["tree", "--package", "sheaf", "--edges", "normal,no-proc-macro", "--prefix", "depth"];
    let mut cargo = shell::cargo(&arguments);
    let tree = shell::output(cargo.args(["--format", "|{p}|{l}|", "--target", platform]))?;
    let lock = std::fs::read_to_string(workspace::root().join("Cargo.lock")).context("Cargo.lock")?;
    let rustc = shell::output(Command::new("rustc").arg("--version"))?;
    let rustc = rustc.split_whitespace().nth(1).context("rustc does not tell its version")?;
    let time = release.time("+%Y-%m-%dT%H:%M:%SZ")?;
    bill(&Graph::parse(&tree)?, &checksums(&lock)?, &time, rustc)
}

/// Returns the checksums of packages by name and version, out of `Cargo.lock`.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock")?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no package")?;
    let text = |package: &toml::Value, key| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let sum =
        |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.iter().filter_map(sum).collect())
}

fn bill(
    graph: &Graph,
    checksums: &BTreeMap<(String, String), String>,
    time: &str,
    rustc: &str,
) -> Result<String> {
    let root = graph.root.as_ref().context("`cargo tree` printed nothing")?;
    let parts = graph.links.keys().filter(|part| *part != root);
    let mut components: Vec<_> = parts.map(|part| part.component("library", checksums)).collect();
    components.push(json!({
        "type": "library",
        "bom-ref": "rust-std",
        "name": "rust-std",
        "version": rustc,
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }));
    let mut dependencies: Vec<_> = graph
        .links
        .iter()
        .map(|(part, links)| json!({"ref": part.reference(), "dependsOn": links}))
        .collect();
    dependencies.push(json!({"ref": "rust-std"}));
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": root.component("application", checksums),
        },
        "components": components,
        "dependencies": dependencies,
    });
    let mut text = serde_json::to_string_pretty(&bill)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0|sheaf v0.1.0 (/here/crates/sheaf)|Apache-2.0 OR MIT|
1|anyhow v1.0.104|MIT OR Apache-2.0|
1|clap v4.6.7|MIT/Apache-2.0|
2|strsim v0.11.1|MIT|
1|sheaf-wire v0.1.0 (/here/crates/sheaf-wire)|Apache-2.0 OR MIT|
2|strsim v0.11.1|MIT|
2|clap v4.6.7|MIT/Apache-2.0| (*)
";

    #[test]
    fn every_part_is_once_in_the_bill_with_what_it_links() {
        let lock = "[[package]]\nname = \"strsim\"\nversion = \"0.11.1\"\nchecksum = \"7da8\"\n";
        let graph = Graph::parse(TREE).expect("it can be read");
        let text = bill(&graph, &checksums(lock).expect("it can be read"), "2026-11-30T00:00:00Z", "1.95.0");
        let bill: Value = serde_json::from_str(&text.expect("it is whole")).expect("it is JSON");
        let names: Vec<_> =
            bill["components"].as_array().into_iter().flatten().map(|part| &part["name"]).collect();
        assert_eq!(names, ["anyhow", "clap", "sheaf-wire", "strsim", "rust-std"]);
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][3]["hashes"][0]["content"], "7da8");
        assert_eq!(bill["metadata"]["component"]["bom-ref"], "pkg:cargo/sheaf@0.1.0");
        let links = |name: &str| {
            let all = bill["dependencies"].as_array().into_iter().flatten();
            let mut of_it = all.filter(|entry| entry["ref"] == format!("pkg:cargo/{name}"));
            of_it.next().expect("it is there")["dependsOn"].clone()
        };
        assert_eq!(links("clap@4.6.7"), json!(["pkg:cargo/strsim@0.11.1"]));
        assert_eq!(links("sheaf-wire@0.1.0"), json!(["pkg:cargo/clap@4.6.7", "pkg:cargo/strsim@0.11.1"]));
        assert!(!bill.to_string().contains("/here"));
    }
}
