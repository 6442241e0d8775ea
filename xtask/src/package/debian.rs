//! A Debian package, by `dpkg-deb` from a folder of files: the command for the C library of this system, man pages, completions, and
//! units of systemd. It has no scripts: nothing is started or enabled by installing it.

use super::release::{EPOCH_VARIABLE, Release};
use super::tree::Tree;
use super::{contents, here};
use crate::{shell, smoke, workspace};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of what only this package has.
const SOURCES: &str = "packaging/debian";

/// Units of systemd.
const UNITS: [&str; 2] = ["sheaf-agent.service", "sheaf-control.service"];

/// Responsible for the package, if the environment variables of Debian's own tools name nobody.
const MAINTAINER: (&str, &str) = ("The Sheaf developers", "sheaf@localhost.localdomain");

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let scratch = release.scratch("debian")?;
    let sheaf = release.dynamic()?;
    let tree = Tree::new(scratch.clone())?;
    tree.program(sheaf, "usr/bin/sheaf")?;
    contents::add_manual(&tree, "usr/", sheaf)?;
    contents::add_documents(&tree, "usr/", release, &workspace::host()?)?;
    follow_debian(&tree, release)?;
    let kib = kibibytes(&scratch)?;
    tree.write("DEBIAN/control", control(release, &needs(release, sheaf)?, kib))?;
    let package =
        release.folder.join(format!("sheaf_{}_{}.deb", release.version, release.debian_architecture()));
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--build", "--root-owner-group"]).arg(&scratch).arg(&package);
    shell::run(deb.env(EPOCH_VARIABLE, release.epoch.to_string()))?;
    Ok(package)
}

/// Moves, compresses and adds files as Debian's policy has them.
fn follow_debian(tree: &Tree, release: &Release) -> Result<()> {
    let sources = workspace::root().join(SOURCES);
    for unit in UNITS {
        tree.copy(&sources.join(unit), &format!("lib/systemd/system/{unit}"))?;
    }
    let share = tree.folder("usr/share")?;
    std::fs::rename(share.join("zsh/site-functions"), share.join("zsh/vendor-completions"))
        .context("completions of zsh")?;
    let documents = share.join("doc/sheaf");
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        std::fs::remove_file(documents.join(licence)).with_context(|| licence.to_owned())?;
    }
    tree.write("usr/share/doc/sheaf/copyright", copyright()?)?;
    let (name, address) = maintainer();
    let time = release.time("--rfc-email")?;
    let changes = format!(
        "sheaf ({}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- {name} <{address}>  {}\n",
        release.version, time
    );
    tree.write("usr/share/doc/sheaf/changelog", changes)?;
    let mut gzip = Command::new("gzip");
    gzip.args(["--no-name", "-9", "--recursive"]);
    gzip.arg(share.join("man")).arg(documents.join("changelog"));
    shell::run(&mut gzip)
}

/// Returns the file with the licences, of which Debian has the long one elsewhere.
fn copyright() -> Result<String> {
    let read =
        |path: &str| std::fs::read_to_string(workspace::root().join(path)).with_context(|| path.to_owned());
    let (form, licence) = (read(&format!("{SOURCES}/copyright"))?, read("LICENSE-MIT")?);
    // Behind its title and the line of the copyright.
    let (_, licence) = licence.split_once("\n\nPermission").context("LICENSE-MIT has no permission")?;
    let text = format!("Permission{licence}");
    let line = |line: &str| if line.is_empty() { " .".to_owned() } else { format!(" {line}") };
    let lines: Vec<_> = text.trim_end().lines().map(line).collect();
    Ok(form.replace("@MIT@", &lines.join("\n")))
}

/// Returns the packages of the libraries that the program loads, with versions.
fn needs(release: &Release, program: &Path) -> Result<String> {
    // The tool reads the name of the package out of such a file.
    let scratch = release.scratch("debian-needs")?;
    let tree = Tree::new(scratch.clone())?;
    tree.write("debian/control", "Source: sheaf\n\nPackage: sheaf\nArchitecture: any\n")?;
    let mut tool = Command::new("dpkg-shlibdeps");
    tool.arg("-O").arg(program).current_dir(&scratch);
    let printed = shell::output(&mut tool)?;
    let needs = printed.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(needs.context("dpkg-shlibdeps prints no shlibs:Depends")?.to_owned())
}

fn control(release: &Release, needs: &str, kib: u64) -> String {
    let (name, address) = maintainer();
    format!(
        "Package: sheaf\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {name} <{address}>\n\
         Installed-Size: {kib}\n\
         Depends: {needs}\n\
         Suggests: python3\n\
         Section: science\n\
         Priority: optional\n\
         Description: event builder for physics experiments\n \
         Sheaf brings all fragments of an event together, passes the event to a filter,\n \
         and stores it. It runs as one process on a laptop or as many processes on many\n \
         hosts. Every run ends with a ledger in which each trigger and each fragment is\n \
         in exactly one bin.\n",
        release.version,
        release.debian_architecture()
    )
}

fn maintainer() -> (String, String) {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    (variable("DEBFULLNAME", MAINTAINER.0), variable("DEBEMAIL", MAINTAINER.1))
}

/// Returns the size of the installed files.
fn kibibytes(folder: &Path) -> Result<u64> {
    let printed = shell::output(
        Command::new("du").args(["--summarize", "--apparent-size", "--block-size=1024"]).arg(folder),
    )?;
    let number = printed.split_whitespace().next().unwrap_or_default();
    number.parse().with_context(|| format!("du printed {printed:?}"))
}

/// Installs the package in a root of its own and removes it again, which leaves this machine as it is.
pub(super) fn check(release: &Release, package: &Path) -> Result<()> {
    let root = release.scratch("debian-root")?;
    let work = release.scratch("debian-work")?;
    let tree = Tree::new(root.clone())?;
    if !shell::is_root() {
        shell::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root))?;
        return smoke::first_command(&|| here(&root.join("usr/bin/sheaf"), &work));
    }
    for file in ["status", "available", "info/format", "updates/.keep"] {
        let format = if file == "info/format" { "1\n" } else { "" };
        tree.write(&format!("var/lib/dpkg/{file}"), format)?;
    }
    std::fs::remove_file(root.join("var/lib/dpkg/updates/.keep")).context("the mark in updates")?;
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        // The C library is that of this machine, about which the new root knows nothing.
        dpkg.arg("--force-depends").arg("--log=/dev/null").arg("--root").arg(&root);
        dpkg
    };
    shell::run(dpkg().arg("--install").arg(package))?;
    // Units call the shell of their system.
    tree.program(Path::new("/bin/sh"), "bin/sh")?;
    check_units(&root)?;
    smoke::first_command(&|| here(&root.join("usr/bin/sheaf"), &work))?;
    shell::run(dpkg().args(["--purge", "sheaf"]))?;
    for folder in ["usr", "lib", "etc"] {
        let left = root.join(folder);
        ensure!(!left.exists(), "{} is left after the removal of the package", left.display());
    }
    Ok(())
}

/// Has systemd read the units, if it is installed.
fn check_units(root: &Path) -> Result<()> {
    if super::lacks_program("systemd-analyze", "systemd").is_some() {
        println!("left out: reading the units, because there is no systemd-analyze");
        return Ok(());
    }
    let units = UNITS.map(|unit| root.join("lib/systemd/system").join(unit));
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["verify", "--man=no", "--recursive-errors=no"]).args(&units);
    // It also starts nothing; programs are looked up in the new root.
    shell::run(analyze.arg("--root").arg(root))
}
