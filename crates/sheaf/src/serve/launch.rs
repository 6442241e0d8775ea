//! The process of a run: starting it, and the thread that listens to it until no process of it is left.

use super::inbox::{Departure, Input};
use crate::arguments::{ControlledArguments, RunArguments};
use crate::console;
use crate::control_directory::ControlDirectory;
use crate::controlled::{LaunchDirectory, Line};
use crate::excluding::Excludables;
use crate::hooks::{Hooks, OwedHooks};
use crate::own_program::own_program;
use crate::page::Page;
use crate::records::Like;
use crate::relay::Relayed;
use anyhow::Context as _;
use log::Level;
use sheaf_config::{Config, ConfigErrors, LogFormat, RunTable, Setting, SourceKind};
use sheaf_control::Exclusions;
use sheaf_control::link::Launch;
use sheaf_control::request::{RunSettings, SequenceRow};
use sheaf_monitor::values::ValueKeeper;
use sheaf_telemetry::log_as;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Pause between two attempts to reach a process.
const PAUSE: Duration = Duration::from_millis(20);

/// Time that nodes have to close their files when the process that has started them is dead.
const ORPHANS: Duration = Duration::from_secs(20);

/// Starts processes, and has threads listen to them.
pub(super) struct Launcher {
    pub(super) config: Option<PathBuf>,
    pub(super) processes: bool,
    /// Whether nodes run on this host that have agents.
    pub(super) local: bool,
    /// Partition of the system, if it is not the whole.
    pub(super) partition: Option<String>,
    pub(super) log: Option<LogFormat>,
    /// Upper limit of what the controller adds to the log of a run.
    pub(super) log_bytes: u64,
    pub(super) directory: ControlDirectory,
    /// Directory of runs.
    pub(super) output: PathBuf,
    pub(super) inbox: SyncSender<Input>,
    pub(super) page: Page,
    /// Values from outside.
    pub(super) values: ValueKeeper,
}

/// The beginning of a run.
pub(super) struct Beginning {
    pub(super) launch: Launch,
    pub(super) held: bool,
    pub(super) exclusions: Exclusions,
    pub(super) settings: RunSettings,
    pub(super) by: String,
}

impl Launcher {
    /// Makes the directory of a launch.
    pub(super) fn make_directory(&self, launch: Launch) -> anyhow::Result<()> {
        self.directory.remove_old_launches(launch);
        let directory = self.directory.launch(launch);
        directory.create().with_context(|| format!("cannot create {}", directory.path().display()))
    }

    /// Starts the process of a run, whose directory is there.
    pub(super) fn start(
        &self,
        Beginning { launch, held, exclusions, settings, by }: &Beginning,
    ) -> anyhow::Result<()> {
        let directory = self.directory.launch(*launch);
        let log = directory.create_log().context("cannot create the log of the run")?;
        let mut command = Command::new(own_program().context("cannot determine the path of this program")?);
        command.arg("run").arg("--controlled").arg(directory.path());
        match &settings.like {
            // Beside the run that it is like, where the controller looks for it.
            Some(like) => command.arg(format!("--like={like}")).arg("--output").arg(&self.output),
            None => command.args(&self.config),
        };
        if self.processes {
            command.arg("--processes");
        }
        if self.local {
            command.arg("--local");
        }
        if let Some(partition) = &self.partition {
            command.arg(format!("--partition={partition}"));
        }
        if let Some(format) = self.log {
            command.arg("--log").arg(format.to_string());
        }
        if *held {
            command.arg("--held");
        }
        for source in &exclusions.sources {
            command.arg(format!("--exclude={source}"));
        }
        for node in &exclusions.nodes {
            command.arg(format!("--exclude={node}"));
        }
        if let Some(events) = settings.events {
            command.arg("--events").arg(events.to_string());
        }
        if let Some(duration_ms) = settings.duration_ms {
            command.arg("--duration").arg(format!("{}.{:03}", duration_ms / 1_000, duration_ms % 1_000));
        }
        if let Some(comment) = &settings.comment {
            command.arg(format!("--comment={comment}"));
        }
        if let Some(SequenceRow { name, row, values }) = &settings.sequence {
            command.arg(format!("--sequence={name}")).arg(format!("--sequence-row={row}"));
            command.args(values.iter().map(|(key, value)| format!("--set={key}={value}")));
        }
        command.arg(format!("--operator={by}"));
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the log of the run")?)
            .stderr(log);
        let child = command.spawn().context("cannot start the process of the run")?;
        self.listen(*launch, Some(child))
    }

