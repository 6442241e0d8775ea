//! `sheaf lab`: event building through switches that exist on this machine alone.

pub(crate) mod arguments;

use crate::Verdict;
use crate::console::{Console, plural};
use crate::print::{print, print_json};
use crate::scenarios::{self, Scenario};
use crate::signals;
use anyhow::{Context, bail};
use arguments::{
    DownArguments, ExecArguments, LabArguments, LabVerb, PaperArguments, RunArguments, UpArguments,
};
use serde::Serialize;
use sheaf_config::{LabFile, LabPoint};
use sheaf_lab::network::{Network, command_in};
use sheaf_lab::owner::{self, Owner};
use sheaf_lab::result::LabResult;
use sheaf_lab::{buffer, library, measure, paper, plots};
use sheaf_plot::{Align, TextTable};
use sheaf_wire::Nanos;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::atomic::Ordering;

pub(crate) fn command(arguments: &LabArguments, console: &Console) -> anyhow::Result<Verdict> {
    match &arguments.verb {
        LabVerb::Run(arguments) => run(arguments, console),
        LabVerb::Up(arguments) => up(arguments),
        LabVerb::Exec(arguments) => exec(arguments),
        LabVerb::Down(arguments) => down(arguments),
        LabVerb::Paper(arguments) => run_paper(arguments, console),
        LabVerb::Buffer(arguments) => run_buffer(arguments, console),
        LabVerb::List(arguments) => list(arguments.json),
        LabVerb::Watch { owner } => watch(owner),
    }
}

/// Loads a scenario by its path or by the name under which it ships. An argument with the form of a path is a path.
fn load(scenario: &str, change: impl Fn(&mut LabPoint)) -> anyhow::Result<LabFile> {
    Ok(match scenarios::find(scenario, library::find, library::nearest, "sheaf lab list")? {
        Scenario::File(path) => LabFile::load(path, change)?,
        Scenario::Shipped(shipped) => shipped.parse(change)?,
    })
}

fn run(arguments: &RunArguments, console: &Console) -> anyhow::Result<Verdict> {
    let file = load(&arguments.scenario, |point| arguments.apply(point))?;
    let stop = signals::stop_flag()?;
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let mut bar = console.counted(file.points.len(), "points");
    let result = measure::measure(&file, &program, &stop, |done| bar.set(done))?;
    drop(bar);
    if arguments.json {
        print_json(&result)?;
    } else {
        print(&result.to_string())?;
    }
    if let Some(directory) = &arguments.plot {
        draw(&result, directory, &arguments.command("run", &result.name))?;
    }
    Ok(if result.is_good() { Verdict::Good } else { Verdict::NotGood })
}

impl RunArguments {
    /// Applies the overrides of the command line to a point.
    fn apply(&self, point: &mut LabPoint) {
        if let Some(seconds) = self.seconds {
            point.config.run.duration = Some(Nanos::from(std::time::Duration::from_secs_f64(seconds)));
        }
    }

    /// The command that gives the same again.
    fn command(&self, verb: &str, scenario: &str) -> String {
        let seconds = self.seconds.map(|seconds| format!(" --seconds {seconds}")).unwrap_or_default();
        format!("sheaf lab {verb} {scenario}{seconds}")
    }
}

