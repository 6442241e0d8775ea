//! Options that the random swarm draws, with their frequency: the table of `--table` and of the documentation.
//!
//! Each row shows one option of [`Options`] and names the configuration keys that it represents. A key without a row is listed in
//! [`EXCUSED`] with the reason; a test compares both with the reference page of the configuration.

mod excused;
mod rows;

use crate::options::Options;
pub use excused::{EXCUSED, Excuse};
pub use rows::ROWS;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// An option that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in the table.
    pub name: &'static str,
    /// Configuration keys that it represents; none for faults, which cannot be configured.
    pub knobs: &'static [&'static str],
    /// Value of the option in a run.
    pub value: fn(&Options) -> String,
}

/// Distribution of an option's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// Number of runs.
    pub runs: usize,
    /// Number of different values.
    pub values: usize,
    /// Number of runs with another value than the most common one.
    pub others: usize,
}

/// Returns the distribution of each row over the runs of these seeds.
#[must_use]
pub fn draws(seeds: std::ops::Range<u64>) -> Vec<(&'static Row, Draws)> {
    let options: Vec<Options> = seeds.map(Options::random).collect();
    let of_row = |row: &'static Row| {
        let mut values: BTreeMap<String, usize> = BTreeMap::new();
        options.iter().for_each(|options| *values.entry((row.value)(options)).or_default() += 1);
        let most = values.values().copied().max().unwrap_or_default();
        (row, Draws { runs: options.len(), values: values.len(), others: options.len() - most })
    };
    ROWS.iter().map(of_row).collect()
}

/// Returns the table as Markdown.
#[must_use]
pub fn markdown(seeds: std::ops::Range<u64>) -> String {
    let mut text = format!(
        "| option | knobs | values in {} runs | runs with another value than the most common |\n|---|---|---:|---:|\n",
        seeds.end - seeds.start
    );
    for (row, draws) in draws(seeds) {
        let knobs = row.knobs.iter().map(|knob| format!("`{knob}`")).collect::<Vec<_>>().join(", ");
        let share = 100 * draws.others / draws.runs.max(1);
        let Draws { values, others, .. } = draws;
        writeln!(text, "| {} | {knobs} | {values} | {others} ({share} %) |", row.name)
            .expect("a string takes every text");
    }
    text
}
