//! `sheaf poll-trigger`: polls a library of triggers, as the trigger supervisor of the run that has started this process.

mod watch;

use crate::arguments::PollTriggerArguments;
use crate::trigger_connection::{Connection, ConnectionOptions};
use crate::{Verdict, supervisor};
use anyhow::{Context, bail};
use sheaf_config::{Config, TriggerLibrary, TriggerMode, TriggerProtocol};
use sheaf_feed::environment;
use sheaf_filter::{LibraryTrigger, TriggerSetup};
use sheaf_key::RunKey;
use sheaf_node::Clock;
use sheaf_node::polled_trigger::{LibraryCaller, LibraryEnd, PolledTriggers};
use sheaf_protocol::trigger_link::{NotTaken, Supervisor, SupervisorEvent};
use sheaf_wire::trigger_link::Phase;
use sheaf_wire::{ByteCount, EventId, Nanos, RunNumber, Timestamp};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch::CallWatch;

/// Time for which the event manager may be absent.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for which the last messages are sent, and in which a library is closed after a failure.
const FAREWELL: Duration = Duration::from_secs(2);

/// The longest sleep, which bounds the delay of SIGTERM.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Checks that the library of a configuration can be loaded, if it names one.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    let TriggerLibrary { path, symbol, .. } = &config.trigger.library;
    match path.as_deref().filter(|_| config.trigger.mode == TriggerMode::Library) {
        Some(path) => Ok(LibraryTrigger::check(path, symbol)?),
        None => Ok(()),
    }
}

pub(crate) fn command(arguments: &PollTriggerArguments) -> anyhow::Result<Verdict> {
    let stop = crate::signals::stop_flag()?;
    let mut library = PolledLibrary::start(arguments)?;
    loop {
        match library.poller.take_opened() {
            Some(Ok(())) => break,
            Some(Err(error)) => {
                log::error!("{error}");
                return Ok(Verdict::Refused);
            }
            None if stop.load(Ordering::Relaxed) => return Ok(Verdict::Good),
            None => library.wait(),
        }
    }
    let clock = Clock::new();
    let connection = Connection::open(options()?, clock.now())?;
    let supervisor = connection.supervisor();
    let mut link =
        TriggerLink { clock, connection, supervisor, next: EventId(0), account_at: None, failure: None };
    let result = link.run(&mut library, &stop);
    if let Err(error) = result {
        library.close(FAREWELL);
        return Err(error);
    }
    // The run has everything. If the library does not return, the run ends this process.
    while !library.close(LONGEST_WAIT) {
        if stop.swap(false, Ordering::Relaxed) {
            bail!("the trigger library {} has not returned", library.path.display());
        }
    }
    Ok(Verdict::Good)
}

/// Returns the connection that the run has described in the environment.
fn options() -> anyhow::Result<ConnectionOptions> {
    let of_run = |name| {
        std::env::var(name).with_context(|| format!("`{name}` is not set; only a run starts this command"))
    };
    let key = RunKey::from_digits(&of_run(supervisor::KEY)?);
    Ok(ConnectionOptions {
        address: of_run(supervisor::ADDRESS)?,
        name: "library".into(),
        protocol: TriggerProtocol::Tcp,
        key: Some(key.with_context(|| format!("`{}` is not a key", supervisor::KEY))?),
        tls: None,
        patience: PATIENCE,
    })
}

/// The library and the thread that calls it.
struct PolledLibrary {
    path: PathBuf,
    poller: LibraryCaller,
    watch: CallWatch,
}

impl PolledLibrary {
    fn start(arguments: &PollTriggerArguments) -> anyhow::Result<Self> {
        let run = std::env::var(environment::RUN).ok().and_then(|run| run.parse().ok()).unwrap_or_default();
        let setup = TriggerSetup {
            run: RunNumber(run),
            parameters: arguments.library.parameters.clone(),
            max_payload: ByteCount(arguments.max_payload),
            batch_triggers: arguments.batch,
        };
        let (path, symbol) = (arguments.library.path.clone(), arguments.library.symbol.clone());
        let open = move || LibraryTrigger::open(&path, &symbol, &setup);
        let poller = LibraryCaller::start(open, ByteCount(arguments.max_payload))
            .context("cannot start the thread of the library")?;
        let path = arguments.library.path.clone();
        Ok(Self { watch: CallWatch::new(&path), path, poller })
    }

