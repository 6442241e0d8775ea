//! A container image with the static command, by buildah from `packaging/container/Containerfile`.
//!
//! The first stage of that file compiles; here the files that it would make come from this machine, and only the last stage is built.
//! No image is downloaded. The storage of images is a folder of its own.

use super::contents;
use super::release::Release;
use super::tree::Tree;
use crate::{build, shell, smoke, workspace};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const RECIPE: &str = "packaging/container/Containerfile";

/// Users of the image: that of the command, and that of all files.
const USERS: &str = "root:x:0:0:root:/:/usr/bin/sheaf\nnobody:x:65534:65534:nobody:/data:/usr/bin/sheaf\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let name = format!("sheaf-{}-{}.oci.tar", release.version, release.architecture);
    let archive = release.folder.join(name);
    build_image(release, "container", &archive)?;
    Ok(archive)
}

/// Writes the files of the image: `system` for those of root, `own` for those of the user of the command.
pub(super) fn write_files(release: &Release, folder: &Path) -> Result<()> {
    let tree = Tree::new(folder.to_owned())?;
    let sheaf = release.fixed()?;
    tree.program(sheaf, "system/usr/bin/sheaf")?;
    contents::add_documents(&tree, "system/usr/", release, &build::static_platform())?;
    tree.write("system/etc/passwd", USERS)?;
    tree.write("system/etc/group", GROUPS)?;
    tree.folder("own/data")?;
    Ok(())
}

/// Builds the last stage of the recipe and writes the image as an archive of the Open Container Initiative.
fn build_image(release: &Release, name: &str, archive: &Path) -> Result<()> {
    let files = release.scratch(&format!("{name}-files"))?;
    write_files(release, &files)?;
    let nothing = release.scratch(&format!("{name}-context"))?;
    let image = image(release);
    let mut build = buildah(release);
    build.args([
        "build",
        "--quiet",
        "--no-cache",
        "--isolation",
        "chroot",
        "--target",
        "image",
        "--tag",
        &image,
    ]);
    build.arg("--timestamp").arg(release.epoch.to_string());
    // Replaces the stage of this name.
    build.arg("--build-context").arg(format!("files={}", files.display()));
    build.arg("--file").arg(workspace::root().join(RECIPE)).arg(&nothing);
    shell::run(&mut build)?;
    let layout = release.scratch(&format!("{name}-layout"))?;
    let mut push = buildah(release);
    push.args(["push", "--quiet", &image]).arg(format!("oci:{}:{image}", layout.display()));
    shell::run(&mut push)?;
    release.tar(&layout, archive)
}

fn image(release: &Release) -> String {
    format!("sheaf:{}", release.version)
}

/// Returns a call of buildah with a storage of its own, and without the mounts that some sandboxes refuse.
fn buildah(release: &Release) -> Command {
    let storage = release.folder.join("work/images");
    let mut command = Command::new("buildah");
    command.args(["--storage-driver", "vfs", "--root"]).arg(storage.join("root"));
    command.arg("--runroot").arg(storage.join("run"));
    command
}

/// Builds the image again, which must give the same archive, and runs its command in a container as the user of the image.
pub(super) fn check(release: &Release, package: &Path) -> Result<()> {
    let again = release.scratch("container-again")?.join("image.tar");
    build_image(release, "container-again-files", &again)?;
    let same = Command::new("cmp").arg(package).arg(&again).status().context("cannot start cmp")?.success();
    ensure!(same, "{} differs if it is built again: {}", package.display(), again.display());
    if !shell::is_root() {
        println!("left out: running the image, which takes root here; try `podman run`");
        return Ok(());
    }
    let mut from = buildah(release);
    from.args(["from", "--pull-never"]).arg(image(release));
    let container = shell::output(&mut from)?.trim().to_owned();
    let sheaf = || {
        let mut run = buildah(release);
        run.args(["run", "--isolation", "chroot", &container, "--", "/usr/bin/sheaf"]);
        run
    };
    smoke::first_command(&sheaf)?;
    shell::output(buildah(release).args(["rm", &container])).map(drop)
}
