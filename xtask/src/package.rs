//! Packages of the command: an archive with a static binary, a Debian package, a Python wheel, and a container image.
//!
//! | module | contents |
//! |---|---|
//! | `release` | version, time and place of the packages of one build |
//! | `tree` | the files of a package |
//! | `contents` | what every package has besides the command: man pages, completions, licences, bill of materials |
//! | `bill` | the bill of materials, in the format CycloneDX |
//! | `archive`, `debian`, `wheel`, `container` | one package each: how it is made, and installed from nothing |
//!
//! Everything is made by well-known tools from plain folders of files, and is the same again from the same programs: times are that
//! of the commit (`SOURCE_DATE_EPOCH`), names are sorted, and owners are numbers.

mod archive;
mod bill;
mod container;
mod contents;
mod debian;
mod release;
mod tree;
mod wheel;

use crate::build::Profile;
use crate::shell;
use anyhow::{Context as _, Result, bail};
use release::Release;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Kind {
    /// Archive with a static binary, for any Linux of this processor.
    Archive,
    /// Debian package with units of systemd.
    Deb,
    /// Python wheel with the command.
    Wheel,
    /// Container image with a static binary.
    Container,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Archive, Self::Deb, Self::Wheel, Self::Container];

    /// Returns what this machine lacks to make and install the package.
    fn lacks(self, release: &Release) -> Option<String> {
        match self {
            Self::Archive => release.lacks_static(),
            Self::Deb => {
                lacks_program("dpkg-deb", "dpkg").or_else(|| lacks_program("dpkg-shlibdeps", "dpkg-dev"))
            }
            Self::Wheel => wheel::lacks(),
            Self::Container => release.lacks_static().or_else(|| lacks_program("buildah", "buildah")),
        }
    }

    /// Makes the package and returns its path.
    fn make(self, release: &Release) -> Result<PathBuf> {
        match self {
            Self::Archive => archive::make(release),
            Self::Deb => debian::make(release),
            Self::Wheel => wheel::make(release),
            Self::Container => container::make(release),
        }
    }

    /// Installs the package in an empty place, runs the first command of the README there, and removes everything again.
    fn check(self, release: &Release, package: &Path) -> Result<()> {
        match self {
            Self::Archive => archive::check(release, package),
            Self::Deb => debian::check(release, package),
            Self::Wheel => wheel::check(release, package),
            Self::Container => container::check(release, package),
        }
    }
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct PackageArguments {
    /// Kinds of packages. Default: those for which this machine has the tools.
    #[arg(value_name = "KIND")]
    kinds: Vec<Kind>,
    /// Profile of the programs. Packages for others are built with `dist`.
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: Profile,
    /// Build the library of the wheel as for the tests of the Python package, to share their build.
    #[arg(long)]
    dev_library: bool,
    /// Write only the files of the container image into this directory. The recipe of the image calls this.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kinds", "check"])]
    image_files: Option<PathBuf>,
    /// Install each package in an empty place and run the first command of the README there.
    #[arg(long)]
    check: bool,
}

impl PackageArguments {
    /// Returns the arguments for every change: what this machine can make, checked.
    pub(crate) fn for_every_change() -> Self {
        Self { check: true, dev_library: true, ..Self::default() }
    }
}

/// `cargo xtask package`.
pub(crate) fn command(arguments: &PackageArguments) -> Result<()> {
    let release = Release::new(arguments.profile, arguments.dev_library)?;
    if let Some(folder) = &arguments.image_files {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        container::write_files(&release, folder)?;
        return release.clean();
    }
    let wanted = if arguments.kinds.is_empty() { &Kind::ALL[..] } else { &arguments.kinds };
    let mut made = Vec::new();
    for kind in wanted {
        if let Some(reason) = kind.lacks(&release) {
            if !arguments.kinds.is_empty() {
                bail!("cannot make the package {kind:?}: {reason}");
            }
            println!("left out: the package {kind:?}, because {reason}");
            continue;
        }
        let package = kind.make(&release)?;
        if arguments.check {
            kind.check(&release, &package).with_context(|| package.display().to_string())?;
        }
        made.push(package);
    }
    release.clean()?;
    release.list(&made)
}

/// Returns the reason why a program cannot be started, with the package that has it.
fn lacks_program(program: &str, package: &str) -> Option<String> {
    let is_there = shell::tells_version(&mut Command::new(program));
    (!is_there).then(|| format!("there is no {program}; install the package {package}"))
}

/// Returns a call of a program with a working directory.
fn here(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    command
}

/// Gives a folder to the user `nobody`.
fn nobody_owns(folder: &Path) -> Result<()> {
    std::os::unix::fs::chown(folder, Some(65534), Some(65534)).with_context(|| folder.display().to_string())
}
