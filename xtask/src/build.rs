//! Builds programs of this repository in the profile that suits their use.
//!
//! | profile | for |
//! |---|---|
//! | `release` | users of the command: short compile time |
//! | `dist` | packages, and every figure that is compared or published: all optimisations |

use crate::{shell, workspace};
use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::process::Stdio;

/// A profile of the workspace's `Cargo.toml`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Built quickly.
    #[default]
    Release,
    /// Every optimisation, as in figures and packages.
    Dist,
}

impl Profile {
    /// The profile's name, which is also its folder in the target directory.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }
}

/// Builds the command and returns its path.
pub(crate) fn sheaf(profile: Profile) -> Result<PathBuf> {
    build(profile, &programs(profile), "sheaf")
}

/// Returns the platform of the static command in rustc's notation.
pub(crate) fn static_platform() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Builds the command as a static program, which needs no library of its system, and returns its path.
pub(crate) fn static_sheaf(profile: Profile) -> Result<PathBuf> {
    let platform = static_platform();
    let mut cargo = shell::cargo(&["build", "--profile", profile.name(), "--package", "sheaf", "--target"]);
    shell::output(cargo.arg(&platform).stderr(Stdio::inherit()))?;
    let program = workspace::target_directory()?.join(platform).join(profile.name()).join("sheaf");
    ensure!(program.is_file(), "cargo did not build {}", program.display());
    Ok(program)
}

/// Builds the simulated cluster and returns the path of its program.
pub(crate) fn swarm() -> Result<PathBuf> {
    build(Profile::Release, &programs(Profile::Release), "sheaf-swarm")
}

/// Builds the program whose instructions are counted, an example of `sheaf-node`, and returns its path.
pub(crate) fn canonical(profile: Profile) -> Result<PathBuf> {
    match profile {
        Profile::Release => build(profile, &programs(profile), "examples/canonical"),
        Profile::Dist => {
            build(profile, &["--package", "sheaf-node", "--example", "canonical"], "examples/canonical")
        }
    }
}

/// Packages to build together. Cargo rebuilds a crate for each set of features that is requested: if programs were built one by
/// one, many shared crates would be built twice.
fn programs(profile: Profile) -> Vec<&'static str> {
    match profile {
        Profile::Release => {
            let mut programs: Vec<_> =
                ["sheaf", "sheaf-swarm", "sheaf-node"].iter().flat_map(|name| ["--package", name]).collect();
            programs.extend(["--lib", "--bins", "--example", "canonical"]);
            programs
        }
        Profile::Dist => vec!["--package", "sheaf"],
    }
}

fn build(profile: Profile, what: &[&str], file: &str) -> Result<PathBuf> {
    let mut cargo = shell::cargo(&["build", "--profile", profile.name()]);
    // Standard output may be reserved for figures, so cargo's output goes to standard error.
    shell::output(cargo.args(what).stderr(Stdio::inherit()))?;
    let program = workspace::target_directory()?.join(profile.name()).join(file);
    ensure!(program.is_file(), "cargo did not build {}", program.display());
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// `dist` inherits the exceptions of `release`. A crate that `release` optimises less must be fully optimised in figures.
    #[test]
    fn dist_optimises_every_crate_that_release_does_not() {
        let manifest = std::fs::read_to_string(workspace::root().join("Cargo.toml")).expect("it is there");
        let exceptions = |profile: Profile| {
            let table = format!("\n[profile.{}.package]\n", profile.name());
            let (_, rest) = manifest.split_once(&table).expect("there is a table of exceptions");
            let lines = rest.lines().take_while(|line| !line.is_empty() && !line.starts_with('['));
            let lines = lines.filter_map(|line| line.split_once(".opt-level = "));
            lines.map(|(package, level)| (package.to_owned(), level.to_owned())).collect::<BTreeMap<_, _>>()
        };
        let (release, dist) = (exceptions(Profile::Release), exceptions(Profile::Dist));
        assert!(!release.is_empty(), "no exceptions were found");
        for package in release.keys() {
            let level = dist.get(package).map(String::as_str);
            assert_eq!(level, Some("3"), "opt-level of {package} in [profile.dist.package]");
        }
    }
}