    /// Returns the configuration, as the next run would read it, or that of the run that it is to be like.
    pub(super) fn read_config(&self, like: Option<&str>) -> anyhow::Result<Config> {
        if let Some(like) = like {
            return Like::find(like, &self.output)?.config(|config| self.apply_place(config));
        }
        Ok(match &self.config {
            Some(path) => Config::load_with(path, |config| self.apply_place(config))?,
            None => Config::default(),
        })
    }

    fn apply_place(&self, config: &mut Config) {
        apply_place(config, (self.local, self.partition.as_deref()));
    }

    /// Returns the sources and nodes of that configuration.
    pub(super) fn excludables(&self, like: Option<&str>) -> anyhow::Result<Excludables> {
        Excludables::of(&self.read_config(like)?)
    }

    /// Checks that a run like another one can be started. Returns warnings about code that has changed.
    pub(super) fn check_like(&self, like: &str) -> anyhow::Result<Vec<String>> {
        let found = Like::find(like, &self.output)?;
        let config = found.config(|config| self.apply_place(config))?;
        Hooks::find(&config)?;
        found.check(&config)
    }

    /// Checks that each row of a table makes a run that ends, on top of the configuration as the next run would read it.
    pub(super) fn check(&self, table: &RunTable) -> Result<(), ConfigErrors> {
        let arguments = |settings: &[Setting]| RunArguments {
            config: self.config.clone(),
            processes: self.processes,
            local: self.local,
            partition: self.partition.clone(),
            control: ControlledArguments {
                controlled: Some(self.directory.path().to_owned()),
                set: settings.to_vec(),
                ..ControlledArguments::default()
            },
            ..RunArguments::default()
        };
        table.check(
            self.config.as_deref(),
            |config, settings| arguments(settings).apply(config),
            |config| {
                let ends = config.run.events.is_some()
                    || config.run.duration.is_some()
                    || (config.source.kind == SourceKind::Replay
                        && config.source.replay.loop_count.is_some());
                if !ends {
                    let found = "nothing ends the run".to_owned();
                    let right = "add a column `run.events` or `run.duration_s`, or set one of them";
                    return Some((found, right.to_owned()));
                }
                let absent = Hooks::find(config).err()?;
                Some((crate::describe(&absent), "correct the command of the hook".to_owned()))
            },
        )
    }

    /// Returns whether a process was started for a launch, by this controller or an earlier one.
    pub(super) fn has_begun(&self, launch: Launch) -> bool {
        self.directory.launch(launch).has_begun()
    }

    /// Listens to the process of a run, which this controller has started or an earlier one.
    pub(super) fn listen(&self, launch: Launch, child: Option<Child>) -> anyhow::Result<()> {
        let directory = self.directory.launch(launch);
        let (inbox, page) = (self.inbox.clone(), self.page.clone());
        let listener =
            Listener { launch, directory, child, inbox, page, log_bytes: self.log_bytes, message: 0 };
        let spawned = std::thread::Builder::new().name("launch".into()).spawn(move || listener.run());
        spawned.context("cannot start a thread")?;
        Ok(())
    }

    /// Kills every process of a run.
    pub(super) fn kill(&self, launch: Launch) {
        if let Some(process) = self.directory.launch(launch).process() {
            process.kill_session();
        }
    }
}

