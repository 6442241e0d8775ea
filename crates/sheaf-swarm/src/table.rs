//! Which options the random swarm draws, and how often: the table of `--table` and of the documentation.
//!
//! Each row shows one option of [`Options`] and names the knobs of the configuration that reach the roles and drivers by it. A
//! knob that is in no row is in [`EXCUSED`], with the reason; a test compares both with the reference page of the configuration.

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
    /// Its name in the table.
    pub name: &'static str,
    /// The knobs of the configuration that it stands for; none for faults, which nobody configures.
    pub knobs: &'static [&'static str],
    /// Value of the option in a run.
    pub value: fn(&Options) -> String,
}

/// Distribution of an option's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// Runs.
    pub runs: usize,
    /// Different values.
    pub values: usize,
    /// Runs that have another value than the most common one.
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

/// The table as Markdown.
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
