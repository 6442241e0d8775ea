//! The configuration file of `sheaf bench builder`: it must not set what the measurement sets itself, or does not use.

use anyhow::bail;
use sheaf_config::{Config, SourceKind};
use std::path::Path;

/// Tables without an effect on a measurement, and the reason.
const UNUSED: [(&str, &str); 3] = [
    ("output.", "nothing is stored"),
    ("object_store.", "nothing is stored"),
    ("streams.", "nothing is stored"),
];

/// Reads a file for a measurement.
///
/// # Errors
/// All that is wrong with it, that its sources are not emulated, or that it lists nodes.
pub(super) fn read(path: &Path) -> anyhow::Result<Config> {
    let config = Config::load(path)?;
    if !config.node.is_empty() {
        let file = path.display();
        bail!(
            "{file} lists nodes, but this measurement has those of --readouts and --builders; remove `[[node]]`"
        );
    }
    if config.source.kind != SourceKind::Emulated {
        let (file, kind) = (path.display(), config.source.kind);
        bail!("{file}: `source.kind` is \"{kind}\", but this measurement sets the sizes of emulated sources");
    }
    if config.source.emulates_hits() {
        let file = path.display();
        bail!("{file}: `source.build_by` is \"time\", but this measurement is of events with numbers");
    }
    Ok(config)
}

/// Refuses a file with values that the configuration `measured`, which was made from it, does not have or use.
///
/// # Errors
/// Names all such keys.
pub(super) fn refuse_ignored(path: &Path, file: &Config, measured: &Config) -> anyhow::Result<()> {
    let (defaults, measured) = (Config::default().values(), measured.values());
    let mut ignored = Vec::new();
    for (key, value) in file.values() {
        if defaults.get(&key) == Some(&value) {
            continue;
        }
        if let Some((_, reason)) = UNUSED.iter().find(|(table, _)| key.starts_with(table)) {
            ignored.push(format!("`{key}` has no effect: {reason}"));
        } else if measured.get(&key) != Some(&value) {
            let set =
                measured.get(&key).map(|set| format!("is {value}, but the measurement sets it to {set}"));
            ignored.push(format!("`{key}` {}", set.as_deref().unwrap_or("is not used by the measurement")));
        }
    }
    if ignored.is_empty() {
        return Ok(());
    }
    bail!(
        "{} has keys that this measurement would ignore; remove them, or use the options of the command:\n  {}",
        path.display(),
        ignored.join("\n  ")
    )
}
