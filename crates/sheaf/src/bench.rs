//! `sheaf bench`: the test programs.
//!
//! | module | holds |
//! |---|---|
//! | `arguments` | the command line |
//! | `links` | `roundtrip`, `stream`, `mstream`, `pingpong`: transports |
//! | `processes` | runs the nodes of these in a process each |
//! | `builder` | `builder`: the whole event builder, as `sheaf run` runs it |
//! | `configured` | its configuration file |
//! | `farm` | `farm`: workers with filters of a given processor time |
//! | `feed` | `feed`: programs that feed a run, into one readout unit and into a builder |
//! | `feeders` | starts these programs |
//! | `memory` | `memory`: memory operations of the processors, without a network |
//! | `store` | `store`: accepted events to a disk |
//! | `limits` | limits of the machine itself, measured in turn with the rest |
//! | `scan` | points, repetitions, progress |
//! | `report`, `table`, `plot` | printed and plotted results |

pub(crate) mod arguments;
mod bounds;
mod builder;
mod configured;
mod farm;
mod feed;
mod feeders;
mod limits;
mod links;
mod memory;
mod plot;
mod processes;
mod report;
mod scan;
mod store;
mod table;

use crate::console::Console;
use crate::{Verdict, signals};
use anyhow::{Context, bail};
use arguments::{BenchArguments, BenchCommand, Output};
use report::Report;

/// Runs a test program.
pub(crate) fn command(arguments: &BenchArguments, console: &Console) -> anyhow::Result<Verdict> {
    if let BenchCommand::Node { assignment } = &arguments.command {
        processes::be_node(assignment)?;
        return Ok(Verdict::Good);
    }
    if let BenchCommand::Feeder { assignment } = &arguments.command {
        feeders::be_feeder(assignment)?;
        return Ok(Verdict::Good);
    }
    let output = arguments.command.output();
    output.check()?;
    let stop = signals::stop_flag()?;
    let scan = scan::Scan::new(console, &stop);
    let report = match &arguments.command {
        BenchCommand::Roundtrip(arguments) => links::roundtrip(arguments, &scan)?,
        BenchCommand::Stream(arguments) => links::stream(arguments, &scan)?,
        BenchCommand::Mstream(arguments) => links::mstream(arguments, &scan)?,
        BenchCommand::Pingpong(arguments) => links::pingpong(arguments, &scan)?,
        BenchCommand::Builder(arguments) => builder::measure(arguments, &scan)?,
        BenchCommand::Memory(arguments) => memory::measure(arguments, &scan)?,
        BenchCommand::Store(arguments) => store::measure(arguments, &scan)?,
        BenchCommand::Farm(arguments) => farm::measure(arguments, &scan)?,
        BenchCommand::Feed(arguments) => feed::measure(arguments, &scan)?,
        BenchCommand::Node { .. } | BenchCommand::Feeder { .. } => bail!("a node cannot measure by itself"),
    };
    give(&report, output)
}

/// Prints and plots the results.
fn give(report: &Report, output: &Output) -> anyhow::Result<Verdict> {
    if report.is_empty() {
        bail!("interrupted before anything was measured");
    }
    if output.json {
        crate::print::print_json(&report.to_json())?;
    } else {
        crate::print::print(&table::of(report))?;
    }
    if let Some(path) = &output.plot {
        let svg = plot::of(report).to_svg()?;
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Verdict::Good)
}
