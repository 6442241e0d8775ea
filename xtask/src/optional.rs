//! The optional parts of the workspace, and the calls of cargo that build those whose libraries are here.

use crate::shell::{self, cargo};
use std::process::Command;

/// All tests, also those of optional parts. One that fails does not hide those after it.
pub(crate) fn tests() -> Command {
    with_optional_parts(&["test", "--workspace", "--no-fail-fast"])
}

/// A call of cargo for the workspace, with the optional parts that this machine has the libraries for. Each set of features is
/// another build of everything above it, so all steps have the same; without them the command is built by the step "smoke".
pub(crate) fn with_optional_parts(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    let features = buildable_features();
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    command
}

/// A cargo feature that needs a library of the system, or many packages: what nobody asks for is left out of the build.
struct OptionalPart {
    feature: &'static str,
    /// Library that `pkg-config` must find, if the part needs one.
    library: Option<&'static str>,
    /// Packages that have the feature.
    packages: &'static [&'static str],
}

const OPTIONAL_PARTS: [OptionalPart; 3] = [
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
];

/// The features whose libraries are here, as cargo wants them: `package/feature`. Says which are left out, and why.
pub(crate) fn buildable_features() -> Vec<String> {
    let is_there = |part: &&OptionalPart| {
        let missing = part.library.filter(|library| !shell::pkg_config_finds(library));
        if let Some(library) = missing {
            println!("left out: {}, because pkg-config finds no {library}", part.feature);
        }
        missing.is_none()
    };
    let features = |part: &OptionalPart| -> Vec<String> {
        part.packages.iter().map(|package| format!("{package}/{}", part.feature)).collect()
    };
    OPTIONAL_PARTS.iter().filter(is_there).flat_map(features).collect()
}
