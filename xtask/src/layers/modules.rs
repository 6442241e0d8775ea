//! The direction of dependencies inside a package: modules with the same parent must not depend on each other in a cycle.
//!
//! A parent and its children may use each other: together they are one idea, and the children are its parts. Modules with the same
//! parent are separate ideas, and a reader can learn them one after the other only if their dependencies go one way. Uses are read
//! from the source text without tests. A re-exported name counts for the module that defines it.

use crate::problem::Problem;
use crate::rust_source::{code_only, without_tests};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Packages with their number of known cycles, which may only decrease.
const KNOWN_CYCLES: [(&str, usize); 0] = [];

/// The path of a module in its package: empty for the root.
type ModulePath = Vec<String>;

/// The modules of one package, and the names that each uses of the others.
struct Package {
    modules: BTreeMap<ModulePath, String>,
    /// Module and name that each re-exported name refers to.
    exports: BTreeMap<(ModulePath, String), (ModulePath, String)>,
}

/// Returns a problem for each cycle of modules in the packages of these files, which are given as path and text.
pub(super) fn check(files: &[(String, String)]) -> Vec<Problem> {
    let mut packages: BTreeMap<&str, BTreeMap<ModulePath, String>> = BTreeMap::new();
    for (path, source) in files {
        if let Some((folder, module)) = module_of(path) {
            packages.entry(folder).or_default().insert(module, without_tests(&code_only(source)));
        }
    }
    packages.into_iter().flat_map(|(folder, modules)| judge(folder, cycles(&Package::new(modules)))).collect()
}

/// Returns the cycles of a package if there are more than known, or a problem if there are fewer.
fn judge(folder: &str, cycles: Vec<String>) -> Vec<Problem> {
    let known = KNOWN_CYCLES.iter().find(|(known, _)| *known == folder).map_or(0, |(_, known)| *known);
    if cycles.len() < known {
        let text = format!("has {} cycles of modules, not {known}: update KNOWN_CYCLES", cycles.len());
        return vec![Problem::new(folder, text)];
    }
    let is_more = cycles.len() > known;
    cycles.into_iter().filter(|_| is_more).map(|text| Problem::new(folder, text)).collect()
}

/// Returns source folder and module of a file; `None` for tests and other files that are not part of a package's own code.
fn module_of(path: &str) -> Option<(&str, ModulePath)> {
    let at = path.find("src/")? + "src".len();
    let (folder, inner) = (&path[..at], path[at + 1..].strip_suffix(".rs")?);
    let mut module: ModulePath = inner.split('/').map(str::to_owned).collect();
    if module.iter().any(|part| part == "tests" || part == "bin") {
        return None;
    }
    if matches!(inner, "lib" | "main") || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    Some((folder, module))
}

impl Package {
    fn new(modules: BTreeMap<ModulePath, String>) -> Self {
        let mut package = Self { modules, exports: BTreeMap::new() };
        let mut exports = BTreeMap::new();
        for (module, code) in &package.modules {
            for path in exported_paths(code) {
                let name = path.last().cloned().unwrap_or_default();
                let origin = package.locate(module, &path).or_else(|| package.locate_child(module, &path));
                if let Some(origin) = origin.filter(|(origin, _)| origin != module) {
                    exports.insert((module.clone(), name), origin);
                }
            }
        }
        package.exports = exports;
        package
    }

    /// Resolves a path to the deepest module and the name that is used of it. `None` for paths of other packages.
    fn locate(&self, from: &ModulePath, path: &[String]) -> Option<(ModulePath, String)> {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (ModulePath::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (from[..from.len().saturating_sub(supers)].to_vec(), &path[supers..]),
            _ => return None,
        };
        Some(self.descend(base, rest))
    }

    /// Does the same as [`locate`](Self::locate) for a path that begins with a child of the module.
    fn locate_child(&self, from: &ModulePath, path: &[String]) -> Option<(ModulePath, String)> {
        let found = self.descend(from.clone(), path);
        (found.0 != *from).then_some(found)
    }

