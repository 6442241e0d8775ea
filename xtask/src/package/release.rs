//! Version, time and place of the packages of one build.

use crate::build::{self, Profile};
use crate::{shell, workspace};
use anyhow::{Context as _, Result, ensure};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with the time of all files in packages, in seconds since 1970 (reproducible-builds.org).
pub(super) const EPOCH_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// The build that is packaged.
#[derive(Debug)]
pub(super) struct Release {
    /// Version of the command.
    pub(super) version: String,
    /// Time of all files, in seconds since 1970: that of the commit.
    pub(super) epoch: u64,
    /// Processor architecture as in names of platforms.
    pub(super) architecture: &'static str,
    /// Folder of the packages.
    pub(super) folder: PathBuf,
    profile: Profile,
    has_dev_library: bool,
    dynamic: OnceCell<PathBuf>,
    fixed: OnceCell<PathBuf>,
}

impl Release {
    pub(super) fn new(profile: Profile, has_dev_library: bool) -> Result<Self> {
        let epoch = match std::env::var(EPOCH_VARIABLE) {
            Ok(text) => text,
            Err(_) => {
                let mut git = Command::new("git");
                shell::output(git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root()))
                    .with_context(|| {
                        format!("git does not tell the time of the commit; set {EPOCH_VARIABLE}")
                    })?
            }
        };
        let epoch =
            epoch.trim().parse().with_context(|| format!("{EPOCH_VARIABLE} must be a number of seconds"))?;
        let folder = workspace::target_directory()?.join("packages");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let (dynamic, fixed) = (OnceCell::new(), OnceCell::new());
        let architecture = std::env::consts::ARCH;
        Ok(Self {
            version: workspace::version()?,
            epoch,
            architecture,
            folder,
            profile,
            has_dev_library,
            dynamic,
            fixed,
        })
    }

    /// Returns the time of all files in UTC, in a format of `date`.
    pub(super) fn time(&self, format: &str) -> Result<String> {
        let mut date = Command::new("date");
        date.args(["--utc", format]).arg(format!("--date=@{}", self.epoch));
        Ok(shell::output(&mut date)?.trim().to_owned())
    }

    /// Returns the name of the profile of the Python package's library.
    pub(super) fn library_profile(&self) -> &'static str {
        if self.has_dev_library { "dev" } else { self.profile.name() }
    }

    /// Returns the architecture as Debian calls it.
    pub(super) fn debian_architecture(&self) -> &'static str {
        match self.architecture {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }

    /// Returns the command that needs the C library of its system, without symbols.
    pub(super) fn dynamic(&self) -> Result<&Path> {
        self.stripped(&self.dynamic, "dynamic", || build::sheaf(self.profile))
    }

    /// Returns the command that needs no library, without symbols.
    pub(super) fn fixed(&self) -> Result<&Path> {
        self.stripped(&self.fixed, "static", || build::static_sheaf(self.profile))
    }

    fn stripped<'a>(
        &self,
        cell: &'a OnceCell<PathBuf>,
        name: &str,
        build: impl FnOnce() -> Result<PathBuf>,
    ) -> Result<&'a Path> {
        if cell.get().is_none() {
            let built = build()?;
            let stripped = self.scratch(name)?.join("sheaf");
            shell::run(Command::new("strip").arg("-o").arg(&stripped).arg(built))?;
            let _ = cell.set(stripped);
        }
        cell.get().map(PathBuf::as_path).context("the command was built")
    }

    /// Returns what this machine lacks to build the static command.
    pub(super) fn lacks_static(&self) -> Option<String> {
        let triple = build::static_platform();
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &triple]);
        let library = shell::output(&mut rustc).unwrap_or_default();
        if !Path::new(library.trim()).is_dir() {
            return Some(format!("Rust has no library for {triple}; `rustup target add {triple}` adds it"));
        }
        super::lacks_program("musl-gcc", "musl-tools")
    }

    /// Returns an empty folder for intermediate files.
    pub(super) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = self.work().join(name);
        remove(&folder)?;
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Removes intermediate files.
    pub(super) fn clean(&self) -> Result<()> {
        remove(&self.work())
    }

    /// Packs a folder as a tar archive that depends only on names, contents and modes of files.
    pub(super) fn tar(&self, folder: &Path, archive: &Path) -> Result<()> {
        let mut tar = Command::new("tar");
        tar.args([
            "--create",
            "--format=posix",
            "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
        ]);
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", self.epoch)).arg("--file").arg(archive);
        let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
        names.sort();
        tar.arg("--directory").arg(folder).args(names).env("LC_ALL", "C");
        shell::run(&mut tar)
    }

    /// Writes the checksums of the packages and prints them with their sizes.
    pub(super) fn list(&self, packages: &[PathBuf]) -> Result<()> {
        ensure!(!packages.is_empty(), "no package was made");
        let names = packages.iter().filter_map(|package| package.file_name());
        let sums = shell::output(Command::new("sha256sum").args(names).current_dir(&self.folder))?;
        let file = self.folder.join("SHA256SUMS");
        std::fs::write(&file, &sums).with_context(|| file.display().to_string())?;
        println!("\npackages of sheaf {} in {}:", self.version, self.folder.display());
        for (package, line) in packages.iter().zip(sums.lines()) {
            let bytes = std::fs::metadata(package).with_context(|| package.display().to_string())?.len();
            println!("{:>8.1} MB  {line}", bytes as f64 / 1e6);
        }
        Ok(())
    }
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}
