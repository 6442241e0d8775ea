//! A copy of the workspace that contains all bugs and has its own target directory.

use super::catalogue::Mutant;
use super::planting::{self, Planted, VOCABULARY};
use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Profile of the swarm: nearly as fast as the release build, with a fraction of its compile time.
const PROFILE: [(&str, &str); 5] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
    ("CARGO_PROFILE_RELEASE_INCREMENTAL", "true"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "64"),
];

/// Compiler errors by the number of the bug.
pub(super) type Refused = BTreeMap<u32, String>;

/// A copy of the workspace.
#[derive(Debug)]
pub(super) struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Creates a copy below `directory`, which may contain an earlier one.
    pub(super) fn new(directory: &Path) -> Self {
        Self { root: directory.join("workspace"), target: directory.join("target") }
    }

    /// Builds the swarm with all of these bugs except those that the compiler rejects.
    pub(super) fn build(&self, mutants: &[(u32, &Mutant)]) -> Result<(PathBuf, Refused)> {
        let mut refused = Refused::new();
        loop {
            let good: Vec<_> =
                mutants.iter().copied().filter(|(number, _)| !refused.contains_key(number)).collect();
            let planted = self.plant(&good)?;
            let Compiled::Refused(said) = self.compile()? else {
                let program = self.target.join("release/sheaf-swarm");
                ensure!(program.is_file(), "cargo did not build {}", program.display());
                return Ok((program, refused));
            };
            let errors = errors(&said, &planted);
            if errors.is_empty() {
                bail!("the copy in {} does not compile:\n{said}", self.root.display());
            }
            refused.extend(errors);
        }
    }

    /// Updates the copy to the current workspace with these bugs. Unchanged files are not written, so that they are not built
    /// again.
    fn plant(&self, mutants: &[(u32, &Mutant)]) -> Result<BTreeMap<String, Planted>> {
        let files: BTreeSet<String> = workspace::files()?.into_iter().collect();
        let mut planted = BTreeMap::new();
        for file in &files {
            let mut bytes = std::fs::read(workspace::root().join(file)).with_context(|| file.clone())?;
            let own: Vec<_> = mutants.iter().copied().filter(|(_, mutant)| mutant.file == *file).collect();
            if !own.is_empty() {
                let text = String::from_utf8(bytes).with_context(|| file.clone())?;
                let with_bugs = planting::plant(package(file), &text, &own)?;
                bytes = with_bugs.text.clone().into_bytes();
                planted.insert(file.clone(), with_bugs);
            }
            if file == VOCABULARY {
                bytes.extend(planting::chooser().bytes());
            }
            self.write(file, &bytes)?;
        }
        self.remove_others(&files)?;
        Ok(planted)
    }

    /// Removes files that are no longer in the workspace.
    fn remove_others(&self, files: &BTreeSet<String>) -> Result<()> {
        let mut open = vec![self.root.clone()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory)?.flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if let Ok(name) = path.strip_prefix(&self.root)
                    && !files.contains(&*name.to_string_lossy())
                {
                    std::fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    fn write(&self, file: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(file);
        if std::fs::read(&path).is_ok_and(|before| before == bytes) {
            return Ok(());
        }
        let folder = path.parent().context("a file is in a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())
    }

    /// Compiles the copy.
    fn compile(&self) -> Result<Compiled> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--release", "--package", "sheaf-swarm"]);
        command.args(["--message-format", "short", "--keep-going"]);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target).envs(PROFILE);
        // A bug often leaves something unused.
        command.env("RUSTFLAGS", "--cap-lints=allow");
        shell::forget_this_package(&mut command);
        let output = command.output().context("cannot start cargo")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if output.status.success() { Compiled::Good } else { Compiled::Refused(said) })
    }
}

/// Result of compiling the copy.
enum Compiled {
    Good,
    /// The output of the compiler, which refuses the code.
    Refused(String),
}

/// Returns the crate that a file belongs to.
pub(super) fn package(file: &str) -> &str {
    file.split('/').nth(1).unwrap_or_default()
}

/// Returns the first error in the body of each bug: `crates/a/src/b.rs:12:5: error[E0308]: mismatched types`.
fn errors(said: &str, planted: &BTreeMap<String, Planted>) -> Refused {
    let mut found = Refused::new();
    for line in said.lines().filter(|line| line.contains(": error")) {
        let mut parts = line.splitn(4, ':');
        let (Some(file), Some(Ok(number)), _, Some(error)) =
            (parts.next(), parts.next().map(str::parse::<usize>), parts.next(), parts.next())
        else {
            continue;
        };
        let lines = planted.get(file).map_or(&[][..], |planted| &planted.lines);
        if let Some((bug, _)) = lines.iter().find(|(_, lines)| lines.contains(&number)) {
            found.entry(*bug).or_insert_with(|| error.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_that_of_the_bug_in_whose_body_it_is() {
        let lines = vec![(3, 10..20), (4, 20..30)];
        let planted = Planted { text: String::new(), lines };
        let planted = BTreeMap::from([("crates/a/src/b.rs".to_owned(), planted)]);
        let said = "crates/a/src/b.rs:20:5: error[E0308]: mismatched types: expected `u8`\n\
                    crates/a/src/b.rs:21:5: error[E0425]: no such thing\n\
                    crates/a/src/b.rs:40:5: error: elsewhere\nerror: could not compile `a`\n";
        let found = errors(said, &planted);
        assert_eq!(found, Refused::from([(4, "error[E0308]: mismatched types: expected `u8`".to_owned())]));
    }
}
