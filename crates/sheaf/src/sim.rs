//! `sheaf sim`: scenarios, the documents' figures, calibration, prediction.

pub(crate) mod arguments;
mod bench;

use crate::Verdict;
use crate::console::{Console, plural};
use crate::print::{print, print_json};
use crate::scenarios::{self, Scenario};
use anyhow::Context;
use arguments::{CalibrateArguments, Common, PredictArguments, SimArguments, SimVerb, TrafficShape};
use serde::Serialize;
use sheaf_netsim::scenario::Routes;
use sheaf_netsim::units::Rate;
use sheaf_netsim_scenarios::calibrate::{Calibration, Interval, calibrate};
use sheaf_netsim_scenarios::predict::{Plan, Shape, predict};
use sheaf_netsim_scenarios::result::SweepResult;
use sheaf_netsim_scenarios::scenario::{Overrides, ScenarioFile};
use sheaf_netsim_scenarios::{library, measurements, paper, plots, sweep};
use sheaf_plot::{Align, TextTable};
use std::path::Path;

pub(crate) fn command(arguments: &SimArguments, console: &Console) -> anyhow::Result<Verdict> {
    match (&arguments.verb, &arguments.scenario) {
        (Some(SimVerb::Paper(common)), _) => run_paper(*common, console),
        (Some(SimVerb::Bench(bench)), _) => bench::command(bench),
        (Some(SimVerb::Calibrate(arguments)), _) => run_calibrate(arguments),
        (Some(SimVerb::Predict(arguments)), _) => run_predict(arguments, console),
        (None, Some(scenario)) => run_scenario(scenario, arguments, console),
        (None, None) => list(arguments.common.json),
    }
}

fn threads(common: Common) -> usize {
    common.threads.map_or_else(sweep::default_threads, usize::from)
}

/// Loads a scenario by its path or by the name under which it ships. An argument with the form of a path is a path.
fn load(scenario: &str, overrides: Overrides) -> anyhow::Result<ScenarioFile> {
    Ok(match scenarios::find(scenario, library::find, library::nearest, "sheaf sim --list")? {
        Scenario::File(path) => ScenarioFile::load(path, overrides)?,
        Scenario::Shipped(shipped) => shipped.parse(overrides)?,
    })
}

fn run_scenario(scenario: &str, arguments: &SimArguments, console: &Console) -> anyhow::Result<Verdict> {
    let file = load(scenario, Overrides { seed: arguments.seed })?;
    let mut bar = console.counted(file.points.len(), "runs");
    let outcomes =
        sweep::run(&file.points, threads(arguments.common), sheaf_netsim::run, |done| bar.set(done));
    drop(bar);
    let result = SweepResult::new(file.name, file.about, &file.axes, outcomes);
    if arguments.common.json {
        print_json(&result)?;
    } else {
        print(&result.to_string())?;
    }
    if let Some(directory) = &arguments.plot {
        draw(&result, directory)?;
    }
    if result.errors() == result.runs.len() {
        anyhow::bail!("none of the {} runs could be simulated", result.runs.len());
    }
    Ok(if result.errors() == 0 && result.checks_hold() { Verdict::Good } else { Verdict::NotGood })
}

/// Writes the pictures of a result.
fn draw(result: &SweepResult, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let name: String = result.name.chars().map(|it| if is_plain(it) { it } else { '-' }).collect();
    for plot in plots::plots(result)? {
        let path = directory.join(format!("{name}-{}.svg", plot.kind));
        std::fs::write(&path, plot.svg).with_context(|| format!("cannot write {}", path.display()))?;
        log::info!("{}", path.display());
    }
    Ok(())
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: String,
    runs: usize,
}

fn list(json: bool) -> anyhow::Result<Verdict> {
    let mut rows = Vec::new();
    for shipped in library::SHIPPED {
        let file = shipped.parse(Overrides::default())?;
        rows.push(Listed { name: shipped.name, about: file.about, runs: file.points.len() });
    }
    if json {
        print_json(&rows)?;
        return Ok(Verdict::Good);
    }
    let mut table = TextTable::new(&[Align::Left, Align::Right, Align::Left]);
    for Listed { name, about, runs } in &rows {
        table.push([*name, &plural(*runs as u64, "run"), about]);
    }
    print(&table.to_string())?;
    Ok(Verdict::Good)
}

fn run_paper(common: Common, console: &Console) -> anyhow::Result<Verdict> {
    let mut bar = console.counted(paper::runs(), "runs");
    let figures = paper::figures(threads(common), sheaf_netsim::run, |done| bar.set(done));
    drop(bar);
    if common.json {
        print_json(&figures)?;
    } else {
        print(&paper::describe(&figures))?;
    }
    let good = figures.iter().all(|figure| figure.pass);
    Ok(if good { Verdict::Good } else { Verdict::NotGood })
}

fn run_calibrate(arguments: &CalibrateArguments) -> anyhow::Result<Verdict> {
    let measured = measurements::load(&arguments.measurements)?;
    let calibration = calibrate(&measured)?;
    if arguments.table {
        print(&calibration.to_string())?;
    } else {
        print_json(&calibration)?;
    }
    Ok(Verdict::Good)
}

fn run_predict(arguments: &PredictArguments, console: &Console) -> anyhow::Result<Verdict> {
    let plan = plan(arguments)?;
    let mut bar = console.counted(sheaf_netsim_scenarios::predict::runs(&plan)?, "runs");
    let prediction = predict(&plan, threads(arguments.common), sheaf_netsim::run, |done| bar.set(done))?;
    drop(bar);
    if arguments.common.json {
        print_json(&prediction)?;
    } else {
        print(&prediction.to_string())?;
    }
    Ok(if prediction.errors.is_empty() { Verdict::Good } else { Verdict::NotGood })
}

fn plan(arguments: &PredictArguments) -> anyhow::Result<Plan> {
    let network = match &arguments.network {
        None => None,
        Some(name) => {
            let mut points = load(name, Overrides::default())?.points;
            if points.len() > 1 {
                log::info!("{name} has {} points; the network of the first is used", points.len());
            }
            Some(points.remove(0).scenario)
        }
    };
    let host_gbps = arguments.host_gbps.unwrap_or(arguments.link_gbps);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
    let link = Rate((arguments.link_gbps * 1e9).round() as u64);
    let mut plan = Plan {
        readouts: arguments.readouts,
        builders: arguments.builders,
        size_bytes: arguments.size,
        rms_bytes: arguments.rms,
        overhead_ns: Interval::exact(arguments.overhead_ns),
        rate_bytes_per_second: Interval::exact(host_gbps * 1e9 / 8.0),
        link,
        shape: match arguments.traffic {
            TrafficShape::Push => Shape::Push,
            TrafficShape::Pull => Shape::Pull,
            TrafficShape::Barrel => Shape::Barrel,
        },
        network,
        leaf_ports: arguments.leaf_ports,
        spines: arguments.spines,
        buffer_bytes: arguments.buffer_bytes,
        routes: Routes::DestinationDigit,
        seeds: arguments.seeds,
        messages_per_sender: arguments.messages,
    };
    if let Some(path) = &arguments.calibration {
        plan.apply(&Calibration::load(path)?);
    }
    Ok(plan)
}
