//! The planted bugs: textual patches in `xtask/mutants/*.toml`.

use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// Folder of the patches, from the root of the repository.
pub(super) const FOLDER: &str = "xtask/mutants";

/// One planted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// Name on the command line.
    pub(super) name: String,
    /// File that contains the bug, from the root of the repository.
    pub(super) file: String,
    /// Description of the bug in one sentence.
    pub(super) bug: String,
    /// Text that occurs exactly once in the file.
    pub(super) find: String,
    /// Text that replaces it.
    pub(super) replace: String,
}

impl Mutant {
    /// Returns the position of the bug in the file's text.
    pub(super) fn place(&self, text: &str) -> Result<Range<usize>> {
        let places: Vec<_> = text.match_indices(&self.find).map(|(at, found)| at..at + found.len()).collect();
        match places.as_slice() {
            [place] => Ok(place.clone()),
            others => {
                let count = others.len();
                bail!("{}: `find` must occur once in {}, but occurs {count} times", self.name, self.file)
            }
        }
    }
}

/// Returns all planted bugs of a checkout, file by file in the order of their names.
pub(super) fn read(root: &Path) -> Result<Vec<Mutant>> {
    let folder = root.join(FOLDER);
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut mutants = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        mutants.extend(parse(&text).with_context(|| path.display().to_string())?);
    }
    let mut names = BTreeSet::new();
    for Mutant { name, .. } in &mutants {
        ensure!(names.insert(name), "two planted bugs have the name {name}");
    }
    Ok(mutants)
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let table: toml::Table = text.parse()?;
    let mutants = table.get("mutant").and_then(toml::Value::as_array);
    mutants.context("there is no [[mutant]]")?.iter().map(mutant).collect()
}

fn mutant(value: &toml::Value) -> Result<Mutant> {
    let table = value.as_table().context("a [[mutant]] must be a table")?;
    let known = ["name", "file", "bug", "find", "replace"];
    if let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) {
        bail!("unknown key {unknown} of a [[mutant]]; the keys are {}", known.join(", "));
    }
    let text = |key: &str| {
        let value = table.get(key).and_then(toml::Value::as_str);
        value.map(str::to_owned).with_context(|| format!("a [[mutant]] has no string `{key}`"))
    };
    let (name, file, bug, find, replace) =
        (text("name")?, text("file")?, text("bug")?, text("find")?, text("replace")?);
    ensure!(!find.is_empty() && find != replace, "{name}: `replace` changes nothing");
    Ok(Mutant { name, file, bug, find, replace })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_there_twice_is_no_place() {
        let text = "[[mutant]]\nname = \"n\"\nfile = \"f\"\nbug = \"b\"\nfind = \"x\"\nreplace = \"y\"\n";
        let mutants = parse(text).expect("it is right");
        assert_eq!(mutants[0].place("a x b").expect("it is there once"), 2..3);
        let refused = |text| mutants[0].place(text).expect_err("it is not there once").to_string();
        assert_eq!(refused("x x"), "n: `find` must occur once in f, but occurs 2 times");
        assert_eq!(refused(""), "n: `find` must occur once in f, but occurs 0 times");
        assert!(parse(&text.replace("bug", "bog")).is_err());
    }
}
