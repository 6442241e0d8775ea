//! The tables that a lab scenario has beside those of a configuration, while its file is read.

use crate::knob::Section;
use crate::settings::{Lab, LabHead, Measure};
use std::collections::BTreeMap;
use std::ops::Range;

/// The tables of the lab while a file is read.
#[derive(Debug, Default)]
pub(crate) struct LabTables {
    pub(crate) head: LabHead,
    pub(crate) lab: Lab,
    pub(crate) measure: Measure,
    /// Index of the selected value of each swept key; the first value by default.
    pub(crate) choice: BTreeMap<String, usize>,
    /// The lists that were found.
    pub(crate) sweeps: Vec<Sweep>,
}

/// A list in place of a value.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    pub(crate) key: String,
    pub(crate) at: Range<usize>,
    pub(crate) values: Vec<String>,
}

impl LabTables {
    /// The tables, but what stands above all tables.
    pub(crate) const PATHS: &[&str] = &["lab", "measure"];
    /// All of them, in the order of the reference page.
    pub(crate) const PATHS_WITH_HEAD: &[&str] = &["", "lab", "measure"];

    pub(crate) fn section(&self, path: &str) -> Option<&dyn Section> {
        match path {
            "" => Some(&self.head),
            "lab" => Some(&self.lab),
            "measure" => Some(&self.measure),
            _ => None,
        }
    }

    pub(crate) fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section> {
        match path {
            "" => Some(&mut self.head),
            "lab" => Some(&mut self.lab),
            "measure" => Some(&mut self.measure),
            _ => None,
        }
    }

    /// Which value of the swept key `key` is taken.
    pub(crate) fn chosen(&self, key: &str) -> usize {
        self.choice.get(key).copied().unwrap_or(0)
    }
}
