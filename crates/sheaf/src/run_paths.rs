//! The path of a run's directory.

use sheaf_config::Config;
use std::path::PathBuf;

/// The directory of a run.
pub(crate) fn path_of(config: &Config) -> PathBuf {
    config.run.output.join(name_of(config))
}

/// Its name.
pub(crate) fn name_of(config: &Config) -> String {
    format!("run{:06}", config.run.number.0)
}
