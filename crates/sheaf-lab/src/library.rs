//! The scenarios that ship with the program, from `scenarios/lab/` at the root of the project.

use sheaf_config::{ConfigErrors, LabFile, LabPoint};

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
        &[$(Shipped { name: $name, text: include_str!(concat!("../../../scenarios/lab/", $name, ".toml")) },)*]
    };
}

/// All of them, in the order of `sheaf lab list`.
pub const SHIPPED: &[Shipped] = shipped! {
    "first-switch",
    "two-stages",
    "output-buffer",
    "stream",
    "two-rails",
    "events-paced",
    "events-barrel",
    "lognormal-datagrams",
    "lognormal-tcp",
    "scaling",
    "push-incast",
    "loss-1",
    "loss-10",
    "slow-builder",
    "barrel-cut",
    "soak",
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
    /// Parses the scenario. `change` makes the changes from the command line.
    ///
    /// # Errors
    /// None for those of [`SHIPPED`] unchanged, which a test parses; errors caused by `change`.
    pub fn parse(&self, change: impl Fn(&mut LabPoint)) -> Result<LabFile, ConfigErrors> {
        LabFile::parse(self.text, &format!("scenarios/lab/{}.toml", self.name), self.name, change)
    }
}

#[cfg(test)]
mod tests;
