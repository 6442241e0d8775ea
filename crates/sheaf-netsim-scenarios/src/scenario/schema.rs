//! A key of a scenario file: its name, shape and default. The keys themselves are in `keys`.

use super::value::{Shape, Value};

/// The name of the list of faults.
pub(super) const FAULT: &str = "fault";

/// A table of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Its name; empty for keys outside of tables.
    pub(super) name: &'static str,
    /// Its purpose.
    pub(super) meaning: &'static str,
}

/// Default of a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standard {
    /// The file must say it, where the key is used.
    Required,
    /// Nothing; the meaning tells what that is.
    Unset,
    /// This.
    Is(Value),
}

/// A key of the file.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// The table it is in; empty outside of tables.
    pub(super) table: &'static str,
    /// Its name, with its unit.
    pub(super) name: &'static str,
    /// Accepted values.
    pub(super) shape: Shape,
    /// Default if the key is left out.
    pub(super) standard: Standard,
    /// For which values of the table's `kind` it is used; empty: for all.
    pub(super) only: &'static [&'static str],
    /// Meaning of the key.
    pub(super) meaning: &'static str,
}

impl Key {
    /// The key with its table: `topology.radix`; for faults without the number.
    #[cfg(test)]
    pub(super) fn path(&self) -> String {
        if self.table.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.table, self.name) }
    }
}