/// Has all nodes run on this host if that is wanted, and chooses a partition.
pub(super) fn apply_place(config: &mut Config, (local, partition): (bool, Option<&str>)) {
    if local {
        config.without_agents();
    }
    if let Some(partition) = partition {
        config.run.partition = Some(partition.to_owned());
    }
}

struct Listener {
    launch: Launch,
    directory: LaunchDirectory,
    /// The process, if this one has started it.
    child: Option<Child>,
    inbox: SyncSender<Input>,
    page: Page,
    log_bytes: u64,
    /// Number of the last message of the log.
    message: u64,
}

impl Listener {
    fn run(mut self) {
        let how = loop {
            if let Ok(stream) = self.directory.connect() {
                self.listen(stream);
            }
            if let Some(how) = self.has_ended() {
                break how;
            }
            std::thread::sleep(PAUSE);
        };
        self.wait_for_orphans();
        let look = format!("its messages are in {}", self.directory.log().display());
        let ended = self.directory.result();
        if ended.is_none() {
            self.call_hooks(&how);
        }
        let _ = self.inbox.send(Input::Gone(self.launch, Departure { ended, how, look }));
    }

    /// Returns how the process has ended, if it has.
    fn has_ended(&mut self) -> Option<String> {
        if let Some(child) = &mut self.child {
            let status = child.try_wait().ok()??;
            return Some(status.to_string());
        }
        match self.directory.process() {
            Some(process) => {
                (!process.lives()).then(|| "how is not known, the controller was not there".to_owned())
            }
            None => (!self.directory.has_begun()).then(|| "it did not begin".to_owned()),
        }
    }

    /// Waits until the nodes of a process that has died have closed their files, and kills those that do not.
    fn wait_for_orphans(&self) {
        let Some(process) = self.directory.process() else { return };
        let until = Instant::now() + ORPHANS;
        while !process.session().is_empty() {
            if Instant::now() > until {
                process.kill_session();
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Calls the hooks that a process which has died has left. The next run waits for them, as it does for those that a process calls.
    fn call_hooks(&self, how: &str) {
        for (run, owed) in self.directory.owed_hooks::<OwedHooks>() {
            if let Err(error) = owed.call(how) {
                log_as!(HOOK_FAILED; "{}", crate::describe(&error));
            }
            self.directory.forget_hooks(run);
        }
    }

    /// Passes on what the process says, until the link breaks.
    fn listen(&mut self, stream: UnixStream) {
        let Ok(orders) = stream.try_clone() else { return };
        if self.inbox.send(Input::Reached(self.launch, orders)).is_err() {
            return;
        }
        let mut nodes = BTreeMap::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(line) => self.take(line, &mut nodes),
                Err(error) => log::debug!("a line of the run cannot be read: {error}"),
            }
        }
        let _ = self.inbox.send(Input::Lost(self.launch));
    }

    fn take(&mut self, line: Line, nodes: &mut BTreeMap<String, Relayed>) {
        match line {
            Line::Report(report) => _ = self.inbox.send(Input::Report(self.launch, report)),
            Line::Begin(description) => {
                nodes.clear();
                if let Some(directory) = &description.directory {
                    let log = Path::new(directory).join(console::LOG_NAME);
                    console::begin_run(description.number, Some((&log, self.log_bytes)));
                }
                self.page.announce(description);
            }
            Line::Node { node, record } => {
                let relayed = nodes
                    .entry(node)
                    .or_insert_with_key(|node| Relayed::new(node, Some(self.page.clone()), None));
                relayed.take_record(record);
            }
            Line::Gone(node) => self.page.hub().note_gone(&node),
            Line::WaitsFor(waits_for) => self.page.note_waiting(waits_for),
            Line::Message { number, message } if number > self.message => {
                self.message = number;
                self.page.add_message(&message);
                if message.severity <= Level::Warn {
                    console::pass_on(message);
                }
            }
            Line::Message { .. } => {}
            Line::End(verdict) => self.page.announce_end(verdict),
        }
    }
}