    fn descend(&self, mut module: ModulePath, path: &[String]) -> (ModulePath, String) {
        let mut rest = path.iter();
        for part in rest.by_ref() {
            module.push(part.clone());
            if !self.modules.contains_key(&module) {
                module.pop();
                return (module, part.clone());
            }
        }
        (module, String::new())
    }

    /// Follows re-exports to the module that defines a name.
    fn origin(&self, mut found: (ModulePath, String)) -> (ModulePath, String) {
        let mut seen = BTreeSet::new();
        while let Some(next) = self.exports.get(&found).filter(|next| seen.insert((*next).clone())) {
            found = next.clone();
        }
        found
    }

    /// Returns every module that a module uses, with the names used.
    fn uses(&self, module: &ModulePath) -> BTreeMap<ModulePath, BTreeSet<String>> {
        let mut uses: BTreeMap<ModulePath, BTreeSet<String>> = BTreeMap::new();
        for path in named_paths(&self.modules[module]) {
            let found = self.locate(module, &path).or_else(|| self.locate_child(module, &path));
            if let Some((used, name)) =
                found.map(|found| self.origin(found)).filter(|(used, _)| used != module)
            {
                uses.entry(used).or_default().insert(name);
            }
        }
        uses
    }
}

/// Dependencies between modules with the same parent: from, to, and the names used.
type Arrows = BTreeMap<ModulePath, BTreeMap<ModulePath, BTreeSet<String>>>;

fn cycles(package: &Package) -> Vec<String> {
    let mut floors: BTreeMap<ModulePath, Arrows> = BTreeMap::new();
    for module in package.modules.keys() {
        for (used, names) in package.uses(module) {
            let shared = module.iter().zip(&used).take_while(|(one, other)| one == other).count();
            // One is an ancestor of the other.
            if shared == module.len() || shared == used.len() {
                continue;
            }
            let arrows = floors.entry(module[..shared].to_vec()).or_default();
            let from = arrows.entry(module[..=shared].to_vec()).or_default();
            from.entry(used[..=shared].to_vec()).or_default().extend(names);
        }
    }
    floors.values().flat_map(cycles_on_floor).collect()
}

/// Returns a text for each set of modules that depend on each other.
fn cycles_on_floor(arrows: &Arrows) -> Vec<String> {
    let reached: BTreeMap<_, _> = arrows.keys().map(|module| (module, reach(arrows, module))).collect();
    let mut told: BTreeSet<&ModulePath> = BTreeSet::new();
    let mut texts = Vec::new();
    for (module, reach) in &reached {
        let cycle: BTreeSet<&ModulePath> = reach
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(module)))
            .collect();
        if cycle.contains(module) && !told.contains(module) {
            texts.push(describe(arrows, &cycle));
            told.extend(cycle);
        }
    }
    texts
}

fn reach<'a>(arrows: &'a Arrows, from: &ModulePath) -> BTreeSet<&'a ModulePath> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for used in arrows.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(used) {
                open.push(used);
            }
        }
    }
    reached
}

fn describe(arrows: &Arrows, cycle: &BTreeSet<&ModulePath>) -> String {
    let mut text = format!(
        "{} modules use each other in a cycle; move their common needs to a module below, so that dependencies go one way:",
        cycle.len()
    );
    for (from, targets) in arrows.iter().filter(|(from, _)| cycle.contains(from)) {
        for (to, names) in targets.iter().filter(|(to, _)| cycle.contains(to)) {
            let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            text += &format!("\n    {} uses {} ({})", from.join("::"), to.join("::"), names.join(", "));
        }
    }
    text
}

/// Returns the paths of `pub use` in full.
fn exported_paths(code: &str) -> Vec<Vec<String>> {
    imports(code).filter(|import| import.is_exported).flat_map(|import| expand(&code[import.tree])).collect()
}