fn run_paper(arguments: &PaperArguments, console: &Console) -> anyhow::Result<Verdict> {
    let names = match arguments.only.as_deref() {
        None => paper::usual(),
        Some(only) => match paper::names().find(|name| *name == only) {
            Some(name) => vec![name],
            None => {
                let meant = paper::nearest(only).map(|name| format!("did you mean `{name}`?"));
                let known = || format!("there are {}", paper::names().collect::<Vec<_>>().join(", "));
                bail!("there is no measurement `{only}`; {}", meant.unwrap_or_else(known));
            }
        },
    };
    let stop = signals::stop_flag()?;
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let mut figures = Vec::new();
    let mut bar = console.counted(names.len(), "measurements");
    for (index, name) in names.iter().enumerate() {
        let Some(outcome) = paper::run(name, &program, &stop, |_| {})? else { continue };
        if let Some(directory) = &arguments.plot {
            draw(&outcome.result, directory, &format!("sheaf lab paper --only {name}"))?;
        }
        figures.extend(outcome.figures);
        bar.set(index + 1);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(bar);
    if arguments.json {
        print_json(&figures)?;
    } else {
        print(&paper::describe(&figures))?;
    }
    let good = figures.iter().all(|figure| figure.pass);
    Ok(if good { Verdict::Good } else { Verdict::NotGood })
}

fn run_buffer(arguments: &RunArguments, console: &Console) -> anyhow::Result<Verdict> {
    let file = load(&arguments.scenario, |point| arguments.apply(point))?;
    let stop = signals::stop_flag()?;
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let found = buffer::find(&file.name, &file.points[0], &program, &stop, |done| {
        console.print(&format!("{done} credits tried"));
    })?;
    if arguments.json {
        print_json(&found)?;
    } else {
        print(&found.to_string())?;
    }
    if let Some(directory) = &arguments.plot {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let path = directory.join(format!("{}-buffer.svg", file.name));
        let picture = found.picture(&arguments.command("buffer", &file.name))?;
        std::fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
        log::info!("{}", path.display());
    }
    Ok(if found.estimate_bytes.is_some() { Verdict::Good } else { Verdict::NotGood })
}

/// Writes the pictures of a result, which `command` made.
fn draw(result: &LabResult, directory: &Path, command: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for picture in plots::pictures(result, command)? {
        let path = directory.join(format!("{}-{}.svg", result.name, picture.kind));
        std::fs::write(&path, picture.svg).with_context(|| format!("cannot write {}", path.display()))?;
        log::info!("{}", path.display());
    }
    Ok(())
}

fn up(arguments: &UpArguments) -> anyhow::Result<Verdict> {
    let file = load(&arguments.scenario, |_| {})?;
    let network = Network::keep(measure::plan(&file.points[0]), &arguments.name)?;
    let plan = network.plan();
    let mut text = String::new();
    for (index, host) in plan.hosts.iter().enumerate() {
        let place = |network: &sheaf_lab::plan::Network| {
            format!("{} {}", network.kind.interface(), network.kind.address(index))
        };
        let places: Vec<String> = plan.networks.iter().map(place).collect();
        text.push_str(&format!("{:<6} {}\n", host.name, places.join("  ")));
    }
    let switches: Vec<&str> = plan
        .networks
        .iter()
        .flat_map(|network| &network.switches)
        .map(|switch| switch.name.as_str())
        .collect();
    text.push_str(&format!("switches: {}\n", switches.join(" ")));
    print(&text)?;
    Ok(Verdict::Good)
}

fn exec(arguments: &ExecArguments) -> anyhow::Result<Verdict> {
    let owner = Owner::Kept(arguments.name.clone());
    let labs = owner::labs();
    let hosts = labs.get(&owner).with_context(|| {
        format!(
            "there is no lab `{}`; `sheaf lab up SCENARIO` creates one, `sheaf lab list` shows them",
            arguments.name
        )
    })?;
    if !hosts.contains(&arguments.host) {
        let known: Vec<&str> = hosts.iter().map(String::as_str).collect();
        bail!("lab `{}` has no host `{}`; it has {}", arguments.name, arguments.host, known.join(", "));
    }
    let (program, rest) = arguments.command.split_first().context("a command is needed")?;
    let error = command_in(&owner.namespace(&arguments.host), program).args(rest).exec();
    Err(error).context("cannot start `ip netns exec`; the lab needs the package iproute2")
}

fn down(arguments: &DownArguments) -> anyhow::Result<Verdict> {
    let mut owners = owner::reclaim()?;
    let kept = owner::labs().into_keys().filter(|owner| match owner {
        Owner::Kept(name) => arguments.all || *name == arguments.name,
        Owner::Process { .. } => false,
    });
    for owner in kept {
        owner::remove(&owner)?;
        owners.push(owner);
    }
    for owner in &owners {
        print(&format!("removed {owner}\n"))?;
    }
    if owners.is_empty() {
        print("there is nothing to remove\n")?;
    }
    Ok(Verdict::Good)
}

#[derive(Serialize)]
struct Listed {
    scenarios: Vec<ListedScenario>,
    labs: Vec<ListedLab>,
}

#[derive(Serialize)]
struct ListedScenario {
    name: &'static str,
    about: String,
    points: usize,
}

#[derive(Serialize)]
struct ListedLab {
    /// `kept-NAME`, or `process-PID-START`.
    owner: String,
    /// Whether the process that would remove it has died.
    is_dead: bool,
    hosts: Vec<String>,
}

fn list(json: bool) -> anyhow::Result<Verdict> {
    let mut listed = Listed { scenarios: Vec::new(), labs: Vec::new() };
    for shipped in library::SHIPPED {
        let file = shipped.parse(|_| {})?;
        listed.scenarios.push(ListedScenario {
            name: shipped.name,
            about: file.about,
            points: file.points.len(),
        });
    }
    for (owner, hosts) in owner::labs() {
        let is_dead = owner.is_dead();
        listed.labs.push(ListedLab { owner: owner.to_string(), is_dead, hosts: hosts.into_iter().collect() });
    }
    if json {
        print_json(&listed)?;
        return Ok(Verdict::Good);
    }
    let mut table = TextTable::new(&[Align::Left, Align::Right, Align::Left]);
    for ListedScenario { name, about, points } in &listed.scenarios {
        table.push([*name, &plural(*points as u64, "point"), about]);
    }
    let mut text = table.to_string();
    for lab in &listed.labs {
        let state = if lab.is_dead { "left by a process that is gone" } else { "there" };
        text.push_str(&format!("lab {} ({state}): {}\n", lab.owner, lab.hosts.join(" ")));
    }
    print(&text)?;
    Ok(Verdict::Good)
}

/// Waits until the lab's process has died or has removed its lab, and removes any remains.
fn watch(owner: &str) -> anyhow::Result<Verdict> {
    let owner: Owner = owner.parse().ok().with_context(|| format!("`{owner}` is not the owner of a lab"))?;
    // The content does not matter, only the end of the input does.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    owner::remove(&owner)?;
    Ok(Verdict::Good)
}
