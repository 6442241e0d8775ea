//! Measures the tables and plots of `docs/performance.md` again.
//!
//! The page contains a block between `<!-- measured NAME -->` and `<!-- end -->` for each figure. For each, the released command
//! is run and a table is written to the block; the plot goes to `docs/performance/NAME.svg`.

mod path;

use crate::bench::machine::Machine;
use crate::build::{self, Profile};
use crate::{shell, workspace};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/performance.md";
const PICTURES: &str = "docs/performance";

#[derive(Debug, clap::Args)]
pub(crate) struct PerformanceArguments {
    /// Figures to measure. Default: all.
    names: Vec<String>,
    /// Number of measurements of each point.
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: u32,
    /// Duration of each measurement, in seconds. Default: that of `sheaf bench`.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Path of a command built before, to measure instead of building one.
    #[arg(long, value_name = "FILE")]
    sheaf: Option<PathBuf>,
    /// Commit that the given command was built from.
    #[arg(long, value_name = "ID", requires = "sheaf")]
    commit: Option<String>,
}

/// A table and a plot.
struct Figure {
    name: &'static str,
    /// Arguments of `sheaf bench`.
    arguments: &'static str,
    /// Columns: JSON pointer in a point, header, divisor, decimals.
    columns: &'static [Column],
}

type Column = (&'static str, &'static str, f64, usize);

const BUILT: &[Column] = &[
    ("/fragments_per_second", "million fragments/s", 1e6, 3),
    ("/bytes_per_second", "GB/s", 1e9, 3),
    ("/fraction_of_limit", "% of the limit", 0.01, 0),
    ("/cpu_ns_per_fragment", "processor ns/fragment", 1.0, 0),
    ("/latency_ns/p50", "p50 latency, us", 1e3, 0),
    ("/peak_rss_bytes", "memory of all processes, MB", 1e6, 0),
];
/// Columns as [`BUILT`], without the memory: the peak of a single process includes earlier measurements.
const BUILT_IN_ONE: &[Column] = match BUILT.split_last() {
    Some((_memory, others)) => others,
    None => BUILT,
};
const STREAMED: &[Column] = &[
    ("/messages_per_second", "million messages/s", 1e6, 3),
    ("/bytes_per_second", "GB/s", 1e9, 3),
    ("/fraction_of_limit", "% of the limit", 0.01, 0),
];

const FIGURES: &[Figure] = &[
    Figure {
        name: "builder-shm",
        arguments: "builder --processes --transport shm --readouts 2,4,8 --builders 2,4,8 --baseline \
                    --size 256,2Ki,16Ki,64Ki",
        columns: BUILT,
    },
    Figure {
        name: "builder-shm-descriptor",
        arguments: "builder --processes --transport shm --payload descriptor --readouts 2,4,8 --builders 2,4,8 \
                    --size 256,2Ki,16Ki,64Ki",
        columns: BUILT,
    },
    Figure {
        name: "builder-tcp",
        arguments: "builder --processes --transport tcp --readouts 2,4,8 --builders 2,4,8 --baseline \
                    --size 256,2Ki,16Ki,64Ki",
        columns: BUILT,
    },
    Figure {
        name: "builder-memory",
        arguments: "builder --transport memory --readouts 1,2,4,8 --builders 1,2,4,8 --baseline \
                    --size 256,2Ki,16Ki,64Ki",
        columns: BUILT_IN_ONE,
    },
    Figure {
        name: "builder-sizes",
        arguments: "builder --processes --transport tcp --rms 0,0.5,1,2 --size 2Ki,16Ki,32Ki",
        columns: &[
            ("/bytes_per_second", "GB/s", 1e9, 3),
            ("/fragments_per_second", "million fragments/s", 1e6, 3),
        ],
    },
    Figure {
        name: "stream-tcp",
        arguments: "stream --processes --transport tcp --baseline",
        columns: STREAMED,
    },
    Figure {
        name: "merger-tcp",
        arguments: "mstream --senders 16 --receivers 1 --processes --transport tcp --baseline --size 256,2Ki,16Ki,64Ki",
        columns: STREAMED,
    },
    Figure {
        name: "pingpong-memory",
        arguments: "pingpong --transport memory",
        columns: &[
            ("/latency_ns/p50", "p50, us", 1e3, 2),
            ("/latency_ns/p99", "p99, us", 1e3, 2),
            ("/bytes_per_second", "MB/s", 1e6, 1),
        ],
    },
    Figure {
        name: "memory",
        arguments: "memory --size 256,2Ki,16Ki,64Ki,1Mi",
        columns: &[("/bytes_per_second", "GB/s", 1e9, 2)],
    },
];