/// Returns all paths in the code: those of `use`, and those with two or more parts in expressions and types.
fn named_paths(code: &str) -> Vec<Vec<String>> {
    let mut paths: Vec<Vec<String>> = Vec::new();
    let mut at = 0;
    for import in imports(code) {
        paths.extend(paths_in(&code[at..import.tree.start]));
        at = import.tree.end;
        if !import.is_exported {
            paths.extend(expand(&code[import.tree]));
        }
    }
    paths.extend(paths_in(&code[at..]));
    paths
}

/// Returns paths of two or more parts in code without imports.
fn paths_in(code: &str) -> impl Iterator<Item = Vec<String>> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let words = code.split(move |character: char| !is_part(character));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with(':'));
    paths.map(|path| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

/// A `use` item.
struct Import {
    is_exported: bool,
    /// Range of the text between `use` and the semicolon.
    tree: Range<usize>,
}

fn imports(code: &str) -> impl Iterator<Item = Import> {
    code.match_indices("use ").filter_map(|(at, word)| {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = code[line..at].trim();
        let start = at + word.len();
        let is_scoped = before.starts_with("pub(") && before.ends_with(')');
        let is_import = before.is_empty() || before == "pub" || is_scoped;
        let length = code[start..].find(';').filter(|_| is_import)?;
        Some(Import { is_exported: !before.is_empty(), tree: start..start + length })
    })
}

/// Returns the paths of a tree such as `a::{b, c::{self, d as e}}`, with their names in the importing module.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((prefix, body)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) else {
        let path = tree.split_once(" as ").map_or(tree, |(path, _)| path);
        let parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
        return vec![parts.into_iter().filter(|part| !part.is_empty()).collect()];
    };
    let (mut depth, mut begin, mut branches) = (0_usize, 0, Vec::new());
    for (at, character) in body.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&body[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&body[begin..]);
    let whole = |branch: &str| match branch.trim() {
        "self" => prefix.trim().trim_end_matches("::").to_owned(),
        branch => format!("{}{branch}", prefix.trim()),
    };
    branches
        .into_iter()
        .filter(|branch| !branch.trim().is_empty())
        .flat_map(|branch| expand(&whole(branch)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> String {
        let files: Vec<_> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        check(&files).into_iter().map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod one; mod two; mod three;"),
            ("crates/a/src/one.rs", "use crate::two::{self, Two};"),
            ("crates/a/src/two.rs", "pub struct Two(crate::three::Three);"),
            ("crates/a/src/three.rs", "pub struct Three; fn back() { super::one::go() }"),
        ];
        let found = found(&files);
        assert!(found.starts_with("crates/a/src: 3 modules use each other in a cycle"), "{found}");
        assert!(found.contains("one uses two (Two)"), "{found}");
        assert!(found.contains("three uses one (go)"), "{found}");
    }

    #[test]
    fn a_re_exported_name_counts_for_the_module_that_defines_it() {
        let files = [
            ("crates/a/src/lib.rs", "mod low; mod high; pub use high::Name;"),
            ("crates/a/src/high.rs", "pub use crate::low::Name; use crate::low::other;"),
            ("crates/a/src/low.rs", "use crate::Name;"),
        ];
        assert_eq!(found(&files), "");
    }

    #[test]
    fn words_that_end_in_use_are_no_imports() {
        let code =
            "pub(super) struct Cause {\n    of: super::two::Two,\n}\npub(crate) use crate::three::Three;\n";
        assert_eq!(
            imports(code).map(|import| &code[import.tree]).collect::<Vec<_>>(),
            ["crate::three::Three"]
        );
        assert_eq!(named_paths(code), [["super", "two", "Two"]]);
    }

    #[test]
    fn parents_children_and_tests_are_no_cycle() {
        let files = [
            ("crates/a/src/lib.rs", "mod one; mod two;"),
            ("crates/a/src/one.rs", "mod part; use crate::two::Two; pub struct One(part::Part);"),
            ("crates/a/src/one/part.rs", "use super::One; pub struct Part;"),
            ("crates/a/src/two.rs", "pub struct Two;\n#[cfg(test)]\nmod tests { use crate::one::One; }\n"),
            ("crates/a/src/two/tests.rs", "use crate::one::One;"),
        ];
        assert_eq!(found(&files), "");
    }
}
