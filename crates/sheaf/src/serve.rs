//! `sheaf serve`: run control with a page.
//!
//! The controller starts a process for each run, and the run goes on without it: what it has to know when it returns is in its directory,
//! and the process of the run listens for it there.
//!
//! | module | holds |
//! |---|---|
//! | `desk` | the thread that has the controller, and carries out its effects |
//! | `answers` | answers to requests |
//! | `inbox` | what comes to that thread |
//! | `launch` | the process of a run: starting it, and the thread that listens to it |
//! | `journal` | who has asked for what, on disk |
//! | `sequences` | answers to requests about sequences |
//! | `neighbours` | the thread that looks at other partitions |
//! | `lookup` | the thread that reads the records of runs |

mod answers;
mod desk;
mod inbox;
mod journal;
mod launch;
mod lookup;
mod neighbours;
mod sequences;

use crate::Verdict;
use crate::console::Console;
use crate::control_directory::ControlDirectory;
use crate::gate::{Gate, remote_page};
use crate::page::{Page, log_remote_page, serve_for};
use crate::{next, people, slow_control, token};
use anyhow::Context as _;
use clap::Args;
use desk::Desk;
use inbox::Input;
use launch::Launcher;
use sheaf_config::{Config, LogFormat, PartitionParts};
use sheaf_monitor::values::SentFile;
use sheaf_monitor::{Services, SlowControl};
use sheaf_telemetry::log_as;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Configuration file (TOML), read again for each run [default: an emulated detector].
    config: Option<PathBuf>,
    /// Run each role in its own process, over TCP on loopback or through shared memory.
    #[arg(long)]
    processes: bool,
    /// Run all nodes on this host, also those that agents start on other hosts.
    #[arg(long)]
    local: bool,
    /// Control a partition of the system, which the configuration describes in `[partition.NAME]` [default: the whole system].
    #[arg(long, value_name = "NAME", requires = "config")]
    partition: Option<String>,
    /// Loopback address of the page [default: `monitor.listen` of the configuration; without one, 127.0.0.1:7070, or another port if that
    /// one is taken].
    #[arg(long, value_name = "HOST:PORT")]
    page: Option<String>,
    /// Form of messages on standard error, also of the runs [default: `log.format` of the configuration; without one, text].
    #[arg(long, value_name = "text|json", value_parser = LogFormat::from_str)]
    log: Option<LogFormat>,
    /// Directory of the controller: its state, tokens, commands and the logs of runs [default: `control` in the directory of the runs]. That
    /// of a partition has `-NAME` at its end.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn command(arguments: &ServeArguments, console: &Console) -> anyhow::Result<Verdict> {
    let place = (arguments.local, arguments.partition.as_deref());
    let config = match &arguments.config {
        Some(path) => Config::load_with(path, |config| launch::apply_place(config, place))?,
        None => Config::default(),
    };
    console.keep_log("controller", arguments.log.unwrap_or(config.log.format))?;
    let output = config.run.output.clone();
    let directory = arguments.directory.clone().unwrap_or_else(|| token::directory_of(&output));
    // The file may choose the partition as well.
    let partition = config.run.partition.clone();
    let directory = ControlDirectory::new(&directory).of_partition(partition.as_deref());
    directory.create()?;
    let _lock = directory.lock()?;
    let own_token = people::own_token(&directory)?;
    let (counter, inbox) = inbox::open(lookup::begin(output.clone())?);
    let gate = Arc::new(Gate::new(directory.clone()));
    let values = slow_control::keep(&config, SentFile::Write(directory.values()))?;
    let shown = SlowControl { board: values.board().clone(), senders: gate.clone() };
    let services = Services {
        control: Some(Arc::new(counter.clone())),
        remote: remote_page(&config, &gate)?,
        values: Some(shown),
        ..Services::default()
    };
    let monitor = Arc::new(serve_for(&config, arguments.page.as_deref(), services)?);
    let at = monitor.address();
    ControlDirectory::write(&directory.address(), format!("http://{at}\n").as_bytes())?;
    let remote = monitor.remote_address().map(|at| match at.ip().is_unspecified() {
        true => format!("https://{}:{}/", next::host(), at.port()),
        false => format!("https://{at}/"),
    });
    directory.note_remote_address(remote.as_deref())?;
    // Text that does not go to a terminal is kept in a log, which others may read.
    if std::io::stderr().is_terminal() {
        log_as!(CONTROL_ADDRESS; "run control is at http://{at}/#token={own_token}");
        log_as!(CONTROL_ADDRESS; "the address has the token of {}: treat it as a password", people::user());
    } else {
        let file = directory.own_token();
        log_as!(
            CONTROL_ADDRESS;
            "run control is at http://{at}/, the token of {} is in {}",
            people::user(),
            file.display()
        );
    }
    log_remote_page(&monitor);
    log_as!(
        CONTROL_ADDRESS;
        "`sheaf ctl start` starts a run, `sheaf token add NAME` makes a token for somebody else; Ctrl-C stops the run and ends"
    );
    watch_signals(counter.sender())?;
    neighbours::watch(parts(arguments), output.clone(), counter.sender())?;
    let launcher = Launcher {
        config: arguments.config.clone(),
        processes: arguments.processes,
        local: arguments.local,
        partition: partition.clone(),
        log: arguments.log,
        log_bytes: config.log.max.0,
        directory: directory.clone(),
        output: output.clone(),
        inbox: counter.sender(),
        page: Page::to(monitor.clone()),
        values,
    };
    let system = arguments
        .config
        .as_ref()
        .map_or_else(|| "an emulated detector".to_owned(), |path| path.display().to_string());
    let system = match &partition {
        Some(partition) => format!("partition {partition} of {system}"),
        None => system,
    };
    Desk::open((directory, gate), (system, output), monitor, launcher, &config)?.run(&inbox)?;
    Ok(Verdict::Good)
}

/// Returns the partitions of the whole system.
fn parts(arguments: &ServeArguments) -> Vec<PartitionParts> {
    let Some(path) = &arguments.config else { return Vec::new() };
    let whole = Config::load_with(path, |config| {
        launch::apply_place(config, (arguments.local, None));
        config.run.partition = None;
    });
    // Another partition may have mistakes that do not concern this one.
    match whole {
        Ok(whole) => whole.partition_parts(),
        Err(error) => {
            log_as!(CONTROL_NEWS; "the other partitions are not shown: {error}");
            Vec::new()
        }
    }
}

/// Ctrl-C stops the run and ends the controller; SIGTERM ends the controller alone.
fn watch_signals(inbox: SyncSender<Input>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot handle signals")?;
    let body = move || {
        for signal in signals.forever() {
            let input = if signal == SIGINT { Input::Interrupt } else { Input::Terminate };
            if inbox.send(input).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
