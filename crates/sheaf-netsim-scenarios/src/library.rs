//! The scenarios that ship with the program, from `scenarios/` at the root of the project.

use crate::scenario::{Overrides, ScenarioFile};
use sheaf_config::ConfigErrors;
use std::path::Path;

/// A scenario that ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal,)*) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../../../scenarios/", $name, ".toml")) },)*]
    };
}

/// All of them, in the order of `sheaf sim --list`: theory, the documents, and starting points.
pub const SHIPPED: &[Shipped] = shipped! {
    "crossbar-saturation",
    "look-ahead",
    "virtual-output-queues",
    "myrinet-demonstrators",
    "myrinet-512-random",
    "myrinet-512-events",
    "myrinet-512-barrel",
    "clos-128-rows",
    "ethernet-500-spines",
    "ethernet-500-uplinks",
    "bigiron-placement",
    "slow-builder",
    "barrel-sizes",
    "barrel-guard",
    "dead-spine",
    "forty-nodes",
    "protocol-roles",
};

/// The scenario called `name`.
#[must_use]
pub fn find(name: &str) -> Option<Shipped> {
    SHIPPED.iter().copied().find(|shipped| shipped.name == name)
}

/// The shipped scenario that `name` is most probably a misspelling of.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    sheaf_config::diagnose::nearest(name, SHIPPED.iter().map(|shipped| shipped.name))
}

impl Shipped {
    /// The scenario, understood.
    ///
    /// # Errors
    /// None for those of [`SHIPPED`], which a test reads; the type is that of all scenarios.
    pub fn parse(&self, overrides: Overrides) -> Result<ScenarioFile, ConfigErrors> {
        let file = format!("scenarios/{}.toml", self.name);
        ScenarioFile::parse(self.text, &file, self.name, Path::new("scenarios"), overrides)
    }
}

#[cfg(test)]
mod tests;