    fn wait(&mut self) {
        self.poller.wait(LONGEST_WAIT);
        self.watch.look(self.poller.call());
    }

    /// Closes the library. Returns whether it was closed within this time.
    fn close(&mut self, limit: Duration) -> bool {
        self.poller.stop();
        let begin = Instant::now();
        while !self.poller.has_finished() {
            if begin.elapsed() >= limit {
                return false;
            }
            self.wait();
        }
        true
    }
}

/// The supervisor and its connection.
struct TriggerLink {
    clock: Clock,
    connection: Connection,
    supervisor: Supervisor,
    /// Id of the first trigger.
    next: EventId,
    /// When the accounts were exchanged.
    account_at: Option<Instant>,
    failure: Option<String>,
}

impl TriggerLink {
    /// Gives triggers until the accounts are exchanged.
    fn run(&mut self, library: &mut PolledLibrary, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
        let is_left =
            |link: &Self, since: Instant| link.connection.is_flushed() || since.elapsed() >= FAREWELL;
        while !self.account_at.is_some_and(|since| is_left(self, since)) {
            if self.connection.is_cut_off() {
                bail!("the event manager has closed the connection");
            }
            if stop.swap(false, Ordering::Relaxed) {
                self.supervisor.handle_end();
                library.poller.stop();
            }
            let now = self.clock.now();
            self.receive(now, library)?;
            library.poller.heard();
            // The connection holds what the event manager does not take; the library waits then.
            if self.connection.has_room()
                && let Some(answer) = library.poller.take()
            {
                self.give(answer);
            }
            self.connection.send(now, &mut self.supervisor);
            self.handle_events(library)?;
            if let Some(reason) = self.failure.take() {
                self.flush();
                bail!("the trigger library {} failed: {reason}", library.path.display());
            }
            if self.account_at.is_none() {
                self.connection.wait(now, Nanos::from(LONGEST_WAIT), Some(library.poller.bell()));
            }
            library.watch.look(library.poller.call());
        }
        let totals = self.supervisor.totals();
        let vetoed = totals.offered - totals.sent;
        log::info!("triggers given: {}, held back: {vetoed}", totals.sent);
        Ok(())
    }

    fn receive(&mut self, now: Timestamp, library: &PolledLibrary) -> anyhow::Result<()> {
        for message in self.connection.receive(now)? {
            self.supervisor.handle_input(now, message);
        }
        self.handle_events(library)
    }

    fn handle_events(&mut self, library: &PolledLibrary) -> anyhow::Result<()> {
        while let Some(event) = self.supervisor.poll_event() {
            match event {
                SupervisorEvent::Welcome { next, .. } => self.next = next,
                SupervisorEvent::Phase(Phase::Running) => library.poller.poll_from(self.next),
                SupervisorEvent::Phase(Phase::Stopping | Phase::Ended) => library.poller.stop(),
                SupervisorEvent::Phase(_) => {}
                SupervisorEvent::Busy(busy) => library.poller.set_busy(busy.reason),
                SupervisorEvent::Refused { text, .. } => bail!("the event manager refuses: {text}"),
                SupervisorEvent::Account(_) => self.account_at = Some(Instant::now()),
            }
        }
        Ok(())
    }

    /// Gives the triggers of a poll.
    fn give(&mut self, answer: PolledTriggers) {
        for trigger in answer.triggers {
            let id = trigger.id;
            match self.supervisor.handle_device_trigger(trigger) {
                Ok(()) => {}
                // The run has ended meanwhile.
                Err(NotTaken::NotRunning) => return,
                Err(error) => {
                    self.failure = Some(format!("trigger {id} is invalid: {error}"));
                    return;
                }
            }
        }
        self.supervisor.handle_vetoes(answer.vetoed);
        match answer.end {
            None => {}
            Some(LibraryEnd::NoMore) => self.supervisor.handle_end(),
            Some(LibraryEnd::Failed(reason)) => self.failure = Some(reason),
        }
    }

    /// Sends the triggers that are left, without the end of triggers.
    fn flush(&mut self) {
        let begin = Instant::now();
        while !self.connection.is_flushed() && !self.connection.is_cut_off() && begin.elapsed() < FAREWELL {
            let now = self.clock.now();
            self.connection.wait(now, Nanos::from(LONGEST_WAIT), None);
            self.connection.send(now, &mut self.supervisor);
        }
    }
}
