//! How documentation lines begin: with a verb or a noun phrase, not with "What" or "How".
//!
//! Lines of before the rule are counted for each crate. The counts may only fall, so that no new line joins them.

use crate::problem::Problem;
use std::collections::BTreeMap;

/// Lines that are left in each folder. Lower a number with every rewrite; never raise one.
const LEFT: &[(&str, usize)] = &[
    ("crates/sheaf", 132),
    ("crates/sheaf-bench", 48),
    ("crates/sheaf-buffer", 4),
    ("crates/sheaf-capi", 9),
    ("crates/sheaf-config", 143),
    ("crates/sheaf-filter", 50),
    ("crates/sheaf-import", 31),
    ("crates/sheaf-lab", 76),
    ("crates/sheaf-machine", 29),
    ("crates/sheaf-netsim", 215),
    ("crates/sheaf-netsim-scenarios", 88),
    ("crates/sheaf-node", 179),
    ("crates/sheaf-plot", 17),
    ("crates/sheaf-protocol", 208),
    ("crates/sheaf-python", 14),
    ("crates/sheaf-s3", 24),
    ("crates/sheaf-source", 58),
    ("crates/sheaf-store", 134),
    ("crates/sheaf-swarm", 121),
    ("crates/sheaf-tap", 40),
    ("crates/sheaf-time", 27),
    ("crates/sheaf-transport", 242),
    ("crates/sheaf-wire", 137),
    ("examples", 3),
    ("fuzz", 7),
    ("xtask", 67),
];

/// Counts openings by folder.
#[derive(Debug, Default)]
pub(super) struct Openings(BTreeMap<String, usize>);

impl Openings {
    pub(super) fn add(&mut self, path: &str, source: &str) {
        let found = source.lines().filter(|line| is_question(line)).count();
        if found > 0 {
            *self.0.entry(folder(path).to_owned()).or_default() += found;
        }
    }

    /// Folders with more lines than they may have.
    pub(super) fn check(&self, left: &[(&str, usize)]) -> Vec<Problem> {
        let allowed: BTreeMap<&str, usize> = left.iter().copied().collect();
        let most = |folder: &str| allowed.get(folder).copied().unwrap_or(0);
        let more = self.0.iter().filter(|(folder, found)| **found > most(folder));
        more.map(|(folder, found)| {
            let most = most(folder);
            let text = format!(
                "{found} documentation lines begin with \"What\" or \"How\", {most} may: begin with a verb or a noun phrase (STYLE.md)"
            );
            Problem::new(folder, text)
        })
        .collect()
    }
}

/// The counts that are left in this repository.
pub(super) fn left() -> &'static [(&'static str, usize)] {
    LEFT
}

fn is_question(line: &str) -> bool {
    let said = line.trim_start().strip_prefix("/// ");
    said.is_some_and(|said| said.starts_with("What ") || said.starts_with("How "))
}

/// The crate, or the first folder of what is in none.
fn folder(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.match_indices('/').nth(depth - 1).map_or(path, |(at, _)| &path[..at])
}
