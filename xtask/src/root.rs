//! The root of the repository.

use std::path::Path;

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}
