//! Options that the random swarm draws, with their frequency: the tables of `--table` and of the documentation.
//!
//! Each row shows one option of [`Options`] or [`DriverOptions`] and names the configuration keys that it represents. A key without a
//! row is listed in [`EXCUSED`] with the reason; a test compares both with the reference page of the configuration.

mod driver_rows;
mod excused;
mod rows;

use crate::drivers::{DriverOptions, Family};
use crate::options::Options;
pub use driver_rows::DRIVER_ROWS;
pub use excused::{EXCUSED, Excuse};
pub use rows::ROWS;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

/// An option that is drawn, among the options `O` of a run.
#[derive(Debug)]
pub struct Row<O: 'static> {
    /// Name in the table.
    pub name: &'static str,
    /// Configuration keys that it represents; none for faults, which cannot be configured.
    pub knobs: &'static [&'static str],
    /// Value of the option in a run.
    pub value: fn(&O) -> String,
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

/// Returns the distribution of each row over the runs of the roles with these seeds.
#[must_use]
pub fn draws(seeds: Range<u64>) -> Vec<(&'static Row<Options>, Draws)> {
    let options: Vec<Options> = seeds.map(Options::random).collect();
    ROWS.iter().map(|row| (row, distribution(row, &options))).collect()
}

/// Returns the distribution of each row over the runs of the drivers with these seeds: of slowness, and of faults.
#[must_use]
pub fn driver_draws(seeds: Range<u64>) -> Vec<(&'static Row<DriverOptions>, [Draws; 2])> {
    let options = [Family::Slowness, Family::Faults].map(|family| {
        seeds.clone().map(|seed| DriverOptions::random(family, seed)).collect::<Vec<DriverOptions>>()
    });
    let of_row = |row| options.each_ref().map(|options| distribution(row, options));
    DRIVER_ROWS.iter().map(|row| (row, of_row(row))).collect()
}

fn distribution<O>(row: &Row<O>, options: &[O]) -> Draws {
    let mut values: BTreeMap<String, usize> = BTreeMap::new();
    options.iter().for_each(|options| *values.entry((row.value)(options)).or_default() += 1);
    let most = values.values().copied().max().unwrap_or_default();
    Draws { runs: options.len(), values: values.len(), others: options.len() - most }
}

impl Draws {
    /// Returns the cells of a table: the number of values, and of runs with another value than the most common one.
    fn cells(self) -> String {
        let Self { runs, values, others } = self;
        format!("{values} | {others} ({} %)", 100 * others / runs.max(1))
    }
}

fn knobs(knobs: &[&str]) -> String {
    knobs.iter().map(|knob| format!("`{knob}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the table of the roles as Markdown.
#[must_use]
pub fn markdown(seeds: Range<u64>) -> String {
    let mut text = format!(
        "| option | knobs | values in {} runs | runs with another value than the most common |\n|---|---|---:|---:|\n",
        seeds.end - seeds.start
    );
    for (row, draws) in draws(seeds) {
        writeln!(text, "| {} | {} | {} |", row.name, knobs(row.knobs), draws.cells())
            .expect("a string takes every text");
    }
    text
}

/// Returns the table of the drivers as Markdown.
#[must_use]
pub fn driver_markdown(seeds: Range<u64>) -> String {
    let runs = seeds.end - seeds.start;
    let mut text = format!(
        "| option | knobs | values in {runs} runs of slowness | with another than the most common | values in {runs} runs of faults \
         | with another |\n|---|---|---:|---:|---:|---:|\n"
    );
    for (row, [slowness, faults]) in driver_draws(seeds) {
        let (slowness, faults) = (slowness.cells(), faults.cells());
        writeln!(text, "| {} | {} | {slowness} | {faults} |", row.name, knobs(row.knobs))
            .expect("a string takes every text");
    }
    text
}
