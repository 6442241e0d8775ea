//! Scenarios of the lab and of the simulator, as they are named on the command line.

use anyhow::bail;
use std::path::Path;

/// Scenario that a name on the command line refers to.
pub(crate) enum Scenario<'a, S> {
    /// A file.
    File(&'a Path),
    /// Built-in scenario.
    Shipped(S),
}

/// Finds a scenario by its path or by the name under which it ships. An argument with the form of a path is a path.
/// `listing` is the command that lists the built-in scenarios.
pub(crate) fn find<'a, S>(
    name: &'a str,
    shipped: impl FnOnce(&str) -> Option<S>,
    nearest: impl FnOnce(&str) -> Option<&'static str>,
    listing: &str,
) -> anyhow::Result<Scenario<'a, S>> {
    let path = Path::new(name);
    if path.components().count() > 1 || path.extension().is_some() || path.exists() {
        return Ok(Scenario::File(path));
    }
    if let Some(shipped) = shipped(name) {
        return Ok(Scenario::Shipped(shipped));
    }
    let meant = nearest(name).map(|name| format!("did you mean `{name}`?"));
    let hint = meant.unwrap_or_else(|| format!("`{listing}` lists the built-in ones"));
    bail!("there is no file and no scenario `{name}`; {hint}")
}
