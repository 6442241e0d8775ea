//! `sheaf processor`: a worker that joins a builder unit while the run goes on.

use crate::cli::ProcessorArguments;
use crate::{Verdict, files, filters, network, signals};
use anyhow::Context;
use rustix::process::Signal;
use serde::Serialize;
use sheaf_config::{Config, FilterKind};
use sheaf_node::farm::Launch;
use sheaf_node::judging::WorkerTimes;
use sheaf_node::processor::{Processor, ProcessorOptions};
use sheaf_wire::Nanos;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a worker did, as `--json` and the summary of a run print it.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub(crate) struct WorkerSummary {
    /// The builder unit.
    pub(crate) builder: String,
    /// The worker's place in its farm, and how many had it before: `2.0`. Empty where the worker says it itself.
    pub(crate) worker: String,
    /// Events judged.
    pub(crate) judged: u64,
    /// Processor time of the filter.
    pub(crate) filter_s: f64,
    /// Processor time of the worker, the filter's included.
    pub(crate) worker_s: f64,
    /// Of that, looking for events where there were none.
    pub(crate) idle_s: f64,
    /// Processor time for an event beside the filter's.
    pub(crate) overhead_ns: Option<u64>,
}

impl WorkerSummary {
    pub(crate) fn new(builder: String, worker: String, times: &WorkerTimes) -> Self {
        Self {
            builder,
            worker,
            judged: times.judged,
            filter_s: times.filter.as_secs_f64(),
            worker_s: times.worker.as_secs_f64(),
            idle_s: times.idle.as_secs_f64(),
            overhead_ns: times.overhead().map(|overhead| overhead.0),
        }
    }
}

/// Judges events until the run is over, or a signal comes.
pub(crate) fn command(arguments: &ProcessorArguments) -> anyhow::Result<Verdict> {
    if arguments.supervised {
        let signal = Some(Signal::TERM);
        rustix::process::set_parent_process_death_signal(signal).context("cannot watch the parent")?;
    }
    let stop = signals::stop_flag()?;
    let own = arguments.config.as_deref().map(Config::load).transpose()?;
    let files = match (&arguments.tls, &own) {
        (Some(files), _) => <&[PathBuf; 3]>::try_from(&files[..]).ok().map(|files| files.each_ref()),
        (None, Some(config)) => config.transport.tls.files(),
        (None, None) => None,
    };
    let default = ProcessorOptions::default();
    let options = ProcessorOptions {
        ahead: arguments.ahead.unwrap_or(default.ahead),
        patience: arguments.wait.unwrap_or(default.patience),
        tls: files.map(network::tls_files),
    };
    let processor = Processor::meet(&arguments.join, options)?;
    let welcome = processor.welcome();
    let config = match own {
        Some(config) => config,
        None => Config::parse(&welcome.configuration, "the run's configuration")?,
    };
    let (run, node) = (welcome.run, welcome.node);
    let mut filter = filters::open(&config, run)?;
    if !arguments.supervised {
        log::info!("judging events for {node} of run {run}");
    }
    let times = processor.run(&mut *filter, &stop)?;
    if arguments.json {
        files::print_json(&WorkerSummary::new(node.to_string(), String::new(), &times))?;
    } else if !arguments.supervised {
        let overhead = times.overhead().unwrap_or(Nanos::ZERO);
        log::info!("judged {} events; {overhead} an event beside the filter", times.judged);
    }
    Ok(Verdict::Good)
}

/// What starts the workers of a farm: processes of this program, or of Python where the filter is in Python.
pub(crate) fn launcher(filter: &sheaf_config::Filter) -> Launch {
    if filter.kind != FilterKind::Python {
        return Box::new(|door, _number| launch(door));
    }
    let (python, name) = (filter.python.clone(), filters::python_name(filter));
    Box::new(move |door, _number| {
        let mut command = Command::new(&python);
        start(command.args(["-m", "sheaf.processor", "--join"]).arg(door).arg(&name))
    })
}

/// Starts a worker of this program.
fn launch(door: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("processor").arg("--join").arg(door).arg("--supervised");
    match log::max_level() {
        log::LevelFilter::Off | log::LevelFilter::Error => command.arg("--quiet"),
        log::LevelFilter::Debug => command.arg("-v"),
        log::LevelFilter::Trace => command.arg("-vv"),
        _ => &mut command,
    };
    start(&mut command)
}

/// Starts a worker in a group of its own: Ctrl-C ends the run, and that ends the workers.
fn start(command: &mut Command) -> std::io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn()
}
