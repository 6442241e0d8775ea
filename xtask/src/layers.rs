//! The direction of dependencies. Compares every package of the workspace with the [`table`], the pure packages with a list of
//! everything they may link, and their sources with names that would circumvent both. Finds cycles between the [`modules`] of each
//! package, and dependencies that the lock file of the fuzz targets lacks.

mod fuzz_lock;
mod house;
mod modules;
mod pure;
mod table;

use crate::problem::{Problem, report};
use crate::rust_source::{code_only, find_word, line_of, without_tests};
use crate::workspace::{self, Packages};
use anyhow::{Context as _, Result};
use pure::{PURE_MAY_LINK, PURE_NEVER_NAMES};
use std::collections::BTreeSet;
use table::{LAYERS, Layer, PURE};

/// `cargo xtask check-layers`.
pub(crate) fn command() -> Result<()> {
    report("check-layers", problems()?)
}

/// Returns all problems of this workspace.
fn problems() -> Result<Vec<Problem>> {
    let packages = Packages::read()?;
    let mut problems = check_direction(&packages);
    problems.extend(check_purity(&packages));
    problems.extend(check_floors(LAYERS));
    problems.extend(fuzz_lock::check(&packages)?);
    problems.extend(house::check()?);
    let mut files = Vec::new();
    for path in workspace::files()?.into_iter().filter(|path| path.ends_with(".rs")) {
        let source = std::fs::read_to_string(workspace::root().join(&path)).context(path.clone())?;
        if is_source_of_pure(&path) {
            problems.extend(check_names(&path, &source));
        }
        files.push((path, source));
    }
    problems.extend(modules::check(&files));
    Ok(problems)
}

/// Writes the diagram and the table of packages. Called by `cargo xtask docs`.
pub(crate) fn draw() -> Result<()> {
    house::write()
}

fn layer_of(package: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.package == package)
}

/// Checks that every package depends only on packages that the table permits, and that every entry of the table exists.
fn check_direction(packages: &Packages) -> Vec<Problem> {
    let mut problems = Vec::new();
    for member in &packages.members {
        let Some(layer) = layer_of(member) else {
            let text =
                "has no entry in xtask/src/layers/table.rs; decide its permitted dependencies and add one";
            problems.push(Problem::new(member, text));
            continue;
        };
        let knows = packages.normal.get(member).cloned().unwrap_or_default();
        for needed in &knows {
            if !layer.may_know.contains(&needed.as_str()) && !layer.may_use.contains(&needed.as_str()) {
                let list = if packages.members.contains(needed) { layer.may_know } else { layer.may_use };
                let text =
                    format!("depends on {needed}; the table allows {} ({})", list.join(", "), layer.reason);
                problems.push(Problem::new(member, text));
            }
        }
        for allowed in layer.may_know.iter().chain(layer.may_use) {
            if !knows.contains(*allowed) {
                let text = format!("does not depend on {allowed}; remove it from the table");
                problems.push(Problem::new(member, text));
            }
        }
        let dev = packages.dev.get(member).into_iter().flatten();
        for needed in dev.filter(|needed| packages.members.contains(*needed)) {
            if !may_test_with(layer, needed) {
                let text = format!("its tests depend on {needed}, which is not below it");
                problems.push(Problem::new(member, text));
            }
        }
    }
    let missing = LAYERS.iter().filter(|layer| !packages.members.contains(layer.package));
    problems
        .extend(missing.map(|layer| Problem::new(layer.package, "is in the table but not in the workspace")));
    problems
}

/// Returns a problem for each package that depends on one of a higher floor.
fn check_floors(layers: &[Layer]) -> Vec<Problem> {
    let floor_of =
        |package: &str| layers.iter().find(|layer| layer.package == package).map(|layer| layer.floor);
    let higher = |layer: &Layer, known: &str| floor_of(known).filter(|floor| *floor > layer.floor);
    let arrows = layers.iter().flat_map(|layer| layer.may_know.iter().map(move |known| (layer, *known)));
    arrows
        .filter_map(|(layer, known)| {
            let floor = higher(layer, known)?.name();
            let text =
                format!("is on the floor \"{}\", but depends on {known} of \"{floor}\"", layer.floor.name());
            Some(Problem::new(layer.package, text))
        })
        .collect()
}

/// Returns whether tests may use a package: one that is earlier in the table, or any if no package depends on theirs.
fn may_test_with(layer: &Layer, needed: &str) -> bool {
    let place = |package: &str| LAYERS.iter().position(|layer| layer.package == package);
    place(needed) < place(layer.package)
}

/// Checks that the pure packages link only packages that are known to do no I/O.
fn check_purity(packages: &Packages) -> Vec<Problem> {
    let allowed: BTreeSet<&str> = PURE_MAY_LINK.iter().chain(PURE).copied().collect();
    let mut problems = Vec::new();
    for package in PURE {
        for linked in packages.linked(package) {
            if !allowed.contains(linked.as_str()) {
                let text = format!(
                    "links {linked}, which is not known to be free of I/O, threads, clocks and randomness; if it is, \
                     add it to PURE_MAY_LINK in xtask/src/layers/pure.rs"
                );
                problems.push(Problem::new(*package, text));
            }
        }
    }
    problems
}

fn is_source_of_pure(path: &str) -> bool {
    let inside = |package: &&str| path.starts_with(&format!("crates/{package}/src/"));
    path.ends_with(".rs")
        && PURE.iter().any(inside)
        && !path.ends_with("/tests.rs")
        && !path.contains("/tests/")
}

/// Checks that a source file of a pure package uses no name that gives access to the outside world.
fn check_names(path: &str, source: &str) -> Vec<Problem> {
    let code = without_tests(&code_only(source));
    // Grouped imports hide names from a plain search, so `use` trees are expanded first.
    let (spelt_out, lines) = spell_out_imports(&code);
    let mut problems = Vec::new();
    for (name, why) in PURE_NEVER_NAMES {
        let in_code = find_word(&code, name).into_iter().map(|at| line_of(&code, at));
        let in_imports = find_word(&spelt_out, name).into_iter().map(|at| lines[line_of(&spelt_out, at) - 1]);
        let at: BTreeSet<usize> = in_code.chain(in_imports).collect();
        problems.extend(
            at.into_iter().map(|line| Problem::at_line(path, line, format!("names `{name}`: {why}"))),
        );
    }
    problems
}

/// Returns the imports with one full path per line, and the line on which each `use` begins.
fn spell_out_imports(code: &str) -> (String, Vec<usize>) {
    let (mut paths, mut lines) = (String::new(), Vec::new());
    for begin in find_word(code, "use") {
        let tree = &code[begin + "use".len()..];
        let tree: String = tree[..tree.find(';').unwrap_or(0)].split_whitespace().collect();
        let mut found = Vec::new();
        spell_out("", &tree, &mut found);
        for path in found {
            paths.push_str(&path);
            paths.push('\n');
            lines.push(line_of(code, begin));
        }
    }
    (paths, lines)
}

fn spell_out(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        found.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                spell_out(&prefix, &inner[begin..at], found);
                begin = at + 1;
            }
            _ => {}
        }
    }
    spell_out(&prefix, &inner[begin..], found);
}

#[cfg(test)]
mod tests;
