//! The files of a package, with modes that do not depend on the user's settings.

use anyhow::{Context as _, Result};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Mode of a file that anybody may read.
const FILE: u32 = 0o644;

/// Mode of a program, and of a folder.
const PROGRAM: u32 = 0o755;

/// A folder with the files of a package.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Returns a tree in this folder, which exists.
    pub(super) fn new(root: PathBuf) -> Result<Self> {
        set_mode(&root, PROGRAM)?;
        Ok(Self { root })
    }

    /// Creates a folder and returns its path.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let mut path = self.root.clone();
        for part in Path::new(name).components() {
            path.push(part);
            if !path.is_dir() {
                std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
                set_mode(&path, PROGRAM)?;
            }
        }
        Ok(path)
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<()> {
        let path = self.place(name)?;
        std::fs::write(&path, contents).with_context(|| path.display().to_string())?;
        set_mode(&path, FILE)
    }

    /// Copies a file.
    pub(super) fn copy(&self, from: &Path, name: &str) -> Result<()> {
        self.copied(from, name, FILE)
    }

    /// Copies a program.
    pub(super) fn program(&self, from: &Path, name: &str) -> Result<()> {
        self.copied(from, name, PROGRAM)
    }

    fn copied(&self, from: &Path, name: &str, mode: u32) -> Result<()> {
        let path = self.place(name)?;
        std::fs::copy(from, &path).with_context(|| format!("{} to {}", from.display(), path.display()))?;
        set_mode(&path, mode)
    }

    fn place(&self, name: &str) -> Result<PathBuf> {
        let path = Path::new(name);
        let folder = path.parent().unwrap_or(path).to_str().context("names of files are ASCII")?;
        self.folder(folder)?;
        Ok(self.root.join(path))
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).with_context(|| path.display().to_string())
}
