//! The program of the previous release. One that is built is kept in a folder of its own under the target directory.

use crate::{shell, workspace};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The previous release.
#[derive(Debug)]
pub(super) enum Previous {
    /// A program that is there.
    Program(PathBuf),
    /// A revision that is to be built: its name, and its commit.
    Revision { name: String, commit: String },
}

impl Previous {
    /// Returns the release with this name, or the newest tag before this commit, if there is one.
    pub(super) fn find(given: Option<&str>) -> Result<Option<Self>> {
        if let Some(path) = given.map(Path::new).filter(|path| path.is_file()) {
            return Ok(Some(Self::Program(std::path::absolute(path).context("the path of the program")?)));
        }
        let name = match given {
            Some(revision) => revision.to_owned(),
            None => {
                let mut describe = git(&["describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1"]);
                match shell::output(describe.stderr(Stdio::null())) {
                    Ok(tag) => tag.trim().to_owned(),
                    Err(_) => return Ok(None),
                }
            }
        };
        let commit = shell::output(&mut git(&["rev-parse", "--verify", &format!("{name}^{{commit}}")]))
            .with_context(|| format!("{name} is neither a file nor a revision"))?;
        Ok(Some(Self::Revision { name, commit: commit.trim().to_owned() }))
    }

    /// Returns the name by which it was given.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Program(path) => path.display().to_string(),
            Self::Revision { name, .. } => name.clone(),
        }
    }

    /// Returns its program, which is built first if that has not been done.
    pub(super) fn program(&self) -> Result<PathBuf> {
        let commit = match self {
            Self::Program(path) => return Ok(path.clone()),
            Self::Revision { commit, .. } => commit,
        };
        let folder = workspace::target_directory()?.join("mixed");
        let kept = folder.join(commit).join("sheaf");
        if !kept.is_file() {
            // Each revision has a folder of its own: the times of its files are those of the commit, by which cargo would not notice others.
            let source = folder.join(commit).join("source");
            extract(commit, &source)?;
            let target = folder.join("target");
            let mut cargo = shell::cargo(&["build", "--release", "--package", "sheaf", "--bin", "sheaf"]);
            shell::run(cargo.current_dir(&source).env("CARGO_TARGET_DIR", &target))?;
            let built = target.join("release").join("sheaf");
            std::fs::copy(&built, &kept).with_context(|| built.display().to_string())?;
        }
        Ok(kept)
    }
}

/// Writes the files of a commit into a folder.
fn extract(commit: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut archive = git(&["archive", commit]).stdout(Stdio::piped()).spawn().context("cannot start git")?;
    let files = archive.stdout.take().context("standard output is a pipe")?;
    let mut tar = Command::new("tar");
    shell::run(tar.arg("-x").arg("-C").arg(folder).stdin(files))?;
    let status = archive.wait().context("git does not end")?;
    ensure!(status.success(), "`git archive {commit}` ended with {status}");
    Ok(())
}

fn git(arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(workspace::root());
    git
}
