//! `sheaf processor`: a worker that joins a builder unit of a run in progress.

use crate::arguments::ProcessorArguments;
use crate::code::Code;
use crate::own_program::own_program;
use crate::run_directory::Scratch;
use crate::summary::WorkerSummary;
use crate::{Verdict, filters, network, print, signals};
use anyhow::Context;
use rustix::process::Signal;
use sheaf_config::{Config, FilterKind};
use sheaf_node::farm::Launch;
use sheaf_node::processor::{Processor, ProcessorError, ProcessorOptions};
use sheaf_wire::Nanos;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Judges events until the run is over, or a signal comes; with `--stay` those of the runs that follow, too.
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
        // The wait is in `knock`, which checks for signals.
        patience: default.patience,
        tls: files.map(network::tls_files),
        key: arguments.key.clone().or_else(|| own.as_ref().and_then(|own| own.transport.key_file.clone())),
    };
    let mut patience = arguments.wait.or((!arguments.stay).then_some(Nanos::ZERO));
    while let Some(processor) = knock(arguments, &options, patience, &stop)? {
        match judge(processor, own.as_ref(), arguments, &stop)? {
            Ok(()) => {}
            Err(error) if arguments.stay => log::warn!("{error}; waiting for the next run"),
            Err(error) => return Err(error.into()),
        }
        if !arguments.stay {
            break;
        }
        // The door of the run that ended may be open for a moment.
        std::thread::sleep(KNOCK);
        patience = arguments.wait;
    }
    Ok(Verdict::Good)
}

/// Pause between two attempts to join.
const KNOCK: Duration = Duration::from_millis(50);

/// Joins a run; waits for one up to `patience`, or without limit. Returns `None` if a signal came first.
fn knock(
    arguments: &ProcessorArguments,
    options: &ProcessorOptions,
    patience: Option<Nanos>,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Processor>> {
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match Processor::meet(&arguments.join, options.clone()) {
            Ok(processor) => return Ok(Some(processor)),
            Err(error) => {
                let is_over = patience.is_some_and(|patience| start.elapsed() >= patience.to_std());
                if is_over || !error.nobody_is_there() {
                    return Err(error.into());
                }
            }
        }
        std::thread::sleep(KNOCK);
    }
    Ok(None)
}

/// Filters the events of one run, with the filter that is installed now.
///
/// # Errors
/// That the filter cannot be made; in the inner result, that the connection to the run broke.
fn judge(
    processor: Processor,
    own: Option<&Config>,
    arguments: &ProcessorArguments,
    stop: &AtomicBool,
) -> anyhow::Result<Result<(), ProcessorError>> {
    let welcome = processor.welcome();
    let mut config = match own {
        Some(config) => config.clone(),
        None => Config::parse(&welcome.configuration, "the run's configuration")?,
    };
    crate::console::name_sources(&config.names);
    let (run, node) = (welcome.run, welcome.node);
    // A library stays loaded for the life of the process. Under another path, a new version is loaded again.
    let copies = if arguments.stay { Some(Scratch::of_run(run)?) } else { None };
    if let Some(copies) = &copies {
        config = Code::take_filter(&config, &copies.path)?.in_place(&config);
    }
    let mut filter = filters::open(&config, run)?;
    if !arguments.supervised {
        log::info!("judging events for {node} of run {run}");
    }
    let times = match processor.run(&mut *filter, stop) {
        Ok(times) => times,
        Err(error) => return Ok(Err(error)),
    };
    let summary = || WorkerSummary::new(node.to_string(), String::new(), &times);
    if arguments.json && arguments.stay {
        print::print_json_line(&summary())?;
    } else if arguments.json {
        print::print_json(&summary())?;
    } else if !arguments.supervised {
        let overhead = times.overhead().unwrap_or(Nanos::ZERO);
        log::info!("judged {} events; {overhead} an event beside the filter", times.judged);
    }
    Ok(Ok(()))
}

/// Returns the launcher of a farm's workers: processes of this program, or of Python where the filter is in Python.
pub(crate) fn launcher(filter: &sheaf_config::Filter) -> Launch {
    if filter.kind != FilterKind::Python {
        return Box::new(|door, _number| launch(door));
    }
    let (python, name) = (filter.python.clone(), filters::python_name(filter));
    Box::new(move |door, _number| {
        let mut command = Command::new(&python);
        crate::python::leaving_no_trace(&mut command);
        start(command.args(["-m", "sheaf.processor", "--join"]).arg(door).arg(&name))
    })
}

/// Starts a worker of this program.
fn launch(door: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(own_program()?);
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
