//! An archive with a static binary, for any Linux of this processor: unpacked below a prefix, such as `/usr/local`, it is installed.

use super::release::Release;
use super::tree::Tree;
use super::{contents, here, nobody_owns};
use crate::{build, shell, smoke};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let scratch = release.scratch("archive")?;
    let name = format!("sheaf-{}-{}-linux", release.version, release.architecture);
    let sheaf = release.fixed()?;
    let tree = Tree::new(scratch.clone())?;
    tree.program(sheaf, &format!("{name}/bin/sheaf"))?;
    let prefix = format!("{name}/");
    contents::add_manual(&tree, &prefix, sheaf)?;
    contents::add_documents(&tree, &prefix, release, &build::static_platform())?;
    let archive = release.folder.join(format!("{name}.tar"));
    release.tar(&scratch, &archive)?;
    shell::run(Command::new("gzip").args(["--force", "--no-name", "-9"]).arg(&archive))?;
    Ok(release.folder.join(format!("{name}.tar.gz")))
}

/// Unpacks the archive and runs its command as `nobody` in a root that has nothing but the archive, if this process may change its
/// root, and otherwise here.
pub(super) fn check(release: &Release, package: &Path) -> Result<()> {
    let root = release.scratch("archive-root")?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--strip-components=1").arg("--file").arg(package).arg("--directory").arg(&root);
    shell::run(&mut tar)?;
    if !shell::is_root() {
        return smoke::first_command(&|| here(&root.join("bin/sheaf"), &root));
    }
    // The working directory after `chroot` is `/`.
    nobody_owns(&root)?;
    smoke::first_command(&|| {
        let mut command = Command::new("chroot");
        command.arg("--userspec=65534:65534").arg(&root).arg("/bin/sheaf");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    })
}
