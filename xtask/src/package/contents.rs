//! Files that every package has besides the command.

use super::bill;
use super::release::Release;
use super::tree::Tree;
use crate::{shell, workspace};
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

/// Shells whose completions are installed: the shell, the folder below `share`, and the name of the file there.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "bash-completion/completions", "sheaf"),
    ("zsh", "zsh/site-functions", "_sheaf"),
    ("fish", "fish/vendor_completions.d", "sheaf.fish"),
];

/// Configurations that need nothing beside them.
const EXAMPLES: [&str; 4] = ["cluster.toml", "free-running.toml", "laptop.toml", "merger.toml"];

/// Folder of documents.
pub(super) const DOCUMENTS: &str = "share/doc/sheaf";

/// Puts man pages and completions below `prefix`, such as `usr/`. `sheaf` must run on this machine.
pub(super) fn add_manual(tree: &Tree, prefix: &str, sheaf: &Path) -> Result<()> {
    let pages = tree.folder(&format!("{prefix}share/man/man1"))?;
    shell::run(Command::new(sheaf).arg("manual").arg(&pages))?;
    for (shell, folder, file) in SHELLS {
        let script = shell::output(Command::new(sheaf).args(["completions", shell]))?;
        tree.write(&format!("{prefix}share/{folder}/{file}"), script)?;
    }
    Ok(())
}

/// Puts licences, examples and the bill of materials below `prefix`.
pub(super) fn add_documents(tree: &Tree, prefix: &str, release: &Release, platform: &str) -> Result<()> {
    let root = workspace::root();
    for file in ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        tree.copy(&root.join(file), &format!("{prefix}{DOCUMENTS}/{file}"))?;
    }
    for file in EXAMPLES {
        tree.copy(&root.join("examples").join(file), &format!("{prefix}{DOCUMENTS}/examples/{file}"))?;
    }
    let bill = bill::of_command(release, platform).context("cannot make the bill of materials")?;
    tree.write(&format!("{prefix}{DOCUMENTS}/sheaf.cdx.json"), bill)
}