/// `cargo xtask performance`.
pub(crate) fn command(arguments: &PerformanceArguments) -> Result<()> {
    let known: Vec<_> = FIGURES.iter().map(|figure| figure.name).chain([path::NAME]).collect();
    for name in &arguments.names {
        known
            .contains(&name.as_str())
            .then_some(())
            .with_context(|| format!("there is no figure {name}; the figures are {}", known.join(", ")))?;
    }
    let is_wanted = |name: &str| arguments.names.is_empty() || arguments.names.iter().any(|it| it == name);
    let sheaf = arguments.sheaf.clone().map_or_else(|| build::sheaf(Profile::Dist), Ok)?;
    let machine = Machine::here();
    if let Some(warning) = machine.warning() {
        eprintln!("warning: {warning}");
    }
    let commit = arguments.commit.clone().or_else(workspace::commit).unwrap_or_else(|| "unknown".to_owned());
    let path = workspace::root().join(PAGE);
    let put = |name: &str, block: &str| -> Result<()> {
        // The page is read and written for each figure, so that results are kept if a later measurement fails.
        let page = std::fs::read_to_string(&path).context(PAGE)?;
        std::fs::write(&path, replaced(&page, name, block)?).context(PAGE)
    };
    let conditions = format!("{machine}; commit {commit}");
    if is_wanted(path::NAME) {
        put(path::NAME, &path::block(&conditions)?)?;
    }
    for figure in FIGURES.iter().filter(|figure| is_wanted(figure.name)) {
        let report = figure.measure(&sheaf, arguments)?;
        put(figure.name, &figure.block(&report, &conditions))?;
    }
    Ok(())
}

impl Figure {
    fn measure(&self, sheaf: &Path, arguments: &PerformanceArguments) -> Result<Value> {
        let pictures = workspace::root().join(PICTURES);
        std::fs::create_dir_all(&pictures).context(PICTURES)?;
        let mut command = Command::new(sheaf);
        command.arg("bench").args(self.arguments.split_whitespace());
        if let Some(seconds) = arguments.seconds {
            command.args(["--seconds", &seconds.to_string()]);
        }
        command.args(["--json", "--repeat", &arguments.repeat.to_string(), "--plot"]);
        command.arg(format!("{PICTURES}/{}.svg", self.name)).current_dir(workspace::root());
        eprintln!("$ sheaf bench {}", self.arguments);
        serde_json::from_str(&shell::output(&mut command)?).context("the command printed no JSON")
    }

    /// Returns the text between the marks: command, conditions, plot, table.
    fn block(&self, report: &Value, conditions: &str) -> String {
        let mut text = format!("```sh\nsheaf bench {}\n```\n\n", self.arguments);
        let _ = writeln!(text, "![{0}](performance/{0}.svg)\n\nMeasured on {conditions}.\n", self.name);
        let _ = write!(text, "| | size |");
        for (_, header, ..) in self.columns {
            let _ = write!(text, " {header} |");
        }
        let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(self.columns.len()));
        for curve in report["curves"].as_array().into_iter().flatten() {
            for point in curve["points"].as_array().into_iter().flatten() {
                let name = curve["name"].as_str().unwrap_or_default();
                let _ = write!(text, "| {name} | {} B |", point["size_bytes"]);
                for (path, _, unit, decimals) in self.columns {
                    let value = point.pointer(path).and_then(Value::as_f64);
                    let value =
                        value.map_or_else(String::new, |value| format!("{:.*}", decimals, value / unit));
                    let _ = write!(text, " {value} |");
                }
                text.push('\n');
            }
        }
        text
    }
}

/// Returns the page with a new block.
fn replaced(page: &str, name: &str, block: &str) -> Result<String> {
    let begin = format!("<!-- measured {name} -->\n");
    let (before, rest) =
        page.split_once(&begin).with_context(|| format!("{PAGE} has no line {}", begin.trim()))?;
    let (_, after) = rest.split_once("<!-- end -->").with_context(|| format!("{PAGE}: {name} has no end"))?;
    Ok(format!("{before}{begin}{block}<!-- end -->{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_put_between_its_marks_and_nothing_else_changes() {
        let page = "a\n<!-- measured x -->\nold\n<!-- end -->\nb\n<!-- measured y -->\n<!-- end -->\nc\n";
        let new = replaced(page, "x", "new\n").expect("the marks are there");
        assert_eq!(new, page.replace("old", "new"));
        assert!(replaced(page, "z", "").is_err());
    }

    #[test]
    fn the_page_has_a_place_for_every_figure() {
        let page = std::fs::read_to_string(workspace::root().join(PAGE)).expect("the page is there");
        for name in FIGURES.iter().map(|figure| figure.name).chain([path::NAME]) {
            assert!(replaced(&page, name, "").is_ok(), "{name}");
        }
    }

    #[test]
    fn a_table_has_a_row_for_every_point() {
        let report = serde_json::json!({ "curves": [
            { "name": "copy", "points": [{ "size_bytes": 64, "bytes_per_second": 2.5e9 }] },
            { "name": "read", "points": [{ "size_bytes": 64, "bytes_per_second": 5e9 }] },
        ]});
        let memory = FIGURES.iter().find(|figure| figure.name == "memory").expect("it is there");
        let block = memory.block(&report, "a machine");
        assert!(block.ends_with("| copy | 64 B | 2.50 |\n| read | 64 B | 5.00 |\n"), "{block}");
    }
}
