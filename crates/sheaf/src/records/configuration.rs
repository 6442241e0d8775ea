//! The configuration of a run: its name, its id, and its text for another run.
//!
//! The id tells whether two runs were made in the same way: it is a checksum of all settings that differ from their defaults, and of the code that
//! was loaded. What belongs to one run alone does not count: its number, its directory and its end.

use super::code::Code;
use serde::{Deserialize, Serialize};
use sheaf_config::{Config, Run};
use std::fmt::Write as _;
use std::path::Path;

/// Name and id of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigurationId {
    /// Name of its file, without the extension; `null` for runs without a file, and for those of earlier versions.
    pub(crate) name: Option<String>,
    /// CRC-32C, in hexadecimal digits.
    pub(crate) id: String,
}

impl ConfigurationId {
    /// Identifies the configuration of a run. One of another version, which cannot be parsed, counts as it is.
    pub(super) fn of(name: Option<String>, parsed: Option<&Config>, text: &str, code: &[Code]) -> Self {
        let mut settings =
            parsed.map_or_else(|| text.to_owned(), |config| of_any_run(config).to_short_toml());
        for Code { table, bytes, crc32c, .. } in code {
            let _ = writeln!(settings, "{table}: {bytes} {crc32c}");
        }
        Self { name, id: format!("{:08x}", sheaf_wire::checksum::crc32c(settings.as_bytes())) }
    }

    /// Returns whether somebody means this one: by its name or its id.
    pub(super) fn is(&self, text: &str) -> bool {
        self.name.as_deref() == Some(text) || self.id == text
    }

    /// Returns both in one word.
    pub(super) fn shown(&self) -> String {
        self.name.as_ref().map_or_else(|| self.id.clone(), |name| format!("{name} {}", self.id))
    }
}

/// Returns the name of the configuration in a file.
pub(crate) fn configuration_name(path: &Path) -> Option<String> {
    Some(path.file_stem()?.to_string_lossy().into_owned())
}

/// Returns a configuration without what belongs to one run alone.
fn of_any_run(config: &Config) -> Config {
    let Run { number, output, overwrite, events, duration, runs, .. } = Run::default();
    let mut config = config.clone();
    config.run = Run { number, output, overwrite, events, duration, runs, ..config.run };
    config
}
