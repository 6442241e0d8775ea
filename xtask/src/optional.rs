//! Optional parts of the workspace, and the calls of cargo that build those whose libraries are installed.

use crate::shell::{self, cargo};
use std::process::Command;

/// Returns the call of cargo for all tests, including those of optional parts. A failing test does not hide those after it.
pub(crate) fn tests() -> Command {
    with_optional_parts(&["test", "--workspace", "--no-fail-fast"])
}

/// Returns a call of cargo for the workspace, with the optional parts whose libraries are installed. Each set of features
/// rebuilds all dependent crates, so all steps use the same set. The step "smoke" builds the command without them.
pub(crate) fn with_optional_parts(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    let features = buildable_features();
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    command
}

/// A cargo feature that needs a system library or many packages, and is therefore not enabled by default.
struct OptionalPart {
    feature: &'static str,
    /// Library that `pkg-config` must find, if the part needs one.
    library: Option<&'static str>,
    /// Packages that have the feature.
    packages: &'static [&'static str],
}

const OPTIONAL_PARTS: [OptionalPart; 5] = [
    OptionalPart {
        feature: "libfabric",
        library: Some("libfabric >= 1.14"),
        packages: &["sheaf-libfabric", "sheaf-bench", "sheaf"],
    },
    OptionalPart {
        feature: "hdf5",
        library: Some("hdf5 >= 1.10"),
        packages: &["sheaf-store", "sheaf-capi", "sheaf-python", "sheaf"],
    },
    OptionalPart { feature: "s3", library: None, packages: &["sheaf"] },
    OptionalPart { feature: "sqlite", library: None, packages: &["sheaf-database"] },
    OptionalPart { feature: "postgres", library: None, packages: &["sheaf-database", "sheaf"] },
];

/// Returns the features whose libraries are installed, in cargo's form `package/feature`. Prints the omitted ones with reasons.
pub(crate) fn buildable_features() -> Vec<String> {
    let is_there = |part: &&OptionalPart| {
        let missing = part.library.filter(|library| !shell::pkg_config_finds(library));
        if let Some(library) = missing {
            println!("left out: {}, because pkg-config does not find {library}", part.feature);
        }
        missing.is_none()
    };
    let features = |part: &OptionalPart| -> Vec<String> {
        part.packages.iter().map(|package| format!("{package}/{}", part.feature)).collect()
    };
    OPTIONAL_PARTS.iter().filter(is_there).flat_map(features).collect()
}
